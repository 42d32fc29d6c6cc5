"""The kinds of terminals as a table; each is imported when a terminal of it is opened."""

import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from msgspec import Struct

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.installation.extras import install_hint, is_missing, pip_name
from hermes_agent.core.protocols import Clock, Terminal
from hermes_agent.core.settings.root import TerminalSettings
from hermes_agent.core.settings.terminals import (
    ApptainerPlace,
    ContainerPlace,
    DaytonaPlace,
    E2bPlace,
    KubernetesPlace,
    LocalPlace,
    ModalPlace,
    NamespaceSettings,
    PlaceSettings,
    SandboxPlace,
    SshPlace,
)
from hermes_agent.terminals.transport import Transport


class TerminalType(Struct, frozen=True):
    name: str
    settings: type[PlaceSettings]
    summary: str
    module: str = ""
    """The module with `transport` and `check`; none for this machine itself."""
    extra: str = ""
    """The part to install for it, by `hermes add`."""
    libraries: tuple[str, ...] = ()
    needs: str = ""
    """What else must be there."""
    keys: tuple[str, ...] = ()
    """Variables with the keys of a hosted service."""
    get_keys: str = ""
    """How to get them."""
    confined: bool = True
    """Whether commands are isolated from the rest of the machine."""


KINDS: dict[str, TerminalType] = {
    kind.name: kind
    for kind in (
        TerminalType(
            "local", LocalPlace, "this machine, as the user who runs Hermes",
            needs="bash 5", confined=False,
        ),
        TerminalType(
            "sandbox", SandboxPlace, "this machine, confined: only the workspace can be written",
            "hermes_agent.terminals.sandbox.sandbox", needs="Linux with bubblewrap or Landlock",
        ),
        TerminalType(
            "ssh", SshPlace, "a machine reached by SSH",
            "hermes_agent.terminals.ssh", "ssh", ("asyncssh",),
            "bash 5 there, and its host key in known_hosts", confined=False,
        ),
        TerminalType(
            "container", ContainerPlace, "a container in Docker, Podman or a compatible engine",
            "hermes_agent.terminals.container.transport", "container", ("docker",),
            "an engine's socket, and an image with bash 5",
        ),
        TerminalType(
            "kubernetes", KubernetesPlace, "an existing pod, or one created for the session",
            "hermes_agent.terminals.kubernetes.transport", "kubernetes", ("kubernetes_asyncio",),
            "a kubeconfig, and an image with bash 5",
        ),
        TerminalType(
            "apptainer", ApptainerPlace, "an instance of Apptainer or Singularity",
            "hermes_agent.terminals.apptainer", needs="apptainer, and an image with bash 5",
        ),
        TerminalType(
            "modal", ModalPlace, "a sandbox at Modal",
            "hermes_agent.terminals.hosted.modal", "modal", ("modal",), "an account",
            ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"), "`modal token new` creates a token",
        ),
        TerminalType(
            "e2b", E2bPlace, "a sandbox at E2B",
            "hermes_agent.terminals.hosted.e2b", "e2b", ("e2b",), "an account",
            ("E2B_API_KEY",), "create keys at e2b.dev/dashboard",
        ),
        TerminalType(
            "daytona", DaytonaPlace, "a sandbox at Daytona",
            "hermes_agent.terminals.hosted.daytona", "daytona", ("daytona",), "an account",
            ("DAYTONA_API_KEY",), "create keys at app.daytona.io/dashboard/keys",
        ),
        TerminalType(
            "box", NamespaceSettings, "a drill's machine, in its own namespaces",
            "hermes_agent.terminals.namespace", needs="Linux with user namespaces, and util-linux",
        ),
    )
}  # fmt: skip


def kind_of(place: PlaceSettings) -> TerminalType:
    return next(kind for kind in KINDS.values() if isinstance(place, kind.settings))


def open_terminal(
    place: PlaceSettings,
    *,
    session: str,
    workspace: str,
    folder: Path,
    settings: TerminalSettings,
    environ: Mapping[str, str],
    clock: Clock = time.time,
) -> Terminal:
    """A terminal of a session. `folder` is private to the two, in the home of Hermes."""
    if isinstance(place, LocalPlace):
        from hermes_agent.terminals.local.terminal import LocalTerminal

        return LocalTerminal(workspace, folder, settings, environ, clock)
    from hermes_agent.terminals.remote.terminal import RemoteTerminal

    own = isinstance(place, SandboxPlace)
    there = workspace if isinstance(place, SandboxPlace) else place.workspace
    named = settings.keep_environment if own else ()
    return RemoteTerminal(
        open_transport(place, session=session, workspace=workspace, folder=folder, environ=environ),
        session=session,
        workspace=there,
        folder=folder,
        settings=settings,
        environment={name: environ[name] for name in named if name in environ},
        lasting=lasts(place),
        clock=clock,
        most=place.limits.seconds if hasattr(place, "limits") else None,
    )


def open_transport(
    place: PlaceSettings, *, session: str, workspace: str, folder: Path, environ: Mapping[str, str]
) -> Transport:
    kind = kind_of(place)
    if reason := missing(kind):
        raise HermesError(f"{kind.name} terminals cannot be used: {reason}")
    if reason := unset(kind, environ):
        raise HermesError(reason, kind.get_keys)
    transport: Transport = import_module(kind.module).transport(
        place, session=session, workspace=workspace, folder=folder, environ=environ
    )
    return transport


def lasts(place: PlaceSettings) -> bool:
    """Whether the machine was there before the session and stays when the session goes."""
    return isinstance(place, LocalPlace | SshPlace | NamespaceSettings) or (
        isinstance(place, KubernetesPlace) and bool(place.pod)
    )


def missing(kind: TerminalType) -> str:
    """Missing libraries, with how to install them; empty when none is missing."""
    lacking = [pip_name(name) for name in kind.libraries if is_missing(name)]
    return f"{', '.join(lacking)} not installed: {install_hint(kind.extra)}" if lacking else ""


def unset(kind: TerminalType, environ: Mapping[str, str]) -> str:
    """Missing keys, as a sentence."""
    absent = [name for name in kind.keys if not environ.get(name)]
    return f"no key: set {' and '.join(absent)}" if absent else ""


async def check(name: str, place: PlaceSettings | None, environ: Mapping[str, str]) -> str:
    """Empty when a terminal of this kind, or this place, can be used now, else what is missing."""
    kind = KINDS.get(name)
    if kind is None:
        raise UsageError(f"no kind of terminal called {name!r}", f"available: {', '.join(KINDS)}")
    if reason := missing(kind):
        return reason
    if not kind.module:
        from hermes_agent.terminals.shell.daemon import find_bash

        return "" if find_bash(environ) else "bash is not installed; install bash 5 or newer"
    if kind.keys:
        return unset(kind, environ)
    found: str = await import_module(kind.module).check(place, environ)
    return found
