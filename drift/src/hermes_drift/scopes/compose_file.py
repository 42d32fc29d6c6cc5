"""Services of a Compose file, as far as they are compared with what runs."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hermes_agent.core.errors import UsageError

_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?:(:?[-?+])([^}]*))?\}|(\w+))")


class Unresolved(Exception):
    """A value depends on a variable that the repository does not set."""


class ComposeService(NamedTuple):
    """None stands for what is not declared, or depends on a variable nobody knows."""

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


def services_of(document: Any, variables: Mapping[str, str], path: str) -> Sequence[ComposeService]:
    listed = document.get("services") if isinstance(document, dict) else None
    if not isinstance(listed, dict):
        raise UsageError(f"{path} declares no services", "it must be a Compose file")
    return [_service(name, told or {}, variables) for name, told in listed.items()]


def _service(name: str, told: Mapping[str, Any], variables: Mapping[str, str]) -> ComposeService:
    def text(key: str) -> str | None:
        return resolved(told[key], variables) if told.get(key) is not None else None

    command = told.get("command")
    words: tuple[str, ...] | None = None
    if isinstance(command, list):
        read = [resolved(word, variables) for word in command]
        words = None if None in read else tuple(str(word) for word in read)
    elif isinstance(command, str) and (line := resolved(command, variables)) is not None:
        import shlex

        words = tuple(shlex.split(line))
    deploy = told.get("deploy") or {}
    replicas = deploy.get("replicas", told.get("scale", 1))
    return ComposeService(
        name, text("image"), _environment(told.get("environment"), variables),
        _ports(told.get("ports"), variables), int(replicas), words, text("restart"), text("user"),
        bool(told.get("privileged", False)), _mounts(told.get("volumes") or (), variables),
        frozenset(map(str, told.get("cap_add") or ())), text("network_mode"),
    )  # fmt: skip


def _environment(told: Any, variables: Mapping[str, str]) -> dict[str, str | None]:
    if isinstance(told, dict):
        pairs = [(name, value) for name, value in told.items()]
    else:
        split = [str(one).partition("=") for one in told or ()]
        pairs = [(name, value if equals else None) for name, equals, value in split]
    return {
        str(name): None if value is None else resolved(_scalar(value), variables)
        for name, value in pairs
    }


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ports(told: Any, variables: Mapping[str, str]) -> frozenset[str] | None:
    """`HOST:PUBLISHED->TARGET/PROTOCOL`, as the engine's bindings are written here too."""
    if told is None:
        return frozenset()
    found = set()
    for one in told:
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
            return None  # a range: the engine picks from it
        found.add(port(address, published, target, protocol or "tcp"))
    return frozenset(found)


def port(address: object, published: object, target: object, protocol: object) -> str:
    where = "" if str(address) in ("", "0.0.0.0", "::") else f"{str(address).strip('[]')}:"
    return f"{where}{published}->{target}/{protocol}"


def _mounts(told: Any, variables: Mapping[str, str]) -> frozenset[str]:
    """Targets of what is mounted from outside of the container."""
    found = set()
    for one in told:
        if isinstance(one, dict):
            found.add(str(one.get("target", "")))
        elif (written := resolved(str(one), variables)) is not None:
            parts = written.split(":")
            found.add(parts[1] if len(parts) > 1 else parts[0])
    return frozenset(found)


def resolved(value: Any, variables: Mapping[str, str]) -> str | None:
    """A value with its variables filled in; None where one of them is not known."""

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
        raise Unresolved(name)

    try:
        return _VARIABLE.sub(fill, _scalar(value))
    except Unresolved:
        return None
