"""Opens the sources of the settings outside of a turn: to test them, and to find some nearby."""

import asyncio
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.core.installation.extras import install_hint, is_missing
from hermes_agent.core.protocols import Clock
from hermes_agent.core.settings.root import Settings
from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.tools.sources.registry import TYPES, SourceType

PROBE_SECONDS = 2.0


class SourceCheck(NamedTuple):
    name: str
    kind: str
    ok: bool
    what: str
    hint: str = ""


async def verify_all(
    settings: Settings, secret: Callable[[str], str], clock: Clock, names: tuple[str, ...] = ()
) -> list[SourceCheck]:
    """Ask each enabled source, or the named ones, whether it answers."""
    chosen = [
        (name, one)
        for name, one in settings.sources.items()
        if (name in names if names else one.enabled)
    ]
    checks = (verify(name, one, secret, clock) for name, one in chosen)
    return list(await asyncio.gather(*checks))


async def verify(
    name: str, settings: SourceSettings, secret: Callable[[str], str], clock: Clock
) -> SourceCheck:
    from hermes_agent.policy.network.egress import guarded_client
    from hermes_agent.tools.sources.connection import ODD, Source

    kind = TYPES[settings.kind]
    if kind.package and is_missing(kind.package):
        what = f"needs {kind.package}, which is not installed"
        return SourceCheck(name, settings.kind, False, what, install_hint("sources"))

    def reach(_host: str, _address: str, _public: bool) -> bool:
        return True  # the user has set it up and asks now

    known = {}
    for one in settings.secrets:
        try:
            known[one] = secret(one)
        except NotFound as error:
            return SourceCheck(name, settings.kind, False, error.message, error.hint)
    source = Source(name, settings, partial(guarded_client, reach), reach, known, clock)
    try:
        async with asyncio.timeout(settings.timeout_seconds):
            return SourceCheck(name, settings.kind, True, await kind.load().verify(source))
    except HermesError as error:
        return SourceCheck(name, settings.kind, False, error.message, error.hint)
    except ODD:
        hint = f"is {settings.url} the address of {settings.kind}?"
        return SourceCheck(name, settings.kind, False, "its answer has an unexpected form", hint)
    except TimeoutError:
        what = f"took longer than {settings.timeout_seconds:.0f} s"
        return SourceCheck(name, settings.kind, False, what)


def discover(
    known: Mapping[str, SourceSettings], environ: Mapping[str, str]
) -> Iterator[SourceSettings]:
    """Sources on this machine that are not in the settings."""
    places = {(one.kind, server_of(one.url, TYPES[one.kind])) for one in known.values()}
    for kind, row in TYPES.items():
        for url in _found(row, environ):
            if (kind, server_of(url, row)) not in places:
                yield SourceSettings(kind=kind, url=url)


def server_of(url: str, row: SourceType) -> str:
    """Without the path, and with the port: a server has several databases."""
    scheme, _, rest = url.replace("//localhost", "//127.0.0.1").partition("://")
    host = rest if scheme == "unix" else rest.partition("/")[0]
    return host if not row.port or re.search(r":\d+$", host) else f"{host}:{row.port}"


def _found(row: SourceType, environ: Mapping[str, str]) -> Iterator[str]:
    scheme, _, rest = row.example.partition("://")
    if scheme == "unix":
        folder = environ.get("XDG_RUNTIME_DIR", "")
        sockets = [f"/{rest}".replace("//", "/"), f"{folder}/podman/podman.sock"]
        sockets.append("/run/podman/podman.sock")
        yield from (f"unix://{path}" for path in sockets if os.access(path, os.R_OK | os.W_OK))
    elif row.port and _listens(row.port):
        url = f"{scheme}://127.0.0.1:{row.port}"
        if not row.probe or _answers(url + row.probe):
            yield url
    elif row.module == "kubernetes":
        from hermes_agent.tools.sources.cluster.credentials import kubeconfigs

        if kubeconfigs("", environ):
            yield ""


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), PROBE_SECONDS).close()
    except OSError:
        return False
    return True


def _answers(url: str) -> bool:
    import httpx

    try:
        return httpx.get(url, timeout=PROBE_SECONDS, trust_env=False).status_code in (200, 401, 403)
    except httpx.HTTPError:
        return False
