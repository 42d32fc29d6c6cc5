"""Confinement without namespaces, for machines that forbid them: Landlock, seccomp and no
capabilities. Weaker than bubblewrap: other processes are visible (though neither readable nor
signalled), everything in the workspace is writable, and /tmp is out of reach.

As a script, run by a bare Python: `RULES FILTER WORKSPACE -- DOOR …`, the first two open files. It
confines the door and stays outside as its guard: what the door leaves behind when it ends is
killed. `scope FILTER COVERS PATHS … -- COMMAND …`, in what bubblewrap made, covers files and
folders (see `_cover`), keeps signals and abstract sockets in, where the kernel can, opens nothing
but the paths for writing, not even a FIFO, and drops what it was allowed for that; orphans of the
command stay its children. It imports only the standard library, and little of it."""

import ctypes
import errno
import os
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # each import is waited for whenever a shell is opened
    from types import FrameType
    from typing import NoReturn

CREATE, ADD, RESTRICT = 444, 445, 446
NEEDED = 6
"""The Landlock version from which signals and abstract sockets are kept in."""
READ = 0b1101
"""Execute, read files, read folders."""
WRITE = 0b1111_0111_1011_1111
"""All but making devices."""
EVERYTHING = 0xFFFF
WRITE_FILES = 0b0100_0000_0000_0010
"""Open for writing, truncate."""
ON_FILES = 0b1100_0000_0000_0111
TCP = 0b11
SCOPES = 0b11

DIE_WITH_PARENT, KEEP_ORPHANS = 1, 36
NO_NEW_PRIVILEGES, SET_FILTER, DROP_BOUNDING = 38, 22, 24
FILTER_MODE = 2
CAPABILITY_VERSION = 0x20080522
READ_ALL = 1 << 2
"""CAP_DAC_READ_SEARCH."""

OPEN_HERE = 437
NO_LINKS = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, 0x04)
READ_ONLY, CLOSED, AGAIN, BOUND = 1, 2 | 4, 32, 4096
"""Flags of mounts; closed to programs with more rights and to devices."""
LOCKED = 0xF
"""Flags that a mount may not lose."""
NEW_USERS = 0x10000000
MOST_FILES = b"size=64m,nr_inodes=16k"

IMPORTED = (
    "-I", "-S", "-c",
    "import sys; sys.path.append(sys.argv.pop(1)); import landlock; landlock.start()",
    os.path.dirname(__file__),
)  # fmt: skip
"""For Python to run this as a script that it need not compile again, which would take longer than
all that it does."""

_libc = ctypes.CDLL(None, use_errno=True)


def missing() -> str:
    """Why Landlock cannot be used; empty when it can."""
    version = _libc.syscall(CREATE, None, ctypes.c_size_t(0), 1)
    if version >= NEEDED:
        return ""
    if version < 0:
        return "this kernel has no Landlock"
    return f"this kernel's Landlock is too old (version {version}, {NEEDED} is needed)"


def _done(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _restrict(rules: list[str], tcp: bool, files: int = EVERYTHING) -> None:
    """Each rule is a letter, r or w, and a path."""
    wanted = struct.pack("=QQQ", files, 0 if tcp else TCP, SCOPES)
    ruleset = _done(_libc.syscall(CREATE, wanted, ctypes.c_size_t(len(wanted)), 0))
    for rule in rules:
        try:
            file = os.open(rule[1:], os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # gone, or not accessible to this user: nothing to allow
            continue
        access = (READ if rule[0] == "r" else WRITE) & files
        if not stat.S_ISDIR(os.fstat(file).st_mode):
            access &= ON_FILES
        _done(_libc.syscall(ADD, ruleset, 1, struct.pack("=Qi", access, file), 0))
        os.close(file)
    _done(_libc.syscall(RESTRICT, ruleset, 0))
    os.close(ruleset)


def _drop_capabilities(kept: int = 0) -> None:
    number = 0
    while kept >> number & 1 or _libc.prctl(DROP_BOUNDING, number, 0, 0, 0) == 0:
        number += 1
    if ctypes.get_errno() not in (errno.EINVAL, errno.EPERM):  # the last one, or not root
        _done(-1)
    sets = struct.pack("=6I", kept, kept, kept, 0, 0, 0)
    _done(_libc.capset(struct.pack("=Ii", CAPABILITY_VERSION, 0), sets))


def _filter(program: bytes) -> None:
    text = ctypes.create_string_buffer(program, len(program))
    count = len(program) // 8
    shape = struct.pack("@HP", count, ctypes.addressof(text))
    _done(_libc.prctl(SET_FILTER, FILTER_MODE, shape, 0, 0))


def below(pid: int) -> list[int]:
    """All descendants of a process."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                for child in file.read().split():
                    found += [int(child), *below(int(child))]
    except OSError:  # it ended while it was listed
        pass
    return found


def _sweep() -> "NoReturn":
    """Stop all descendants, so that none starts another, then kill them."""
    import signal

    while True:
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in below(os.getpid()):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            os._exit(0)


def _told(_number: int, _frame: "FrameType | None") -> None:
    _sweep()


def main(rules: int, filter: int, network: bool, workspace: str, door: list[str]) -> None:
    """The door's own arguments begin, behind the script's name, with its listener, the pipe where
    it says that it is ready, and the lock."""
    import signal
    import socket

    with os.fdopen(rules) as file:
        allowed = file.read().split("\0")
    with os.fdopen(filter, "rb") as file_of_filter:
        program = file_of_filter.read()
    _done(_libc.prctl(KEEP_ORPHANS, 1, 0, 0, 0))
    script, listener, ready = int(os.path.basename(door[3])), int(door[4]), int(door[5])
    # Here, not in the door: the host signals the process that listened first.
    with socket.socket(fileno=os.dup(listener)) as opened:
        opened.listen(128)
    child = os.fork()
    if child == 0:
        os.setsid()
        _done(_libc.prctl(DIE_WITH_PARENT, int(signal.SIGKILL), 0, 0, 0))
        os.chdir(workspace)
        _done(_libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _drop_capabilities()
        _restrict(allowed, network)
        _filter(program)
        os.execv(door[0], door)  # noqa: S606 - that is the point
    for used in (script, listener, ready):
        os.close(used)
    signal.signal(signal.SIGTERM, _told)
    while os.wait()[0] != child:
        pass
    _sweep()


def _mount(source: str, target: str, flags: int, kind: bytes = b"", data: bytes = b"") -> None:
    words = (os.fsencode(source), os.fsencode(target), kind)
    _done(_libc.mount(*words, ctypes.c_ulong(flags), data))


def _cover(words: list[str]) -> None:
    """Each word is a letter and a path: `s` what is put over the paths of `o` from here on, `r` a
    mount that becomes read-only, `l` a folder in memory that becomes limited, `u` who the user is,
    which comes last. Nothing is put where a link leads to: it could have been made since."""
    source = ""
    for word in words:
        letter, path = word[0], word[1:]
        if letter == "s":
            source = path
        elif letter == "l":
            _mount("tmpfs", path, CLOSED | AGAIN, b"tmpfs", MOST_FILES)
        elif letter == "r":
            if os.path.exists(path):
                kept = os.statvfs(path).f_flag & LOCKED
                _mount("none", path, AGAIN | BOUND | READ_ONLY | kept)
        elif letter == "u":
            _become(*path.split(":", 2))
        else:
            name = ctypes.c_char_p(os.fsencode(path))
            file = _libc.syscall(OPEN_HERE, -100, name, NO_LINKS, ctypes.c_size_t(len(NO_LINKS)))
            if file < 0 and ctypes.get_errno() in (errno.ENOENT, errno.EACCES):
                continue  # there is nothing to read
            _mount(source, f"/proc/self/fd/{_done(file)}", BOUND)
            os.close(file)


def _become(user: str, group: str, proc: str) -> None:
    """Be that user again, not root as for the mounts, by a /proc that only this can still write."""
    folder = os.open(proc, os.O_PATH | os.O_DIRECTORY)
    _done(_libc.umount2(os.fsencode(proc), 2))
    _done(_libc.unshare(NEW_USERS))
    for name, number in (("uid_map", user), ("gid_map", group)):
        with open(os.open(f"self/{name}", os.O_WRONLY, dir_fd=folder), "w") as file:
            file.write(f"{number} 0 1\n")
    os.close(folder)


def scope(filter: int, covers: int, paths: list[str], command: list[str]) -> None:
    with os.fdopen(covers) as file:
        _cover(file.read().split("\0")[1:])
    with os.fdopen(filter, "rb") as file_of_filter:
        program = file_of_filter.read()
    _done(_libc.prctl(KEEP_ORPHANS, 1, 0, 0, 0))
    if not missing():
        own = [path for path in ("/proc/self/fd/1", "/proc/self/fd/2") if os.path.isfile(path)]
        _restrict(
            [f"w{os.path.realpath(path)}" for path in (*paths, *own)], tcp=True, files=WRITE_FILES
        )
    with open("/proc/self/environ", "rb") as file_of_values:  # as given: Python adds a locale
        values = file_of_values.read().split(b"\0")
    given = dict(one.split(b"=", 1) for one in values if b"=" in one)
    for path in paths:
        if path.endswith(".look/out"):  # so that what is left of them can be found
            with open(path, "w") as file:
                file.write(f"users {os.readlink('/proc/self/ns/user')}\0")
    _drop_capabilities(0 if os.geteuid() else READ_ALL)
    _filter(program)
    os.execve(command[0], command, given)  # noqa: S606 - that is the point


def start() -> None:
    if sys.argv[1] == "scope":
        end = sys.argv.index("--")
        scope(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:end], sys.argv[end + 1 :])
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "network", sys.argv[4], sys.argv[6:])


if __name__ == "__main__":
    start()
