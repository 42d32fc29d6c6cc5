"""Drills and drift are distributions of their own: the runtime works without them."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from setuptools import find_packages

from hermes_agent.host.distributions import distributions
from tests.support.source import DRIFT, DRILLS, PACKAGE, ROOT, Module, modules


def imported(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""


def importers(folder: Path, package: str) -> set[str]:
    """The modules below a folder that import a package."""
    return {
        module.path.relative_to(folder).as_posix()
        for module in modules(folder)
        if any(name.split(".")[0] == package for name in imported(module))
    }


def named_in_strings(package: str) -> set[str]:
    """The runtime's modules with a string that begins with a package's name."""
    return {
        module.path.relative_to(PACKAGE).as_posix()
        for module in modules(PACKAGE)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and str(node.value).startswith(package)
    }


def test_drills_and_the_runtime_meet_in_one_command() -> None:
    assert importers(DRILLS, "hermes_agent") == set()
    assert importers(PACKAGE, "hermes_drills") == {"cli/work/drill.py"}
    assert importers(DRIFT, "hermes_drills") == set()


def test_the_runtime_reaches_drift_only_by_name() -> None:
    assert importers(PACKAGE, "hermes_drift") == set()
    places = {"cli/commands.py", "core/installation/extras.py", "runtime/api/app.py"}
    assert named_in_strings("hermes_drift") == places


def test_drift_needs_nothing_that_the_runtime_does_not_bring() -> None:
    core = {"cel_expr_python", "msgspec", "starlette", "yaml"}
    names = {name.split(".")[0] for module in modules(DRIFT) for name in imported(module)}
    assert names - sys.stdlib_module_names - {"hermes_agent", "hermes_drift"} <= core
    project = tomllib.loads((DRIFT.parents[1] / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == ["hermes-runtime"]


def test_each_distribution_is_in_the_folder_that_the_hint_names() -> None:
    for package, part in distributions().items():
        name, folder = part.distribution, part.folder
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        assert project["name"] == name
        assert (ROOT / folder / "src" / package / "__init__.py").is_file()
        assert f"--editable ./{folder}" in (ROOT / "scripts/setup").read_text()


def test_the_runtimes_wheel_contains_neither() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (where,) = project["tool"]["setuptools"]["packages"]["find"]["where"]
    packages = find_packages(ROOT / where)
    assert [name for name in packages if "drill" in name or "drift" in name] == []
    named = {
        path.relative_to(PACKAGE).as_posix()
        for word in ("drill", "drift")
        for path in PACKAGE.rglob(f"*{word}*.*")
    }
    wanted = {"cli/work/drill.py", "policies/drill.yaml"}
    assert {path for path in named if "__pycache__" not in path} <= wanted


WITHOUT = """
import sys
sys.path.remove(sys.argv.pop(1))
from hermes_agent.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_without_drift_its_commands_and_the_doctor_say_how_to_install_it(home: Path) -> None:
    missing = "hermes-runtime-drift is not installed\n"
    hint = "hint: `hermes add drift`\n"
    for words in (["drift"], ["drift", "list", "--json"], ["manifests", "--help"], ["doctor"]):
        command = [sys.executable, "-c", WITHOUT, str(DRIFT.parent), *words]
        done = subprocess.run(command, capture_output=True, text=True)
        if words == ["doctor"]:
            assert f"info  packages   {missing}      {hint}" in done.stdout
        else:
            assert (done.returncode, done.stderr) == (1, missing + hint)


ROUTES = """
import asyncio, sys
sys.path.remove(sys.argv[1])
from hermes_agent.runtime.api.app import _drift_routes
(_method, _path, handler), *_rest = _drift_routes(None)
asyncio.run(handler(None))
"""


def test_a_runtime_without_drift_says_so_when_it_is_asked() -> None:
    command = [sys.executable, "-c", ROUTES, str(DRIFT.parent)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "NotInstalled: hermes-runtime-drift is not installed\nhint: " in done.stderr
