"""Copies before a change, made and put back by the shell."""

from pathlib import Path

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.incidents import TimelineEntry
from hermes_agent.incidents.response.copies import (
    Copy,
    copies_made,
    copy_script,
    stored_copies,
    undo_script,
)
from tests.support.local_commands import local_runner


async def kept(paths: list[Path], number: int = 1) -> list[Copy]:
    root = str(paths[0].parent / "copies")
    given = [str(path) for path in paths]
    seen = await local_runner()(copy_script("inc-1", number, given, root), None)
    made, failed = copies_made("inc-1", number, given, seen.output, root)
    assert failed == []
    return made


async def undone(made: list[Copy]) -> str:
    return (await local_runner()(undo_script(made), None)).output


async def test_what_was_changed_is_put_back_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "web.conf"
    path.write_text("port = 1\n")
    path.chmod(0o640)
    made = await kept([path])
    path.write_text("port = 2\n")
    path.chmod(0o600)
    assert await undone(made) == f"put back {path}\n"
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("port = 1\n", 0o640)


async def test_what_is_as_it_was_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "web.conf"
    path.write_text("port = 1\n")
    made = await kept([path])
    assert await undone(made) == f"unchanged {path}\n"


async def test_what_was_not_there_is_moved_aside(tmp_path: Path) -> None:
    path = tmp_path / "new.conf"
    made = await kept([path])
    path.write_text("x")
    assert await undone(made) == f"moved aside {path}\n"
    assert not path.exists()


async def test_a_link_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "current"
    link.symlink_to("release-1")
    made = await kept([link])
    link.unlink()
    link.symlink_to("release-2")
    await undone(made)
    assert str(link.readlink()) == "release-1"


async def test_copies_are_put_back_newest_first_and_once(tmp_path: Path) -> None:
    path = tmp_path / "web.conf"
    path.write_text("1")
    first = await kept([path])
    path.write_text("2")
    second = await kept([path], 2)
    entries = [_entry({"kept": [_row(one) for one in some]}) for some in (first, second)]
    assert stored_copies(entries) == [*second, *first]
    path.write_text("3")
    await undone(stored_copies(entries))
    assert path.read_text() == "1"
    assert stored_copies([*entries, _entry({"undone": True})]) == []


@pytest.mark.parametrize("paths", [[], ["web.conf"], ["/a\nb"], ["/a"] * 21])
def test_paths_that_cannot_be_kept_are_refused(paths: list[str]) -> None:
    with pytest.raises(ToolError):
        copy_script("inc-1", 1, paths)


def _entry(data: dict[str, object]) -> TimelineEntry:
    return TimelineEntry("inc-1", 1, 0.0, "note", "", data)


def _row(one: Copy) -> dict[str, object]:
    return {"path": one.path, "copy": one.copy, "absent": one.absent}
