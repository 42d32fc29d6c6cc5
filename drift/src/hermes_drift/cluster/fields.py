"""Compares Kubernetes objects field by field: every declared field must be live."""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

Path = tuple[str, ...]
"""Names of fields; an element of a list is `[key=value]`, `[=value]` or `[number]`."""

KEYS: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",), "initContainers": ("name",), "ephemeralContainers": ("name",),
    "volumes": ("name",), "env": ("name",), "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",), "imagePullSecrets": ("name",), "hostAliases": ("ip",),
    "containerPorts": ("containerPort", "protocol"), "servicePorts": ("port", "protocol"),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}  # fmt: skip
DEFAULTS = {"protocol": "TCP"}
SERVERS = (
    ("status",), ("metadata", "managedFields"), ("metadata", "resourceVersion"),
    ("metadata", "uid"), ("metadata", "generation"), ("metadata", "creationTimestamp"),
    ("metadata", "selfLink"),
    ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"),
    ("metadata", "annotations", "deployment.kubernetes.io/revision"),
)  # fmt: skip
"""Fields that the server writes itself."""
ABSENT = "not present"


class Difference(NamedTuple):
    path: Path
    declared: Any
    live: Any


def path_text(path: Path) -> str:
    text = ""
    for part in path:
        text += part if part.startswith("[") or not text else f".{part}"
    return text


def differences(declared: Any, live: Any, path: Path = ()) -> Iterator[Difference]:
    """Declared fields with another live value."""
    if path in SERVERS:
        return
    if isinstance(declared, dict):
        if not isinstance(live, dict):
            if declared or live not in (None, ABSENT):
                yield Difference(path, declared, live)
            return
        for name, value in declared.items():
            yield from differences(value, live.get(name, ABSENT), (*path, name))
    elif isinstance(declared, list):
        yield from _lists(declared, live, path)
    elif not same(declared, live):
        yield Difference(path, declared, live)


def _lists(declared: Sequence[Any], live: Any, path: Path) -> Iterator[Difference]:
    if not isinstance(live, list):
        if declared:
            yield Difference(path, declared, live)
        return
    keys = keys_of(path)
    if not keys or not all(isinstance(one, dict) for one in (*declared, *live)):
        if len(declared) != len(live):
            yield Difference(path, declared, live)
            return
        for number, (one, other) in enumerate(zip(declared, live, strict=True)):
            yield from differences(one, other, (*path, f"[{number}]"))
        return
    there = {element(one, keys): one for one in live}
    for one in declared:
        name = element(one, keys)
        yield from differences(one, there.get(name, ABSENT), (*path, name))


def keys_of(path: Path) -> tuple[str, ...]:
    """The fields that identify an element of this list; empty if its position does."""
    last = path[-1] if path else ""
    if last == "ports":
        return KEYS["containerPorts" if "containers" in path else "servicePorts"]
    return KEYS.get(last, ())


def element(one: Mapping[str, Any], keys: Sequence[str]) -> str:
    return "[" + ",".join(f"{key}={one.get(key, DEFAULTS.get(key, ''))}" for key in keys) + "]"


_QUANTITY = re.compile(r"^([+-]?[0-9.]+(?:[eE][+-]?\d+)?)([numkMGTPE]|[KMGTPE]i)?$")
_SIZES = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(10**3),
    "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15),
    "E": Decimal(10**18), "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30),
    "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip


def same(declared: Any, live: Any) -> bool:
    """Equal, two notations of one quantity, or empty and absent."""
    if declared == live and type(declared) is type(live):
        return True
    if declared in (None, "", False) and live in (ABSENT, None):
        return True
    if isinstance(declared, bool) or isinstance(live, bool):
        return False
    first, second = amount(declared), amount(live)
    return first is not None and first == second


def amount(value: Any) -> Decimal | None:
    """A number or a quantity such as `500m`."""
    match = _QUANTITY.match(str(value)) if isinstance(value, int | float | str) else None
    if match is None:
        return None
    try:
        return Decimal(match[1]) * _SIZES.get(match[2] or "", Decimal(1))
    except InvalidOperation:
        return None


def at(live: Any, path: Path) -> Any:
    """The value at a path, or `ABSENT`."""
    for number, part in enumerate(path):
        if part.startswith("["):
            keys = keys_of(path[:number])
            if not isinstance(live, list):
                return ABSENT
            found = [
                one
                for place, one in enumerate(live)
                if part in (f"[{place}]", f"[={one}]")
                or (keys and isinstance(one, dict) and element(one, keys) == part)
            ]
            live = found[0] if found else ABSENT
        else:
            live = live.get(part, ABSENT) if isinstance(live, dict) else ABSENT
        if live is ABSENT:
            return ABSENT
    return live
