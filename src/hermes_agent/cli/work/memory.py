"""What the agent remembers about your systems (MEMORY.md) and about you (USER.md). Without an
action, it shows both.

Both are views of a store of notes. A new session gets as many notes as fit; `search` finds the
rest. No note is lost: `log` shows what changed and who changed it, `undo` reverts it. You may also
edit the files in `memories` of the home by hand."""

import argparse
import time
from typing import Any

from hermes_agent.cli.actions import add_action, add_actions, connect, emit
from hermes_agent.cli.arguments import natural, positive
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.formatting import ago, count, one_line, stamp, table
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.text.terminal import clean

FILES = {"memory": "MEMORY.md", "user": "USER.md"}
SOURCE = "cli"

Row = dict[str, Any]


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _show, all=False)
    for name in ("show", "list"):
        show = add_action(actions, name, _show, "the notes that a new session gets")
        show.add_argument("--all", action="store_true", help="also the notes that do not fit")
    add = add_action(actions, "add", _add, "remember something")
    add.add_argument("text", nargs="+", help="what to remember, in a sentence")
    add.add_argument("--user", action="store_true", help="it is about you: USER.md")
    edit = add_action(actions, "edit", _edit, "change a note, or bring back a removed one")
    edit.add_argument("id", type=positive, metavar="ID")
    edit.add_argument("text", nargs="*", help="the new text; default: opens $EDITOR")
    remove = add_action(actions, "remove", _remove, "forget a note; it stays in the log")
    remove.add_argument("id", type=positive, metavar="ID")
    log = add_action(actions, "log", _log, "what changed, newest first")
    log.add_argument("id", type=positive, nargs="?", default=0, metavar="ID", help="one note")
    log.add_argument("--limit", type=positive, default=30, help="how many (default 30)")
    diff = add_action(actions, "diff", _diff, "what a change did to the notes")
    undo = add_action(actions, "undo", _undo, "revert a change")
    for action in (diff, undo):
        action.add_argument(
            "batch", type=natural, nargs="?", default=0, metavar="CHANGE",
            help="its number in `log`; default: the last",
        )  # fmt: skip
    search = add_action(actions, "search", _search, "search all notes, also those that do not fit")
    search.add_argument("words", nargs="+", help="match any of the words")
    search.add_argument("--limit", type=positive, default=20, help="how many (default 20)")
    why = add_action(actions, "why", _why, "where a note comes from, and its history")
    why.add_argument("id", type=positive, metavar="ID")


# showing


def _show(options: argparse.Namespace) -> int:
    found = connect().get("/v1/memory")
    return emit(options, found, memory_text(found, everything=options.all))


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
        lines.append(f"also: {one_line(found['provider'])}")
    return "\n".join([*lines, 'hint: hermes memory add "…" remembers something'])


def _unseen(withheld: Row, rest: list[Row], *, everything: bool) -> list[str]:
    """Notes that a new session does not get: they are withheld, or do not fit."""
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


def _search(options: argparse.Namespace) -> int:
    query = " ".join(options.words).strip()
    if not query:
        raise UsageError("nothing to search for", "`hermes memory search WORDS`")
    notes = connect().get("/v1/memory/search", query=query, limit=options.limit)
    return emit(options, notes, "\n".join(map(_note_line, notes)) or "nothing found")


def _log(options: argparse.Namespace) -> int:
    changes = connect().get("/v1/memory/log", limit=options.limit, note=options.id)
    return emit(options, changes, log_text(changes))


def log_text(changes: list[Row]) -> str:
    if not changes:
        return "no changes yet"
    cells = [
        (str(row["batch"]), stamp(row["time"]), one_line(f"{row['by']}, {row['source']}", 40),
         str(row["note"]), one_line(_change_line(row), 200))
        for row in changes
    ]  # fmt: skip
    hint = "hint: `hermes memory diff CHANGE` shows one, `hermes memory undo CHANGE` reverts it"
    return f"{table(('change', 'when', 'by', 'note', ''), cells)}\n{hint}"


def _change_line(row: Row) -> str:
    """One line of the log."""
    undoes = f"(reverts {row['undoes']}) " if row["undoes"] else ""
    if row["before"] is None:
        return f"{undoes}+ {row['after'] or ''}"
    if row["after"] is None:
        return f"{undoes}- {row['before']}"
    return f"{undoes}~ {row['after']}"


def _diff(options: argparse.Namespace) -> int:
    found = connect().get("/v1/memory/diff", batch=options.batch)
    return emit(options, found, clean(found["diff"]).rstrip("\n") or "no changes")


def _why(options: argparse.Namespace) -> int:
    api = connect()
    found = api.get(_note_path(options))
    found["withheld"] = "" if found["shown"] else _withheld(api, found["note"])
    return emit(options, found, why_text(found, time.time()))


def _withheld(api: RuntimeClient, note: Row) -> str:
    """Why sessions do not get the note; empty if it only does not fit."""
    views = api.get("/v1/memory")["views"]
    return str(views[note["view"]]["withheld"].get(str(note["id"]), ""))


def why_text(found: Row, now: float) -> str:
    note, origin = found["note"], found["from"]
    model = f" ({one_line(note['model'])})" if note["model"] else ""
    used = count(note["used"], "time") if note["used"] != 1 else "once"
    lines = [_note_line(note), ""]
    lines.append(
        f"written    {stamp(note['created'])} by {note['by']}{model}, {one_line(note['source'])}"
    )
    if note["updated"] > note["created"]:
        lines.append(f"changed    {stamp(note['updated'])}")
    lines.append(f"confidence {note['confidence']:.0%}")
    lines.append(
        f"used       {used}, last {ago(note['last_used'], now)}"
        if note["used"]
        else "used       never"
    )
    lines.append(f"now        {_standing(found)}")
    if origin is not None:
        title = f" ({one_line(origin['title'], 60)})" if origin["title"] else ""
        where = f", event {origin['number']}" if origin["number"] else ""
        lines.append(f"from       session {origin['session']}{title}{where}")
        if origin["text"]:
            lines.append(f"           {one_line(origin['text'], 400)}")
        lines.append(f"hint: `hermes sessions show {origin['session']}` shows all of it")
    if found["changes"]:
        lines += ["", log_text(found["changes"])]
    return "\n".join(lines)


def _standing(found: Row) -> str:
    if found["note"]["removed"]:
        return "removed"
    name = FILES.get(found["note"]["view"], found["note"]["view"])
    if found["withheld"]:
        return f"in {name}, but withheld from sessions: {one_line(found['withheld'], 300)}"
    return f"in {name}" if found["shown"] else f"does not fit into {name}; found by search"


# changing


def _add(options: argparse.Namespace) -> int:
    view = "user" if options.user else "memory"
    notes = _change(connect(), 0, _stripped(" ".join(options.text)), view)
    ids = ", ".join(str(note["id"]) for note in notes)
    return emit(options, notes, f"noted as {ids} in {FILES[view]}")


def _edit(options: argparse.Namespace) -> int:
    api = connect()
    note = api.get(_note_path(options))["note"]
    if options.text:
        notes = _reword(api, options, note, " ".join(options.text))
    else:
        from hermes_agent.cli.output.editor import edited, save_draft_on_error

        name = f"note-{options.id}.md"
        text = edited(note["text"] + "\n", name)
        with save_draft_on_error(text, name):
            notes = _reword(api, options, note, text)
    return emit(options, notes, f"note {options.id} is now: {one_line(notes[0]['text'], 300)}")


def _note_path(options: argparse.Namespace) -> str:
    return f"/v1/memory/notes/{options.id}"


def _reword(api: RuntimeClient, options: argparse.Namespace, seen: Row, text: str) -> list[Row]:
    """Change the text of a note, unless it was changed since it was read."""
    now = api.get(_note_path(options))["note"]
    if now["text"] != seen["text"]:
        raise HermesError(
            f"note {options.id} has been changed to: {one_line(now['text'], 300)}",
            f"`hermes memory log {options.id}` shows who changed it",
        )
    if _stripped(text) == seen["text"] and not seen["removed"]:
        return [seen]
    return _change(api, options.id, _stripped(text), seen["view"])


def _stripped(text: str) -> str:
    if not text.strip():
        raise UsageError(
            "the note is empty", "write what to remember, or run `hermes memory remove ID`"
        )
    return text.strip()


def _remove(options: argparse.Namespace) -> int:
    api = connect()
    note = api.get(_note_path(options))["note"]
    if note["removed"]:
        raise UsageError(f"note {options.id} is already removed", "`hermes memory log` shows when")
    notes = _change(api, options.id, None, note["view"])
    hint = f"`hermes memory edit {options.id} TEXT` or `hermes memory undo` brings it back"
    return emit(options, notes, f"removed: {one_line(note['text'], 200)}\nhint: {hint}")


def _change(api: RuntimeClient, id: int, text: str | None, view: str) -> list[Row]:
    edit = {"id": id, "text": text, "view": view}
    notes: list[Row] = api.post("/v1/memory", {"edits": [edit], "source": SOURCE})
    return notes


def _undo(options: argparse.Namespace) -> int:
    notes = connect().post("/v1/memory/undo", {"batch": options.batch})
    lines = ["reverted; now:"]
    for note in notes:
        text = "removed" if note["removed"] else one_line(note["text"], 200)
        lines.append(f"{note['id']:>6}  {text}")
    return emit(options, notes, "\n".join(lines))
