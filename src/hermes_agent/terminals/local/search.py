"""Finds files and lines. Also a program: `grep` runs it in its own process, because a hard regular
expression would block every other thread and could not be stopped."""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})
LINE_CHARS = 500
LARGEST = 50_000_000
"""Larger files are not searched."""


def glob(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression over relative paths: `*`, `**`, `?`, `[a-z]`, `{a,b}`. One
    without a slash fits names at any depth."""
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    parts, place, depth = [], 0, 0
    while place < len(pattern):
        rest = pattern[place:]
        if rest.startswith("**/"):
            parts.append("(?:.*/)?")
            place += 3
        elif rest.startswith("**"):
            parts.append(".*")
            place += 2
        elif group := re.match(r"\[!?\]?[^\]/]*\]", rest):
            inner = group[0][1:-1].replace("\\", "\\\\").replace("[", "\\[")
            parts.append(f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]")
            place += len(group[0])
        else:
            sign = rest[0]
            if sign == "{":
                depth += 1
            simple = {"*": "[^/]*", "?": "[^/]", "{": "(?:"}
            if depth:
                simple |= {",": "|", "}": ")"}
                depth -= sign == "}"
            parts.append(simple.get(sign, re.escape(sign)))
            place += 1
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error:  # an open brace or a class that is none: take it as it stands
        return re.compile("(?:.*/)?" + re.escape(pattern.removeprefix("**/")), re.DOTALL)


def walk(top: Path, pattern: str) -> Iterator[tuple[Path, os.stat_result]]:
    """Regular files below `top` that fit the glob, folder by folder, in order of their names."""
    fits = glob(pattern.removeprefix("./"))
    if top.is_file() and fits.fullmatch(top.name):
        yield top, top.stat()
    for folder, below, names in os.walk(top):
        below[:] = sorted(name for name in below if name not in SKIPPED)
        start = "" if folder == str(top) else folder[len(str(top)) :].lstrip("/") + "/"
        for name in sorted(names):
            path = Path(folder, name)
            if fits.fullmatch(start + name) and path.is_file():
                try:
                    yield path, path.stat()
                except FileNotFoundError:  # gone since it was listed
                    continue


def grep(top: Path, pattern: str, files: str, limit: int) -> list[tuple[str, int, str]]:
    """The first `limit` lines that fit: path, number from 1, text."""
    expression = re.compile(pattern)
    found: list[tuple[str, int, str]] = []
    for path, facts in walk(top, files):
        if facts.st_size > LARGEST:
            continue
        try:
            data = path.read_bytes()
        except PermissionError:
            continue
        if b"\0" in data[:8192]:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
            if len(found) >= limit:
                return found
            if expression.search(line):
                found.append((str(path), number, line.rstrip("\r")[:LINE_CHARS]))
    return found


if __name__ == "__main__":
    top, *rest = json.load(sys.stdin)
    json.dump(grep(Path(top), *rest), sys.stdout)
