"""A full disk, a read-only home, a damaged database: said everywhere, and nothing is lost."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_agent.core.errors import Degraded
from tests.faults.harness import Case, ForkServer, wait_until
from tests.runtime.test_life import hermes
from tests.support.drift_repositories import declare


@pytest.fixture
def small(tmp_path: Path, fork_server: ForkServer) -> Iterator[Case]:
    """A home on a file system of its own, 4 MB large."""
    one = Case(tmp_path, fork_server, 40)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(one.home)], check=True)
    yield one
    one.close()
    wait_until(lambda: remounted(one.home, "rw"), "the home to be writable again")
    kept = tmp_path / "kept"
    kept.mkdir()
    subprocess.run(["cp", "-a", f"{one.home}/.", str(kept)], check=True)
    subprocess.run(["umount", "-l", str(one.home)], check=True)


def remounted(folder: Path, how: str) -> bool:
    """Busy as long as a process that was killed has not let go of its files."""
    done = subprocess.run(["mount", "-o", f"remount,bind,{how}", str(folder)], capture_output=True)
    return done.returncode == 0


def fill(folder: Path) -> Path:
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return path


def say_enough(one: Case) -> str:
    """Send messages until one is refused; the refusal."""
    for number in range(2000):
        try:
            assert one.send_plainly(f"more{number}", "y" * 2000)
        except Degraded as refusal:
            return refusal.message
    raise AssertionError("a full disk kept everything")


def test_a_full_disk_is_said_everywhere_and_what_was_acknowledged_stays(small: Case) -> None:
    small.start()
    assert small.send("m0")
    small.finish()
    filler = fill(small.home)
    refusal = say_enough(small)
    assert "full" in refusal or "space" in refusal
    status = hermes(small.home, "status", "--json")
    assert json.loads(status.stdout)["state"] == "degraded"
    assert status.returncode == 1
    doctor = hermes(small.home, "doctor")
    assert doctor.returncode == 1
    assert "full" in doctor.stdout or "space" in doctor.stdout
    asked = hermes(small.home, "ask", "--session", small.session, "hello")
    assert asked.returncode == 1
    assert "hint:" in asked.stderr
    filler.unlink()
    wait_until(
        lambda: small.api.get("/v1/status")["state"] == "running", "the store to be well again"
    )
    assert small.send("m1")
    small.finish()  # a call in flight when it was killed may have been parked
    taken = {e["event"].get("key") for e in small.journal()}
    assert set(small.acknowledged) <= taken


def declared(folder: Path) -> Path:
    """A repository, and all is as it says."""
    (folder / "live").mkdir()
    (folder / "live" / "a").write_text("x")
    wanted = {"files": [{"declared": "etc", "live": str(folder / "live")}]}
    return declare(folder / "declared", wanted, {"etc/a": "x"})


def test_a_full_disk_is_told_by_what_watches_and_audits(small: Case) -> None:
    small.home.joinpath("checks").mkdir()
    small.home.joinpath("checks", "web.yaml").write_text(
        "- {name: web, run: 'false', every: 3600, after: 9}\n- {name: db, run: 'true', every: 3600}"
    )
    repository = declared(small.home.parent)
    small.start()
    wait_until(
        lambda: small.api.get("/v1/status")["watch"]["failing"] == ["web"], "the checks to be run"
    )
    small.send("m0")
    fill(small.home)
    say_enough(small)
    assert "checks     2; failing: web" in hermes(small.home, "status").stdout
    for words in (["drift", str(repository)], ["watch", "run", "db"]):
        filler = fill(small.home)  # what was refused meanwhile has given some back
        done = hermes(small.home, *words)
        assert done.returncode == 1, done.stdout
        said = done.stdout + done.stderr
        assert "disk is full" in said or "No space left" in said, said
    assert hermes(small.home, "drift", "list").returncode == 0
    filler.unlink()
    done = hermes(small.home, "drift", str(repository))
    assert done.returncode == 0, done.stderr


def test_acknowledged_messages_survive_a_kill_on_a_full_disk(small: Case) -> None:
    small.start()
    assert small.send("m0")
    small.finish()
    filler = fill(small.home)
    say_enough(small)
    small.kill()
    small.start()
    assert small.api.get("/v1/status")["state"] == "degraded"
    filler.unlink()
    wait_until(
        lambda: small.api.get("/v1/status")["state"] == "running", "the store to be well again"
    )
    small.finish()  # a call in flight when it was killed may have been parked
    taken = {e["event"].get("key") for e in small.journal()}
    assert set(small.acknowledged) <= taken


def test_a_read_only_home_still_answers_what_it_knows(small: Case) -> None:
    small.start()
    assert small.send("m0")
    small.finish()
    small.close()
    wait_until(lambda: remounted(small.home, "ro"), "the last files to be closed")
    status = hermes(small.home, "status", "--json")
    assert json.loads(status.stdout)["state"] == "degraded"
    assert "read-only" in json.loads(status.stdout)["reason"]
    listed = hermes(small.home, "sessions", "list", "--json")
    assert [s["id"] for s in json.loads(listed.stdout)] == [small.session], listed.stderr
    asked = hermes(small.home, "ask", "--session", small.session, "hello")
    assert asked.returncode == 1
    assert "read-only" in asked.stderr
    drift = hermes(small.home, "drift", str(declared(small.home.parent)))
    assert (drift.returncode, "Read-only file system" in drift.stderr) == (1, True), drift.stderr
    assert "read-only" in hermes(small.home, "doctor").stdout
    hermes(small.home, "down")


def damage(path: Path, where: str) -> None:
    if where == "gone":
        path.unlink()
    elif where == "empty":
        os.truncate(path, 0)
    else:
        with path.open("r+b") as file:
            size = path.stat().st_size
            file.seek(0 if where == "head" else 4096)
            file.write(os.urandom(100 if where == "head" else size - 4096))


@pytest.mark.sample(1)
@pytest.mark.parametrize("where", ["head", "middle", "empty", "gone"])
def test_a_damaged_database_is_said_and_never_replaced(
    tmp_path: Path, fork_server: ForkServer, where: str
) -> None:
    one = Case(tmp_path / "case", fork_server, 1)
    try:
        one.start()
        assert one.send("m0")
        one.finish()
        one.api.post("/v1/stop")
        wait_until(lambda: one.died, "the runtime to stop")
        database = one.home / "state.db"
        damage(database, where)
        (one.home / ".env").write_text("HOOK=a-long-word-that-nobody-guesses\n")
        (one.home / ".env").chmod(0o600)
        with (one.home / "config.yaml").open("a") as config:
            config.write("\nchannels: {webhook: {token: HOOK}}\n")
        before = database.read_bytes() if database.exists() else None
        asked = hermes(one.home, "ask", "hello", HERMES_MODEL="scripted/demo")
        assert asked.returncode == 1
        assert "hint:" in asked.stderr
        assert "Traceback" not in asked.stderr
        status = json.loads(hermes(one.home, "status", "--json").stdout)
        assert status["state"] == "degraded", status
        assert "state.db" in status["reason"]
        assert status["gateway"]["channels"]["webhook"]["asks"] is None
        channels = hermes(one.home, "gateway", "status")
        assert (channels.returncode, "webhook: " in channels.stdout) == (0, True), channels.stderr
        assert "no one can approve" not in channels.stdout
        doctor = hermes(one.home, "doctor")
        assert doctor.returncode == 1
        assert "state.db" in doctor.stdout
        after = database.read_bytes() if database.exists() else None
        assert after == before
    finally:
        hermes(one.home, "down")
        one.close()
        (one.home / "state.db").unlink(missing_ok=True)  # it is damaged on purpose
