"""The read-only front of a container engine: the part of the API of Docker and Podman that shows
something, and no more of it than their programs show."""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes_agent.core.errors import HermesError
from hermes_agent.terminals.local.fronts.http import RequestRefused, ServiceRequest

OPENLY = "it may change something; run it in a separate command with `changes`"
_SHOWN = re.compile(
    r"(/v[0-9.]+)?(/libpod)?/("
    r"_ping|version|info|events|system/df"
    r"|(containers|images|pods|networks|volumes|secrets)/json|(containers|pods)/stats"
    r"|containers/.+/json|containers/[^/]+/(top|logs|changes|stats|exists)"
    r"|images/.+/(json|history|tree|exists|changes)"
    r"|pods/[^/]+/(json|top|exists)"
    r"|(networks|volumes|services|nodes|tasks|secrets)(/[^/]+(/json|/exists|/logs)?)?"
    r"|configs|plugins|exec/[^/]+/json)"
)
"""Not what reads files out of a container or image, the tokens of a swarm, or what runs a check."""
_EXEC = re.compile(r"(/v[0-9.]+)?(/libpod)?/(containers/[^/]+/exec|exec/[^/]+/(start|resize))")


def only_shows(request: ServiceRequest, words: Sequence[str]) -> ServiceRequest:
    """`words` are those of the call: it may execute in a container what it names."""
    path = request.path
    if request.method in ("GET", "HEAD"):
        hidden = any("showsecret" in name.casefold() for name in request.query)
        if _SHOWN.fullmatch(path) and not (hidden or request.body or request.field("upgrade")):
            return request
        raise RequestRefused(f"the request for {path} was blocked: {OPENLY}")
    if request.method == "POST" and _EXEC.fullmatch(path) and "exec" in words:
        if path.endswith("/exec") and not _is_named(request.body, words):
            raise RequestRefused("what would run in the container is not what was allowed")
        if path.endswith("/start") and not request.field("upgrade"):  # podman takes it as given
            return request._replace(fields=(*request.fields, ("upgrade", "tcp")))
        return request
    raise RequestRefused(f"{request.method} {path} was blocked: {OPENLY}")


def _is_named(body: bytes, words: Sequence[str]) -> bool:
    try:
        read = json.loads(body, object_pairs_hook=list)
        pairs = [(name.lower() if name.isascii() else "", value) for name, value in read]
    except (ValueError, TypeError, AttributeError):
        return False
    given = dict(pairs)
    inner = given.get("cmd")
    plain = len(given) == len(pairs) and "" not in given
    if not plain or given.get("privileged") or not isinstance(inner, list) or not inner:
        return False
    return list(words[-len(inner) :]) == inner


def find_socket(program: str, environ: Mapping[str, str]) -> Path | None:
    """Where the program finds its engine; None if none runs there. Raises `HermesError` where we
    cannot stand between them."""
    if program.startswith("podman"):
        runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
        below = "/run" if os.geteuid() == 0 else runtime
        address = environ.get("CONTAINER_HOST") or f"unix://{below}/podman/podman.sock"
    else:
        address = (
            environ.get("DOCKER_HOST") or _of_context(environ) or "unix:///var/run/docker.sock"
        )
    if not address.startswith("unix:///"):
        raise HermesError(f"cannot make {program} read-only at {address}", OPENLY)
    path = Path(os.path.realpath(address.removeprefix("unix://")))
    if path.is_socket():
        return path
    if program.startswith("podman"):  # then it does without, and does all by itself
        why = "cannot make podman read-only without its API: systemctl start podman.socket"
        raise HermesError(why, OPENLY)
    return None


def _of_context(environ: Mapping[str, str]) -> str:
    folder = Path(environ.get("DOCKER_CONFIG") or f"{environ.get('HOME', '/')}/.docker")
    try:
        name = environ.get("DOCKER_CONTEXT")
        name = name or json.loads((folder / "config.json").read_bytes()).get("currentContext")
        if not name or name == "default":
            return ""
        key = hashlib.sha256(name.encode()).hexdigest()
        facts = json.loads((folder / "contexts/meta" / key / "meta.json").read_bytes())
        return str(facts["Endpoints"]["docker"]["Host"])
    except (OSError, ValueError, LookupError, AttributeError):  # it then uses the default, or fails
        return ""
