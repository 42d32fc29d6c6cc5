"""The project's own files as the shape tests read them."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "hermes_agent"
DRIFT = ROOT / "drift" / "src" / "hermes_drift"
DRILLS = ROOT / "drills" / "src" / "hermes_drills"

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """Dotted, as it is imported; for files below a `src` and for tests alike."""
        sources = (SOURCE, DRIFT.parent, DRILLS.parent)
        base = next((each for each in sources if self.path.is_relative_to(each)), ROOT)
        parts = self.path.relative_to(base).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def where(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    def functions(self) -> Iterator[FunctionNode]:
        for node in ast.walk(self.tree):
            if isinstance(node, FunctionNode):
                yield node


@cache
def modules(folder: Path) -> tuple[Module, ...]:
    return tuple(
        Module(path, text := path.read_text(), ast.parse(text, str(path)))
        for path in sorted(folder.rglob("*.py"))
    )


def runtime_and_drift() -> tuple[Module, ...]:
    """What is held to the shape rules; drills carry programs for small machines, with their own."""
    return modules(PACKAGE) + modules(DRIFT)


@cache
def tracked_files() -> tuple[Path, ...]:
    """What git keeps or would keep, whoever owns the checkout."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return tuple(sorted(path for path in paths if path.is_file()))
