"""Holds a program that a look calls outside of its view: what it is run by, and what it reaches."""

import asyncio
import contextlib
import grp
import os
import shutil
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hermes_agent.core.effects import Front, front_of
from hermes_agent.core.errors import HermesError
from hermes_agent.terminals.local.fronts import engine, kubernetes, listen
from hermes_agent.terminals.local.fronts.http import FilterServer, ServiceRequest, Streams
from hermes_agent.terminals.sandbox import launch
from hermes_agent.terminals.shell.spool import PRIVATE

NOBODY = "65534"
READERS = ("systemd-journal", "adm")
"""Groups that may read the journal."""
READ_ONLY = (
    "--unshare-user", "--unshare-ipc", "--unshare-pid", "--die-with-parent", "--cap-drop", "ALL",
    "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run",
)  # fmt: skip
SERVICES = ("nscd", "systemd/resolve", "postgresql", "mysqld", "redis", "valkey", "clickhouse")
"""What a program of the network reaches below /run."""

QUIET = ("--no-ask-password",)
GUARDS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "psql": ("PGOPTIONS=-c default_transaction_read_only=on", (), ()),
    "pgcli": ("PGOPTIONS=-c default_transaction_read_only=on", (), ()),
    "mysql": ("", (), ("--init-command=SET SESSION TRANSACTION READ ONLY",)),
    "mariadb": ("", (), ("--init-command=SET SESSION TRANSACTION READ ONLY",)),
    "clickhouse-client": ("", (), ("--readonly=2",)),
    **dict.fromkeys(
        ("systemctl", "loginctl", "hostnamectl", "timedatectl", "localectl", "machinectl"),
        ("", QUIET, ()),
    ),
}
"""A variable to add to, words to put before the others, and words to put behind them, with which a
program changes nothing by mistake. What it is told can undo them: guards, not locks."""


class Held(NamedTuple):
    """How to run a program."""

    front: Front
    words: tuple[str, ...]
    environ: Mapping[str, str]
    before: tuple[str, ...] = ()
    files: tuple[int, ...] = ()


@contextlib.asynccontextmanager
async def hold(
    path: str, words: Sequence[str], folder: str, environ: Mapping[str, str], spool: Path,
    clusters: kubernetes.KubernetesFronts,
) -> AsyncIterator[Held]:  # fmt: skip
    """`path` is the program's, `words` are the call's, and no confined command sees what we keep in
    `spool`. Raises `HermesError` where we cannot stand in front of its service."""
    name, given = Path(words[0]).name, tuple(words[1:])
    front = front_of(name, given)
    unheld = Held("none", given, environ)
    async with contextlib.AsyncExitStack() as stack:
        call = _Call(name, path, folder, spool / PRIVATE / "fronts", stack)
        match front:
            case "unprivileged" if os.geteuid() == 0:
                held = unheld._replace(front=front, before=_as_nobody())
            case "network":
                held = call.confined(front, unheld, _services())
            case "engine":
                held = await call.engine(unheld)
            case "kubernetes":
                held = await call.kubernetes(unheld, clusters)
            case "unheld":
                raise HermesError(f"cannot make {name} read-only", engine.OPENLY)
            case _:
                held = unheld
        yield _guarded(name, held)


def _as_nobody() -> tuple[str, ...]:
    """Who asks a service as root may tell it anything; nobody may only ask."""
    groups = ",".join(one.gr_name for one in grp.getgrall() if one.gr_name in READERS)
    return (
        # While it is still ours: the mark of what we have started.
        "prlimit", "--locks=0:0", "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}",
        "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all",
        f"--groups={groups}" if groups else "--clear-groups",
        "--pdeathsig", "KILL", "--",
    )  # fmt: skip


def _services() -> Iterator[str]:
    for one in (os.path.realpath("/etc/resolv.conf"), *(f"/run/{name}" for name in SERVICES)):
        yield from ("--ro-bind-try", one, one)


def _guarded(name: str, held: Held) -> Held:
    variable, first, last = GUARDS.get(name, ("", (), ()))
    environ = dict(held.environ)
    if variable:
        key, _, value = variable.partition("=")
        environ[key] = f"{environ.get(key, '')} {value}".strip()
    return held._replace(words=(*first, *held.words, *last), environ=environ)


class _Call(NamedTuple):
    """What opening a front needs; `stack` closes it."""

    name: str
    path: str
    folder: str
    place: Path
    stack: contextlib.AsyncExitStack

    def confined(self, front: Front, held: Held, options: Iterable[str]) -> Held:
        """It writes no file, signals no process, and reaches no service but by these options."""
        bwrap = launch.find_bubblewrap(held.environ)
        ours = ("--tmpfs", str(self.place.parent))
        before = (bwrap, *READ_ONLY, *ours, *options, "--chdir", self.folder, "--")
        return held._replace(front=front, before=before)

    async def engine(self, held: Held) -> Held:
        found = engine.find_socket(self.name, held.environ)
        if found is None:
            return self.confined("engine", held, ("--unshare-net",))
        real, door = str(found), self.place / f"engine.{id(held)}"

        async def connect(_: ServiceRequest) -> Streams:
            return await asyncio.open_unix_connection(real)

        server = FilterServer(lambda request: engine.only_shows(request, held.words), connect)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{self._open()}/{door.name}")
            door.chmod(0o600)
            self.stack.callback(door.unlink)
            made.listen()
            await server.listen(made.dup())
        self.stack.push_async_callback(server.close)
        environ = {**held.environ, "CONTAINER_HOST": f"unix://{real}"}
        options = ("--unshare-net", "--bind", str(door), real)
        return self.confined("engine", held._replace(environ=environ), options)

    async def kubernetes(self, held: Held, clusters: kubernetes.KubernetesFronts) -> Held:
        files_alone = self.confined("kubernetes", held, ("--unshare-net",))
        if "config" in held.words and not kubernetes.CONFIG.isdisjoint(held.words):
            return files_alone
        elsewhere = self.name == "helm"
        asks = shutil.which("kubectl", path=held.environ.get("PATH")) if elsewhere else self.path
        if asks is None:
            why = f"cannot make {self.name} read-only without kubectl"
            raise HermesError(why, engine.OPENLY)
        options = kubernetes.connection_options(held.words)
        front = await self.stack.enter_async_context(
            clusters.use((asks, *options), self._open(), self.folder, held.environ)
        )
        config, cache = self.place / f"kubeconfig.{id(held)}", self.place / "cache"
        text = await front.kubeconfig()
        if not text:  # it will say what is wrong with it
            return files_alone
        config.write_text(text)
        self.stack.callback(config.unlink)
        cache.mkdir(exist_ok=True)
        server = FilterServer(
            lambda request: kubernetes.only_shows(request, self.name, held.words), front.connect
        )
        self.stack.push_async_callback(server.close)
        theirs = self._listener(server)
        named = (one.partition("=") for one in options)
        covered = (
            os.path.realpath(Path(self.folder, value))
            for name, _, value in named
            if name == "--kubeconfig"
        )
        instead = (word for one in covered for word in ("--ro-bind", str(config), one))
        own = {"KUBECONFIG": str(config), "KUBECACHEDIR": str(cache), "TMPDIR": str(cache)}
        confined = self.confined(
            "kubernetes", held._replace(environ={**held.environ, **own}),
            ("--unshare-net", "--bind", str(cache), str(cache), "--ro-bind", str(config),
             str(config), *instead),
        )  # fmt: skip
        listens = (launch.PYTHON, "-I", "-S", listen.__file__, str(theirs), str(kubernetes.PORT))
        return confined._replace(before=(*confined.before, *listens), files=(theirs,))

    def _open(self) -> int:
        self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = os.open(self.place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.stack.callback(os.close, own)
        return own

    def _listener(self, server: FilterServer) -> int:
        """The program hands a socket of its network over by this file, for the server."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            self.stack.callback(end.close)
        loop = asyncio.get_running_loop()

        def handed_over() -> None:
            loop.remove_reader(ours)
            with contextlib.suppress(OSError, IndexError):  # the program did not start
                server.hold(asyncio.ensure_future(server.listen(kubernetes.receive(ours))))

        loop.add_reader(ours, handed_over)
        self.stack.callback(loop.remove_reader, ours)
        return theirs.fileno()
