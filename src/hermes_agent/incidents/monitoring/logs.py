"""Follows logs of this machine: lines that match a pattern raise a signal. Rotation and truncation
are handled, and the position in each log survives a restart."""

import asyncio
import logging
import os
import stat
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.incidents import IngestResult, LogCursor, Signal
from hermes_agent.core.protocols import Clock
from hermes_agent.core.supervise import every, supervise
from hermes_agent.core.text.patterns import matches
from hermes_agent.incidents.monitoring.config import LogPattern
from hermes_agent.store.incidents.store import IncidentStore

log = logging.getLogger("hermes.incidents")

POLL_SECONDS = 1.0
QUIET_SECONDS = 600.0
"""A signal ends when no line matched for so long."""
JUDGED_SECONDS = 60.0
"""How long the gate's decision on a log is cached."""
MAX_BYTES = 1_000_000
"""How much of a log is read at a time."""
MAX_LINE = 100_000
HEAD = 256
"""Bytes at the beginning of a file that identify it."""
SHOWN = 10
MAX_LINES = 1_000
"""Matching lines that are counted exactly."""


class NewLines(Struct, frozen=True):
    """New whole lines, and the position after them."""

    text: str
    place: LogCursor
    more: bool = False


def read_on(path: str, before: LogCursor | None) -> NewLines | None:
    """What was written since the cursor; None if the log cannot be read. Without a cursor, reading
    starts at the end."""
    try:
        now = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        facts = os.fstat(now)
        if not stat.S_ISREG(facts.st_mode):
            return None
        if before is None:
            return NewLines("", LogCursor(path, _mark(now, facts, facts.st_size), facts.st_size))
        if facts.st_size >= before.offset and _same(now, facts, before):
            return _piece(path, now, facts, before.offset)
        if (old := _rotated(path, before)) is not None:
            try:
                rest = _piece(path, old, os.fstat(old), before.offset, whole=True)
            finally:
                os.close(old)
            if rest.text or rest.more:
                start = LogCursor(path, _mark(now, facts, 0), 0)
                return NewLines(rest.text, rest.place if rest.more else start, True)
        return _piece(path, now, facts, 0)
    finally:
        os.close(now)


def _piece(
    path: str, file: int, facts: os.stat_result, offset: int, *, whole: bool = False
) -> NewLines:
    data = os.pread(file, MAX_BYTES, offset)
    more = len(data) == MAX_BYTES
    end = data.rfind(b"\n") + 1
    if end == 0 and len(data) > MAX_LINE:
        end = len(data)  # too long for a line
    if whole and not more:
        end = len(data)  # rotated: it gets no more
    place = LogCursor(path, _mark(file, facts, offset + end), offset + end)
    return NewLines(data[:end].decode(errors="replace"), place, more)


def _mark(file: int, facts: os.stat_result, offset: int) -> str:
    head = os.pread(file, min(HEAD, offset), 0)
    return f"{facts.st_dev}:{facts.st_ino}:{len(head)}:{crc32(head)}"


def _same(file: int, facts: os.stat_result, place: LogCursor) -> bool:
    return _mark(file, facts, place.offset) == place.file


def _rotated(path: str, place: LogCursor) -> int | None:
    """The rotated file, open, found by its inode in the same folder."""
    number = int(place.file.split(":")[1])
    try:
        with os.scandir(Path(path).parent) as entries:
            names = [one.path for one in entries if one.inode() == number]
    except OSError:
        return None
    for name in names:
        try:
            file = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        facts = os.fstat(file)
        if facts.st_size >= place.offset and _same(file, facts, place):
            return file
        os.close(file)
    return None


def fitting(pattern: str, lines: Sequence[str], most: int) -> list[str]:
    """The last matching lines, in order. Bisects, so that parts without a match are skipped."""
    if not lines or most <= 0 or not matches(pattern, "\n".join(lines)):
        return []
    if len(lines) == 1:
        return [lines[0]]
    half = len(lines) // 2
    last = fitting(pattern, lines[half:], most)
    return fitting(pattern, lines[:half], most - len(last)) + last


class LogReader:
    def __init__(
        self,
        store: IncidentStore,
        *,
        patterns: Callable[[], Sequence[LogPattern]],
        raise_signal: Callable[[Signal], Awaitable[IngestResult]],
        refusal: Callable[[LogPattern], Awaitable[str]],
        clock: Clock,
    ) -> None:
        """`refusal`: why the gate denies reading a pattern's log; empty where it does not."""
        self._store = store
        self._patterns = patterns
        self._refusal = refusal
        self._raise = raise_signal
        self._clock = clock
        self._places: dict[str, LogCursor] | None = None
        self._firing: dict[str, tuple[Signal, float]] = {}
        self._judged: dict[tuple[str, str], tuple[str, float]] = {}
        """By name and path: the reason of a refusal, and when it was checked."""
        self.missing: dict[str, str] = {}
        """Logs that cannot be read, with the reason."""

    @property
    def refused(self) -> dict[str, str]:
        """Patterns whose log the gate denies, with the reason."""
        return {name: why for (name, _), (why, _) in self._judged.items() if why}

    async def run(self) -> None:
        await supervise("following logs", self.poll, every(POLL_SECONDS))

    async def poll(self) -> None:
        """Read each log once, for all of its patterns."""
        found = self._patterns()
        wanted = {(one.name, one.path) for one in found}
        self._judged = {key: known for key, known in self._judged.items() if key in wanted}
        patterns = [one for one in found if not await self._refused_reason(one)]
        if self._places is None:
            self._places = {place.path: place for place in await self._store.log_cursors()}
            for signal in await self._store.signals(limit=1_000):
                if signal.source == "log" and signal.firing:
                    self._firing[signal.fingerprint] = signal, self._clock()
        paths = {pattern.path for pattern in patterns}
        for path in sorted(paths):
            await self._follow(path, [one for one in patterns if one.path == path], self._places)
        self.missing = {path: why for path, why in self.missing.items() if path in paths}
        await self._end_quiet()

    async def _refused_reason(self, pattern: LogPattern) -> str:
        """Why the gate denies its log. A refusal raises a signal, as for a check."""
        known = self._judged.get((pattern.name, pattern.path))
        now = self._clock()
        if known is not None and 0 <= now - known[1] < JUDGED_SECONDS:
            return known[0]
        why = await self._refusal(pattern)
        self._judged[pattern.name, pattern.path] = why, now
        if why:
            what = f"the log of {pattern.name} cannot be read"
            await self._raise_for(pattern, "unread", what, f"{pattern.path}\n{why}")
        return why

    async def _follow(
        self, path: str, patterns: Sequence[LogPattern], places: dict[str, LogCursor]
    ) -> None:
        more = True
        while more:
            piece = await asyncio.to_thread(read_on, path, places.get(path))
            if piece is None:
                await self._wait_for_file(path, places)
                return
            self.missing.pop(path, None)
            for pattern in patterns:
                await self._match(pattern, piece.text)
            if places.get(path) != piece.place:
                # Saved after the signals: a runtime that dies in between raises them again.
                places[path] = piece.place
                await self._store.save_log_cursor(piece.place)
            more = piece.more

    async def _wait_for_file(self, path: str, places: dict[str, LogCursor]) -> None:
        """A log that does not exist yet is later read from its beginning."""
        if path not in self.missing:
            log.warning("the log %s cannot be read; waiting for it", path)
        self.missing[path] = "it is missing, not a file, or not readable"
        if path not in places and not await asyncio.to_thread(os.path.lexists, path):
            places[path] = LogCursor(path, "0:0:0:0", 0)
            await self._store.save_log_cursor(places[path])

    async def _match(self, pattern: LogPattern, text: str) -> None:
        if not text or not matches(pattern.pattern, text):
            return
        lines = fitting(pattern.pattern, text.splitlines(), MAX_LINES)
        shown = lines[-SHOWN:] or text.splitlines()[-SHOWN:]
        more = "or more " if len(lines) >= MAX_LINES else ""
        count = f"{len(lines)} {more}lines of {pattern.path}" if len(lines) > 1 else pattern.path
        what = f"{pattern.name} found in {pattern.path}"
        await self._raise_for(pattern, "log", what, "\n".join([f"{count}:", *shown]))

    async def _raise_for(self, pattern: LogPattern, kind: str, what: str, detail: str) -> None:
        service = pattern.service or pattern.name
        signal = Signal(
            "log", f"{kind}:{pattern.name}", f"{service}: {what}", service, pattern.severity, True,
            detail, 0.0, pattern.owner, pattern.labels,
        )  # fmt: skip
        await self._raise(signal)
        self._firing[signal.fingerprint] = signal, self._clock()

    async def _end_quiet(self) -> None:
        now = self._clock()
        for name, (signal, last) in list(self._firing.items()):
            if now - last >= QUIET_SECONDS:
                await self._raise(replace(signal, firing=False))
                del self._firing[name]
