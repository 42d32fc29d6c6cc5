"""The command line, forked from a process that has imported it: a command costs a hundredth of a
second instead of a tenth. What it imports and how the interpreter starts and ends are not seen;
tests of those, of terminals and of the documentation's examples start real processes.

Run as `python -m tests.support.forked_cli SOCKET`; ends with its standard input."""

import atexit
import gc
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO

AT_START = ("PYTHON", "LC_", "LANG")
"""Variables that an interpreter reads only as it starts."""


class ForkServer:
    """One for this process, with which it ends."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hermes-fork-")
        self._path = f"{self._folder.name}/socket"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forked_cli", self._path],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        atexit.register(self._close)

    def run(
        self, words: list[str], cwd: Path, environ: dict[str, str], input: str, limit: float
    ) -> subprocess.CompletedProcess[str]:
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as errors,
            socket.socket(socket.AF_UNIX) as connection,
        ):
            given.write(input.encode())
            given.seek(0)
            connection.settimeout(limit)
            connection.connect(self._path)
            request = json.dumps([words, str(cwd), environ]).encode()
            streams = [file.fileno() for file in (given, out, errors)]
            socket.send_fds(connection, [len(request).to_bytes(4)], streams)
            connection.sendall(request)
            code = int(connection.recv(16))
            said, told = (_read(file) for file in (out, errors))
        return subprocess.CompletedProcess(words, code, said, told)

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait()
        self._folder.cleanup()


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


_starting = threading.Lock()


@cache
def _server() -> ForkServer:
    return ForkServer()


def forked(
    words: list[str], cwd: Path, environ: dict[str, str], input: str, limit: float
) -> subprocess.CompletedProcess[str]:
    with _starting:
        server = _server()
    return server.run(words, cwd, environ, input, limit)


def can_fork(environ: dict[str, str]) -> bool:
    """Whether what an interpreter reads as it starts is as it is here."""
    names = {name for name in (*environ, *os.environ) if name.startswith(AT_START)}
    return all(environ.get(name) == os.environ.get(name) for name in names)


# the server


def _serve(path: str) -> None:
    """Returns in a child, which then is a command."""
    import hermes_agent.cli

    for module in pkgutil.walk_packages(hermes_agent.cli.__path__, "hermes_agent.cli."):
        with suppress(ImportError):
            import_module(module.name)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    woken, waking = socket.socketpair()
    waking.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking.fileno())
    gc.freeze()
    print(flush=True)
    asking: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as ready:
        for each in (listener, woken, sys.stdin):
            ready.register(each, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.fileobj is listener:
                    connection, _address = listener.accept()
                    if (pid := _fork(connection)) == 0:
                        return
                    asking[pid] = connection
                elif key.fileobj is woken:
                    woken.recv(4096)
                    _answer(asking)
                else:
                    os._exit(0)


def _answer(asking: dict[int, socket.socket]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with asking.pop(ended[0]) as connection, suppress(OSError):
                connection.sendall(b"%d" % os.waitstatus_to_exitcode(ended[1]))


def _fork(connection: socket.socket) -> int:
    size, streams, _, _ = socket.recv_fds(connection, 4, 3)
    request = b""
    while len(request) < int.from_bytes(size):
        request += connection.recv(65536)
    if (pid := os.fork()) == 0:
        words, cwd, environ = json.loads(request)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for target, source in enumerate(streams):
            os.dup2(source, target)
        os.closerange(3, max(streams) + 1)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environ)
        time.tzset()
        sys.argv[1:] = words
        return 0
    for stream in streams:
        os.close(stream)
    return pid


def _command() -> int:
    try:
        runpy.run_module("hermes_agent", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


if __name__ == "__main__":
    _serve(sys.argv[1])
    code = _command()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # to take everything down that was imported would take longest
