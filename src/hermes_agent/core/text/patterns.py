"""Regular expressions that nobody trusts: they are held against what commands print, on the loop
that everything runs on. RE2 takes no longer for any of them than the text is long; it is reached
through CEL, which the policy has for its own expressions."""

from functools import cache
from typing import Any

from hermes_agent.core.errors import UsageError


def matches(pattern: str, text: str) -> bool:
    """Whether a text holds the pattern; `^` and `$` are the ends of its lines. Raises a
    `UsageError` where it is no pattern."""
    values = {"text": _whole(text), "pattern": f"(?m){_whole(pattern)}"}
    found = _expression().eval(data=values)
    if found.type().name() != "BOOL":  # the library hands errors back as values
        wrong = str(found.value()).rpartition("regular expression: ")[2].partition(": (?m)")[0]
        raise UsageError(
            f"not a valid regular expression: {pattern!r}: {wrong}",
            "the syntax is RE2: no lookahead or lookbehind, \\z for the end; "
            "put \\ before characters such as . ( [ to match them literally",
        )
    return bool(found.value())


@cache
def _expression() -> Any:
    from cel_expr_python import cel  # type: ignore[import-untyped]  # its stubs lack py.typed

    names = {"text": cel.Type.STRING, "pattern": cel.Type.STRING}
    return cel.NewEnv(variables=names).compile("text.matches(pattern)")


def _whole(text: str) -> str:
    """The library breaks on letters that are none."""
    return text.encode("utf-8", "replace").decode()
