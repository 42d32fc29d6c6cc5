"""Stores authored tools: `NAME.py`, every tested version in `history/NAME/`, and their state in
`state.json`.

The history is written first, then the file, then the state. After a crash in between, the history
has the file's text, and the next `look` repairs the state. A text that is not in the history was
written by hand."""

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.agent.authored_tools.signature import MAX_BYTES, check_name
from hermes_agent.core.errors import HermesError, NotFound, ToolError
from hermes_agent.core.files import write_durably

HAND = "hand"
"""The author of a version that was written by hand."""
UNCHECKED = "unchecked.py"
"""Next to the versions: the last hand-written text that was replaced before it was tested."""


class ToolVersion(Struct, frozen=True, omit_defaults=True):
    number: int
    digest: str
    time: float
    by: str
    failed: str = ""
    """Why it was marked failed."""


class ToolRecord(Struct, frozen=True, omit_defaults=True):
    versions: tuple[ToolVersion, ...] = ()
    current: int = 0
    disabled: Literal["", "failed", "person"] = ""
    uses: int = 0
    failures: int = 0
    row: int = 0
    """Failures in a row, of the current version."""

    @property
    def version(self) -> ToolVersion | None:
        return self.get(self.current)

    def get(self, number: int) -> ToolVersion | None:
        return next((one for one in self.versions if one.number == number), None)

    def of(self, digest: str) -> ToolVersion | None:
        return next((one for one in self.versions if one.digest == digest), None)

    def before(self) -> ToolVersion | None:
        """The last good version before the current one."""
        good = [one for one in self.versions if one.number < self.current and not one.failed]
        return max(good, key=lambda one: one.number, default=None)

    def with_mark(self, number: int, failed: str = "") -> "ToolRecord":
        """Set or clear a version's failure mark."""
        versions = tuple(
            replace(one, failed=failed) if one.number == number else one for one in self.versions
        )
        return replace(self, versions=versions)


class ToolLogEntry(Struct, frozen=True):
    """A line of a tool's log."""

    time: float
    what: str
    version: int
    by: str
    why: str = ""


class ToolSnapshot(Struct, frozen=True):
    """A tool as it is on disk. `version` is 0 for an untested text."""

    code: bytes
    digest: str
    version: int
    record: ToolRecord


def digest_of(code: bytes) -> str:
    return sha256(code).hexdigest()


class AuthoredToolStore:
    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self.folder = folder
        self._state = folder / "state.json"
        self._clock = clock

    # reading

    def names(self) -> list[str]:
        """The tools by file name, sorted."""
        found = []
        for path in self.folder.glob("*.py") if self.folder.is_dir() else ():
            try:
                check_name(path.stem)
            except ToolError:
                continue
            found.append(path.stem)
        return sorted(found)

    def records(self) -> dict[str, ToolRecord]:
        try:
            data = self._state.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise HermesError(
                f"{self._state} cannot be read: {error.strerror}", "make it readable"
            ) from None
        try:
            return msgspec.json.decode(data, type=dict[str, ToolRecord])
        except msgspec.DecodeError as error:
            raise HermesError(
                f"{self._state} is damaged: {error}",
                "move it away: versions are restored from `history`, counts start over",
            ) from None

    def record(self, name: str) -> ToolRecord:
        return self.records().get(name, ToolRecord())

    def read(self, name: str) -> bytes | None:
        """The file's content; None when there is no file."""
        check_name(name)
        path = self._file(name)
        try:  # neither follow links nor block on a pipe
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ToolError(f"{path} cannot be read: {error.strerror}", retry="never") from None
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise ToolError(f"{path} is not a plain file", retry="never")
            code = os.read(handle, MAX_BYTES + 1)
        finally:
            os.close(handle)
        if len(code) > MAX_BYTES:
            raise ToolError(f"{path} has more than {MAX_BYTES} bytes", retry="never")
        return code

    def look(self, name: str) -> ToolSnapshot | None:
        """The tool as it is on disk, repaired after a crash or a version copied by hand."""
        code = self.read(name)
        if code is None:
            return None
        digest, record = digest_of(code), self.record(name)
        settled = record.version is not None and record.version.digest == digest
        if not settled or self._needs_rollback(record):
            with self._locked():
                record = self._settle(name)
            code = self.read(name)
            if code is None:
                return None
            digest = digest_of(code)
        version = record.version
        known = version is not None and version.digest == digest
        return ToolSnapshot(code, digest, record.current if known else 0, record)

    def code(self, name: str, number: int) -> bytes:
        """The text of a version."""
        check_name(name)
        try:
            return self._version(name, number).read_bytes()
        except FileNotFoundError:
            there = ", ".join(str(one.number) for one in self.record(name).versions) or "none"
            raise NotFound(f"{name} has no version {number}", f"available: {there}") from None

    def log(self, name: str) -> list[ToolLogEntry]:
        check_name(name)
        try:
            data = self._log(name).read_bytes()
        except FileNotFoundError:
            return []
        entries = []
        for line in data.splitlines():
            try:
                entries.append(msgspec.json.decode(line, type=ToolLogEntry))
            except msgspec.DecodeError:
                continue  # a crash cut it off
        return entries

    # changing

    def keep(self, name: str, code: bytes, by: str, why: str) -> ToolVersion:
        """Make checked code the current version."""
        check_name(name)
        with self._locked():
            record = self._with_history(name, self.record(name))
            version = record.of(digest_of(code))
            if version is None:
                number = max((one.number for one in record.versions), default=0) + 1
                version = ToolVersion(number, digest_of(code), self._clock(), by)
                record = replace(record, versions=(*record.versions, version))
                _write(self._version(name, number), code)
            self._put(name, code, record)
            record = replace(record.with_mark(version.number), current=version.number, row=0)
            if record.disabled == "failed":
                record = replace(record, disabled="")
            self._save(name, record)
            self._note(name, "kept", version.number, by, why)
        return version

    def roll_back(self, name: str, number: int | None, by: str) -> ToolVersion:
        """Bring a version back: the last good one before the current, or the one named."""
        check_name(name)
        with self._locked():
            record = self._with_history(name, self.record(name))
            if not record.versions:
                raise NotFound(f"no authored tool called {name!r}", "`hermes tools list`")
            version = self._last_good(name, record) if number is None else record.get(number)
            if version is None:
                there = ", ".join(str(one.number) for one in record.versions)
                what = "good version before the current" if number is None else f"version {number}"
                raise NotFound(f"{name} has no {what}", f"available: {there}; or disable it")
            self._restore(name, record.with_mark(version.number), version)
            self._note(name, "rolled back", version.number, by)
        return version

    def switch(self, name: str, on: bool, by: str) -> None:
        """Enable or disable a tool, whatever versions the agent makes."""
        check_name(name)
        with self._locked():
            record = self._with_history(name, self.record(name))
            if not record.versions and self.read(name) is None:
                raise NotFound(f"no authored tool called {name!r}", "`hermes tools list`")
            if on:
                record = replace(record.with_mark(record.current), disabled="", row=0)
            else:
                record = replace(record, disabled="person")
            self._save(name, record)
            self._note(name, "enabled" if on else "disabled", record.current, by)

    def count(self, name: str, digest: str, trouble: str | None, most: int) -> str:
        """Record a use: `trouble` is empty for a success and None for a failure that is not the
        tool's fault. Returns what happened to a tool that failed too often."""
        with self._locked():
            record = self.record(name)
            version = record.version
            failed = int(bool(trouble))
            record = replace(record, uses=record.uses + 1, failures=record.failures + failed)
            replaced = version is None or version.digest != digest  # meanwhile
            if version is None or replaced or trouble is None:
                self._save(name, record)
                return ""
            record = replace(record, row=record.row + 1 if trouble else 0)
            gone = record.row >= most
            if gone:
                record = record.with_mark(version.number, trouble[:500])
            self._save(name, record)
            if not gone:
                return ""
            self._note(name, "failed", version.number, "hermes", trouble[:500])
            after = self._settle(name)
        said = f"it failed {most} times in a row: version {version.number} is marked failed and "
        return said + (f"version {after.current} is back" if not after.disabled else "disabled")

    # internals

    @staticmethod
    def _needs_rollback(record: ToolRecord) -> bool:
        return bool(record.version and record.version.failed and not record.disabled)

    def _settle(self, name: str) -> ToolRecord:
        """Finish what a crash interrupted."""
        code, record = self.read(name), self._with_history(name, self.record(name))
        known = record.of(digest_of(code)) if code is not None else None
        if known is not None and known.number != record.current:
            record = replace(record.with_mark(known.number), current=known.number, row=0)
            self._save(name, record)
            self._note(name, "found", known.number, HAND, "the file contains this version")
        if not self._needs_rollback(record) or known is None:
            return record
        good = record.before()
        if good is None:
            record = replace(record, disabled="failed", row=0)
            self._save(name, record)
            self._note(name, "disabled", record.current, "hermes", "no good version is left")
            return record
        record = self._restore(name, record, good)
        self._note(name, "rolled back", good.number, "hermes", "the version after it failed")
        return record

    def _last_good(self, name: str, record: ToolRecord) -> ToolVersion | None:
        """The target of a rollback: the current version when the file was edited or removed, else
        the last good one before it."""
        code, now = self.read(name), record.version
        if now is not None and not now.failed and (code is None or now.digest != digest_of(code)):
            return now
        return record.before()

    def _put(self, name: str, code: bytes, record: ToolRecord) -> None:
        """Replace the file; an untested hand-written text is saved as `UNCHECKED`."""
        there = self.read(name)
        if there is not None and record.of(digest_of(there)) is None:
            _write(self._log(name).with_name(UNCHECKED), there)
        _write(self._file(name), code)

    def _restore(self, name: str, record: ToolRecord, version: ToolVersion) -> ToolRecord:
        self._put(name, self.code(name, version.number), record)
        disabled = record.disabled if record.disabled == "person" else ""
        record = replace(record, current=version.number, row=0, disabled=disabled)
        self._save(name, record)
        return record

    def _with_history(self, name: str, record: ToolRecord) -> ToolRecord:
        """Add versions that are in the history but not in the state."""
        known = {one.number for one in record.versions}
        more = [
            ToolVersion(int(path.stem), digest_of(path.read_bytes()), path.stat().st_mtime, "")
            for path in sorted(self._version(name, 0).parent.glob("[0-9]*.py"))
            if path.stem.isdigit() and int(path.stem) not in known
        ]
        versions = sorted((*record.versions, *more), key=lambda one: one.number)
        return replace(record, versions=tuple(versions))

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.py"

    def _version(self, name: str, number: int) -> Path:
        return self.folder / "history" / name / f"{number:04}.py"

    def _log(self, name: str) -> Path:
        return self.folder / "history" / name / "log.jsonl"

    def _save(self, name: str, record: ToolRecord) -> None:
        _write(self._state, msgspec.json.encode({**self.records(), name: record}))

    def _note(self, name: str, what: str, version: int, by: str, why: str = "") -> None:
        line = msgspec.json.encode(ToolLogEntry(self._clock(), what, version, by, why))
        path = self._log(name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("ab+") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line + b"\n")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the folder, which the runtime and the command line share."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_durably(path, data)
