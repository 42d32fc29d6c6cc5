"""The tree can be searched by name: one class per name, small folders, no import cycle, and
signposts that name what is there."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.support.source import DRIFT, PACKAGE, ROOT, Module, runtime_and_drift

FOLDER_MODULES = 21
SIBLINGS = 2
"""How many modules of a folder may begin with the same word; more are a package."""
SIGNPOSTS = ("CONTRIBUTING.md", "AGENTS.md", "docs/concepts/architecture.md")
_PATH = re.compile(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`")


def imported(module: Module, names: set[str]) -> Iterator[str]:
    """Modules of ours that a module imports: at its top, in functions, and for type checkers."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in names else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Modules that reach each other."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        ahead = [start]
        while ahead:
            for name in graph[ahead.pop()] - seen:
                seen.add(name)
                ahead.append(name)
        return seen

    reach = {name: reached(name) for name in graph}
    found = []
    done: set[str] = set()
    for name in graph:
        if name not in done and name in reach[name]:
            group = {other for other in reach[name] if name in reach[other]}
            done |= group
            found.append(group)
    return found


def test_no_module_imports_itself_by_way_of_others() -> None:
    names = {module.name for module in runtime_and_drift()}
    graph = {
        module.name: {one for one in imported(module, names) if one in names} - {module.name}
        for module in runtime_and_drift()
    }
    assert cycles(graph) == []


def test_a_cycle_is_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]


def test_a_public_class_has_a_name_of_its_own() -> None:
    classes = Counter(
        node.name
        for module in runtime_and_drift()
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in classes.items() if count > 1] == []


def folders() -> dict[Path, list[str]]:
    found = defaultdict(list)
    for module in runtime_and_drift():
        if module.path.name == "__init__.py":
            found[module.path.parent.parent].append(module.path.parent.name)
        else:
            found[module.path.parent].append(module.path.stem)
    for package in (PACKAGE, DRIFT):
        found.pop(package.parent)
    return found


def test_a_folder_has_few_modules() -> None:
    many = {
        folder.name: count
        for folder in folders()
        if (count := len([*folder.glob("*.py")])) > FOLDER_MODULES
    }
    assert many == {}


def test_modules_that_begin_with_the_same_word_are_a_package() -> None:
    families = [
        f"{folder.relative_to(ROOT)}: {word}_*"
        for folder, names in folders().items()
        for word, count in Counter(name.split("_")[0] for name in names).items()
        if count > SIBLINGS
    ]
    assert families == []


def test_the_signposts_name_what_is_there() -> None:
    missing = [
        f"{page}: {path}"
        for page in SIGNPOSTS
        for path in _PATH.findall((ROOT / page).read_text())
        if not any((base / path).exists() for base in (ROOT, PACKAGE, ROOT / "tests"))
    ]
    assert missing == []


def test_the_list_of_folders_is_whole() -> None:
    text = (ROOT / "docs/concepts/architecture.md").read_text()
    listed = set(re.findall(r"^  ([a-z]+)/ ", text, re.MULTILINE))
    there = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name[0] != "_"}
    assert listed == there
