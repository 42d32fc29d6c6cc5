"""Files of this machine. Everything here blocks and is called in a thread."""

import contextlib
import errno
import heapq
import itertools
import json
import os
import re
import shutil
import stat as modes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from hermes_agent.core.errors import ToolError
from hermes_agent.core.files import sync_folder
from hermes_agent.core.protocols import FileFacts, SearchMatch
from hermes_agent.terminals.local import search

GREP_SECONDS = 30.0
_numbers = itertools.count()


def resolve(workspace: str, path: str) -> str:
    if "\0" in path:
        raise ToolError(f"{path!r} is not a path", "it contains a NUL byte")
    return os.path.realpath(os.path.join(workspace, os.path.expanduser(path)))  # noqa: PTH111, PTH118


def read(workspace: str, path: str) -> bytes:
    # Not to be held up by a FIFO that nobody writes to.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    with (
        _file_errors(path),
        _folder_of(_exact(workspace, path)) as (folder, name),
        os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file,
    ):
        if not modes.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise file_error("special", path)
        return file.read()


def write(workspace: str, path: str, data: bytes) -> None:
    with _file_errors(path), _folder_of(_exact(workspace, path), make=True) as (folder, name):
        old = None
        with contextlib.suppress(FileNotFoundError):
            old = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if old is not None and modes.S_ISDIR(old.st_mode):
            raise IsADirectoryError
        if old is not None and modes.S_ISLNK(old.st_mode):
            raise OSError(errno.ELOOP, name)
        draft = f".{name[:100]}.{os.getpid()}.{next(_numbers)}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(draft, flags, 0o666, dir_fd=folder), "wb") as file:
            try:
                if old is not None:
                    _copy_mode(file.fileno(), old)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                os.unlink(draft, dir_fd=folder)
                raise
        # By its descriptor: the folder may have been moved meanwhile.
        sync_folder(Path(f"/proc/self/fd/{folder}"))


def _exact(workspace: str, path: str) -> str:
    """The path to open; an absolute one was resolved before."""
    return os.path.normpath(path) if path.startswith("/") else resolve(workspace, path)


@contextlib.contextmanager
def _folder_of(path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """The opened folder of a resolved path, and the last name. Follows no link: somebody would have
    put it there after the path was judged."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    *folders, name = path.split("/")[1:]
    here = os.open("/", flags)
    try:
        for part in folders:
            try:
                below = os.open(part, flags, dir_fd=here)
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=here)
                below = os.open(part, flags, dir_fd=here)
            except NotADirectoryError:
                if modes.S_ISLNK(os.stat(part, dir_fd=here, follow_symlinks=False).st_mode):
                    raise OSError(errno.ELOOP, part) from None
                raise
            os.close(here)
            here = below
        yield here, name or "."
    finally:
        os.close(here)


def stat(workspace: str, path: str) -> FileFacts | None:
    place = Path(resolve(workspace, path))
    with _file_errors(path):
        try:
            return _facts(str(place), place.stat())
        except (FileNotFoundError, NotADirectoryError):
            return None


def find(workspace: str, path: str, pattern: str, limit: int) -> list[FileFacts]:
    found = (_facts(str(at), facts) for at, facts in search.walk(_below(workspace, path), pattern))
    return heapq.nlargest(limit, found, key=lambda facts: facts.modified)


def grep(
    workspace: str,
    path: str,
    pattern: str,
    files: str,
    limit: int,
    seconds: float = GREP_SECONDS,
) -> list[SearchMatch]:
    top = _below(workspace, path)
    try:
        re.compile(pattern)
    except re.error as error:
        raise not_an_expression(pattern, error) from None
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", search.__file__],
            input=json.dumps([str(top), pattern, files, limit]).encode(),
            stdout=subprocess.PIPE,
            timeout=seconds,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise ToolError(
            f"the search took more than {seconds:g} seconds", "search a smaller folder"
        ) from None
    return [SearchMatch(*match) for match in json.loads(done.stdout)]


def _below(workspace: str, path: str) -> Path:
    top = Path(resolve(workspace, path))
    if not top.exists():
        raise ToolError(f"no file or folder at {path!r}")
    return top


def _facts(path: str, found: os.stat_result) -> FileFacts:
    if modes.S_ISREG(found.st_mode):
        return FileFacts(path, found.st_size, "file", found.st_mtime)
    kind = modes.S_ISDIR(found.st_mode)
    return FileFacts(path, found.st_size, "folder" if kind else "other", found.st_mtime)


def _copy_mode(descriptor: int, old: os.stat_result) -> None:
    """Copy owner and mode of the file that is replaced."""
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, modes.S_IMODE(old.st_mode))


def remove_tree(top: Path) -> None:
    """Remove a folder and all in it, also folders that nobody may write to, as some programs leave
    them."""
    if not top.exists():
        return
    try:
        top.chmod(modes.S_IRWXU)
        for path, folders, _ in os.walk(top):
            for inner in (Path(path, name) for name in folders):
                if not inner.is_symlink():
                    inner.chmod(modes.S_IRWXU)
        shutil.rmtree(top, ignore_errors=True)
    except (OSError, RecursionError):  # deeper than Python can go
        subprocess.run(["chmod", "-R", "u+rwx", "--", top], check=False)
        subprocess.run(["rm", "-rf", "--", top], check=False)


def not_an_expression(pattern: str, error: re.error) -> ToolError:
    return ToolError(
        f"{pattern!r} is not a regular expression: {error}",
        "escape ( ) [ ] { } . * + ? with \\",
    )


def file_error(trouble: str, path: str, detail: str = "") -> ToolError:
    """A failed file operation as an error for the model."""
    match trouble:
        case "missing":
            return ToolError(f"no file at {path!r}")
        case "folder":
            return ToolError(f"{path!r} is a folder")
        case "part":
            return ToolError(f"a part of {path!r} is a file, not a folder")
        case "denied":
            return ToolError(f"not allowed to use {path!r}")
        case "link":
            return ToolError(f"{path!r} is now a link, or a folder above it is", retry="same")
        case "special":
            return ToolError(f"{path!r} is not a regular file")
        case _:
            return ToolError(f"cannot use {path!r}: {detail or trouble}")


@contextlib.contextmanager
def _file_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise file_error("missing", path) from None
    except IsADirectoryError:
        raise file_error("folder", path) from None
    except (NotADirectoryError, FileExistsError):
        raise file_error("part", path) from None
    except PermissionError:
        raise file_error("denied", path) from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise file_error("link", path) from None
        raise file_error("other", path, error.strerror or "") from None
