"""`when`: expressions in CEL. Types and names are checked when a file is read; at run time only a
real true or false counts, because the library hands errors back as values."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from hermes_agent.core.effects import Operation

if TYPE_CHECKING:
    from hermes_agent.policy.match import MatchContext

NAMES = {
    "effect.tool": "string", "effect.input": "map(string, dyn)", "effect.session": "string",
    "effect.workspace": "string", "effect.folder": "string", "effect.terminal": "string",
    "effect.place": "string", "effect.actor": "string", "effect.source": "string",
    "effect.origin": "string",
    "act.kind": "string", "act.program": "string", "act.arguments": "list(string)",
    "act.verb": "string", "act.flags": "list(string)", "act.via": "list(string)",
    "act.text": "string", "act.hosts": "list(string)", "act.paths": "list(map(string, string))",
    "now.timestamp": "timestamp", "now.hour": "int", "now.weekday": "int",
}  # fmt: skip
"""What an expression may name. Each is a variable of its own, so that a mistyped one is found when
the file is read. Times are UTC; 0 is Monday."""

_DEEPEST = 32


class ExpressionFailed(Exception):
    """An expression gave no answer."""


@cache
def _environment() -> Any:
    from cel_expr_python import cel  # type: ignore[import-untyped]  # its stubs lack py.typed

    types = {
        "string": cel.Type.STRING, "bool": cel.Type.BOOL, "int": cel.Type.INT,
        "timestamp": cel.Type.TIMESTAMP, "list(string)": cel.Type.List(cel.Type.STRING),
        "map(string, dyn)": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
        "list(map(string, string))": cel.Type.List(
            cel.Type.Map(cel.Type.STRING, cel.Type.STRING)
        ),
    }  # fmt: skip
    return cel.NewEnv(variables={name: types[kind] for name, kind in NAMES.items()})


@cache
def _compiled(text: str) -> Any:
    return _environment().compile(text)


def trouble(text: str) -> str | None:
    """What is wrong with an expression, or None."""
    try:
        kind = _compiled(text).return_type().name()
    except (RuntimeError, UnicodeError) as error:  # all that the library raises
        return short(str(error))
    return None if kind == "BOOL" else f"it must be true or false, not {kind.lower()}"


def holds(text: str, names: Mapping[str, Any]) -> bool:
    """Whether an expression is true. Raises `ExpressionFailed` when it has no answer."""
    try:
        found = _compiled(text).eval(data=dict(names))
        kind, value = found.type().name(), found.value()
    except (RuntimeError, UnicodeError) as error:  # the budget of steps, too
        raise ExpressionFailed(short(str(error))) from None
    if kind != "BOOL" or not isinstance(value, bool):
        raise ExpressionFailed(short(str(value)))
    return value


def names_for(facts: "MatchContext", act: Operation) -> dict[str, Any]:
    effect = facts.effect
    actor = f"{effect.actor.kind}/{effect.actor.name}"
    values = {
        "effect.tool": effect.tool, "effect.input": effect.input, "effect.session": effect.session,
        "effect.workspace": effect.workspace, "effect.folder": effect.folder or effect.workspace,
        "effect.terminal": effect.terminal, "effect.place": effect.terminal_kind,
        "effect.actor": actor, "effect.source": effect.actor.source,
        "effect.origin": effect.origin,
        "act.kind": act.kind, "act.program": act.program, "act.arguments": act.arguments,
        "act.verb": act.verb, "act.flags": act.flags, "act.via": act.via, "act.text": act.text,
        "act.hosts": act.hosts,
        "act.paths": [
            {"access": place.access, "given": place.given, "named": place.named, "real": real}
            for place in act.places
            for real in place.real or ("",)
        ],
        "now.hour": facts.now.hour, "now.weekday": facts.now.weekday(),
    }  # fmt: skip
    plain: dict[str, Any] = {name: _plain(value) for name, value in values.items()}
    plain["now.timestamp"] = facts.now
    return plain


def _plain(value: Any, depth: int = 0) -> Any:
    """As the library takes it: it breaks on letters that are none, and knows no tuples."""
    if depth > _DEEPEST:
        raise ExpressionFailed(f"the arguments are nested more than {_DEEPEST} deep")
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_plain(str(key)): _plain(inner, depth + 1) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner, depth + 1) for inner in value]
        case bool() | int() | float() | None:
            return value
        case _:
            return _plain(str(value))


def short(text: str) -> str:
    """The first line of what the library says, without its own marks."""
    lines = text.strip().splitlines()
    first = lines[0] if lines else "it failed"
    for mark in ("INVALID_ARGUMENT: ", "NOT_FOUND: ", "ERROR: ", "<input>:", "INTERNAL: "):
        first = first.removeprefix(mark)
    return first.removesuffix(" [INTERNAL]").removesuffix(" (in container '')")
