"""Calls out of a view: a program that needs a service, a device or another process runs outside of
it, as the user, if the gate allows it with the words, variables and folder that it really got.

In the view a small script is in the program's place. It writes its pid and the number of a pipe to
the FIFO `calls` and gives the exit code that comes back through the pipe. What it says is not
trusted: the words are those that the kernel shows, and the files are the very ones that it has
open, with no more rights than it has."""

import asyncio
import contextlib
import ctypes
import functools
import logging
import os
import resource
import select
import shlex
import shutil
import signal
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import NamedTuple

from hermes_agent.core.effects import Front, OutsideCall, OutsideCalls
from hermes_agent.core.errors import HermesError
from hermes_agent.terminals.local.fronts import front
from hermes_agent.terminals.local.fronts.kubernetes import KubernetesFronts

FIFO = "calls"
STUB = "call.sh"
SCRIPT = r"""#!{bash}
exec {{both}}<> <(:)
# Aside, so that this one's files stay what they are. Again, because it may be lost with a runtime.
tries=60
while :; do
  (printf '%s %s\n' "$$" "$both" 1<>{fifo})
  if read -r -t 1 -u "$both" _; then break; fi
  if ((--tries == 0)); then echo "hermes: no answer to this call" >&2; exit 126; fi
done
# For reading alone, so that the end of whoever answers is seen.
exec {{reply}}</dev/fd/$both {{both}}>&-
if ! read -r -u "$reply" code; then
  echo "hermes: the runtime ended during this call" >&2
  code=137
fi
exit "$code"
"""
MANY_IN_ONE = frozenset({"busybox", "toybox", "coreutils"})
"""Programs with many names, most of which belong into the view."""
OWN = frozenset({"PWD", "OLDPWD", "SHLVL", "_", "PATH", "TMPDIR", "HERMES_SPOOL"})
"""Variables that the shell sets, or that a call has from the terminal."""
LEVELS = 64
MOST = 64
"""Calls at once."""
LAST_SECONDS = 2.0
RLIMIT_LOCKS = 10
"""The mark of what an agent's shell has started; see `daemon.sh`."""
REFUSED = 126
PIDFD_GETFD = 438
NO_WAITING = 2
MOST_INPUT = 32_768
MOST_NOTED = 100
INPUT_SECONDS = 1
SECONDS_A_LINE = 0.001
"""How long nothing is read after a line, so that a flood of them costs little. More lines at once
than there may be calls are dropped: callers try again."""

_libc = ctypes.CDLL(None, use_errno=True)


def find_programs(names: Set[str], path: str) -> dict[str, str]:
    """Where they are; of the same name, the one that a shell would find."""
    found: dict[str, str] = {}
    for folder in path.split(os.pathsep):
        with contextlib.suppress(OSError):  # no such folder, or not for this user
            there = _names(folder, os.stat(folder).st_mtime_ns)  # noqa: PTH116 - fast
            for name in names & there - found.keys():
                if os.access(f"{folder}/{name}", os.X_OK):
                    found[name] = f"{folder}/{name}"
    return found


@functools.lru_cache(maxsize=64)
def _names(folder: str, _changed: int) -> frozenset[str]:
    return frozenset(os.listdir(folder))  # noqa: PTH208 - fast


def stubs(found: Mapping[str, str], needed: Set[str]) -> Iterator[str]:
    """The files that the script covers; never one that the view itself needs."""
    for path in sorted({os.path.realpath(path) for path in found.values()} - needed):
        if Path(path).name not in MANY_IN_ONE:
            yield path


class Call(NamedTuple):
    """What a process in a view was started with, and its files."""

    words: list[str]
    variables: dict[str, str]
    folder: str
    files: tuple[int, int, int]
    by: str
    """The background command that makes it; empty for the one of the shell."""


class CallServer:
    """Answers the calls of one spool's commands. `holders` are the shells that run them, each with
    the id of its background command, if that is what it runs."""

    def __init__(
        self,
        spool: Path,
        workspace: str,
        environment: Mapping[str, str],
        holders: Callable[[], Mapping[int, str]],
    ) -> None:
        self._spool = spool
        self._workspace = workspace
        self._environment = dict(environment)
        self._holders = holders
        self._served: dict[str, tuple[OutsideCalls, Mapping[str, str]]] = {}
        """Who judges, and where the programs are: by what `holders` says."""
        self._fifo: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """By the pid of the caller."""
        self._clusters = KubernetesFronts()

    def prepare(self, calls: OutsideCalls) -> dict[str, str]:
        """Make the files that a view needs, and return the programs to cover. This blocks."""
        path = self._environment.get("PATH", os.defpath)
        # Not from where commands can write.
        folders = [f for f in path.split(os.pathsep) if not Path(f).is_relative_to(self._workspace)]
        found = find_programs(calls.programs, os.pathsep.join(folders))
        fifo, stub = self._spool / FIFO, self._spool / STUB
        if not fifo.exists():
            os.mkfifo(fifo, 0o600)
        bash = shutil.which("bash", path=path) or "/bin/bash"
        text = SCRIPT.format(bash=bash, fifo=shlex.quote(str(fifo)))
        if not stub.exists() or stub.read_text("utf-8") != text:  # a view may be running it
            draft = stub.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
            draft.write_text(text, "utf-8")
            draft.chmod(0o700)
            draft.replace(stub)
        return found

    def serve(self, by: str, calls: OutsideCalls, programs: Mapping[str, str]) -> None:
        """Answer this background command, or from now on the shell, with this judge."""
        self._served[by] = calls, programs
        loop = asyncio.get_running_loop()
        if self._fifo is None:
            mode = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC
            self._fifo = os.open(self._spool / FIFO, mode)
        if self._loop is not loop:
            self._loop = loop
            self._listen(loop)

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._fifo is not None and self._loop is loop:
            loop.add_reader(self._fifo, self._heard, loop)

    async def close(self) -> None:
        if self._fifo is not None:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._fifo)
            os.close(self._fifo)
            self._fifo = self._loop = None
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._clusters.close()

    def _heard(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._fifo is None:
            return
        with contextlib.suppress(BlockingIOError):
            lines = os.read(self._fifo, 65536).split(b"\n", MOST)[:MOST]
            loop.remove_reader(self._fifo)
            loop.call_later(len(lines) * SECONDS_A_LINE, self._listen, loop)
            for line in lines:
                match line.split():
                    case [pid, number] if pid.isdigit() and number.isdigit() and len(line) < 20:
                        self._begin(int(pid), int(number))

    def _begin(self, pid: int, number: int) -> None:
        if pid not in self._tasks and len(self._tasks) < MOST:
            task = self._tasks[pid] = asyncio.create_task(self._answer(pid, number))
            task.add_done_callback(lambda _: self._tasks.pop(pid, None))

    async def _answer(self, pid: int, number: int) -> None:
        with contextlib.ExitStack() as held:
            try:
                caller = os.pidfd_open(pid)
                held.callback(os.close, caller)
                reply = _file(caller, number, held)
                if not stat.S_ISFIFO(os.fstat(reply).st_mode):
                    return
                call = await asyncio.to_thread(self._take, pid, caller, held)
                signal.pidfd_send_signal(caller, 0)  # still the same process
            except (OSError, ValueError):  # it is gone, or was none of ours
                return
            _say(reply, "ok\n")
            working = asyncio.ensure_future(self._carry_out(call, held))
            gone = asyncio.ensure_future(_end_of(caller))
            try:
                await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in (working, gone):
                    one.cancel()
                await asyncio.wait((working, gone))
            if not working.cancelled():
                _say(reply, f"{working.result()}\n")

    def _take(self, pid: int, caller: int, held: contextlib.ExitStack) -> Call:
        same = os.readlink(f"/proc/{pid}/ns/user") == os.readlink("/proc/self/ns/user")  # noqa: PTH115
        by = None if same else _holder(pid, self._holders())
        if by is None:
            raise ValueError(f"{pid} is not in a view of this terminal")
        # The interpreter, the script in the program's place, and what the program gets.
        words = _words(f"/proc/{pid}/cmdline")[1:]
        variables = dict(
            one.split("=", 1) for one in _words(f"/proc/{pid}/environ") if one.find("=") > 0
        )
        folder = os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115 - as it is
        given, out, err = (_file(caller, number, held) for number in range(3))
        return Call(words, variables, folder, (given, out, err), by)

    async def _carry_out(self, call: Call, held: contextlib.ExitStack) -> int:
        name = Path(call.words[0]).name if call.words else ""
        calls, programs = self._served.get(call.by, (None, {}))
        path = programs.get(name)
        if path is None or calls is None:
            return _refused(call, f"{name} cannot be called from here")
        changed = {
            key: value
            for key, value in call.variables.items()
            if key not in OWN and key.isidentifier() and self._environment.get(key) != value
        }
        variables = [f"{key}={shlex.quote(value)}" for key, value in sorted(changed.items())]
        text = " ".join((*variables, shlex.join((name, *call.words[1:]))))
        try:
            judged = await calls.judge(
                text if _is_null(call.files[0]) else f"cat | {text}", call.folder
            )
            if judged.refusal and (given := await _content(call.files[0])) is not None:
                known = f"printf %s {shlex.quote(given)} | {text}"
                judged = await calls.judge(known, call.folder)
                call = call._replace(files=(_holding(given, held), *call.files[1:]))
        except Exception:
            logging.getLogger(__name__).exception("the gate failed on a call of %s", name)
            judged = OutsideCall("the gate failed")
        if judged.refusal:
            _note(calls, (text, judged.refusal, "none"))
            why = f"{name} was not run: {judged.refusal}; call it in a separate command"
            return _refused(call, why)
        environ = {**self._environment, **changed, "HERMES_SPOOL": str(self._spool)}
        try:
            async with contextlib.AsyncExitStack() as stack:
                way = front.Held("none", (*call.words[1:],), environ)
                if judged.looks:
                    opened = front.hold(
                        path, call.words, call.folder, environ, self._spool, self._clusters
                    )
                    way = await stack.enter_async_context(opened)
                _note(calls, (text, "", way.front))
                return await self._run(path, call, way)
        except HermesError as error:
            _note(calls, (text, error.message, "none"))
            return _refused(call, f"{name} was not run: {error.message}; {error.hint}")
        except (OSError, ValueError) as error:  # a folder only in the view, for one
            return _refused(call, f"{path} did not start: {error}")

    async def _run(self, path: str, call: Call, way: front.Held) -> int:
        lasting = shutil.which("setpriv")  # ends with us, whatever ends us
        before = (lasting, "--pdeathsig", "KILL", "--") if lasting else ()
        given, out, err = call.files
        process = await asyncio.create_subprocess_exec(
            *before, *way.before, path, *way.words, stdin=given, stdout=out, stderr=err,
            cwd=call.folder, env=way.environ, pass_fds=way.files, start_new_session=True,
        )  # fmt: skip
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody's has it already
            resource.prlimit(process.pid, RLIMIT_LOCKS, (0, 0))
        ended = asyncio.ensure_future(process.wait())
        try:
            code = await asyncio.shield(ended)
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                if not ended.done():
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, number)
                    await asyncio.wait((ended,), timeout=LAST_SECONDS)
        return code if code >= 0 else 128 - code


async def _end_of(caller: int) -> None:
    loop, heard = asyncio.get_running_loop(), asyncio.Event()
    watched = os.dup(caller)
    loop.add_reader(watched, heard.set)
    try:
        await heard.wait()
    finally:
        loop.remove_reader(watched)
        os.close(watched)


def _note(calls: OutsideCalls, made: tuple[str, str, Front]) -> None:
    if len(calls.made) < MOST_NOTED:
        calls.made.append(made)


def _words(path: str) -> list[str]:
    return os.fsdecode(Path(path).read_bytes()).split("\0")[:-1]


def _holder(pid: int, holders: Mapping[int, str]) -> str | None:
    """What it is below of."""
    for _ in range(LEVELS):
        if pid in holders:
            return holders[pid]
        pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()[1])
        if pid <= 1:
            break
    return None


def _file(caller: int, number: int, held: contextlib.ExitStack) -> int:
    """The very file that a process has open."""
    file: int = _libc.syscall(PIDFD_GETFD, caller, number, 0)
    if file < 0:
        raise OSError(ctypes.get_errno(), f"file descriptor {number} cannot be passed on")
    held.callback(os.close, file)
    return file


def _holding(text: str, held: contextlib.ExitStack) -> int:
    """A file with what was judged, whatever becomes of where it came from."""
    file = os.memfd_create("input")
    held.callback(os.close, file)
    os.write(file, text.encode())
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _is_null(file: int) -> bool:
    facts = os.fstat(file)
    return stat.S_ISCHR(facts.st_mode) and facts.st_rdev == os.makedev(1, 3)


async def _content(file: int) -> str | None:
    """What will be read from it, which stays there; None if that cannot be known."""
    kind = os.fstat(file).st_mode
    if stat.S_ISREG(kind):
        data = os.pread(file, MOST_INPUT + 1, os.lseek(file, 0, os.SEEK_CUR))
    elif stat.S_ISFIFO(kind) and await asyncio.to_thread(_is_written, file):
        data = _peek(file)
    else:
        return None
    text = data.decode("utf-8", "replace")
    return text if len(data) <= MOST_INPUT and text.encode() == data and "\0" not in text else None


def _is_written(pipe: int) -> bool:
    """Whether nobody can write to it any more, in a moment at the latest."""
    poll = select.poll()
    poll.register(pipe, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(INPUT_SECONDS * 1000))


def _peek(pipe: int) -> bytes:
    """What is in a pipe, up to a bit more than we want to know."""
    out, into = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        count = _libc.tee(pipe, into, MOST_INPUT + 1, NO_WAITING)
        return os.read(out, count) if count > 0 else b""
    finally:
        os.close(out)
        os.close(into)


def _say(file: int, text: str) -> None:
    """To whom may not listen any more, or reads slowly; others could keep us waiting."""
    kind = os.fstat(file).st_mode
    if not stat.S_ISFIFO(kind) and not stat.S_ISREG(kind):
        return
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    if poll.poll(0):
        with contextlib.suppress(OSError):
            os.write(file, text.encode("utf-8", "replace")[:4096])


def _refused(call: Call, why: str) -> int:
    _say(call.files[2], f"hermes: {why}\n")
    return REFUSED
