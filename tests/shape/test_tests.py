"""Tests that would pass whatever the code does are not tests."""

import ast
from collections.abc import Iterator

from tests.support.source import ROOT, FunctionNode, Module, modules

CHECKS = ("assert_", "check_", "raises", "fail", "expect_")
"""Calls by these names assert inside."""


def sources() -> tuple[Module, ...]:
    return modules(ROOT / "tests") + modules(ROOT / "drift" / "tests")


def modules_of_tests() -> list[Module]:
    return [module for module in sources() if module.path.name.startswith("test_")]


def called(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            yield ast.unparse(inner.func)


def asserts(function: FunctionNode) -> bool:
    if any(isinstance(node, ast.Assert) for node in ast.walk(function)):
        return True
    return any(name.rpartition(".")[2].startswith(CHECKS) for name in called(function))


def cases(module: Module) -> Iterator[FunctionNode]:
    return (function for function in module.functions() if function.name.startswith("test_"))


def test_every_test_asserts_something() -> None:
    silent = [
        f"{module.where}:{function.lineno} {function.name}"
        for module in modules_of_tests()
        for function in cases(module)
        if not asserts(function)
    ]
    assert silent == []


def test_every_test_name_is_a_sentence() -> None:
    short = [
        f"{module.where}:{function.lineno} {function.name}"
        for module in modules_of_tests()
        for function in cases(module)
        if len(function.name.removeprefix("test_").split("_")) < 3
    ]
    assert short == []


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    excused = [
        f"{module.where}:{node.lineno} {ast.unparse(node)}"
        for module in sources()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute)
        and node.attr in {"skip", "skipif", "xfail", "importorskip"}
        and ast.unparse(node.value) in {"pytest", "pytest.mark", "mark"}
    ]
    assert excused == []


def test_real_parts_are_used_instead_of_mocks() -> None:
    mocked = [
        f"{module.where}:{node.lineno}"
        for module in sources()
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Import) and any("mock" in alias.name for alias in node.names))
        or (
            isinstance(node, ast.ImportFrom)
            and ("mock" in (node.module or "") or any("mock" in a.name for a in node.names))
        )
        or (isinstance(node, ast.Call) and ast.unparse(node.func) == "monkeypatch.setattr")
    ]
    assert mocked == []
