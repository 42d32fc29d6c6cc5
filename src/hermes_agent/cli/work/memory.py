"""What is remembered: of your systems (MEMORY.md) and of you (USER.md). Alone, it shows both.

Both are views over a store of notes. A new session is shown as many notes as fit; what does not fit
is kept and found by `search`. No note is lost: `log` tells what was changed and by whom, `undo`
takes it back. The files in `memories` of the home may be edited by hand too."""

import argparse
import time
from typing import Any

from hermes_agent.cli.actions import add_action, run_action
from hermes_agent.cli.arguments import json_option, natural, positive
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.formatting import ago, stamp, table
from hermes_agent.cli.output.turn_printer import one_line
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.text.terminal import clean

FILES = {"memory": "MEMORY.md", "user": "USER.md"}
SOURCE = "cli"

Row = dict[str, Any]


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(act=_show, all=False)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")

    show = add_action(actions, "show", _show, "what a new session is shown")
    show.add_argument("--all", action="store_true", help="also the notes that do not fit")
    add = add_action(actions, "add", _add, "remember something")
    add.add_argument("text", nargs="+", help="what to remember, in a sentence")
    add.add_argument("--user", action="store_true", help="it is about you: USER.md")
    edit = add_action(
        actions, "edit", _edit, "write a note differently, or bring back one that was removed"
    )
    edit.add_argument("id", type=positive, metavar="ID")
    edit.add_argument("text", nargs="*", help="the new text; else $EDITOR opens")
    remove = add_action(actions, "remove", _remove, "forget a note; it stays in the log")
    remove.add_argument("id", type=positive, metavar="ID")
    log = add_action(actions, "log", _log, "what was changed, newest first")
    log.add_argument("id", type=positive, nargs="?", default=0, metavar="ID", help="of one note")
    log.add_argument("--limit", type=positive, default=30, help="how many (default 30)")
    diff = add_action(actions, "diff", _diff, "what a change did to the notes")
    diff.add_argument("batch", **_batch("which change, as `log` numbers them; else the last"))
    undo = add_action(actions, "undo", _undo, "take a change back")
    undo.add_argument("batch", **_batch("which change; else the last that was not taken back"))
    search = add_action(
        actions, "search", _search, "find notes, also those that a session is not shown"
    )
    search.add_argument("words", nargs="+", help="any of them may fit")
    search.add_argument("--limit", type=positive, default=20, help="how many (default 20)")
    why = add_action(actions, "why", _why, "where a note comes from, and what became of it")
    why.add_argument("id", type=positive, metavar="ID")


def _batch(help: str) -> dict[str, Any]:
    return {"type": natural, "nargs": "?", "default": 0, "metavar": "CHANGE", "help": help}


def run(options: argparse.Namespace) -> int:
    return run_action(options)


# looking


def _show(api: RuntimeClient, options: argparse.Namespace) -> Any:
    found = api.get("/v1/memory")
    if not options.json:
        print(memory_text(found, everything=options.all))
    return found


def memory_text(found: Row, *, everything: bool) -> str:
    notes = {note["id"]: note for note in found["notes"]}
    lines: list[str] = []
    for view, facts in found["views"].items():
        shown = [notes[id] for id in facts["shown"] if id in notes]
        chars = f"{facts['chars']:,} of {facts['limit']:,} characters"
        lines.append(f"{FILES.get(view, view)}: {chars}")
        lines += [_note_line(note) for note in shown] or ["  nothing yet"]
        listed = {note["id"] for note in shown}
        rest = [one for one in notes.values() if one["view"] == view and one["id"] not in listed]
        lines += [f"  {one_line(remark, 400)}" for remark in facts["remarks"]]
        lines += [*_unseen(facts["withheld"], rest, everything=everything), ""]
    if found["provider"]:
        lines.append(f"beside them: {one_line(found['provider'])}")
    return "\n".join([*lines, 'hint: hermes memory add "…" remembers something'])


def _unseen(withheld: Row, rest: list[Row], *, everything: bool) -> list[str]:
    """Notes that a new session is not shown: they are withheld, or do not fit."""
    held = [note for note in rest if str(note["id"]) in withheld]
    others = [note for note in rest if str(note["id"]) not in withheld]
    lines: list[str] = []
    for what, notes in (("withheld", held), ("do not fit", others)):
        if notes and everything:
            lines += [f"  {what}:", *map(_note_line, notes)]
        elif notes:
            lines.append(f"  {what}: {len(notes):,} more; `hermes memory show --all` lists them")
    return lines


def _note_line(note: Row) -> str:
    first, *more = clean(note["text"]).splitlines() or [""]
    return "\n".join([f"{note['id']:>6}  {first}", *(f"        {line}" for line in more)])


def _search(api: RuntimeClient, options: argparse.Namespace) -> Any:
    query = " ".join(options.words).strip()
    if not query:
        raise UsageError("search for what?", "`hermes memory search WORDS`")
    notes = api.get("/v1/memory/search", query=query, limit=options.limit)
    if not options.json:
        print("\n".join(map(_note_line, notes)) or "nothing found")
    return notes


def _log(api: RuntimeClient, options: argparse.Namespace) -> Any:
    changes = api.get("/v1/memory/log", limit=options.limit, note=options.id)
    if not options.json:
        print(log_text(changes))
    return changes


def log_text(changes: list[Row]) -> str:
    if not changes:
        return "nothing was changed yet"
    cells = [
        (str(row["batch"]), stamp(row["time"]), one_line(f"{row['by']}, {row['source']}", 40),
         str(row["note"]), one_line(change_said(row), 200))
        for row in changes
    ]  # fmt: skip
    hint = "hint: `hermes memory diff CHANGE` shows one, `hermes memory undo CHANGE` takes it back"
    return f"{table(('change', 'when', 'by', 'note', ''), cells)}\n{hint}"


def change_said(row: Row) -> str:
    """One line of the log in words."""
    undoes = f"(takes back {row['undoes']}) " if row["undoes"] else ""
    if row["before"] is None:
        return f"{undoes}+ {row['after'] or ''}"
    if row["after"] is None:
        return f"{undoes}- {row['before']}"
    return f"{undoes}~ {row['after']}"


def _diff(api: RuntimeClient, options: argparse.Namespace) -> Any:
    told = api.get("/v1/memory/diff", batch=options.batch)
    if not options.json:
        print(clean(told["diff"]).rstrip("\n") or "nothing was changed")
    return told


def _why(api: RuntimeClient, options: argparse.Namespace) -> Any:
    told = api.get(_note_path(options))
    told["withheld"] = "" if told["shown"] else _withheld(api, told["note"])
    if not options.json:
        print(why_text(told, time.time()))
    return told


def _withheld(api: RuntimeClient, note: Row) -> str:
    """Why no session is shown it; empty where it only does not fit."""
    views = api.get("/v1/memory")["views"]
    return str(views[note["view"]]["withheld"].get(str(note["id"]), ""))


def why_text(told: Row, now: float) -> str:
    note, origin = told["note"], told["from"]
    lines = [_note_line(note), ""]
    lines.append(f"written    {stamp(note['created'])} by {_who(note)}, {one_line(note['source'])}")
    if note["updated"] > note["created"]:
        lines.append(f"changed    {stamp(note['updated'])}")
    lines.append(f"confidence {note['confidence']:.0%}")
    used = f"{note['used']} times, last {ago(note['last_used'], now)}" if note["used"] else "never"
    lines.append(f"used       {used}")
    lines.append(f"now        {_standing(told)}")
    if origin is not None:
        title = f" ({one_line(origin['title'], 60)})" if origin["title"] else ""
        where = f", event {origin['number']}" if origin["number"] else ""
        lines.append(f"from       session {origin['session']}{title}{where}")
        if origin["text"]:
            lines.append(f"           {one_line(origin['text'], 400)}")
        lines.append(f"hint: `hermes sessions show {origin['session']}` shows all of it")
    if told["changes"]:
        lines += ["", log_text(told["changes"])]
    return "\n".join(lines)


def _who(note: Row) -> str:
    model = f" ({one_line(note['model'])})" if note["model"] else ""
    return f"{note['by']}{model}"


def _standing(told: Row) -> str:
    if told["note"]["removed"]:
        return "removed"
    name = FILES.get(told["note"]["view"], told["note"]["view"])
    if told["withheld"]:
        return f"in {name}, and withheld from sessions: {one_line(told['withheld'], 300)}"
    return f"in {name}" if told["shown"] else f"does not fit into {name}; found by search"


# changing


def _add(api: RuntimeClient, options: argparse.Namespace) -> Any:
    view = "user" if options.user else "memory"
    text = _worded(" ".join(options.text))
    notes = _change(api, {"id": 0, "text": text, "view": view})
    if not options.json:
        print(f"noted as {', '.join(str(note['id']) for note in notes)} in {FILES[view]}")
    return notes


def _edit(api: RuntimeClient, options: argparse.Namespace) -> Any:
    note = api.get(_note_path(options))["note"]
    if options.text:
        notes = _reword(api, options, note, " ".join(options.text))
    else:
        from hermes_agent.cli.output.editor import edited, save_draft_on_error

        name = f"note-{options.id}.md"
        text = edited(note["text"] + "\n", name)
        with save_draft_on_error(text, name):
            notes = _reword(api, options, note, text)
    if not options.json:
        print(f"note {options.id} says: {one_line(notes[0]['text'], 300)}")
    return notes


def _note_path(options: argparse.Namespace) -> str:
    return f"/v1/memory/notes/{options.id}"


def _reword(api: RuntimeClient, options: argparse.Namespace, seen: Row, text: str) -> list[Row]:
    """Another text for the note, unless it has another by now than the one that was seen."""
    now = api.get(_note_path(options))["note"]
    if now["text"] != seen["text"]:
        raise HermesError(
            f"note {options.id} was changed meanwhile to: {one_line(now['text'], 300)}",
            f"`hermes memory log {options.id}` tells by whom",
        )
    if _worded(text) == seen["text"] and not seen["removed"]:
        return [seen]
    return _change(api, {"id": options.id, "text": _worded(text), "view": seen["view"]})


def _worded(text: str) -> str:
    if not text.strip():
        raise UsageError("the note is empty", "say what to remember, or `hermes memory remove ID`")
    return text.strip()


def _remove(api: RuntimeClient, options: argparse.Namespace) -> Any:
    note = api.get(_note_path(options))["note"]
    if note["removed"]:
        raise UsageError(f"note {options.id} is removed already", "`hermes memory log` tells when")
    notes = _change(api, {"id": options.id, "text": None, "view": note["view"]})
    if not options.json:
        print(f"removed: {one_line(note['text'], 200)}")
        print(
            f"hint: `hermes memory edit {options.id} TEXT` or `hermes memory undo` brings it back"
        )
    return notes


def _change(api: RuntimeClient, edit: dict[str, object]) -> list[Row]:
    notes: list[Row] = api.post("/v1/memory", {"edits": [edit], "source": SOURCE})
    return notes


def _undo(api: RuntimeClient, options: argparse.Namespace) -> Any:
    notes = api.post("/v1/memory/undo", {"batch": options.batch})
    if not options.json:
        print("taken back; now:")
        for note in notes:
            text = "removed" if note["removed"] else one_line(note["text"], 200)
            print(f"{note['id']:>6}  {text}")
    return notes
