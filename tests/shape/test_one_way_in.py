"""A tool runs one way: judged, permitted, invoked. Whoever adds a second way fails here."""

import ast
import re
from collections.abc import Callable

from tests.support.source import runtime_and_drift


def uses(found: Callable[[ast.AST], bool]) -> set[str]:
    """The modules in which something stands."""
    return {
        module.where.removeprefix("src/hermes_agent/")
        for module in runtime_and_drift()
        if any(found(node) for node in ast.walk(module.tree))
    }


def calls(name: str) -> Callable[[ast.AST], bool]:
    def found(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and name in (
            getattr(node.func, "id", ""),
            getattr(node.func, "attr", ""),
        )

    return found


def imports(name: str) -> Callable[[ast.AST], bool]:
    def found(node: ast.AST) -> bool:
        return isinstance(node, ast.ImportFrom) and name in [each.name for each in node.names]

    return found


def touches(*names: str) -> Callable[[ast.AST], bool]:
    def found(node: ast.AST) -> bool:
        text = isinstance(node, ast.Constant) and node.value in names
        return text or (isinstance(node, ast.Attribute) and node.attr in names)

    return found


def test_the_host_of_a_url_is_found_in_one_way() -> None:
    browser = {f"tools/browser/{name}.py" for name in ("browser", "tab", "tools")}
    """The browser has written these URLs: no two programs read them differently."""
    own = {"terminals/container/address.py", "models/wires/bedrock/client.py"}
    """They connect to what they have read, in an address that the owner has set."""
    label = {"incidents/alerts/matching.py"}
    """It reads no URL: a label of an alert has this name."""
    assert uses(touches("hostname")) - browser - own - label == set()


def test_permits_are_made_by_the_authorizer_alone() -> None:
    assert uses(calls("Permit")) == {"agent/tools/authorization.py"}


def test_the_function_of_a_tool_is_known_to_the_tool_alone() -> None:
    assert uses(touches("_bare", "_function")) == {"core/tools.py"}


def test_tools_are_invoked_in_one_place_and_from_one_place() -> None:
    users = {"agent/tools/authorization.py", "agent/tools/invoke.py", "core/tools.py"}
    assert uses(imports("Permit")) == users
    assert uses(imports("invoke")) == {"agent/tools/executor.py"}
    assert uses(imports("relayed_permit")) == {"agent/tools/executor.py"}
    assert uses(imports("run_relayed")) == {"runtime/remote.py"}
    assert uses(imports("CallAuthorizer")) == {"agent/tools/executor.py", "agent/tools/context.py"}


def test_no_group_of_an_expression_is_repeated_possessively() -> None:
    """Python 3.11.2, which is Debian's, then passes over what fits; `[…]*+` is sound."""

    def found(node: ast.AST) -> bool:
        text = node.value if isinstance(node, ast.Constant) else ""
        return isinstance(text, str) and bool(re.search(r"(?<![(\\])\)[*+?]\+|\(\?>", text))

    assert uses(found) == set()
