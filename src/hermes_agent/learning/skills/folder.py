"""Skills on disk: folders that people edit by hand at any time. They are read whole, and replaced
whole or not at all."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from hermes_agent.core.errors import UsageError
from hermes_agent.core.pseudonyms import private_folder
from hermes_agent.learning.atomic_swap import exchange

MAIN, RUNBOOK = "SKILL.md", "runbook.yaml"
FILE_BYTES, ALL_BYTES, FILES = 1_000_000, 5_000_000, 200
DEPTH = 6
WORK = ".work"
"""Drafts, and folders that were replaced, for those who still write into them."""
_DRAFT, _ASIDE = ".draft", ".aside"
"""Beside a draft that is complete: its digest. And a folder on its way out. No skill can be called
so."""
_TRIES = 5

Signature = tuple[tuple[str, int, int, int, int], ...]
"""Path, time of change, time of the inode's change, size and inode of each file: as long as it is
the same, so is the folder."""


class SkillFolder(Struct, frozen=True):
    files: dict[str, bytes]
    signature: Signature = ()
    left_out: tuple[tuple[str, str], ...] = ()
    """What is in the folder and not part of the skill: a sentence and a hint each."""


class Leftover(Struct, frozen=True):
    """A folder that was replaced, or a draft that was never put in its place."""

    place: Path
    """To be removed when it is dealt with."""
    name: str
    folder: Path
    draft: str
    """The digest of what was to be put in place."""
    since: float
    """When it was left."""
    signature: Signature


def digest(files: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(f"{len(path.encode())} {path} {len(files[path])}\n".encode())
        whole.update(files[path])
    return whole.hexdigest()


def decoded(data: bytes) -> str | None:
    """As text; None when it is none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def main_file(files: Mapping[str, bytes]) -> str:
    """What the reference takes for the skill's text; empty when there is none."""
    return next((path for path in (MAIN, MAIN.lower()) if path in files), "")


def check_paths(files: Mapping[str, bytes]) -> None:
    """Whether files by these paths can be a skill's folder; a `UsageError` says what is wrong."""
    for path in files:
        pure = PurePosixPath(path)
        odd = str(pure) != path or pure.is_absolute() or ".." in pure.parts or "\\" in path
        if odd or not path.isprintable() or any(map(_passing_by, pure.parts)):
            raise UsageError(
                f"{path!r} cannot be a file of a skill", "a plain path such as scripts/check.sh"
            )
        if len(pure.parts) > DEPTH or any(str(parent) in files for parent in pure.parents):
            raise UsageError(f"{path!r} is too deep, or below a file")
        if len(files[path]) > FILE_BYTES:
            raise UsageError(f"{path!r} has more than {FILE_BYTES // 1_000_000} MB")
    if len(files) > FILES or sum(map(len, files.values())) > ALL_BYTES:
        raise UsageError(
            f"a skill has at most {FILES} files and {ALL_BYTES // 1_000_000} MB in all"
        )


def names(folder: Path) -> Sequence[str]:
    """Folders that may be skills, in order."""
    try:
        with os.scandir(folder) as entries:
            found = [each.name for each in entries if not _passing_by(each.name) and each.is_dir()]
    except FileNotFoundError:
        return ()
    return sorted(found)


def signature(folder: Path) -> Signature:
    """Empty when the folder is gone."""
    try:
        found = list(_stats(str(folder), "", 0))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(sorted(found))


def _stats(folder: str, prefix: str, depth: int) -> Iterator[tuple[str, int, int, int, int]]:
    with os.scandir(folder) as entries:
        for each in entries:
            if _passing_by(each.name):
                continue
            if depth < DEPTH and each.is_dir(follow_symlinks=False):
                yield from _stats(each.path, f"{prefix}{each.name}/", depth + 1)
                continue
            stat = each.stat(follow_symlinks=False)
            times = (stat.st_mtime_ns, stat.st_ctime_ns)
            yield (f"{prefix}{each.name}", *times, stat.st_size, stat.st_ino)


def read_folder(folder: Path) -> SkillFolder:
    """The files as they are at one moment, as far as can be seen: somebody who writes meanwhile is
    waited for by reading again."""
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
            left_out.append((f"{path!r} is a link or no plain file", "put the file itself here"))
        elif not path.isprintable() or "\\" in path:
            left_out.append((f"{path!r} has a name that cannot be kept", "rename it"))
        elif size > FILE_BYTES or total + size > ALL_BYTES or len(files) == FILES:
            hint = f"{FILE_BYTES // 1_000_000} MB each, {ALL_BYTES // 1_000_000} MB in all"
            left_out.append((f"{path!r} is too large; it is not part of the skill", hint))
        else:
            total += size
            files[path] = whole.read_bytes()
    return SkillFolder(files, stats, tuple(left_out))


def prepare(home: Path, name: str, files: Mapping[str, bytes]) -> Path:
    """Write a draft of a skill's folder; it is complete on disk, or this raises."""
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
    """Let the draft be the skill's folder from now on. Returns the folder that it replaced, which
    those who have a file of it open may still write into."""
    if not target.exists():
        draft.rename(target)
        _flush(target.parent)
        shutil.rmtree(draft.parent)
        return None
    _carry(target, draft)
    if not swap(draft, target):
        aside = draft.with_name(_ASIDE)
        target.rename(aside)
        draft.rename(target)  # a crash before this line is mended by `leftovers`
        aside.rename(draft)
    _flush(target.parent)
    return draft


def leftovers(home: Path) -> Sequence[Leftover]:
    """What earlier writers left in the folder for work."""
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
    """The folder that was just replaced by a draft."""
    return Leftover(old.parent, old.name, old, draft, 0.0, signature(old))


def remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)


def _carry(old: Path, new: Path) -> None:
    """What is not part of the skill but lies in its folder stays there: links, hidden files, large
    ones."""
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


def _passing_by(name: str) -> bool:
    """Hidden files and what editors and Python leave behind are not part of a skill."""
    return name.startswith((".", "#")) or name.endswith(("~", ".swp")) or name == "__pycache__"


def _flush(*folders: Path) -> None:
    for folder in folders:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
