"""The values that an argument may have in this home: names of sessions, models, jobs. Read without
a runtime, from files and a database that nothing is written to."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from hermes_agent.host.inspect import is_agents_command
from hermes_agent.host.paths import find_home

Value = tuple[str, str]

_PACKAGE = Path(__file__).parents[2]
_QUERIES = {
    "sessions": "select id, case name when '' then title else name end from sessions "
    "where parent = '' order by updated desc limit 100",
    "names": "select name, id from sessions where name <> '' order by updated desc limit 100",
    "jobs": "select 'job-' || number, name from jobs where state <> 'removed' "
    "order by number desc limit 100",
    "skills": "select name, state from skills order by name",
    "incidents": "select 'inc-' || number, state || ' ' || json_extract(body, '$.title') "
    "from incidents order by number desc limit 100",
}


def values(path: str, argument: str) -> list[Value]:
    """What `argument` of the command `sessions show` may be; an empty list if anything may."""
    command = path.split(" ", maxsplit=1)[0]
    keys = (f"{path} {argument}", f"{command} {argument}", argument)
    kinds = next((SOURCES[key] for key in keys if key in SOURCES), ())
    if kinds and kinds[0].startswith(":"):
        return [(kinds[0], "")]
    home = Path(find_home(os.environ))
    if is_agents_command(os.getpid()):  # the agent reads no sessions this way
        kinds = tuple(kind for kind in kinds if kind not in _QUERIES)
    return [
        one
        for kind in kinds
        for one in (_rows(home, kind) if kind in _QUERIES else _READERS[kind](home))
    ]


def _rows(home: Path, kind: str) -> Iterator[Value]:
    """From the database, beside a runtime that writes it, or after one that was killed."""
    import sqlite3

    path = home / "state.db"
    log, index = (path.with_name(f"state.db-{end}") for end in ("wal", "shm"))
    if not path.exists() or (log.exists() and log.stat().st_size and not index.exists()):
        return
    how = "mode=ro" if index.exists() else "immutable=1"  # makes no index
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=0.1)
        try:
            yield from (
                (str(value), str(about)) for value, about in database.execute(_QUERIES[kind])
            )
        finally:
            database.close()
    except sqlite3.Error:
        return  # busy, damaged, or of another version


def _catalogue(name: str) -> Any:
    path = _PACKAGE / "models" / "catalogue" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def _services(_home: Path) -> Iterator[Value]:
    return ((name, row.get("url", "")) for name, row in _catalogue("services").items())


def _models(home: Path) -> Iterator[Value]:
    """Those of the catalogue, and the services that serve others."""
    refreshed = home / "models.json"
    found = json.loads(refreshed.read_text()) if refreshed.exists() else _catalogue("catalogue")
    yield from ((name, "") for name in found["models"])
    served = {name.partition("/")[0] for name in found["models"]}
    yield from ((f"{name}/", about) for name, about in _services(home) if name not in served)


def _bundled_skills(home: Path) -> Iterator[Value]:
    for folder in (_PACKAGE / "skills", home / "skills"):
        yield from ((path.parent.name, "") for path in sorted(folder.glob("*/SKILL.md")))


def _profiles(home: Path) -> Iterator[Value]:
    for folder in (_PACKAGE / "policies", home / "policies"):
        for path in sorted(folder.glob("*.yaml")):
            text = path.read_text(encoding="utf-8", errors="replace")
            if named := re.search(r"(?m)^profile: *([\w.-]+)", text):
                about = re.search(r"(?m)^description: *(?:[>|]-?\s+)?(.+)", text)
                yield named[1], about[1] if about else ""


def _channels(_home: Path) -> Iterator[Value]:
    folder = _PACKAGE / "gateway" / "channels"
    return ((path.parent.name, "") for path in sorted(folder.glob("*/manifest.yaml")))


def _configured(home: Path, group: str) -> Iterator[Value]:
    """The names below a group of config.yaml."""
    import yaml

    config = home / "config.yaml"
    try:
        found = yaml.safe_load(config.read_text(encoding="utf-8")) if config.exists() else None
    except (yaml.YAMLError, UnicodeDecodeError):
        return
    named = found.get(group) if isinstance(found, dict) else None
    if isinstance(named, dict):
        yield from ((str(name), "") for name in named)


def _terminals(home: Path) -> Iterator[Value]:
    yield "local", "this machine"
    yield from _configured(home, "terminals")


def _settings(_home: Path) -> Iterator[Value]:
    """With what the source says of each. Importing it would take half of the whole time."""
    import ast

    module = ast.parse((_PACKAGE / "core" / "settings" / "root.py").read_text(encoding="utf-8"))
    classes = {one.name: one.body for one in module.body if isinstance(one, ast.ClassDef)}

    def inside(group: list[ast.stmt], prefix: str) -> Iterator[Value]:
        for field_and_below in pairwise(group):
            match field_and_below:
                case (
                    ast.AnnAssign(target=ast.Name(name), annotation=kind),
                    ast.Expr(ast.Constant(str(about))),
                ):
                    if isinstance(kind, ast.Name) and kind.id in classes:
                        yield from inside(classes[kind.id], f"{prefix}{name}.")
                    else:
                        yield f"{prefix}{name}", " ".join(about.split()).split(". ")[0]

    return inside(classes["Settings"], "")


def _parts(_home: Path) -> Iterable[Value]:
    from hermes_agent.core.installation.extras import PARTS

    return [(part.name, part.about) for part in PARTS.values()]


def _model_actions(_home: Path) -> Iterable[Value]:
    from hermes_agent.cli.manage.model.command import TAKES

    return [(name, "") for name in TAKES if name.islower()]


_READERS: dict[str, Callable[[Path], Iterable[Value]]] = {
    "services": _services,
    "models": _models,
    "bundled skills": _bundled_skills,
    "profiles": _profiles,
    "channels": _channels,
    "terminals": _terminals,
    "servers": lambda home: _configured(home, "mcp"),
    "sources": lambda home: _configured(home, "sources"),
    "settings": _settings,
    "parts": _parts,
    "model actions": _model_actions,
}

_FILES, _FOLDERS, _ANYTHING = (":files",), (":folders",), ()
SOURCES: dict[str, tuple[str, ...]] = {
    "session": ("sessions", "names"),
    "model": ("models",),
    "policy": ("profiles",),
    "profile": ("profiles",),
    "job": ("jobs",),
    "terminal": ("terminals",),
    "terminals": ("terminals",),
    "channel": ("channels",),
    "skills": ("skills", "bundled skills"),
    **dict.fromkeys(("file", "files", "paths", "out", "image", "log"), _FILES),
    **dict.fromkeys(("workspace", "folder"), _FOLDERS),
    "add parts": ("parts",),
    "config name": ("settings",),
    "drift repository": _FOLDERS,
    "incidents id": ("incidents",),
    "manifests policy": _FILES,
    "mcp add name": _ANYTHING,
    "mcp name": ("servers",),
    "model service": ("services",),
    "model words": ("model actions", "models", "services"),
    "skills name": ("skills", "bundled skills"),
    "skills new name": _ANYTHING,
    "sources add name": _ANYTHING,
    "sources name": ("sources",),
    "sources names": ("sources",),
    "task after": ("jobs",),
    "terminals name": ("terminals",),
}
"""Where the values of an argument come from, by its name; a command before it says whose."""
