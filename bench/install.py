"""The size of the core install, from the lock's own names."""

from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from bench.table import Figure


def figures() -> Iterator[Figure]:
    names = core_distributions()
    yield Figure("core install, distributions", len(names), "", 1, "Hermes itself", 25, "")
    yield Figure(
        "core install, size", core_size(names), "MB", own_size(), "MB Hermes itself", 100, "MB"
    )


def core_distributions() -> list[str]:
    """What `pip install hermes-runtime` brings, without extras: the requirements, followed."""
    found: dict[str, None] = {}
    waiting = ["hermes-runtime"]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = None
        waiting += _needs(name)
    return list(found)


def _needs(name: str) -> list[str]:
    from packaging.requirements import Requirement

    needs = []
    for text in distribution(name).requires or []:
        wanted = Requirement(text)
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            needs.append(wanted.name.lower().replace("_", "-"))
    return needs


def core_size(names: list[str]) -> float:
    """Megabytes of files, compiled ones included, as they lie in site-packages."""
    total = 0
    for name in names:
        if name == "hermes-runtime":
            total += int(own_size() * 1e6)
            continue
        for file in distribution(name).files or []:
            path = Path(str(file.locate()))
            if path.is_file():
                total += path.stat().st_size
    return total / 1e6


def own_size() -> float:
    package = Path(__file__).parents[1] / "src" / "hermes_agent"
    return sum(path.stat().st_size for path in package.rglob("*") if path.is_file()) / 1e6
