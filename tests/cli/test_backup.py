"""A backup is checked when it is made and again before it is put back; nothing is ever deleted."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from hermes_agent.core.errors import HermesError
from hermes_agent.runtime.backup import check_backup, restore_backup
from tests.support.cli import Hermes


def write_archive(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for info, body in members:
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))


def contents(archive: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(archive) as opened:
        return [(member, opened.extractfile(member).read()) for member in opened]


def aside(hermes: Hermes) -> list[Path]:
    return sorted(hermes.home.parent.glob("home.before-restore-*"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A backup of a home with a conversation, settings and a document; its runtime was up."""
    hermes = Hermes(tmp_path_factory.mktemp("saved") / "hermes")
    hermes.ask("please write a file", "--name", "papers")
    (hermes.home / "SOUL.md").write_text("You are kind.")
    hermes.good("config", "set", "loop.max_steps", "9")
    archive = hermes.home.parent / "kept.tar.gz"
    told = hermes.json("backup", str(archive))
    assert told["file"] == str(archive)
    yield archive
    hermes.close()


@pytest.fixture
def other(hermes: Hermes) -> Hermes:
    """A home that has gone another way."""
    hermes.home.mkdir(mode=0o700)
    (hermes.home / "SOUL.md").write_text("You are changed.")
    return hermes


def test_a_home_comes_back_whole_and_what_was_there_is_kept(other: Hermes, saved: Path) -> None:
    told = other.json("restore", str(saved), "--yes")
    assert other.json("sessions", "show", "papers")["messages"][-1]["text"].startswith("The file")
    assert (other.home / "SOUL.md").read_text() == "You are kind."
    assert other.good("config", "get", "loop.max_steps") == "9\n"
    assert [str(path) for path in aside(other)] == [told["aside"]]
    assert (aside(other)[0] / "SOUL.md").read_text() == "You are changed."
    assert other.json("doctor")[-1]["name"] == "shells"


def test_a_backup_of_a_stopped_home_needs_no_runtime(other: Hermes) -> None:
    other.ask("hello")
    other.good("down")
    told = other.good("backup")
    assert "verified" in told
    (made,) = (other.home / "backups").iterdir()
    assert made.stat().st_mode & 0o077 == 0
    assert other.json("status")["state"] == "stopped"
    assert "intact" in other.good("restore", "--check", str(made))


def test_logs_locks_and_shells_are_left_out(saved: Path) -> None:
    names = {info.name for info, _ in contents(saved)}
    assert {"manifest.json", "home/state.db", "home/SOUL.md", "home/config.yaml"} <= names
    tops = {name.split("/")[1] for name in names if name.startswith("home/")}
    assert tops & {"run", "logs", "terminals", "backups", "state.db-wal"} == set()


def test_a_home_that_is_not_there_is_made(hermes: Hermes, saved: Path) -> None:
    hermes.good("restore", str(saved))
    assert (hermes.home / "SOUL.md").read_text() == "You are kind."
    assert aside(hermes) == []


def test_older_backups_stay_where_they_are_and_out_of_the_next(other: Hermes, saved: Path) -> None:
    other.good("backup")
    (first,) = (other.home / "backups").iterdir()
    other.good("restore", str(saved), "--yes")
    assert first.exists()
    second = other.home / "second.tar.gz"
    other.good("backup", str(second))
    assert "home/SOUL.md" in {info.name for info, _ in contents(second)}
    assert not any(first.name in info.name for info, _ in contents(second))


def test_a_home_in_use_is_not_restored(other: Hermes, saved: Path) -> None:
    other.good("up")
    for words in (("--yes",), ()):
        done = other.run("restore", str(saved), *words)
        assert done.returncode == 1
        assert "hermes down" in done.stderr
    assert aside(other) == []
    assert (other.home / "SOUL.md").read_text() == "You are changed."


def test_a_restore_asks_first(other: Hermes, saved: Path) -> None:
    done = other.run("restore", str(saved))
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert aside(other) == []


def assert_damaged(hermes: Hermes, archive: Path) -> None:
    before = sorted(path.name for path in hermes.home.parent.iterdir())
    with pytest.raises(HermesError, match="is damaged"):
        restore_backup(archive, hermes.home, datetime.now().astimezone())
    with pytest.raises(HermesError, match="is damaged"):
        check_backup(archive)
    assert sorted(path.name for path in hermes.home.parent.iterdir()) == before
    assert (hermes.home / "SOUL.md").read_text() == "You are changed."


def test_a_damaged_archive_is_one_line_and_a_hint(other: Hermes) -> None:
    damaged = other.home.parent / "damaged.tar.gz"
    damaged.write_bytes(b"no archive at all")
    for words in (("--yes",), ("--check",)):
        done = other.run("restore", str(damaged), *words)
        assert done.returncode == 1
        assert "is damaged" in done.stderr.splitlines()[0]
        assert done.stderr.splitlines()[1].startswith("hint: ")


def test_a_damaged_archive_changes_nothing(other: Hermes, saved: Path) -> None:
    whole = saved.read_bytes()
    damaged = other.home.with_name("damaged.tar.gz")
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for body in (whole[: len(whole) // 2], bytes(flipped), b"", b"no archive at all"):
        damaged.write_bytes(body)
        assert_damaged(other, damaged)


def test_an_archive_that_was_tampered_with_changes_nothing(other: Hermes, saved: Path) -> None:
    members = contents(saved)
    wrong = other.home.with_name("wrong.tar.gz")
    changed = [(i, b + b"!" if i.name == "home/SOUL.md" else b) for i, b in members]
    added = [*members, (tarfile.TarInfo("home/extra"), b"x")]
    escaping = [*members, (tarfile.TarInfo("home/../../escaped"), b"x")]
    absolute = [*members, (tarfile.TarInfo("/escaped"), b"x")]
    missing = [(i, b) for i, b in members if i.name != "home/store.id"]
    for each in (changed, added, escaping, absolute, missing, members[:-1]):
        write_archive(wrong, each)
        assert_damaged(other, wrong)
    assert not (other.home.parent.parent / "escaped").exists()


def test_a_link_in_an_archive_is_refused(other: Hermes, saved: Path) -> None:
    link = tarfile.TarInfo("home/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    wrong = other.home.with_name("wrong.tar.gz")
    write_archive(wrong, [(link, b""), *contents(saved)])
    assert_damaged(other, wrong)


def test_a_damaged_database_in_a_true_archive_is_refused(other: Hermes, saved: Path) -> None:
    members = contents(saved)
    database = bytearray({i.name: b for i, b in members}["home/state.db"])
    database[4096:40960] = bytes(36864)
    manifest = json.loads(members[-1][1])
    digest = hashlib.sha256(database).hexdigest()
    manifest["files"]["state.db"] = {"sha256": digest, "size": len(database)}
    new = {"home/state.db": bytes(database), "manifest.json": json.dumps(manifest).encode()}
    wrong = other.home.with_name("wrong.tar.gz")
    write_archive(wrong, [(info, new.get(info.name, body)) for info, body in members])
    assert_damaged(other, wrong)


def test_a_backup_is_not_written_over_another_file(other: Hermes, saved: Path) -> None:
    before = saved.read_bytes()
    done = other.run("backup", str(saved))
    assert done.returncode == 1
    assert "already exists" in done.stderr
    assert saved.read_bytes() == before


def test_a_backup_that_is_not_there_is_one_line(hermes: Hermes) -> None:
    done = hermes.run("restore", "nothing.tar.gz", "--check")
    assert done.returncode == 1
    assert "no backup at" in done.stderr
    assert hermes.run("backup").returncode == 1


def test_a_folder_for_a_backup_is_not_made_silently(other: Hermes, tmp_path: Path) -> None:
    done = other.run("backup", str(tmp_path / "nope" / "x.tar.gz"))
    assert done.returncode == 1
    assert f"no folder at {tmp_path / 'nope'}" in done.stderr
    assert not (tmp_path / "nope").exists()
