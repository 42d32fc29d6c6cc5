"""Scope compose: the services of a Compose file against the engine's containers."""

import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from hermes_agent.core.errors import UsageError
from hermes_drift import diff_text
from hermes_drift.config import Compose, document
from hermes_drift.matching import fits_any
from hermes_drift.scopes.repository import Repository, clean
from hermes_drift.values import Advice, DriftFinding, LiveState, ScopeResult, SecretFilter, Who

PROJECT = "com.docker.compose.project"
SERVICE = "com.docker.compose.service"
ONCE = "com.docker.compose.oneoff"
FILES = "com.docker.compose.project.config_files"
HASH = "com.docker.compose.config-hash"
_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?:(:?[-?+])([^}]*))?\}|(\w+))")


class _Unresolved(Exception):
    """A value depends on a variable that the repository does not set."""


class ComposeService(NamedTuple):
    """What is compared of a service. None: not declared, or depends on an unknown variable."""

    name: str
    image: str | None
    environment: Mapping[str, str | None]
    ports: frozenset[str] | None
    replicas: int
    command: tuple[str, ...] | None
    restart: str | None
    user: str | None
    privileged: bool
    mounts: frozenset[str]
    capabilities: frozenset[str]
    network_mode: str | None


class ComposeAudit:
    def __init__(
        self, wanted: Compose, repository: Repository, live: LiveState, hide: SecretFilter
    ) -> None:
        self._wanted = wanted
        self._repository = repository
        self._live = live
        self._hide = hide
        self._path = clean(wanted.declared)
        self._docker = (
            f"docker --context {shlex.quote(wanted.context)}" if wanted.context else "docker"
        )
        self._found: list[DriftFinding] = []

    async def run(self) -> ScopeResult:
        text = (await self._repository.read(self._path)).decode(errors="replace")
        declared = document(text, self._path)
        services = services_of(declared, await self._variables(), self._path)
        services = [one for one in services if not fits_any(self._wanted.ignore, one.name)]
        self._project = self._project_of(declared)
        containers, trouble = await self._containers()
        if trouble:
            return ScopeResult("compose", 0, (), (f"project {self._project}: {trouble}",))
        images = await self._images(containers)
        by_service: dict[str, list[Any]] = {}
        for one in containers:
            labels = one["Config"].get("Labels") or {}
            if labels.get(ONCE, "False") != "True":
                by_service.setdefault(labels.get(SERVICE, ""), []).append(one)
        for service in services:
            self._compare(service, by_service.pop(service.name, []), images)
        for name, extra in sorted(by_service.items()):
            if not fits_any(self._wanted.ignore, name):
                self._extra(name, extra)
        return ScopeResult("compose", len(services), tuple(self._found))

    async def _variables(self) -> dict[str, str]:
        beside = posixpath.join(posixpath.dirname(self._path), ".env")
        if not self._repository.has(beside):
            return {}
        lines = (await self._repository.read(beside)).decode(errors="replace").splitlines()
        pairs = [line.partition("=") for line in lines if "=" in line and line[:1] != "#"]
        return {name.strip(): value.strip().strip("'\"") for name, _, value in pairs}

    def _project_of(self, declared: Any) -> str:
        folder = posixpath.dirname(self._path) or self._repository.folder
        name = self._wanted.project or str(declared.get("name") or posixpath.basename(folder))
        return "".join(sign for sign in name.lower() if sign.isalnum() or sign in "-_")

    async def _containers(self) -> tuple[list[Any], str]:
        label = shlex.quote(f"label={PROJECT}={self._project}")
        answer = await self._live.ask(f"{self._docker} ps -a -q --no-trunc --filter {label}")
        if not answer.ok:
            return [], answer.trouble
        return await self._inspect("container", answer.out.split())

    async def _inspect(self, kind: str, ids: Sequence[str]) -> tuple[list[Any], str]:
        if not ids:
            return [], ""
        answer = await self._live.ask(f"{self._docker} {kind} inspect -- {shlex.join(ids)}")
        try:
            return msgspec.json.decode(answer.out or "[]"), "" if answer.out else answer.trouble
        except msgspec.MsgspecError:
            return [], answer.trouble

    async def _images(self, containers: Sequence[Any]) -> dict[str, Any]:
        """By id. What an image itself sets is not drift."""
        ids = list(dict.fromkeys(one["Image"] for one in containers))
        return {one["Id"]: one for one in (await self._inspect("image", ids))[0]}

    def _add(
        self, service: str, field: str, declared: object, live: object, who: Who | None = None,
        revert: str = "",
    ) -> None:  # fmt: skip
        file = shlex.quote(self._path)
        up = f"{self._docker} compose -p {self._project} -f {file} up -d {service}"
        self._found.append(
            DriftFinding(
                "compose", f"service {self._project}/{service}", field,
                diff_text.brief(self._hide(str(declared))), diff_text.brief(self._hide(str(live))),
                source=self._path, terminal=self._live.name, who=who or Who(),
                advice=Advice(
                    revert=revert or f"cd {shlex.quote(self._repository.folder)} && {up}",
                    adopt=f"in {self._path}, under services.{service}",
                ),
            )
        )  # fmt: skip

    def _compare(
        self, service: ComposeService, there: Sequence[Any], images: Mapping[str, Any]
    ) -> None:
        running = [one for one in there if one["State"].get("Running")]
        if not there:
            self._add(service.name, "missing", f"{service.replicas} running", "no container")
            return
        if len(running) != service.replicas:
            states = ", ".join(sorted(_state(one) for one in there))
            who = _who(max(there, key=lambda one: str(one["State"].get("FinishedAt", ""))))
            self._add(service.name, "replicas", service.replicas, f"{len(running)} ({states})", who)
        for field, declared, live, one in _differences(service, there, images):
            self._add(service.name, field, declared, live, _who(one))

    def _extra(self, name: str, there: Sequence[Any]) -> None:
        ids = " ".join(one["Id"][:12] for one in there)
        image = there[0]["Config"].get("Image")
        self._add(
            name or "(none)", "extra", "not declared", f"{len(there)} x {image}", _who(there[0]),
            f"{self._docker} rm -f {ids}",
        )  # fmt: skip


def _differences(
    service: ComposeService, there: Sequence[Any], images: Mapping[str, Any]
) -> list[tuple[str, str, str, Any]]:
    """Field, declared, live, and a container with this difference; one for each field."""
    found: dict[str, tuple[str, str, str, Any]] = {}

    def differs(field: str, declared: object, live: object, one: Any) -> None:
        if declared != live:
            found.setdefault(field, (field, _shown(declared), _shown(live), one))

    for one in there:
        config, host = one["Config"], one["HostConfig"]
        image = (images.get(one["Image"]) or {}).get("Config") or {}
        if service.image is not None:
            differs("image", service.image, config.get("Image"), one)
        for field, declared, live in _environment_changes(service, config, image):
            differs(field, declared, live, one)
        if service.ports is not None:
            differs("ports", service.ports, _bound(host), one)
        if service.command is not None:
            differs("command", list(service.command), config.get("Cmd") or [], one)
        if service.restart is not None:
            policy = (host.get("RestartPolicy") or {}).get("Name") or "no"
            differs("restart", service.restart.partition(":")[0], policy, one)
        if service.user is not None:
            differs("user", service.user, config.get("User") or "", one)
        differs("privileged", service.privileged, bool(host.get("Privileged")), one)
        if added := frozenset(host.get("CapAdd") or ()) - {
            name for cap in service.capabilities for name in (cap, f"CAP_{cap}")
        }:
            differs("cap_add", service.capabilities, added, one)
        if service.network_mode is not None or host.get("NetworkMode") == "host":
            differs("network_mode", service.network_mode or "default", host.get("NetworkMode"), one)
        binds = {mount["Destination"] for mount in one.get("Mounts") or ()
                 if mount.get("Type") == "bind"}  # fmt: skip
        if more := binds - service.mounts:
            differs("mounts", service.mounts, frozenset(more), one)
    return list(found.values())


def _environment_changes(
    service: ComposeService, config: Mapping[str, Any], image: Mapping[str, Any]
) -> list[tuple[str, str, str]]:
    """Declared variables that differ, and those that neither the file nor the image sets."""
    there = dict(one.split("=", 1) for one in config.get("Env") or () if "=" in one)
    own = dict(one.split("=", 1) for one in image.get("Env") or () if "=" in one)
    shown = {name: f"{name}={value}" for name, value in there.items()}
    found = [
        (f"environment.{name}", f"{name}={value}", shown.get(name, "not set"))
        for name, value in service.environment.items()
        if value is not None and there.get(name) != value
    ]
    more = [
        name for name in there if name not in service.environment and own.get(name) != there[name]
    ]
    return found + [(f"environment.{name}", "not set", f"{name}={there[name]}") for name in more]


def _bound(host: Mapping[str, Any]) -> frozenset[str]:
    found = set()
    for target, bindings in (host.get("PortBindings") or {}).items():
        number, _, protocol = target.partition("/")
        for one in bindings or ():
            found.add(port(one.get("HostIp", ""), one.get("HostPort", ""), number, protocol))
    return frozenset(found)


def _shown(value: object) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(map(str, value))) or "none"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _state(one: Any) -> str:
    state = one["State"]
    code = state.get("ExitCode")
    return str(state.get("Status")) + (f" with {code}" if state.get("Status") == "exited" else "")


def _who(one: Any) -> Who:
    """Compose labels what it creates; anything without its hash was created by hand."""
    labels = one["Config"].get("Labels") or {}
    try:
        at = datetime.fromisoformat(one["Created"][:19] + "+00:00").timestamp()
    except (ValueError, KeyError):
        at = None
    if HASH not in labels:
        return Who("person", "", "likely", at, "has Compose labels, but was not created by Compose")
    version = labels.get("com.docker.compose.version", "")
    evidence = f"created by Compose {version} from {labels.get(FILES) or 'an unknown file'}"
    return Who("person", "", "guess", at, evidence)


def services_of(document: Any, variables: Mapping[str, str], path: str) -> Sequence[ComposeService]:
    listed = document.get("services") if isinstance(document, dict) else None
    if not isinstance(listed, dict):
        raise UsageError(f"{path} declares no services", "it must be a Compose file")
    return [_service(name, entry or {}, variables) for name, entry in listed.items()]


def _service(name: str, entry: Mapping[str, Any], variables: Mapping[str, str]) -> ComposeService:
    def text(key: str) -> str | None:
        return resolved(entry[key], variables) if entry.get(key) is not None else None

    command = entry.get("command")
    words: tuple[str, ...] | None = None
    if isinstance(command, list):
        read = [resolved(word, variables) for word in command]
        words = None if None in read else tuple(str(word) for word in read)
    elif isinstance(command, str) and (line := resolved(command, variables)) is not None:
        words = tuple(shlex.split(line))
    deploy = entry.get("deploy") or {}
    replicas = deploy.get("replicas", entry.get("scale", 1))
    return ComposeService(
        name, text("image"), _environment(entry.get("environment"), variables),
        _ports(entry.get("ports"), variables), int(replicas), words, text("restart"), text("user"),
        bool(entry.get("privileged", False)), _mounts(entry.get("volumes") or (), variables),
        frozenset(map(str, entry.get("cap_add") or ())), text("network_mode"),
    )  # fmt: skip


def _environment(declared: Any, variables: Mapping[str, str]) -> dict[str, str | None]:
    if isinstance(declared, dict):
        pairs = list(declared.items())
    else:
        split = [str(one).partition("=") for one in declared or ()]
        pairs = [(name, value if equals else None) for name, equals, value in split]
    return {
        str(name): None if value is None else resolved(_scalar(value), variables)
        for name, value in pairs
    }


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ports(declared: Any, variables: Mapping[str, str]) -> frozenset[str] | None:
    """`HOST:PUBLISHED->TARGET/PROTOCOL`, the form of the engine's bindings here too."""
    found = set()
    for one in declared or ():
        if isinstance(one, dict):
            address, published = one.get("host_ip", ""), one.get("published", "")
            target, protocol = one.get("target"), one.get("protocol", "tcp")
        else:
            written = resolved(str(one), variables)
            if written is None:
                return None
            ports, _, protocol = written.partition("/")
            rest, _, target = ports.rpartition(":")
            address, _, published = rest.rpartition(":")
        if "-" in str(target) or "-" in str(published):
            return None  # the engine picks from a range
        found.add(port(address, published, target, protocol or "tcp"))
    return frozenset(found)


def port(address: object, published: object, target: object, protocol: object) -> str:
    where = "" if str(address) in ("", "0.0.0.0", "::") else f"{str(address).strip('[]')}:"
    return f"{where}{published}->{target}/{protocol}"


def _mounts(declared: Any, variables: Mapping[str, str]) -> frozenset[str]:
    """Mount points."""
    found = set()
    for one in declared:
        if isinstance(one, dict):
            found.add(str(one.get("target", "")))
        elif (written := resolved(str(one), variables)) is not None:
            parts = written.split(":")
            found.add(parts[1] if len(parts) > 1 else parts[0])
    return frozenset(found)


def resolved(value: Any, variables: Mapping[str, str]) -> str | None:
    """A value with its variables filled in; None if one of them is unknown."""

    def fill(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name, sign, word = match[1] or match[4], match[2] or "", match[3] or ""
        there = variables.get(name)
        if sign.endswith("+"):
            return word if there else ""
        if there is not None and (there or not sign.startswith(":")):
            return there
        if sign.endswith("-"):
            return word
        raise _Unresolved(name)

    try:
        return _VARIABLE.sub(fill, _scalar(value))
    except _Unresolved:
        return None
