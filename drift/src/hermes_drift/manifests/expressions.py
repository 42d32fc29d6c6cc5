"""Users' own rules: `must`, a CEL expression over an object, its pod or a container."""

from functools import cache
from typing import TYPE_CHECKING, Any

from hermes_agent.policy.patterns.expressions import short

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
"""What an expression may also name: `pod` is the pod's spec, `role` is container, init or
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
        return short(str(error))
    return None if kind in ("BOOL", "DYN") else f"it must be a boolean, not {kind.lower()}"


def failing(text: str, about: "About", target: "RuleTarget") -> str | None:
    """None if it holds, empty if it is false, else why it has no answer: it may name something
    that is absent."""
    workload = target.workload
    names: dict[str, Any] = {
        "kind": workload.kind, "name": workload.name, "namespace": workload.namespace,
        "labels": workload.labels, "annotations": workload.annotations,
        "manifest": _plain(workload.node.value()),
    }  # fmt: skip
    if about != "object":
        names["pod"] = _plain(target.specs[0].value() if target.specs else {})
    if about == "container":
        names["container"] = _plain(target.inner.node.value())
        names["role"] = target.inner.role
    try:
        value = _compiled(text, about).eval(data=names).value()
    except (RuntimeError, UnicodeError) as error:
        return short(str(error))
    if isinstance(value, bool):
        return None if value else ""
    return short(str(value))


def _plain(value: Any) -> Any:
    """As the library takes it: it fails on lone surrogates."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_plain(str(key)): _plain(inner) for key, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
    return value
