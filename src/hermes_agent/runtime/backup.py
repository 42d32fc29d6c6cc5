"""Backs up a home to one file and restores it. A backup is verified after it is written, and before
it replaces anything."""

import asyncio
import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from hermes_agent.agent.conversation import ConversationState
from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.core.files import sync_folder
from hermes_agent.core.version import __version__
from hermes_agent.host.home import Home, HomeLock
from hermes_agent.host.inspect import out_of_reach
from hermes_agent.runtime.tools import builtin
from hermes_agent.store.store import Store

FORMAT = 1
MANIFEST = "manifest.json"
DATABASE = "state.db"
EXCLUDED = frozenset(
    {"run", "logs", "terminals", "workers", "backups", "state.db-wal", "state.db-shm"}
)
"""Top-level entries of a home that are not backed up."""

RUN_AGAIN = frozenset({"browser", "execute_code", "delegate"})
"""Tools that run again after a crash: one only reads; the effects of the others are calls and
sessions of their own."""
RESTORED = "it was running when the backup was made, and its outcome is unknown"

_PIECE = 1 << 20
_BROKEN = (tarfile.TarError, EOFError, zlib.error, OSError)

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in total."""


class BackupSummary(NamedTuple):
    file: Path
    files: int
    bytes: int
    created: str
    left_out: tuple[str, ...] = ()


class _Entry(NamedTuple):
    name: str
    path: Path
    size: int


class _Hashing:
    """A file that hashes what is read from it."""

    def __init__(self, file: IO[bytes], count_bytes: Callable[[int], None] | None = None) -> None:
        self._file = file
        self._count_bytes = count_bytes
        self.digest = hashlib.sha256()
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        self.size += len(data)
        if self._count_bytes is not None:
            self._count_bytes(len(data))
        return data


def default_target(home: Path, now: datetime) -> Path:
    return home / "backups" / f"hermes-{now:%Y%m%d-%H%M%S}.tar.gz"


def copy_database(home: Path, target: Path) -> None:
    """Copy the database of a home that no runtime owns, holding its lock."""

    async def copy() -> None:
        store = await Store.open(home, readonly=True)
        try:
            await store.backup(target)
        finally:
            await store.close()

    with owned(Home(home)):
        asyncio.run(copy())


@contextmanager
def owned(home: Home) -> Iterator[None]:
    """Hold the lock of a home."""
    lock = HomeLock(home.lock_folder(home.make()), home.path)
    lock.take()
    try:
        yield
    finally:
        lock.release()


def write_backup(
    home: Path,
    target: Path,
    now: datetime,
    copy: Callable[[Path], None],
    progress: Progress,
) -> BackupSummary:
    """Write the home to `target`. `copy` copies the database, if there is one."""
    if (trouble := out_of_reach(home)) is not None:
        raise HermesError(*trouble)
    if not home.is_dir():
        raise NotFound(f"there is no home at {home}", "it is created with the first message")
    own = target.parent == home / "backups"
    if not own and not target.parent.is_dir():
        raise NotFound(f"no folder at {target.parent}", "create it, or choose another path")
    if target.exists():
        raise HermesError(f"{target} already exists", "choose another name")
    try:
        if own:
            target.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".hermes-backup-", dir=target.parent) as beside:
            draft = Path(beside, "archive")
            database = Path(beside, DATABASE)
            if (home / DATABASE).exists() or (home / "store.id").exists():
                copy(database)
            entries, left_out = _entries(home, database)
            summary = _write(draft, entries, now, progress)
            read_archive(draft, None)
            draft.replace(target)
            sync_folder(target.parent)
    except OSError as error:
        raise HermesError(
            f"cannot write {target}: {error.strerror or error}", "choose another path"
        ) from None
    return summary._replace(file=target, left_out=tuple(left_out))


def _entries(home: Path, database: Path) -> tuple[list[_Entry], list[str]]:
    """The files of a backup, and the links that are left out."""
    entries = []
    left_out = []
    if database.exists():
        entries.append(_Entry(DATABASE, database, database.stat().st_size))
    for folder, inner, names in os.walk(home):
        here = Path(folder)
        if here == database.parent:
            continue
        if here == home:
            inner[:] = [name for name in inner if name not in EXCLUDED]
            names = [name for name in names if name not in EXCLUDED | {DATABASE}]
        left_out += [str(here / name) for name in inner if (here / name).is_symlink()]
        for name in sorted(names):
            path = here / name
            if path.is_file():
                relative = path.relative_to(home).as_posix()
                entries.append(_Entry(relative, path, path.stat().st_size))
            elif path.is_symlink():
                left_out.append(str(path))
    return entries, left_out


def _write(draft: Path, entries: list[_Entry], now: datetime, progress: Progress) -> BackupSummary:
    total = sum(entry.size for entry in entries)
    done = 0

    def count_bytes(count: int) -> None:
        nonlocal done
        done += count
        progress(done, total)

    files: dict[str, dict[str, Any]] = {}
    created = now.isoformat(timespec="seconds")
    with draft.open("wb") as raw:
        os.fchmod(raw.fileno(), 0o600)
        with tarfile.open(fileobj=raw, mode="w:gz", compresslevel=6) as archive:
            for entry in entries:
                files[entry.name] = _add(archive, entry, count_bytes)
            manifest = {
                "format": FORMAT,
                "hermes": __version__,
                "created": created,
                "database": DATABASE if DATABASE in files else None,
                "files": files,
            }
            _add_manifest(archive, json.dumps(manifest, indent=1).encode())
        raw.flush()
        os.fsync(raw.fileno())
    return BackupSummary(draft, len(files), total, created)


def _add(
    archive: tarfile.TarFile, entry: _Entry, count_bytes: Callable[[int], None]
) -> dict[str, Any]:
    with entry.path.open("rb") as file:
        info = tarfile.TarInfo(f"home/{entry.name}")
        facts = os.fstat(file.fileno())
        info.size, info.mtime, info.mode = facts.st_size, int(facts.st_mtime), facts.st_mode & 0o700
        reading = _Hashing(file, count_bytes)
        archive.addfile(info, reading)
    return {"sha256": reading.digest.hexdigest(), "size": info.size}


def _add_manifest(archive: tarfile.TarFile, text: bytes) -> None:
    info = tarfile.TarInfo(MANIFEST)
    info.size, info.mode = len(text), 0o600
    archive.addfile(info, io.BytesIO(text))


def read_archive(archive: Path, into: Path | None) -> BackupSummary:
    """Verify every byte against the manifest; unpack when `into` is given. Raises `HermesError` for
    a damaged archive."""
    found: dict[str, dict[str, Any]] = {}
    manifest: dict[str, Any] | None = None
    try:
        with tarfile.open(archive, "r|gz") as members:
            for member in members:
                content = members.extractfile(member)
                if content is None or not member.isreg():
                    raise _damaged(archive, f"{member.name!r} is not a plain file")
                if member.name == MANIFEST:
                    manifest = json.load(content)
                    continue
                name = _safe_name(archive, member.name)
                if name in found:
                    raise _damaged(archive, f"it contains {name!r} twice")
                found[name] = _take(content, None if into is None else into / name, member.mode)
    except FileNotFoundError:
        raise no_backup(archive) from None
    except (*_BROKEN, ValueError) as error:
        raise _damaged(archive, str(error) or type(error).__name__) from None
    return _compare(archive, manifest, found)


def _safe_name(archive: Path, name: str) -> str:
    path = PurePosixPath(name)
    if (
        path.is_absolute()
        or ".." in path.parts
        or path.parts[:1] != ("home",)
        or len(path.parts) < 2
    ):
        raise _damaged(archive, f"{name!r} would be written outside the home")
    return path.relative_to("home").as_posix()


def _take(content: IO[bytes], target: Path | None, mode: int) -> dict[str, Any]:
    reading = _Hashing(content)
    if target is None:
        while reading.read(_PIECE):
            pass
    else:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with target.open("xb") as file:
            os.fchmod(file.fileno(), 0o600 | (mode & 0o700))
            shutil.copyfileobj(reading, file, _PIECE)
            file.flush()
            os.fsync(file.fileno())
    return {"sha256": reading.digest.hexdigest(), "size": reading.size}


def _compare(archive: Path, manifest: Any, found: dict[str, dict[str, Any]]) -> BackupSummary:
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise _damaged(archive, "its manifest is missing")
    if manifest.get("format") != FORMAT:
        raise HermesError(
            f"{archive} was made by Hermes {manifest.get('hermes')} in an unknown format",
            "use that version of Hermes, or a newer one",
        )
    wanted = manifest["files"]
    if wanted != found:
        names = sorted(
            name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)
        )
        raise _damaged(archive, f"{names[0]!r} does not match the manifest")
    total = sum(file["size"] for file in found.values())
    return BackupSummary(archive, len(found), total, str(manifest.get("created")))


def no_backup(archive: Path) -> NotFound:
    return NotFound(f"no backup at {archive}", "`hermes backup` makes one")


def _damaged(archive: Path, why: str) -> HermesError:
    return HermesError(f"{archive} is damaged: {why}", "use another backup; nothing was changed")


def unpack_and_check(archive: Path, staging: Path) -> BackupSummary:
    """Unpack into an empty folder and check the database there."""
    summary = read_archive(archive, staging)
    if (staging / DATABASE).exists():
        faults = asyncio.run(_faults(staging))
        if faults:
            raise _damaged(archive, faults[0])
    return summary


async def _faults(folder: Path) -> list[str]:
    store = await Store.open(folder, readonly=True)
    try:
        return list(await store.check())
    finally:
        await store.close()


async def _park_unknown(folder: Path) -> None:
    """Park effects that ran when the backup was made: their outcome is unknown, so a person
    decides, as after a crash."""
    again = {one.name for one in builtin.facts() if one.repeatable} | RUN_AGAIN
    store = await Store.open(folder)
    try:
        for turn in await store.claim_unfinished():
            prompt = await store.prompt((await store.session(turn.session)).prompt)
            talk = ConversationState(turn.session, prompt).apply_all(
                await store.events(turn.session)
            )
            for call in [one for one in talk.all_calls if one.finished is None]:
                known = call.call.name in again or (call.intended and call.intended.note)
                if call.intended and not call.parked and not known:
                    parked = ev.CallParked(call.effect, call.call.id, call.call.name, RESTORED)
                    await store.append(turn, parked)
    finally:
        await store.close()


def check_backup(archive: Path) -> BackupSummary:
    with tempfile.TemporaryDirectory(prefix="hermes-check-") as folder:
        return unpack_and_check(archive, Path(folder))


def restore_backup(archive: Path, home: Path, now: datetime) -> tuple[BackupSummary, Path | None]:
    """Replace a home with a backup. Returns where the old home was moved, if there was one."""
    if not archive.exists():
        raise no_backup(archive)
    existed = home.exists()
    staging = home.with_name(f"{home.name}.restoring-{now:%Y%m%d-%H%M%S}")
    aside = home.with_name(f"{home.name}.before-restore-{now:%Y%m%d-%H%M%S}")
    try:
        with owned(Home(home)):
            staging.mkdir(mode=0o700, parents=True)
            try:
                summary = unpack_and_check(archive, staging)
                if (staging / DATABASE).exists():
                    asyncio.run(_park_unknown(staging))
                _swap(home, staging, aside)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    finally:
        if not existed and not aside.exists():
            shutil.rmtree(home, ignore_errors=True)  # it contains only what `owned` made
    if existed:
        return summary, aside
    shutil.rmtree(aside)
    return summary, None


def _swap(home: Path, staging: Path, aside: Path) -> None:
    try:
        home.rename(aside)
    except OSError as error:
        raise HermesError(
            f"cannot move {home} aside: {error.strerror}",
            "set HERMES_HOME to another folder and restore there",
        ) from None
    try:
        staging.rename(home)
    except OSError as error:
        aside.rename(home)
        raise HermesError(f"cannot move {home} into place: {error.strerror}", "try again") from None
    if (aside / "backups").is_dir():
        (aside / "backups").rename(home / "backups")
    sync_folder(home.parent)
