"""Import what another agent has: settings, memory, skills, jobs and sessions of hermes-agent,
OpenClaw or nanobot. Without an argument, it lists the homes that it finds.

hermes import openclaw --dry-run    show what would be imported, changed and left out
hermes import openclaw              the same, then ask
hermes import ~/old/.hermes --only memory,sessions

The other home is only read, even while its agent runs. Keys are copied only with --keys.
Skills arrive quarantined, jobs paused, channels switched off. A second import adds what is new."""

import argparse
import base64
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from hermes_agent.cli.actions import emit
from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.manage.imports.home import (
    PeerHome,
    PeerSession,
    Row,
    scratch_folder,
    turns_of,
    utf8,
)
from hermes_agent.cli.output.formatting import count, one_line, sure, table
from hermes_agent.cli.output.progress import Progress
from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.text.terminal import clean
from hermes_agent.host.foreign import ASIDE, KNOWN, OURS, foreign_home, found_homes
from hermes_agent.host.paths import find_home

PARTS = ("settings", "keys", "memory", "documents", "skills", "jobs", "sessions")
BATCH_CHARS = 1_000_000
SHOWN = 20
"""Rows of one part that the table lists."""

UNCOPIED = "--keys copies it"

Item = tuple[str, str, str, str]
"""Part, name, state and what there is to say about it."""


class ImportInterrupted(KeyboardInterrupt):
    """Ctrl-C while the import writes: what came by then stays."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="HOME", nargs="?", default="", help=f"a folder, or {', '.join(KNOWN)}"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be imported; change nothing"
    )
    parser.add_argument(
        "--only", default="", metavar="PARTS", help=f"import only these of {','.join(PARTS)}"
    )
    parser.add_argument("--without", default="", metavar="PARTS", help="leave these out")
    parser.add_argument(
        "--keys", action="store_true", help="also copy keys, into .env of your Hermes home"
    )
    parser.add_argument(
        "--yes", action="store_true", help="do not ask; keys are copied only with --keys"
    )
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    if not options.source:
        return _list(options)
    parts = _parts(options)
    peer, source = _find(options.source)
    target = find_home(os.environ)
    if os.path.realpath(target) == os.path.realpath(source):
        raise UsageError(f"{source} is the home itself", "`hermes backup` copies it")
    from hermes_agent.cli.manage.imports.readers import read_home

    with ExitStack() as stack:
        home = read_home(peer, source, stack, _servers(Path(target)))
        _restrict(home, parts)
        with _planning(target, brief=options.dry_run) as api:
            items = _import(api, home, target, keys=options.keys, dry=True)
        if not options.json:
            print(_text(home, target, items))
        document: Row = {"peer": peer, "source": str(source), "home": target, "items": _rows(items)}
        unchanged = {**document, "imported": False}
        if options.dry_run:
            return emit(options, unchanged, "\ndry run: nothing was changed")
        is_new, uncopied = any(item[2] == "new" for item in items), _uncopied(items)
        if is_new and not sure(f"import into {target}?", options.yes):
            print("nothing was changed")
            return 1
        question = f"also copy {count(len(uncopied), 'key')} ({', '.join(uncopied)})?"
        keys = options.keys or (bool(uncopied) and not options.yes and sure(question, yes=False))
        if not is_new and not (uncopied and keys):
            return emit(options, unchanged, "\nall that can be imported is here already")
        try:
            done = _import(RuntimeClient(target), home, target, keys=keys, dry=False)
        except KeyboardInterrupt:
            print(
                "\nstopped: what has been imported stays; importing again brings the rest",
                file=sys.stderr,
            )
            raise ImportInterrupted from None
    document |= {"imported": True, "items": _rows(done)}
    return emit(options, document, _report(home, target, done))


def _uncopied(items: list[Item]) -> list[str]:
    return [name for _, name, _, why in items if why == UNCOPIED]


def _list(options: argparse.Namespace) -> int:
    found = list(found_homes(os.path.expanduser("~")))
    rows = [{"peer": peer, "path": path} for peer, path in found]
    if not found:
        text = f"no home of another agent in {_places(*KNOWN)}\nhint: `hermes import HOME`"
        return emit(options, rows, text)
    text = table(("agent", "home"), found)
    return emit(options, rows, f"{text}\nhint: `hermes import {found[0][0]} --dry-run`")


def _places(*peers: str) -> str:
    return ", ".join(f"~/{name}" for peer in peers for name in KNOWN[peer])


def _parts(options: argparse.Namespace) -> frozenset[str]:
    named = {
        option: frozenset(filter(None, getattr(options, option).replace(" ", "").split(",")))
        for option in ("only", "without")
    }
    for option, parts in named.items():
        if unknown := sorted(parts - set(PARTS)):
            raise UsageError(
                f"--{option}: no part called {unknown[0]!r}", f"one of {', '.join(PARTS)}"
            )
    return (named["only"] or frozenset(PARTS)) - named["without"]


def _find(given: str) -> tuple[str, Path]:
    """The agent and its home, by name or path."""
    if given in KNOWN:
        for peer, place in found_homes(os.path.expanduser("~")):
            if peer == given:
                return peer, Path(place)
        raise NotFound(
            f"no home of {given} in {_places(given)}", "`hermes import PATH` names another place"
        )
    path = Path(os.path.abspath(os.path.expanduser(given)))
    if path.is_file():
        raise NotFound(f"{given!r} is a file", "name the folder that it is in")
    if not path.is_dir():
        raise NotFound(f"no folder at {given!r}", "`hermes import` lists the homes it finds")
    found = foreign_home(str(path))
    if found is None:
        ours = "it is a Hermes home; `hermes backup` and `hermes restore` copy it"
        raise UsageError(
            f"not a home of {', '.join(KNOWN)}: {path}",
            ours if (path / OURS).exists() else "name the folder with its configuration",
        )
    return found, path


def _servers(target: Path) -> dict[str, str]:
    """Model servers of the user, by their addresses."""
    from hermes_agent.cli.manage.imports.settings import server_address
    from hermes_agent.host.config import load_settings
    from hermes_agent.models.catalogue.services import OWN, service_of

    models, found = load_settings(target / "config.yaml", os.environ).models, dict[str, str]()
    for name in (*models.services, *sorted(OWN)):
        with suppress(HermesError):
            _, service, url = service_of(name, models, os.environ)
            if not service.needs_key:
                found.setdefault(server_address(url), name)
    return found


def _restrict(home: PeerHome, parts: frozenset[str]) -> None:
    for part in PARTS:
        if part not in parts:
            getattr(home, part).clear()
    if len(parts) < len(PARTS):
        home.left_out[:] = [row for row in home.left_out if row[0] in parts]


# what comes


@contextmanager
def _planning(target: str, *, brief: bool) -> Iterator[RuntimeClient]:
    """A runtime to ask what would become of things: that of the home, stopped again if `brief`, or,
    where there is none yet, one of an empty home."""
    from hermes_agent.cli.run.lifecycle import stop

    with ExitStack() as stack:
        if not os.path.exists(os.path.join(target, OURS)):
            brief = True
            target = str(scratch_folder(stack))
        api = RuntimeClient(target)
        if brief and not api.is_up():
            stack.callback(stop, api)
        yield api


def _import(
    api: RuntimeClient, home: PeerHome, target: str, *, keys: bool, dry: bool
) -> list[Item]:
    """Import everything, or with `dry` only foresee it: what becomes of each."""
    items = _local(home, Path(target), keys=keys, write=not dry)
    api.ensure()
    found = api.post("/v1/import", _body(home, dry=dry))
    items += _items(home, found)
    with Progress("reading sessions" if dry else "importing sessions") as progress:
        both = zip(home.sessions, found["sessions"], strict=True)
        for session, known in progress.over(both, len(home.sessions)):
            is_new = dry and known["state"] == "new"  # there is nothing to compare it with
            came = ("new", "") if is_new else _import_session(api, home, session, dry=dry)
            items.append(("sessions", session.id, *came))
    left = dict.fromkeys(home.left_out)
    return [*items, *((part, name, "left out", why) for part, name, why in left)]


def _body(home: PeerHome, *, dry: bool) -> Row:
    skills = [
        {
            "name": name,
            "files": {path: base64.b64encode(data).decode() for path, data in files.items()},
        }
        for name, files in home.skills.items()
    ]
    sessions = [session.id for session in home.sessions]
    body = {"notes": home.memory, "skills": skills, "jobs": home.jobs, "sessions": sessions}
    return {"peer": home.peer, "dry": dry, **utf8(body)}


def _items(home: PeerHome, found: Row) -> list[Item]:
    named = (
        ("memory", "notes", [note["text"] for note in home.memory]),
        ("skills", "skills", list(home.skills)),
        ("jobs", "jobs", [job["name"] or job["key"] for job in home.jobs]),
    )
    return [
        (part, name, one["state"], one["why"])
        for part, key, names in named
        for name, one in zip(names, found[key], strict=True)
    ]


def _local(home: PeerHome, folder: Path, *, keys: bool, write: bool) -> list[Item]:
    """Settings, documents and, with `keys`, keys: what becomes of each, and with `write` done."""
    from hermes_agent.core.files import private_folder, write_durably
    from hermes_agent.learning.injection_scan.scan import reason
    from hermes_agent.models.keys.storage import store_secret
    from hermes_agent.policy.redaction.redactor import Redactor
    from hermes_agent.policy.secrets import Secrets

    items = [_setting(home, folder, name, write=write) for name in home.settings]
    there = Secrets({}, folder).names()
    for variable, value in sorted(home.keys.items()):
        state, why = ("known", "you have one") if variable in there else ("new", "")
        if state == "new" and not keys:
            state, why = "left out", UNCOPIED
        elif state == "new" and write:
            store_secret(variable, value, folder)
        items.append(("keys", variable, state, why))
    for name, text in home.documents.items():
        place = folder / (name if name == "SOUL.md" else f"imported/{home.peer}/{name}")
        why = "read by the sessions that are imported"
        why = "how the agent speaks from now on" if name == "SOUL.md" else why
        state, redacted = "new", Redactor(home.keys)(text)
        why += "; secrets are blacked out" if redacted != text else ""
        if danger := reason(text, "context"):
            state, why = "left out", danger
        elif place.exists():
            state, why = "known", "you have one"
        elif write:
            private_folder(place.parent)
            write_durably(place, redacted.encode())
        items.append(("documents", name, state, why))
    return items


def _setting(home: PeerHome, folder: Path, name: str, *, write: bool) -> Item:
    """Set one setting, unless there is a value already."""
    from hermes_agent.host.config import read_config, set_setting, setting_path

    config, value = folder / "config.yaml", home.settings[name]
    now: Any = read_config(config)
    for step in setting_path(name):
        now = now.get(step) if isinstance(now, dict) else None
    if now is not None:
        same = now == value
        why = "" if same else f"keeps yours: {_in_words(now)}"
        return "settings", name, "known" if same else "left out", why
    try:
        if write:
            set_setting(config, name, json.dumps(value, ensure_ascii=False), lambda _settings: None)
    except HermesError as error:
        return "settings", name, "left out", error.message
    is_service = name.startswith("models.services.")
    shown = f"your server at {value['url']}" if is_service else _in_words(value)
    return "settings", name, "new", "; ".join(filter(None, (shown, home.changed.get(name))))


def _in_words(value: Any) -> str:
    """The value of a setting; in a group, what is switched off is left out."""
    if isinstance(value, dict):
        fields = [(name, each) for name, each in value.items() if each is not False]
        return ", ".join(f"{name}: {_in_words(each)}" for name, each in fields)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _import_session(
    api: RuntimeClient, home: PeerHome, session: PeerSession, *, dry: bool
) -> tuple[str, str]:
    """What became of it, and why."""
    state = "known"
    try:
        for turns in _batches(turns_of(session.messages())):
            body = {
                "peer": home.peer, "id": session.id, "title": session.title,
                "folder": session.folder, "turns": turns, "dry": dry,
            }  # fmt: skip
            done = api.post("/v1/import/session", utf8(body))
            if done["continued"]:
                return "left out", "new messages: the session was continued here"
            state = "new" if done["added"] else state
    except UsageError as error:
        return "left out", error.message
    return state, ""


def _batches(turns: Iterator[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for turn in turns:
        batch.append(turn)
        size += len(turn["text"]) + sum(len(text) for _, text in turn["replies"])
        if size > BATCH_CHARS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


# what is shown


def _rows(items: list[Item]) -> list[Row]:
    return [dict(zip(("part", "name", "state", "why"), item, strict=True)) for item in items]


def _text(home: PeerHome, target: str, items: list[Item]) -> str:
    """What comes, what is here already, and what is left out."""
    lines = [f"{home.peer} in {clean(str(home.path))} → {target}"]
    for state, head in (("new", "comes"), ("left out", "left out"), ("known", "here already")):
        chosen = [item for item in items if item[2] == state]
        if not chosen:
            continue
        lines += ["", head]
        for part in dict.fromkeys(part for part, *_ in chosen):
            rows = [item for item in chosen if item[0] == part]
            texts = [str(len(rows))] if state == "known" else _few(rows)
            lines += [line for text in texts for line in _wrapped(part, text)]
    if _uncopied(items):
        lines += ["", "keys are copied only if you agree, or with --keys"]
    return "\n".join(lines)


def _few(items: list[Item]) -> list[str]:
    """What there is of one part; sessions and what is beyond the first rows as a number."""
    part, state = items[0][0], items[0][2]
    if part == "sessions" and state == "new":
        where = "in the folder where it worked, else in your home folder"
        return [f"{count(len(items), 'session')}, with their text; each continues {where}"]
    rows = []
    for _, name, _, why in items[:SHOWN]:
        notes = "; ".join(filter(None, (why, _NOTES.get(part) if state == "new" else "")))
        shown = one_line(name.removeprefix("models.services."), 60)
        rows.append(f"{shown}: {one_line(notes, 300)}" if notes else shown)
    more = len(items) - SHOWN
    return [*rows, f"and {more:,} more"] if more > 0 else rows


def _wrapped(part: str, text: str) -> list[str]:
    """Nothing is cut: it is read before somebody agrees."""
    import shutil
    import textwrap

    width = max(40, shutil.get_terminal_size().columns)
    head, rest = f"  {part:<11}", " " * 13
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=rest)


_NOTES = {
    "skills": "quarantined until you restore it",
    "jobs": "paused, so that nothing runs twice; `hermes task resume ID` starts it",
}


def _report(home: PeerHome, target: str, items: list[Item]) -> str:
    """What came of it, and what to do next."""
    totals = Counter((part, state) for part, _, state, _ in items)
    cells = [
        (part, *(str(totals[part, state]) for state in ("new", "known", "left out")))
        for part in dict.fromkeys(part for part, *_ in items)
    ]
    lines = [table(("", "imported", "here already", "left out"), cells)]
    came = {item[0] for item in items if item[2] == "new"}
    if "skills" in came:
        lines.append(
            "skills: read each with `hermes skills show NAME`, then `hermes skills restore NAME`"
        )
    if "jobs" in came:
        lines.append(
            f"jobs are paused so that nothing runs twice: stop {home.peer}, then "
            "`hermes task resume ID` (`hermes task list`)"
        )
    if "sessions" in came:
        lines.append("sessions: `hermes search WORDS`, `hermes sessions list`")
    if _uncopied(items):
        lines.append(
            "keys were not copied: `hermes import … --keys`, or `hermes model key SERVICE`"
        )
    if target == os.path.expanduser(ASIDE):
        lines.append(f"this home is {ASIDE}, because ~/.hermes belongs to another program")
    return "\n".join(lines)
