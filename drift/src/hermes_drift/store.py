"""Audits and people's decisions: files in `drift` of the home."""

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from hermes_agent.core.errors import Degraded, HermesError, NotFound
from hermes_drift.patterns import DriftPattern
from hermes_drift.values import Audit, DriftFinding

PATTERNS = "patterns.json"
REMEMBERED = 200
"""How many earlier audits a new one refers to, at least."""


class Audits:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def ids(self) -> list[str]:
        """Newest first."""
        numbers = [path.stem.partition("-")[2] for path in self.folder.glob("drift-*.json")]
        return [f"drift-{one}" for one in sorted(map(int, filter(str.isdigit, numbers)))[::-1]]

    def next_id(self) -> str:
        ids = self.ids()
        return f"drift-{int(ids[0].partition('-')[2]) + 1 if ids else 1}"

    def audit(self, id: str) -> Audit:
        path = self.folder / f"{_whole(id)}.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=Audit)
        except FileNotFoundError:
            raise NotFound(f"no audit {id!r}", "`hermes drift list` shows them") from None
        except (msgspec.MsgspecError, OSError) as error:
            raise HermesError(f"{path} cannot be read: {error}", "remove it") from None

    def finding(self, id: str) -> tuple[Audit, DriftFinding]:
        name, dot, _ = _whole(id).rpartition(".")
        audit = self.audit(name if dot else id)
        for one in audit.findings:
            if one.id == _whole(id):
                return audit, one
        raise NotFound(
            f"no finding {id!r} in {audit.id}", f"`hermes drift show {audit.id}` lists them"
        )

    def earlier(self, repository: str, since: float) -> Sequence[Audit]:
        """Audits of the same repository, newest first: the latest, and all since this time."""
        found = []
        for number, audit in enumerate(self.readable(self.ids())):
            if number >= REMEMBERED and audit.at < since:
                break
            if audit.repository == repository:
                found.append(audit)
        return found

    def readable(self, ids: Iterable[str]) -> Iterator[Audit]:
        for id in ids:
            with contextlib.suppress(HermesError):
                yield self.audit(id)

    def save(self, audit: Audit, report: str) -> None:
        self._write(f"{audit.id}.md", report.encode())
        self._write(f"{audit.id}.json", msgspec.json.format(msgspec.json.encode(audit)))

    def patterns(self) -> Sequence[DriftPattern]:
        path = self.folder / PATTERNS
        try:
            return msgspec.json.decode(path.read_bytes(), type=tuple[DriftPattern, ...])
        except FileNotFoundError:
            return ()
        except (msgspec.MsgspecError, OSError) as error:
            raise HermesError(
                f"{path} cannot be read: {error}", "fix it, or remove it and decide again"
            ) from None

    def learn(self, pattern: DriftPattern) -> None:
        """Save a pattern in place of an earlier one of the same finding."""
        kept = [one for one in self.patterns() if one.finding != pattern.finding]
        self._write(PATTERNS, msgspec.json.format(msgspec.json.encode([*kept, pattern])))

    def _write(self, name: str, data: bytes) -> None:
        beside = self.folder / f".{uuid.uuid4().hex}"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(beside, "wb", opener=_private) as file:  # a Path has no opener
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.folder / name)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            raise no_room(f"{name} was not saved", error) from None


def no_room(what: str, error: OSError) -> Degraded:
    """The disk of the home is full or read-only."""
    return Degraded(f"{what}: {error.strerror} (in the home)", "`hermes doctor` says what is wrong")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _whole(id: str) -> str:
    """`drift-4.2` for `4.2`; what is not an id becomes one that does not exist."""
    bare = id.removeprefix("drift-")
    return f"drift-{bare}" if bare.replace(".", "", 1).isdigit() else "drift-none"
