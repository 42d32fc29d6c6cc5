"""Following logs of this machine: lines that fit a pattern raise a signal. A log that is rotated or
truncated is followed on, and how far it was read survives a restart."""

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
"""When no more lines came for so long, it is over."""
JUDGED_SECONDS = 60.0
"""How long it holds that a log may be read, or may not."""
MAX_BYTES = 1_000_000
"""What is read of one log at a time."""
MAX_LINE = 100_000
HEAD = 256
"""The beginning of a file tells it from another that took its place."""
SHOWN = 10
MAX_LINES = 1_000
"""Lines that are counted one by one; of a flood it is enough to know that it is one."""


class NewLines(Struct, frozen=True):
    """Whole lines that are new, and how far that is."""

    text: str
    place: LogCursor
    more: bool = False


def read_on(path: str, before: LogCursor | None) -> NewLines | None:
    """What was written since; None when there is nothing to be read there. A log that was never
    read before is read from its end."""
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
        end = len(data)  # no line is that long
    if whole and not more:
        end = len(data)  # nobody writes to it any more
    place = LogCursor(path, _mark(file, facts, offset + end), offset + end)
    return NewLines(data[:end].decode(errors="replace"), place, more)


def _mark(file: int, facts: os.stat_result, offset: int) -> str:
    head = os.pread(file, min(HEAD, offset), 0)
    return f"{facts.st_dev}:{facts.st_ino}:{len(head)}:{crc32(head)}"


def _same(file: int, facts: os.stat_result, place: LogCursor) -> bool:
    return _mark(file, facts, place.offset) == place.file


def _rotated(path: str, place: LogCursor) -> int | None:
    """The file that was read, under its new name beside the log."""
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
    """The last lines that fit, in order: halves of the text that hold none are passed over."""
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
        """`refusal`: why the log of a pattern may not be read; empty where it may."""
        self._store = store
        self._patterns = patterns
        self._refusal = refusal
        self._raise = raise_signal
        self._clock = clock
        self._places: dict[str, LogCursor] | None = None
        self._firing: dict[str, tuple[Signal, float]] = {}
        self._judged: dict[tuple[str, str], tuple[str, float]] = {}
        """By name and path: why the log may not be read, and since when that is known."""
        self.missing: dict[str, str] = {}
        """Logs that cannot be read, by their path."""

    @property
    def refused(self) -> dict[str, str]:
        """Patterns whose log may not be read, and why."""
        return {name: why for (name, _), (why, _) in self._judged.items() if why}

    async def run(self) -> None:
        await supervise("following logs", self.look, every(POLL_SECONDS))

    async def look(self) -> None:
        """Read what is new in each log, once for all of its patterns."""
        found = self._patterns()
        wanted = {(one.name, one.path) for one in found}
        self._judged = {key: known for key, known in self._judged.items() if key in wanted}
        patterns = [one for one in found if not await self._may_not(one)]
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

    async def _may_not(self, pattern: LogPattern) -> str:
        """Why its log is not read. What is refused is said like a check that cannot be run."""
        known = self._judged.get((pattern.name, pattern.path))
        now = self._clock()
        if known is not None and 0 <= now - known[1] < JUDGED_SECONDS:
            return known[0]
        why = await self._refusal(pattern)
        self._judged[pattern.name, pattern.path] = why, now
        if why:
            service = pattern.service or pattern.name
            title = f"{service}: the log of {pattern.name} cannot be read"
            await self._say(pattern, f"unread:{pattern.name}", title, f"{pattern.path}\n{why}")
        return why

    async def _follow(
        self, path: str, patterns: Sequence[LogPattern], places: dict[str, LogCursor]
    ) -> None:
        more = True
        while more:
            piece = await asyncio.to_thread(read_on, path, places.get(path))
            if piece is None:
                await self._wait_for(path, places)
                return
            self.missing.pop(path, None)
            for pattern in patterns:
                await self._match(pattern, piece.text)
            if places.get(path) != piece.place:
                # After the signals: a runtime that dies in between raises them again.
                places[path] = piece.place
                await self._store.save_log_cursor(piece.place)
            more = piece.more

    async def _wait_for(self, path: str, places: dict[str, LogCursor]) -> None:
        """One that is not there yet will be read from its beginning."""
        if path not in self.missing:
            log.warning("the log %s cannot be read now; it is waited for", path)
        self.missing[path] = "it is not there, is no file, or may not be read"
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
        service = pattern.service or pattern.name
        title = f"{service}: {pattern.name} stands in {pattern.path}"
        await self._say(pattern, f"log:{pattern.name}", title, "\n".join([f"{count}:", *shown]))

    async def _say(self, pattern: LogPattern, fingerprint: str, title: str, detail: str) -> None:
        service = pattern.service or pattern.name
        signal = Signal(
            "log", fingerprint, title, service, pattern.severity, True, detail, 0.0,
            pattern.owner, pattern.labels,
        )  # fmt: skip
        await self._raise(signal)
        self._firing[signal.fingerprint] = signal, self._clock()

    async def _end_quiet(self) -> None:
        now = self._clock()
        for name, (signal, last) in list(self._firing.items()):
            if now - last >= QUIET_SECONDS:
                await self._raise(replace(signal, firing=False))
                del self._firing[name]
