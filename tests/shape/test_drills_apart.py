"""The drills are a distribution of their own: nothing of them is in the runtime's."""

import ast
import tomllib
from pathlib import Path

from setuptools import find_packages

from tests.support.source import PACKAGE, ROOT, modules

DRILLS = ROOT / "drills" / "src"


def importers(folder: Path, package: str) -> set[str]:
    """The modules below a folder that import a package."""
    found = set()
    for module in modules(folder):
        for node in ast.walk(module.tree):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == package for name in names):
                found.add(module.path.relative_to(folder).as_posix())
    return found


def test_the_drills_import_nothing_of_the_runtime() -> None:
    assert importers(DRILLS, "hermes_agent") == set()


def test_the_runtime_imports_the_drills_in_one_command_alone() -> None:
    assert importers(PACKAGE, "hermes_drills") == {"cli/work/drill.py"}


def test_the_runtimes_wheel_contains_no_drill() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (where,) = project["tool"]["setuptools"]["packages"]["find"]["where"]
    assert [name for name in find_packages(ROOT / where) if "drill" in name] == []
    wanted = {"cli/work/drill.py", "policies/drill.yaml"}
    named = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*drill*.*")}
    assert {path for path in named if "__pycache__" not in path} <= wanted
