"""The first process inside a sandbox. It only starts programs for the host: for each, the host
connects to a socket and passes the pipes, so that their data goes through no other process.
Programs inherit its confinement. Run as a script by a bare Python: it imports only the standard
library."""

import contextlib
import ctypes
import errno
import os
import resource
import selectors
import signal
import socket
import struct
import sys

FRAME = struct.Struct("<I")
PATIENCE = 10.0
"""Seconds that a request may take to arrive."""
SET_NOT_DUMPABLE = 4
COMMANDS_FIRST = b"500"
"""When memory is short, commands are killed before this process."""
USUAL = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
"""Signals reset to their default in programs, though some are ignored here."""
BUSY = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


class SpawnServer:
    def __init__(self, listener: socket.socket, score: int | None) -> None:
        self._listener = listener
        self._score = score
        self._waiting: dict[int, socket.socket] = {}

    def serve(self, woken: socket.socket, leash: int) -> None:
        """Until the other end of the leash closes, where there is one."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            if leash >= 0:
                selector.register(leash, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj == leash:
                        return
                    if key.fileobj is woken:
                        woken.recv(4096)
                        self._reap()
                    else:
                        self._admit()

    def _admit(self) -> None:
        try:
            host, _ = self._listener.accept()
        except OSError:  # the host is gone again, or there are too many
            return
        host.settimeout(PATIENCE)
        files: list[int] = []
        try:
            argv, files = _request(host)
            self._waiting[self._start(argv, files)] = host
            _say(host, "started")
        except OSError as error:
            word = "busy" if error.errno in BUSY else "failed"
            _say(host, f"{word} {os.strerror(error.errno or errno.EIO)}")
            host.close()
        finally:
            for file in files:
                os.close(file)

    def _start(self, argv: list[bytes], files: list[int]) -> int:
        self._weigh(COMMANDS_FIRST)
        try:
            return os.posix_spawnp(
                argv[0],
                argv,
                os.environb,
                file_actions=[(os.POSIX_SPAWN_DUP2, file, at) for at, file in enumerate(files)],
                setsid=True,
                setsigmask=[],
                setsigdef=USUAL,
            )
        finally:
            self._weigh(b"0")

    def _weigh(self, score: bytes) -> None:
        if self._score is not None:
            os.pwrite(self._score, score, 0)

    def _reap(self) -> None:
        """Reaps every orphan in the sandbox too."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if host := self._waiting.pop(pid, None):
                code = os.waitstatus_to_exitcode(status)
                _say(host, f"exited {code if code >= 0 else 128 - code}")
                host.close()


def _request(host: socket.socket) -> tuple[list[bytes], list[int]]:
    """The arguments and the files for standard input, output and error."""
    data, files, _, _ = socket.recv_fds(host, 65536, 3)
    for file in files:
        os.set_inheritable(file, False)  # Python before 3.12 ignores the flag for it
    whole = bytearray(data)
    while len(whole) < FRAME.size or len(whole) < FRAME.size + FRAME.unpack_from(whole)[0]:
        more = host.recv(65536)
        if not more:
            for file in files:
                os.close(file)
            raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))
        whole += more
    return bytes(whole[FRAME.size :]).split(b"\0"), files


def _say(host: socket.socket, line: str) -> None:
    with contextlib.suppress(OSError):  # the host may be gone
        host.sendall(f"{line}\n".encode())


def _limit(data: int, processes: int) -> None:
    """Limits for each process, where not negative. Core dumps would be written by the host."""
    for kind, value in (
        (10, 0),  # of file locks: marks the agent's processes (`host/inspect.py`)
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, data),
        (resource.RLIMIT_NPROC, processes),
    ):
        hard = resource.getrlimit(kind)[1]
        if value >= 0 and (hard == resource.RLIM_INFINITY or value < hard):
            resource.setrlimit(kind, (value, value))


def _own_score() -> int | None:
    try:
        return os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    except PermissionError:  # Landlock leaves nothing of /proc to write
        return None


def main(listener: int, ready: int, kept: int, leash: int, data: int, processes: int) -> None:
    """`kept` is the lock of the sandbox: held as long as this process lives."""
    for file in (listener, ready, kept, *([leash] if leash >= 0 else [])):
        os.set_inheritable(file, False)
    _limit(data, processes)
    score = _own_score()  # before the next line, which would make it another user's
    # Commands are of the same user: without this they could reach into this process.
    ctypes.CDLL(None).prctl(SET_NOT_DUMPABLE, 0, 0, 0, 0)
    woken, waker = socket.socketpair()
    waker.setblocking(False)
    woken.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    door = socket.socket(fileno=listener)
    door.setblocking(False)
    if not door.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        door.listen(128)
    with contextlib.suppress(BrokenPipeError):  # its maker was killed; the next host connects
        os.write(ready, b"ready")
    os.close(ready)
    SpawnServer(door, score).serve(woken, leash)


if __name__ == "__main__":
    script, *numbers = sys.argv
    os.close(int(script.rpartition("/")[2]))
    main(*map(int, numbers))
