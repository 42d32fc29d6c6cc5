"""Imports point down (docs/concepts/architecture.md). Those inside functions, under TYPE_CHECKING,
relative ones, and modules named in strings for a late import all count."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions

import pytest

from hermes_agent import _HOMES
from tests.support.source import PACKAGE, ROOT, Module, modules

RANKS = {
    "core": 0,
    "store": 1, "models": 1, "terminals": 1, "policy": 1, "tools": 1,
    "host": 2,
    "agent": 3,
    "learning": 4,
    "jobs": 5,
    "incidents": 6,
    "runtime": 7,
    "gateway": 8, "web": 8,
    "cli": 9,
    "__main__": 10,
}  # fmt: skip

FRONT_DOOR = "hermes_agent"
"""`__init__.py` names `runtime.library` and imports it only when asked: the one exception."""

_DOTTED = re.compile(r"hermes_agent(\.\w+)+(:\w+)?")


def imported(module: Module) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything the module imports or names for import."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=base, names=names, level=level):
                package = module.name.split(".")
                if module.path.name != "__init__.py":
                    package.pop()
                parents = package[: len(package) - level + 1] if level else []
                whole = ".".join([*parents, *([base] if base else [])])
                yield from ((node.lineno, f"{whole}.{alias.name}") for alias in names)
            case ast.Constant(value=str(text)) if _DOTTED.fullmatch(text):
                yield node.lineno, text.replace(":", ".")


def folder_of(name: str) -> str:
    """The folder of the package a dotted name leads to; empty for the package itself."""
    parts = name.split(".")
    if len(parts) < 2 or parts[0] != "hermes_agent":
        return ""
    if len(parts) == 2 and parts[1] in _HOMES:
        return _HOMES[parts[1]].split(".")[1]
    return parts[1] if parts[1] in RANKS else ""


def wrong_imports(module: Module) -> list[str]:
    here = folder_of(module.name)
    return [
        f"{module.where}:{line} imports {name}"
        for line, name in imported(module)
        if (there := folder_of(name)) and there != here and RANKS[there] >= RANKS[here]
    ]


def parse(name: str, text: str) -> Module:
    return Module(PACKAGE / name, text, ast.parse(text))


def test_every_import_points_down() -> None:
    inside = [module for module in modules(PACKAGE) if module.name != FRONT_DOOR]
    assert [wrong for module in inside for wrong in wrong_imports(module)] == []


def test_every_folder_of_the_package_has_its_layer() -> None:
    folders = [path for path in PACKAGE.iterdir() if path.is_dir() and path.name[0] != "_"]
    here = {path.name for path in folders if any(path.rglob("*.py"))}
    assert here <= RANKS.keys()
    assert {path.stem for path in PACKAGE.glob("*.py")} <= {"__init__", "__main__"}


def test_the_front_door_imports_nothing_before_it_is_asked() -> None:
    door = next(module for module in modules(PACKAGE) if module.name == FRONT_DOOR)
    at_import = [node for node in door.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in at_import] == []


def test_the_package_imports_only_what_it_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = {
        re.split(r"[\s<>=!~;\[]", line)[0].lower().replace("_", "-")
        for line in [
            *project["dependencies"],
            *(x for k, v in extras.items() if k != "dev" for x in v),
        ]
    }
    owners = packages_distributions()
    undeclared = [
        f"{module.where}:{line} imports {name}"
        for module in modules(PACKAGE)
        for line, name in imported(module)
        if (top := name.split(".")[0]) not in sys.stdlib_module_names
        and top not in ("hermes_agent", "hermes_drills")  # test_distributions
        and not {owner.lower().replace("_", "-") for owner in owners.get(top, [])} & declared
    ]
    assert undeclared == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("core/x.py", "import hermes_agent.store.store"),
        ("core/x.py", "def f():\n    from hermes_agent.store import store"),
        (
            "tools/x.py",
            "if TYPE_CHECKING:\n    from hermes_agent.terminals.local.terminal import Local",
        ),
        ("tools/x.py", "from ..terminals import local"),
        ("tools/__init__.py", "from ..terminals import local"),
        ("store/x.py", "from hermes_agent import models"),
        ("agent/x.py", "from hermes_agent import Agent"),
        ("models/x.py", "SERVICES = {'x': 'hermes_agent.policy.gate:open'}"),
        ("runtime/x.py", "import hermes_agent.cli.main"),
    ],
)
def test_an_import_that_points_up_or_sideways_is_seen(name: str, text: str) -> None:
    assert len(wrong_imports(parse(name, text))) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tools/x.py", "from hermes_agent.core.tools import tool"),
        ("tools/x.py", "from . import files"),
        ("cli/x.py", "from hermes_agent import __version__, Agent"),
        (
            "runtime/x.py",
            "TERMINALS = {'local': 'hermes_agent.terminals.local.terminal:LocalTerminal'}",
        ),
        ("__main__.py", "from hermes_agent.cli.main import main"),
    ],
)
def test_an_import_that_points_down_is_left_alone(name: str, text: str) -> None:
    assert wrong_imports(parse(name, text)) == []
