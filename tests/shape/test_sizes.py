"""A module fits in a head and a function on a screen. The exceptions can only become fewer."""

from tests.support.source import runtime_and_drift

MODULE_LINES = 600
FUNCTION_LINES = 60

LARGER: dict[str, str] = {}
"""Modules (`path`) and functions (`path:name`) that are longer, each with the reason why."""


def too_large() -> dict[str, int]:
    found = {}
    for module in runtime_and_drift():
        lines = len(module.text.splitlines())
        if lines > MODULE_LINES:
            found[module.where] = lines
        for function in module.functions():
            length = (function.end_lineno or function.lineno) - function.lineno + 1
            if length > FUNCTION_LINES:
                found[f"{module.where}:{function.name}"] = length
    return found


def test_modules_and_functions_stay_small() -> None:
    assert {name: lines for name, lines in too_large().items() if name not in LARGER} == {}


def test_an_exception_that_is_no_longer_needed_is_removed() -> None:
    assert LARGER.keys() - too_large().keys() == set()


def test_every_exception_says_why() -> None:
    assert [name for name, reason in LARGER.items() if len(reason.split()) < 5] == []
