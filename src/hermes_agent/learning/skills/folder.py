"""Skill folders on disk, which people edit at any time: read whole, and replaced whole or not at
all."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from hermes_agent.core.errors import UsageError
from hermes_agent.core.files import private_folder, sync_folder
from hermes_agent.learning.atomic_swap import exchange

MAIN, RUNBOOK = "SKILL.md", "runbook.yaml"
FILE_BYTES, ALL_BYTES, FILES = 1_000_000, 5_000_000, 200
DEPTH = 6
WORK = ".work"
"""Holds drafts, and replaced folders that somebody may still write into."""
_DRAFT, _ASIDE = ".draft", ".aside"
"""The digest beside a complete draft; and a folder that is being replaced. No skill has such a
name."""
_TRIES = 5

Signature = tuple[tuple[str, int, int, int, int], ...]
"""Path, mtime, ctime, size and inode of each file: while it is the same, so is the folder."""


class SkillFolder(Struct, frozen=True):
    files: dict[str, bytes]
    signature: Signature = ()
    left_out: tuple[tuple[str, str], ...] = ()
    """What is not part of the skill: a sentence and a hint each."""


class Leftover(Struct, frozen=True):
    """A replaced folder, or a draft that was never used."""

    place: Path
    name: str
    folder: Path
    draft: str
    """The digest of the draft."""
    since: float
    signature: Signature


def digest(files: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(f"{len(path.encode())} {path} {len(files[path])}\n".encode())
        whole.update(files[path])
    return whole.hexdigest()


def decoded(data: bytes) -> str | None:
    """As text; None if it is binary."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def main_file(files: Mapping[str, bytes]) -> str:
    """The path of the skill's text, chosen as the reference does; empty if there is none."""
    return next((path for path in (MAIN, MAIN.lower()) if path in files), "")


def check_paths(files: Mapping[str, bytes]) -> None:
    """A `UsageError` if these files cannot be a skill's folder."""
    for path in files:
        pure = PurePosixPath(path)
        odd = str(pure) != path or pure.is_absolute() or ".." in pure.parts or "\\" in path
        if odd or not path.isprintable() or any(map(_ignored, pure.parts)):
            raise UsageError(
                f"not a valid file path in a skill: {path!r}",
                "a plain path such as scripts/check.sh",
            )
        if len(pure.parts) > DEPTH or any(str(parent) in files for parent in pure.parents):
            raise UsageError(f"{path!r} is too deep, or inside a file")
        if len(files[path]) > FILE_BYTES:
            raise UsageError(f"{path!r} has more than {FILE_BYTES // 1_000_000} MB")
    if len(files) > FILES or sum(map(len, files.values())) > ALL_BYTES:
        raise UsageError(
            f"a skill has at most {FILES} files and {ALL_BYTES // 1_000_000} MB in all"
        )


def names(folder: Path) -> Sequence[str]:
    """Folders that may be skills, sorted."""
    try:
        with os.scandir(folder) as entries:
            found = [each.name for each in entries if not _ignored(each.name) and each.is_dir()]
    except FileNotFoundError:
        return ()
    return sorted(found)


def signature(folder: Path) -> Signature:
    """Empty if the folder is gone."""
    try:
        found = list(_stats(str(folder), "", 0))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(sorted(found))


def _stats(folder: str, prefix: str, depth: int) -> Iterator[tuple[str, int, int, int, int]]:
    with os.scandir(folder) as entries:
        for each in entries:
            if _ignored(each.name):
                continue
            if depth < DEPTH and each.is_dir(follow_symlinks=False):
                yield from _stats(each.path, f"{prefix}{each.name}/", depth + 1)
                continue
            stat = each.stat(follow_symlinks=False)
            times = (stat.st_mtime_ns, stat.st_ctime_ns)
            yield (f"{prefix}{each.name}", *times, stat.st_size, stat.st_ino)


def read_folder(folder: Path) -> SkillFolder:
    """The files at one moment: read again when somebody wrote meanwhile."""
    if not folder.is_dir():
        raise NotADirectoryError(str(folder))
    for attempt in range(_TRIES):
        before = signature(folder)
        try:
            found = _read(folder, before)
        except (FileNotFoundError, NotADirectoryError):
            if attempt + 1 == _TRIES:
                raise
            continue
        if signature(folder) == before:
            break
    return found


def _read(folder: Path, stats: Signature) -> SkillFolder:
    files: dict[str, bytes] = {}
    left_out: list[tuple[str, str]] = []
    total = 0
    for path, _, _, size, _ in stats:
        whole = folder / path
        if whole.is_symlink() or not whole.is_file():
            left_out.append(
                (f"{path!r} is a link or not a regular file", "put the file itself here")
            )
        elif not path.isprintable() or "\\" in path:
            left_out.append((f"{path!r} has an unsupported name", "rename it"))
        elif size > FILE_BYTES or total + size > ALL_BYTES or len(files) == FILES:
            hint = f"{FILE_BYTES // 1_000_000} MB each, {ALL_BYTES // 1_000_000} MB in all"
            left_out.append((f"{path!r} is too large; it is not part of the skill", hint))
        else:
            total += size
            files[path] = whole.read_bytes()
    return SkillFolder(files, stats, tuple(left_out))


def prepare(home: Path, name: str, files: Mapping[str, bytes]) -> Path:
    """Write a draft of a skill's folder and flush it to disk."""
    work = home / WORK
    private_folder(work)
    place = work / secrets.token_hex(8)
    folder = place / name
    folder.mkdir(mode=0o700, parents=True)
    for path, data in files.items():
        whole = folder / path
        whole.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = 0o700 if data.startswith(b"#!") else 0o600
        handle = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    (place / _DRAFT).write_text(digest(files))
    _flush(folder, *(each for each in folder.rglob("*") if each.is_dir()))
    return folder


def put_in_place(
    draft: Path, target: Path, swap: Callable[[Path, Path], bool] = exchange
) -> Path | None:
    """Make the draft the skill's folder. Returns the replaced folder, which editors with an open
    file may still write into."""
    if not target.exists():
        draft.rename(target)
        _flush(target.parent)
        shutil.rmtree(draft.parent)
        return None
    _copy_extras(target, draft)
    if not swap(draft, target):
        aside = draft.with_name(_ASIDE)
        target.rename(aside)
        draft.rename(target)  # `leftovers` repairs a crash before this line
        aside.rename(draft)
    _flush(target.parent)
    return draft


def leftovers(home: Path) -> Sequence[Leftover]:
    found: list[Leftover] = []
    try:
        places = sorted((home / WORK).iterdir())
    except FileNotFoundError:
        return ()
    for place in places:
        mark = place / _DRAFT
        folders = [each for each in place.iterdir() if each.is_dir()] if place.is_dir() else []
        if mark.is_file() and folders:
            main = min(folders, key=lambda each: each.name == _ASIDE)
            since = mark.stat().st_mtime
            found.append(
                Leftover(place, main.name, main, mark.read_text().strip(), since, signature(main))
            )
        else:
            remove(place)  # a draft that was never finished
    return sorted(found, key=lambda left: left.since)


def leftover(old: Path, draft: str) -> Leftover:
    """A folder that a draft has just replaced."""
    return Leftover(old.parent, old.name, old, draft, 0.0, signature(old))


def remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)


def _copy_extras(old: Path, new: Path) -> None:
    """Copy what is in the folder but not part of the skill: links, hidden and large files."""
    kept = _read(old, signature(old)).files
    for folder, inner, found in os.walk(old):
        inside = Path(folder).relative_to(old)
        links = [each for each in inner if (Path(folder) / each).is_symlink()]
        for each in [*found, *links]:
            path = inside / each
            if path.as_posix() in kept or os.path.lexists(new / path):
                continue
            (new / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copy2(old / path, new / path, follow_symlinks=False)


def _ignored(name: str) -> bool:
    """Hidden files and what editors and Python leave behind."""
    return name.startswith((".", "#")) or name.endswith(("~", ".swp")) or name == "__pycache__"


def _flush(*folders: Path) -> None:
    for folder in folders:
        sync_folder(folder)
