"""A backup is checked when it is made and again before it is put back; nothing is ever deleted."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from tests.support.cli import House


def write_archive(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for info, body in members:
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))


def contents(archive: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(archive) as opened:
        return [(member, opened.extractfile(member).read()) for member in opened]


def aside(house: House) -> list[Path]:
    return sorted(house.home.parent.glob("home.before-restore-*"))


@pytest.fixture
def saved(house: House) -> Path:
    """A backup of a home with a conversation, settings and a document; then all of it changes."""
    house.ask("please write a file", "--name", "papers")
    (house.home / "SOUL.md").write_text("You are kind.")
    house.good("config", "set", "loop.max_steps", "9")
    archive = house.home.parent / "kept.tar.gz"
    told = house.json("backup", str(archive))
    assert told["file"] == str(archive)
    house.good("sessions", "delete", "papers", "--yes")
    (house.home / "SOUL.md").write_text("You are changed.")
    return archive


def test_a_home_comes_back_whole_and_what_was_there_is_kept(house: House, saved: Path) -> None:
    house.good("down")
    told = house.json("restore", str(saved), "--yes")
    assert house.json("sessions", "show", "papers")["messages"][-1]["text"].startswith("The file")
    assert (house.home / "SOUL.md").read_text() == "You are kind."
    assert house.good("config", "get", "loop.max_steps") == "9\n"
    assert [str(path) for path in aside(house)] == [told["aside"]]
    assert (aside(house)[0] / "SOUL.md").read_text() == "You are changed."
    assert house.json("doctor")[-1]["name"] == "not yet"


def test_a_backup_of_a_stopped_home_needs_no_runtime(house: House, saved: Path) -> None:
    house.good("down")
    told = house.good("backup")
    assert "checked" in told
    (made,) = (house.home / "backups").iterdir()
    assert made.stat().st_mode & 0o077 == 0
    assert house.json("status")["state"] == "stopped"
    assert "sound" in house.good("restore", "--check", str(made))


def test_logs_locks_and_older_backups_are_left_out(house: House, saved: Path) -> None:
    house.good("backup")
    (made,) = (house.home / "backups").iterdir()
    names = {info.name for info, _ in contents(made)}
    assert {"manifest.json", "home/state.db", "home/SOUL.md", "home/config.yaml"} <= names
    tops = {name.split("/")[1] for name in names if name.startswith("home/")}
    assert tops & {"run", "logs", "terminals", "backups", "state.db-wal"} == set()


def test_a_home_that_is_not_there_is_made(house: House, saved: Path) -> None:
    house.good("down")
    other = house.home.parent / "elsewhere"
    house.good("restore", str(saved), HERMES_HOME=str(other))
    assert (other / "SOUL.md").read_text() == "You are kind."
    assert list(house.home.parent.glob("elsewhere.*")) == []


def test_a_home_in_use_is_not_restored(house: House, saved: Path) -> None:
    house.good("up")
    done = house.run("restore", str(saved), "--yes")
    assert done.returncode == 1
    assert "hermes down" in done.stderr
    assert aside(house) == []
    assert (house.home / "SOUL.md").read_text() == "You are changed."


def test_a_restore_asks_first(house: House, saved: Path) -> None:
    house.good("down")
    done = house.run("restore", str(saved))
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert aside(house) == []


def assert_damaged(house: House, archive: Path) -> None:
    before = sorted(path.name for path in house.home.parent.iterdir())
    for words in (("--yes",), ("--check",)):
        done = house.run("restore", str(archive), *words)
        assert done.returncode == 1
        assert "is damaged" in done.stderr.splitlines()[0]
        assert len(done.stderr.splitlines()) == 2
    assert sorted(path.name for path in house.home.parent.iterdir()) == before
    assert (house.home / "SOUL.md").read_text() == "You are changed."


def test_a_damaged_archive_changes_nothing(house: House, saved: Path) -> None:
    house.good("down")
    whole = saved.read_bytes()
    damaged = saved.with_name("damaged.tar.gz")
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for body in (whole[: len(whole) // 2], bytes(flipped), b"", b"no archive at all"):
        damaged.write_bytes(body)
        assert_damaged(house, damaged)


def test_an_archive_that_was_tampered_with_changes_nothing(house: House, saved: Path) -> None:
    house.good("down")
    members = contents(saved)
    wrong = saved.with_name("wrong.tar.gz")
    changed = [(i, b + b"!" if i.name == "home/SOUL.md" else b) for i, b in members]
    added = [*members, (tarfile.TarInfo("home/extra"), b"x")]
    escaping = [*members, (tarfile.TarInfo("home/../../escaped"), b"x")]
    absolute = [*members, (tarfile.TarInfo("/escaped"), b"x")]
    missing = [(i, b) for i, b in members if i.name != "home/store.id"]
    for each in (changed, added, escaping, absolute, missing, members[:-1]):
        write_archive(wrong, each)
        assert_damaged(house, wrong)
    assert not (house.home.parent.parent / "escaped").exists()


def test_a_link_in_an_archive_is_refused(house: House, saved: Path) -> None:
    house.good("down")
    link = tarfile.TarInfo("home/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    wrong = saved.with_name("wrong.tar.gz")
    write_archive(wrong, [(link, b""), *contents(saved)])
    assert_damaged(house, wrong)


def test_a_damaged_database_in_a_true_archive_is_refused(house: House, saved: Path) -> None:
    import hashlib

    house.good("down")
    members = contents(saved)
    database = bytearray(dict((i.name, b) for i, b in members)["home/state.db"])
    database[4096:40960] = bytes(36864)
    manifest = json.loads(members[-1][1])
    digest = hashlib.sha256(database).hexdigest()
    manifest["files"]["state.db"] = {"sha256": digest, "size": len(database)}
    new = {"home/state.db": bytes(database), "manifest.json": json.dumps(manifest).encode()}
    wrong = saved.with_name("wrong.tar.gz")
    write_archive(wrong, [(info, new.get(info.name, body)) for info, body in members])
    assert_damaged(house, wrong)


def test_a_backup_is_not_written_over_another_file(house: House, saved: Path) -> None:
    before = saved.read_bytes()
    done = house.run("backup", str(saved))
    assert done.returncode == 1
    assert "exists already" in done.stderr
    assert saved.read_bytes() == before


def test_a_backup_that_is_not_there_is_one_line(house: House) -> None:
    done = house.run("restore", "nothing.tar.gz", "--check")
    assert done.returncode == 1
    assert "no backup at" in done.stderr
    assert house.run("backup").returncode == 1
