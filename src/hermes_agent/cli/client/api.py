"""The client of the runtime: HTTP over its Unix socket, standard library only. Starts the runtime
if it is not running."""

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hermes_agent.core.errors import Degraded, HermesError, HomeLocked, NotFound, UsageError
from hermes_agent.host.paths import find_home, log_path, socket_paths

MAX_HEADERS = 100
START_SECONDS = 120.0
"""How long a started runtime may take to answer: a busy small machine or a large store to migrate
takes a while."""

SLOW_SECONDS = 5.0
"""After this long, a person at a terminal is told why nothing happens."""

STREAM_SECONDS = 60.0
"""A stream that sends nothing for this long is dead."""


class MalformedResponse(OSError):
    """The answer is not HTTP."""


class HttpClientConnection:
    """One HTTP/1.0 request over a Unix socket; connects when constructed. Importing `http.client`
    would take a third of the time a whole command may take."""

    def __init__(self, path: str, timeout: float | None) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(timeout)
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise
        self._file = self._socket.makefile("rb")

    def ask(self, method: str, target: str, body: bytes | None = None) -> int:
        """Send the request and return the status; the body can be read from then on."""
        head = f"{method} {target} HTTP/1.0\r\nhost: hermes\r\n"
        if body is not None:
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        try:
            self._socket.sendall(head.encode() + b"\r\n" + (body or b""))
        except BrokenPipeError:
            pass  # it may have answered already, with the reason for closing
        words = self._file.readline().split()
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
            raise MalformedResponse("the runtime closed it")
        for _ in range(MAX_HEADERS):
            if self._file.readline() in (b"\r\n", b""):
                return int(words[1])
        raise MalformedResponse("too many headers")

    def read(self) -> bytes:
        return self._file.read()

    def readline(self) -> bytes:
        return self._file.readline()

    def disconnect(self) -> None:
        """Call from another thread: a pending read returns end of file."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended already

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class RuntimeGone(HermesError):
    """The runtime is not running, or the connection to it broke."""


class RuntimeNotRunning(RuntimeGone):
    """No runtime is running: the request did not reach one."""


ERRORS: dict[int, type[HermesError]] = {
    400: UsageError,
    404: NotFound,
    409: HomeLocked,
    410: RuntimeGone,
    503: Degraded,
}


def login_name() -> str:
    """Who gives an answer: several people may share one account of a machine."""
    if name := os.environ.get("SUDO_USER"):
        return name
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def by_prefix(
    rows: Sequence[dict[str, Any]], key: str, prefix: str, what: str, command: str
) -> dict[str, Any]:
    """The one row whose id is `prefix` or begins with it."""
    found = [row for row in rows if row[key] == prefix]
    found = found or [row for row in rows if prefix and row[key].startswith(prefix)]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(row[key] for row in found[:4])
        raise NotFound(f"several ids begin with {prefix!r}", f"type more of it: {several}")
    raise NotFound(f"no {what} {prefix!r}", f"`hermes {command}` lists them")


def resource_path(folder: str, reference: str, what: str, command: str) -> str:
    """The address of something by its id or name, neither of which has a slash."""
    if not reference.strip():
        raise UsageError(f"name a {what}", f"`hermes {command}` lists them")
    if "/" in reference:
        raise NotFound(f"no {what} {reference!r}", f"`hermes {command}` lists them")
    return f"/v1/{folder}/{quoted(reference)}"


def session_path(reference: str) -> str:
    """The address of a session, by its id, the beginning of its id, or its name."""
    return resource_path("sessions", reference, "session", "sessions")


def quoted(text: str) -> str:
    """A segment of a path."""
    if text.isascii() and text.replace("-", "").isalnum():  # `urllib` is slow to import
        return text
    from urllib.parse import quote

    return quote(text, safe="")


class RuntimeClient:
    """The runtime of one home, as a command sees it."""

    def __init__(self, home: str | None = None, *, timeout: float | None = None) -> None:
        self.home = home or find_home(os.environ)
        self._timeout = timeout
        self._found = False
        """Whether it answered just now and has not been asked anything since."""

    def get(self, path: str, **query: object) -> Any:
        return self._call("GET", path, query=query)

    def post(self, path: str, body: dict[str, object] | None = None, **query: object) -> Any:
        return self._call("POST", path, body or {}, query)

    def patch(self, path: str, body: dict[str, object]) -> Any:
        return self._call("PATCH", path, body)

    def delete(self, path: str) -> Any:
        return self._call("DELETE", path)

    def session(self, reference: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(session_path(reference))
        return found

    def journal(self, session: str, after: int = 0) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.get(f"{session_path(session)}/journal", after=after)
        return rows

    def events(
        self,
        session: str,
        after: int,
        opened: Callable[[HttpClientConnection], None] = lambda _connection: None,
    ) -> Iterator[dict[str, Any]]:
        """Streams a session's events after a number; raises `RuntimeGone` when the runtime dies.
        `opened` receives the connection, so that another thread can close it."""
        connection = self._connect(STREAM_SECONDS)
        try:
            opened(connection)
            status = connection.ask("GET", f"{session_path(session)}/events?after={after}")
            if status != 200:
                raise _error(status, connection.read())
            while line := connection.readline():
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        except OSError as error:
            raise RuntimeGone(f"the connection to the runtime broke: {error}") from None
        finally:
            connection.close()
        raise RuntimeGone("the runtime closed the connection")

    def answer(self, question: str, answer: str, by: str = "") -> dict[str, Any]:
        """Answer an open question, as whoever is logged in unless somebody else is named."""
        body: dict[str, object] = {"answer": answer, "by": by or login_name()}
        done: dict[str, Any] = self.post(f"/v1/questions/{quoted(question)}", body)
        return done

    def is_up(self) -> bool:
        try:
            self._ask("GET", "/v1/status")
        except RuntimeGone:
            return False
        return True

    def ensure(self) -> None:
        """Start the runtime if it is not running, and wait until it answers. If it goes idle and
        exits before the next request, that request starts it again."""
        if not any(map(os.path.exists, socket_paths(self.home))) or not self.is_up():
            start_runtime(self)
        self._found = True

    def _call(
        self,
        method: str,
        path: str,
        body: dict[str, object] | None = None,
        query: dict[str, object] | None = None,
    ) -> Any:
        sent = None if body is None else _encoded(body)
        target, found, self._found = _target(path, query or {}), self._found, False
        try:
            return self._ask(method, target, sent)
        except RuntimeGone as gone:
            if not found or not (method == "GET" or isinstance(gone, RuntimeNotRunning)):
                raise
        start_runtime(self)
        return self._ask(method, target, sent)

    def _ask(self, method: str, target: str, sent: bytes | None = None) -> Any:
        connection = self._connect(self._timeout)
        try:
            status = connection.ask(method, target, sent)
            answer = connection.read()
        except OSError as error:
            raise RuntimeGone(f"the connection to the runtime broke: {error}") from None
        finally:
            connection.close()
        if status >= 400:
            raise _error(status, answer)
        try:
            return json.loads(answer)
        except ValueError:
            raise RuntimeGone("the runtime's answer was cut off") from None

    def _connect(self, timeout: float | None) -> HttpClientConnection:
        for path in socket_paths(self.home):
            try:
                return HttpClientConnection(path, timeout)
            except (FileNotFoundError, ConnectionRefusedError):
                continue
            except OSError as error:
                raise RuntimeGone(f"cannot reach the runtime at {path}: {error}") from None
        raise RuntimeNotRunning(f"no runtime is running for {self.home}", "`hermes up` starts one")


def _target(path: str, query: dict[str, object]) -> str:
    wanted = {key: value for key, value in query.items() if value not in (None, "")}
    if not wanted:
        return path
    from urllib.parse import urlencode

    return f"{path}?{urlencode(wanted)}"


def _encoded(body: dict[str, object]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        odd = error.object[max(0, error.start - 40) : error.end + 10]
        raise UsageError(f"{odd!r} is not UTF-8", "rename the file or folder") from None


def _error(status: int, body: bytes) -> HermesError:
    try:
        answer = json.loads(body)
        message, hint = answer["error"], answer["hint"]
    except (ValueError, KeyError, TypeError):
        message, hint = f"the runtime answered {status}", "`hermes logs` may say why"
    return ERRORS.get(status, HermesError)(message, hint)


def start_runtime(api: RuntimeClient) -> None:
    """Start `hermes serve` as a process of its own; wait until it answers or says why it cannot."""
    import threading

    from hermes_agent.cli.output.progress import Progress

    patience = _Patience(log_path(api.home))
    drawing = threading.current_thread() is not threading.main_thread()  # another has the screen
    with Progress("starting the runtime", quiet=drawing):
        while not api.is_up():
            failure = _serve(api, patience)
            if failure is not None and not _another(api, patience):
                raise failure


class _Patience:
    """How long to wait for a start; tells the person who waits."""

    def __init__(self, log: str) -> None:
        self._log = log
        self._began = time.monotonic()
        self._told = False

    def lasts(self) -> bool:
        """Wait a moment; False when the time is up."""
        waited = time.monotonic() - self._began
        if waited >= SLOW_SECONDS and not self._told and sys.stderr.isatty():
            self._told = True
            print(f"\r\x1b[Kthe runtime is slow to start; waiting (its log: {self._log})",
                  file=sys.stderr, flush=True)  # fmt: skip
        time.sleep(0.02)
        return waited < START_SECONDS


def _serve(api: RuntimeClient, patience: _Patience) -> HermesError | None:
    """Start a runtime: None once one answers, otherwise why ours ended."""
    import subprocess
    import tempfile

    from hermes_agent.host.secret_handover import set_apart

    environ, secrets = set_apart({**os.environ, "HERMES_HOME": api.home})
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "hermes_agent", "serve"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
            env=environ,
            pass_fds=() if secrets is None else (secrets,),
        )
        if secrets is not None:
            os.close(secrets)
        while patience.lasts():
            if api.is_up():
                return None
            if process.poll() is not None:
                output.seek(0)
                lines = output.read().decode(errors="replace").strip().split("\nhint: ", 1)
                return HermesError(
                    lines[0] or f"the runtime exited with code {process.returncode}",
                    lines[1] if len(lines) > 1 else "`hermes doctor` looks for the cause",
                )
    raise HermesError(
        f"the runtime (pid {process.pid}) did not answer within {START_SECONDS:.0f} s; "
        "it is still starting",
        f"see {log_path(api.home)}",
    )


def _another(api: RuntimeClient, patience: _Patience) -> bool:
    """Whether another runtime held the home, and by now answers or has ended."""
    from hermes_agent.host.inspect import is_runtime, lock_owner

    seen = False
    while (owner := lock_owner(api.home)) is not None and is_runtime(owner):
        if not patience.lasts():
            return False
        if api.is_up():
            return True
        seen = True
    return seen or api.is_up()
