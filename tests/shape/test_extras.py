"""Every optional part can be added by name, and every hint about one names a part that exists."""

import ast
import re
import tomllib
from collections.abc import Iterator

import yaml

from hermes_agent.core.installation.extras import PARTS, pip_name
from hermes_agent.models.local.files import PACKAGED
from hermes_agent.runtime.tools.builtin import TABLE
from hermes_agent.terminals.registry import KINDS
from tests.support.source import DRIFT, DRILLS, PACKAGE, ROOT, modules

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {name: lines for name, lines in PROJECT["optional-dependencies"].items() if name != "dev"}
_OWN_PIP_LINE = re.compile(r"pip install (['\"]?(\.?/?\.?\[|hermes|\./dr)|prompt|--no-deps)")
_ADD = re.compile(r"`(?:\[.*)?hermes add ([a-z][\w-]*)|^ *hermes add ([a-z][\w-]*)", re.MULTILINE)


def required(extra: str) -> set[str]:
    return {re.split(r"[\s<>=!~;\[]", line)[0] for line in EXTRAS[extra]}


def texts() -> Iterator[tuple[str, str]]:
    for folder in (PACKAGE, DRIFT, DRILLS):
        yield from ((module.where, module.text) for module in modules(folder))
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        yield path.name, path.read_text()


def test_every_extra_can_be_added_and_is_installed_when_its_packages_are() -> None:
    assert {part.name for part in PARTS.values() if not part.distribution} == EXTRAS.keys()
    for name in EXTRAS:
        assert {pip_name(package) for package in PARTS[name].packages} == required(name)
    words = [word for part in PARTS.values() for word in (part.name, *part.aliases)]
    assert len(words) == len(set(words))


def test_every_hint_names_a_part() -> None:
    named = {
        argument.value
        for folder in (PACKAGE, DRIFT, DRILLS)
        for module in modules(folder)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("install_hint", "lacking")
        for argument in node.args
        if isinstance(argument, ast.Constant)
    }
    named |= {row.extra for row in TABLE.values() if row.packages}
    named |= {kind.extra for kind in KINDS.values() if kind.libraries} | PACKAGED.keys()
    for path in PACKAGE.glob("gateway/channels/*/manifest.yaml"):
        packages = yaml.safe_load(path.read_text()).get("packages", [])
        assert not packages or {*packages} <= {*PARTS[path.parent.name].packages}
    written = {one for _, text in texts() for found in _ADD.findall(text) for one in found if one}
    assert len(named) > 10
    assert len(written) > 10
    assert named | written <= PARTS.keys()


def test_no_text_says_a_pip_line_where_a_part_can_be_added() -> None:
    assert [name for name, text in texts() if _OWN_PIP_LINE.search(text)] == []
