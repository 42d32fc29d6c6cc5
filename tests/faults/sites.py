"""Terminals on which runtimes are killed: here, in a sandbox, and over SSH."""

from collections.abc import Callable

import msgspec

from tests.faults.harness import Site
from tests.support.sshd import Sshd, shared


def local() -> Site:
    return Site()


def sandbox() -> Site:
    return Site("sandbox")


def ssh(server: Sshd | None = None) -> Site:
    """A folder of its own on a real SSH server. The log is there before anybody writes to it: the
    runtime and the user of the server may be two."""
    server = server or shared()
    work = server.folder()
    (work / "effects.log").touch()
    (work / "effects.log").chmod(0o666)
    config = msgspec.yaml.encode({"terminals": {"far": server.place(str(work))}}).decode()
    return Site("far", config, work)


def looking() -> Site:
    return Site(looks=True)


SITES: dict[str, Callable[[], Site]] = {"local": local, "sandbox": sandbox, "ssh": ssh}
