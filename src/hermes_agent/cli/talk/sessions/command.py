"""List, show, search, resume, rename, export and delete sessions, and show who works for whom.
Alone, it lists them.

A session is named by its id, the beginning of its id, or its name."""

import argparse
import sys
import time
from typing import Any

from hermes_agent.cli.arguments import json_option, natural, positive, session_name
from hermes_agent.cli.client.api import RuntimeClient, session_path
from hermes_agent.cli.output.formatting import dollars, moment, print_json, sure
from hermes_agent.cli.output.turn_printer import one_line, tokens_said
from hermes_agent.cli.talk.sessions.text import find, found_text, sessions_text
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.text.terminal import clean

ALL = 1_000_000_000


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(act=_list, limit=50)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")

    def action(name: str, act: Any, summary: str, *, json: bool = True) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=summary, description=summary)
        made.set_defaults(act=act)
        if json:
            made.add_argument(
                "--json",
                action="store_true",
                default=argparse.SUPPRESS,
                help="print one JSON document",
            )
        return made

    listing = action("list", _list, "newest first")
    listing.add_argument("--limit", type=positive, default=50, help="how many (default 50)")
    tree = action("tree", _tree, "below those that they work for, with what they cost together")
    tree.add_argument("session", nargs="?", default="", help="only this one and its children")
    tree.add_argument("--limit", type=positive, default=50, help="how many (default 50)")
    action("show", _show, "print what was said and done").add_argument("session")
    _search_arguments(action("search", _search, "find what was said, in all sessions"))
    action("resume", _resume, "go on talking", json=False).add_argument("session")
    rename = action("rename", _rename, "give a name")
    rename.add_argument("session")
    rename.add_argument("name")
    export = action("export", _export, "write as JSON lines or Markdown", json=False)
    export.add_argument("session", nargs="?", default="")
    export.add_argument("--all", action="store_true", help="every session")
    export.add_argument(
        "--format",
        choices=("openai", "sharegpt", "markdown", "journal"),
        default="openai",
        help="openai and sharegpt: a JSON line per turn; default openai",
    )
    export.add_argument("--out", default="", help="a file; default: standard output")
    delete = action("delete", _delete, "remove a session and everything it said")
    delete.add_argument("session")
    delete.add_argument("--yes", action="store_true", help="do not ask")


def _search_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", help='all must fit; `disk*` begins so, `"a b"` exactly')
    parser.add_argument("--session", default="", help="in one session")
    parser.add_argument("--role", choices=("user", "assistant", "tool"), default="")
    parser.add_argument("--tool", default="", help="only results of this tool")
    parser.add_argument("--since", default="", help="2d, 3h, 1w, or a date such as 2026-01-31")
    parser.add_argument("--limit", type=positive, default=20, help="how many (default 20)")
    parser.add_argument("--around", type=natural, default=0, help="neighbouring messages to show")


def run(options: argparse.Namespace) -> int:
    api = RuntimeClient()
    api.ensure()
    return int(options.act(api, options) or 0)


def _list(api: RuntimeClient, options: argparse.Namespace) -> None:
    # Children are in the tree; here they would push what people said out of sight.
    rows = api.get(f"/v1/sessions?parent=&limit={options.limit}")
    if options.json:
        print_json(rows)
    else:
        print(sessions_text(rows, time.time()))


def _tree(api: RuntimeClient, options: argparse.Namespace) -> None:
    from hermes_agent.cli.talk.sessions.tree import tree, tree_text

    roots = tree(api, options.session, options.limit)
    if options.json:
        print_json(roots)
    else:
        print(tree_text(roots, time.time()))


def _show(api: RuntimeClient, options: argparse.Namespace) -> None:
    from hermes_agent.cli.output.transcript import messages, plain
    from hermes_agent.cli.talk.export import journal_of

    session = find(api, options.session)
    journal = journal_of(api, session)
    if options.json:
        print_json({**session, "messages": list(messages(journal))})
        return
    name = f" ({one_line(session['name'])})" if session["name"] else ""
    print(f"session    {session['id']}{name}, {session['state']}")
    print(f"model      {one_line(session['model'])}, policy {session['policy']}")
    print(f"workspace  {clean(session['workspace'])}")
    if session["terminals"] != ["local"]:
        print(f"terminals  {', '.join(session['terminals'])}")
    print(f"spent      {tokens_said(session['usage'])}", end="")
    print("" if session["cost"] is None else f", {dollars(session['cost'])}")
    for piece in plain(journal):
        print(clean(piece))


def _search(api: RuntimeClient, options: argparse.Namespace) -> None:
    now = time.time()
    query = " ".join(options.words).strip()
    if not query:
        raise UsageError("search for what?", "`hermes sessions search WORDS`")
    rows = api.get(
        "/v1/search",
        q=query,
        session=options.session,
        role=options.role,
        tool=options.tool,
        since=moment(options.since, now) if options.since else None,
        limit=options.limit,
        around=options.around,
    )
    if options.json:
        print_json(rows)
    else:
        print(found_text(rows))


def _resume(api: RuntimeClient, options: argparse.Namespace) -> int:
    from hermes_agent.cli.talk.chat.command import converse

    return converse(api, session=find(api, options.session))


def _rename(api: RuntimeClient, options: argparse.Namespace) -> None:
    name = session_name(options.name)
    session = find(api, options.session)
    renamed = api.patch(session_path(session["id"]), {"name": name})
    if options.json:
        print_json(renamed)
    else:
        print(f"{renamed['id']} is called {renamed['name']!r}")


def _export(api: RuntimeClient, options: argparse.Namespace) -> None:
    from hermes_agent.cli.talk.export import export

    if bool(options.session) == options.all:
        raise UsageError("name one session, or --all", "`hermes sessions` lists them")
    chosen = api.get("/v1/sessions", limit=ALL) if options.all else [find(api, options.session)]
    pieces = (piece for session in chosen for piece in export(api, session, options.format))
    if not options.out:
        sys.stdout.writelines(pieces)
        return
    try:
        with open(options.out, "w", encoding="utf-8") as file:
            file.writelines(pieces)
    except OSError as error:
        raise HermesError(
            f"cannot write {options.out}: {error.strerror}", "name another file"
        ) from None
    print(f"wrote {options.out}", file=sys.stderr)


def _delete(api: RuntimeClient, options: argparse.Namespace) -> int:
    session = find(api, options.session)
    what = one_line(session["name"] or session["title"], 50)
    if not sure(f"delete session {session['id']} ({what}) and all it said?", options.yes):
        print("kept")
        return 1
    told = api.delete(session_path(session["id"]))
    if options.json:
        print_json(told)
    else:
        print(f"deleted {told['deleted']}")
        for left in told["left"]:
            print(one_line(left, 500), file=sys.stderr)
    return 0
