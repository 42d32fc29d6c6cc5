"""`python -m bench [PART…]`: the table of all figures, or of some parts."""

import argparse
import os
import sys
from collections.abc import Iterator
from compileall import compile_dir
from importlib import import_module
from pathlib import Path

import hermes_agent
from bench.table import SHORT, Figure, show

PARTS = (
    "commands",
    "turns",
    "search",
    "policy",
    "models",
    "terminals",
    "tools",
    "mcp",
    "recall",
    "learning",
    "drills",
    "jobs",
    "api",
    "gateway",
    "install",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument(
        "--short", action="store_true", help="only see that every part still runs; no limit counts"
    )
    options = parser.parse_args()
    if options.short:
        os.environ[SHORT] = "1"
    compile_dir(Path(hermes_agent.__file__).parent, quiet=1)  # as an installed package is

    def figures() -> Iterator[Figure]:
        for part in options.parts or PARTS:
            yield from import_module(f"bench.{part}").figures()

    return 1 if show(figures()) and not options.short else 0


if __name__ == "__main__":
    sys.exit(main())
