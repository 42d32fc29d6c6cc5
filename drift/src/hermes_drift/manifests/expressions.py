"""Rules of the user's own: `must`, an expression in CEL over an object, its pod or a container."""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes_drift.manifests.rules import About, RuleTarget

_NAMES = {
    "kind": "string", "name": "string", "namespace": "string", "labels": "map(string, string)",
    "annotations": "map(string, string)", "manifest": "map(string, dyn)",
}  # fmt: skip
_MORE = {
    "object": {},
    "pod": {"pod": "map(string, dyn)"},
    "container": {"pod": "map(string, dyn)", "container": "map(string, dyn)", "role": "string"},
}
"""What an expression may name beside these: `pod` is the pod's spec, `role` is container, init or
ephemeral."""


@cache
def _compiled(text: str, about: str) -> Any:
    from cel_expr_python import cel  # type: ignore[import-untyped]  # its stubs lack py.typed

    types = {
        "string": cel.Type.STRING,
        "map(string, dyn)": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
        "map(string, string)": cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
    }
    names = {**_NAMES, **_MORE[about]}
    return cel.NewEnv(variables={name: types[kind] for name, kind in names.items()}).compile(text)


def trouble(text: str, about: "About") -> str | None:
    """What is wrong with an expression, or None."""
    try:
        kind = _compiled(text, about).return_type().name()
    except (RuntimeError, UnicodeError) as error:  # all that the library raises
        return _first_line(error)
    return None if kind in ("BOOL", "DYN") else f"it must be true or false, and is {kind.lower()}"


def failing(text: str, about: "About", spot: "RuleTarget") -> str | None:
    """None where it holds; else why not, empty where it is plainly false. What has no answer,
    because something that it names is not there, does not hold."""
    thing = spot.thing
    names: dict[str, Any] = {
        "kind": thing.kind, "name": thing.name, "namespace": thing.namespace,
        "labels": thing.labels, "annotations": thing.annotations,
        "manifest": _plain(thing.node.value()),
    }  # fmt: skip
    if about != "object":
        names["pod"] = _plain(spot.spec.value() if spot.spec is not None else {})
    if about == "container":
        names["container"] = _plain(spot.inner.node.value())
        names["role"] = spot.inner.role
    try:
        found = _compiled(text, about).eval(data=names)
        value = found.value()
    except (RuntimeError, UnicodeError) as error:
        return _first_line(error)
    if isinstance(value, bool):
        return None if value else ""
    return _first_line(value)


def _plain(value: Any) -> Any:
    """As the library takes it: it breaks on letters that are none."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_plain(str(key)): _plain(inner) for key, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
        case _:
            return value


def _first_line(error: object) -> str:
    first = (str(error).strip().splitlines() or ["it has no answer"])[0]
    for mark in ("INVALID_ARGUMENT: ", "NOT_FOUND: ", "ERROR: ", "<input>:", "INTERNAL: "):
        first = first.removeprefix(mark)
    return first.removesuffix(" (in container '')")
