"""Logs are followed over rotation, truncation and restarts; no line is missed."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.core.incidents import LogCursor
from hermes_agent.incidents.monitoring.config import LogPattern
from hermes_agent.incidents.monitoring.logs import MAX_BYTES, LogReader, fitting, read_on
from tests.store.helpers import Clock
from tests.support.incident_store import Post, post


class Reader:
    """All that is read of a log, from its beginning."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self.place: LogCursor | None = None
        self.text = ""
        self.on()

    def on(self) -> str:
        new, more = "", True
        while more:
            piece = read_on(str(self.path), self.place)
            if piece is None:
                break
            self.place, more = piece.place, piece.more
            new += piece.text
        self.text += new
        return new


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_log_is_read_from_its_end_and_then_on(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("old\n")
    reader = Reader(path)
    assert reader.on() == ""
    add(path, "one\ntw")
    assert reader.on() == "one\n"
    add(path, "o\n")
    assert reader.on() == "two\n"


def test_a_rotated_log_is_read_to_its_end_and_the_new_one_from_its_beginning(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.log"
    reader = Reader(path)
    add(path, "one\n")
    reader.on()
    add(path, "two\nlast words")
    path.rename(tmp_path / "a.log.1")
    add(path, "three\n")
    reader.on()
    assert reader.text == "one\ntwo\nlast wordsthree\n"
    path.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").unlink()
    add(path, "four\n")
    assert reader.on() == "four\n"


@pytest.mark.parametrize("longer", [False, True])
def test_a_truncated_log_is_read_from_its_beginning(tmp_path: Path, longer: bool) -> None:
    path = tmp_path / "a.log"
    reader = Reader(path)
    add(path, "one\ntwo\n")
    reader.on()
    os.truncate(path, 0)
    text = "another\n" * (10 if longer else 1)
    add(path, text)
    assert reader.on() == text


def test_what_is_no_log_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder", "nothing"):
        assert read_on(str(tmp_path / name), None) is None


def test_more_than_fits_at_once_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    reader = Reader(path)
    text = "".join(f"line {number}\n" for number in range(200_000)) + "x" * 200_000 + "\n"
    assert len(text) > 2 * MAX_BYTES
    add(path, text)
    assert reader.on() == text


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["write", "half", "rotate", "copytruncate", "read"]), max_size=14))
def test_no_line_is_lost_or_read_twice_however_it_is_rotated(steps: list[str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.log"
        reader, wrote = Reader(path), ""
        for number, step in enumerate(steps):
            if step == "write":
                add(path, f"line {number} of this log\n")
                wrote += f"line {number} of this log\n"
            elif step == "half":
                add(path, f"half {number} ")
                wrote += f"half {number} "
            elif step == "rotate":
                reader.on()
                path.rename(path.with_suffix(f".{number}"))
                path.touch()
            elif step == "copytruncate":
                add(path, f"cut {number}\n")
                wrote += f"cut {number}\n"
                reader.on()
                os.truncate(path, 0)
            else:
                reader.on()
        add(path, "the end\n")
        reader.on()
        assert reader.text == wrote + "the end\n"


async def nothing(_pattern: LogPattern) -> str:
    return ""


def logs_of(here: Post, *patterns: LogPattern) -> LogReader:
    return LogReader(
        here.store, patterns=lambda: patterns, raise_signal=here.raise_signal, refusal=nothing,
        clock=here.clock,
    )  # fmt: skip


async def test_lines_that_fit_become_one_signal_and_it_passes_when_it_is_quiet(
    tmp_path: Path,
) -> None:
    path = tmp_path / "kern.log"
    path.write_text("Out of memory: long ago\n")
    oom = LogPattern("oom", str(path), "^Out of memory", "shop", "P1", "ann", labels={"a": "b"})
    other = LogPattern("panic", str(path), "panic")
    clock = Clock()
    async with post(tmp_path, clock) as here:
        logs = logs_of(here, oom, other)
        await logs.poll()
        assert await here.titles() == []
        add(path, "fine\nOut of memory: 1\nnot Out of memory\nOut of memory: 2\n")
        await logs.poll()
        await logs.poll()
        (incident,) = await here.store.incidents()
        assert (incident.severity, incident.owner, incident.source) == ("P1", "ann", "log")
        (signal,) = await here.store.firing("inc-1")
        assert signal.detail == f"2 lines of {path}:\nOut of memory: 1\nOut of memory: 2"
        clock.now += 601
        await logs.poll()
        assert await here.store.firing("inc-1") == []


async def test_what_was_written_while_nobody_read_is_found_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.touch()
    pattern = LogPattern("oom", str(path), "memory")
    clock = Clock()
    async with post(tmp_path, clock) as here:
        await logs_of(here, pattern).poll()
    add(path, "no memory\n")
    path.rename(tmp_path / "kern.log.1")
    add(path, "well again\n")
    async with post(tmp_path, clock) as here:
        await logs_of(here, pattern).poll()
        assert await here.titles() == [f"oom: oom found in {path}"]
    async with post(tmp_path, clock) as here:
        logs = logs_of(here, pattern)
        await logs.poll()
        assert (await here.store.incident("inc-1")).signals == 1
        clock.now += 601
        await logs.poll()
        assert await here.store.firing("inc-1") == []


async def test_a_log_that_is_not_there_is_said_and_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "later.log"
    async with post(tmp_path) as here:
        logs = logs_of(here, LogPattern("x", str(path), "bad"))
        await logs.poll()
        assert list(logs.missing) == [str(path)]
    async with post(tmp_path) as here:
        logs = logs_of(here, LogPattern("x", str(path), "bad"))
        path.write_text("bad\n")
        await logs.poll()
        assert logs.missing == {}
        assert len(await here.titles()) == 1


@settings(deadline=None)
@given(st.lists(st.sampled_from(["bad", "well", "", "bad bad"]), max_size=30), st.integers(0, 9))
def test_the_last_lines_that_fit_are_found(lines: list[str], most: int) -> None:
    wanted = [line for line in lines if "bad" in line]
    assert fitting("bad", lines, most) == wanted[max(0, len(wanted) - most) :]


async def test_a_flood_is_counted_no_further_than_need_be(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.touch()
    async with post(tmp_path) as here:
        logs = logs_of(here, LogPattern("x", str(path), "bad"))
        await logs.poll()
        add(path, "bad\n" * 5_000)
        await logs.poll()
        (signal,) = await here.store.signals()
        assert signal.detail.startswith(f"1000 or more lines of {path}:\nbad\n")
