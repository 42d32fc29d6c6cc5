"""A real SSH server on this machine, with keys and a user of its own. The user is known to the
server only, which sees an /etc/passwd of its own: none is added to this machine."""

import atexit
import contextlib
import functools
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from hermes_agent.core.settings.terminals import SshPlace
from hermes_agent.terminals import ssh
from tests.support.terminals import FarPlace, Place
from tests.support.transports import Way

_numbers = itertools.count()
_START = """
for file in passwd group; do mount --bind "$0/$file" "/etc/$file"; done
mount -t tmpfs sshd /run
mkdir /run/sshd
exec setpriv --ambient-caps=-all --pdeathsig=KILL "$@"
"""


class Sshd:
    """One server with one user; every test has a folder of its own there."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="hermes-sshd-"))
        self._folder.chmod(0o755)
        self.home = self._folder / "home"
        self.home.mkdir(mode=0o700)
        self._namespaces = ["unshare", "--mount"]
        self._number = os.getuid()
        if self._number == 0:
            self._number = 30_000 + os.getpid() % 30_000
            os.chown(self.home, self._number, self._number)
            self.user = f"hermes-{self._number}"
        else:  # it can let in nobody else, and needs a namespace to have a home of its own
            self._namespaces += ["--map-current-user", "--keep-caps"]
            self.user = pwd.getpwuid(self._number).pw_name
        self._write_users()
        for name in ("host", "key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self._folder / name],
                check=True,
            )
        (self._folder / "authorized").write_bytes((self._folder / "key.pub").read_bytes())
        (self._folder / "authorized").chmod(0o644)
        self._reserved = _reserved_port()
        self.port = int(self._reserved.getsockname()[1])
        self.known_hosts = self._folder / "known_hosts"
        kind, key, *_ = (self._folder / "host.pub").read_text().split()
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def key(self) -> Path:
        return self._folder / "key"

    def place(self, workspace: str = "~") -> SshPlace:
        return SshPlace(
            host="127.0.0.1",
            user=self.user,
            port=self.port,
            key=str(self.key),
            known_hosts=str(self.known_hosts),
            config=str(self._config()),
            workspace=workspace,
        )

    def folder(self) -> Path:
        """A new folder that belongs to the user."""
        made = self._folder / f"work-{next(_numbers)}"
        made.mkdir()
        self.own(made)
        return made

    def own(self, path: Path) -> None:
        """Give it to the server's user."""
        if os.getuid() == 0:
            os.chown(path, self._number, self._number)

    def start(self) -> None:
        config = self._folder / "sshd_config"
        config.write_text(
            f"""
            Port {self.port}
            ListenAddress 127.0.0.1
            HostKey {self._folder}/host
            AuthorizedKeysFile {self._folder}/authorized
            PidFile none
            UsePAM no
            StrictModes no
            UseDNS no
            PasswordAuthentication no
            KbdInteractiveAuthentication no
            MaxSessions 200
            MaxStartups 200:30:400
            KexAlgorithms curve25519-sha256
            """
        )
        program = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
        assert program is not None
        log = self._folder / "log"
        # It dies with the tests, however they end.
        self._process = subprocess.Popen(
            [*self._namespaces, "sh", "-euc", _START, self._folder, program,
             "-D", "-f", config, "-E", log]
        )  # fmt: skip
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            assert self._process.poll() is None, log.read_text()
            time.sleep(0.005)

    def stop(self) -> None:
        """No new connections, and the old ones are cut."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGSTOP)  # who is cut off may be back before it is killed
        for pid in _children(self._process.pid):
            for child in [*_children(pid), pid]:
                if b"sshd" in _name(child):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._process = None

    def remove(self) -> None:
        self.stop()
        self._reserved.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _config(self) -> Path:
        """An empty one, so that the developer's own does not count."""
        config = self._folder / "ssh_config"
        config.touch()
        return config

    def _write_users(self) -> None:
        start = f"{self.user}:*:{self._number}:"
        known = Path("/etc/passwd").read_text().splitlines()
        users = [line for line in known if line.split(":")[2] != str(self._number)]
        users.append(f"{start}{self._number}::{self.home}:/bin/bash")
        (self._folder / "passwd").write_text("\n".join([*users, ""]))
        (self._folder / "group").write_text(f"{Path('/etc/group').read_text()}{start}\n")


@functools.cache
def shared() -> Sshd:
    """The server of this process, started when it is first wanted."""
    server = Sshd()
    atexit.register(server.remove)
    return server


@contextlib.asynccontextmanager
async def ssh_way(_folder: Path) -> AsyncIterator[Way]:
    server = shared()
    made: list[ssh.SshTransport] = []

    def again() -> ssh.SshTransport:
        made.append(ssh.SshTransport(server.place(), {}))
        return made[-1]

    yield Way(again(), again, str(server.folder()))
    for transport in made:
        await transport.close()


@contextlib.asynccontextmanager
async def ssh_place(folder: Path) -> AsyncIterator[Place]:
    yield ssh_far_place(shared(), folder)


def ssh_far_place(server: Sshd, folder: Path) -> FarPlace:
    make: Callable[[], ssh.SshTransport] = lambda: ssh.SshTransport(server.place(), {})  # noqa: E731
    return FarPlace(make, str(server.folder()), folder, session=f"session-{next(_numbers)}")


def _children(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _name(pid: int) -> bytes:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/comm").read_bytes()
    return b""


def _reserved_port() -> socket.socket:
    """Nobody else is given the port as long as this is open, also while the server is stopped; as
    it does not listen, the server may."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", 0))
    return made
