"""List, show, search, resume, rewind, branch, compare, rename, export and delete sessions, and show
their children. Without an action, it lists them.

Name a session by its id, the beginning of its id, or its name."""

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from hermes_agent.cli.actions import add_action, add_actions, connect, emit
from hermes_agent.cli.arguments import json_option, natural, positive, session_name
from hermes_agent.cli.client.api import RuntimeClient, login_name, session_path
from hermes_agent.cli.output.events import token_counts
from hermes_agent.cli.output.formatting import dollars, moment, one_line, sure
from hermes_agent.cli.output.progress import Progress
from hermes_agent.cli.output.session_history import branch_text, comparison_text, rewind_text
from hermes_agent.cli.output.sessions import ALL, found_text, sessions_text, tree, tree_text
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.text.terminal import clean


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _list, limit=50)
    listing = add_action(actions, "list", _list, "newest first")
    below = add_action(actions, "tree", _tree, "sessions and their children, with total costs")
    below.add_argument("session", nargs="?", default="", help="only this one and its children")
    for one in (listing, below):
        one.add_argument("--limit", type=positive, default=50, help="how many (default 50)")
    add_action(actions, "show", _show, "print what was said and done", "session")
    _search_arguments(add_action(actions, "search", _search, "search all sessions"))
    resume = add_action(
        actions, "resume", _resume, "continue a session in a chat; default: the last"
    )
    resume.add_argument("session", nargs="?", default="", metavar="SESSION")
    _history_arguments(actions)
    add_action(actions, "rename", _rename, "rename a session", "session", "name")
    _export_arguments(
        add_action(actions, "export", _export, "write a session as Markdown, HTML or JSON")
    )
    delete = add_action(
        actions, "delete", _delete, "delete a session and all its messages", "session"
    )
    delete.add_argument("--yes", action="store_true", help="do not ask")


def _history_arguments(actions: Any) -> None:
    rewind = add_action(
        actions, "rewind", _rewind, "go back to before a message; effects are not undone", "session"
    )
    number = "the number of your message, as `show` has it"
    rewind.add_argument("message", nargs="?", type=_message, default=0, help=number)
    rewind.add_argument(
        "--back", type=positive, default=1, help="or how many messages to go back (default 1)"
    )
    branch = add_action(
        actions, "branch", _branch, "a new session with the same history", "session"
    )
    branch.add_argument("message", nargs="?", type=_message, default=0, help=f"up to {number}")
    branch.add_argument("--name", default="", help="a name for the branch")
    add_action(
        actions, "compare", _compare, "where two sessions diverge, and what each did then",
        "session", "other",
    )  # fmt: skip


def _message(text: str) -> int:
    """`12` or `#12`."""
    return positive(text.removeprefix("#"))


def _export_arguments(export: argparse.ArgumentParser) -> None:
    export.add_argument("session", nargs="?", default="")
    export.add_argument("--all", action="store_true", help="every session")
    forms = export.add_mutually_exclusive_group()
    forms.add_argument("--html", dest="format", action="store_const", const="html",
                       help="a web page in one file, without scripts")  # fmt: skip
    forms.add_argument(
        "--format",
        choices=("markdown", "html", "json", "openai", "sharegpt", "journal"),
        default="",
        help="default markdown; openai and sharegpt: a JSON line per turn",
    )
    export.add_argument(
        "-o", "--out", metavar="FILE", default="", help="a file; default: standard output"
    )


def _search_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="+", help='all must match; `disk*` by prefix, `"a b"` exactly'
    )
    parser.add_argument("--session", default="", help="only in this session")
    parser.add_argument("--role", choices=("user", "assistant", "tool"), default="")
    parser.add_argument("--tool", default="", help="only results of this tool")
    parser.add_argument("--since", default="", help="2d, 3h, 1w, or a date such as 2026-01-31")
    parser.add_argument("--limit", type=positive, default=20, help="how many (default 20)")
    parser.add_argument("--around", type=natural, default=0, help="neighbouring messages to show")


def _list(options: argparse.Namespace) -> int:
    # Children are in the tree; here they would push out what people said.
    rows = connect().get(f"/v1/sessions?parent=&limit={options.limit}")
    return emit(options, rows, sessions_text(rows, time.time()))


def _tree(options: argparse.Namespace) -> int:
    roots = tree(connect(), options.session, options.limit)
    return emit(options, roots, tree_text(roots, time.time()))


def _show(options: argparse.Namespace) -> int:
    from hermes_agent.cli.output.transcript import messages, plain

    api = connect()
    session = api.session(options.session)
    journal = api.journal(session["id"])
    name = f" ({one_line(session['name'])})" if session["name"] else ""
    cost = "" if session["cost"] is None else f", {dollars(session['cost'])}"
    lines = [
        f"session    {session['id']}{name}, {session['state']}",
        f"model      {one_line(session['model'])}, policy {session['policy']}",
        f"workspace  {clean(session['workspace'])}",
    ]
    if session["branch_of"]:
        lines.append(f"branch of  {session['branch_of']}, up to event #{session['branch_at']}")
    if session["terminals"] != ["local"]:
        lines.append(f"terminals  {', '.join(session['terminals'])}")
    lines.append(f"spent      {token_counts(session['usage'])}{cost}")
    lines += [clean(piece) for piece in plain(journal)]
    return emit(options, {**session, "messages": list(messages(journal))}, "\n".join(lines))


def _search(options: argparse.Namespace) -> int:
    query = " ".join(options.words).strip()
    if not query:
        raise UsageError("nothing to search for", "`hermes sessions search WORDS`")
    rows = connect().get(
        "/v1/search",
        q=query,
        session=options.session,
        role=options.role,
        tool=options.tool,
        since=moment(options.since, time.time()) if options.since else None,
        limit=options.limit,
        around=options.around,
    )
    return emit(options, rows, found_text(rows))


def _resume(options: argparse.Namespace) -> int:
    from hermes_agent.cli.talk.chat.command import converse
    from hermes_agent.cli.talk.chat.session import last_session

    api = connect()
    return converse(
        api, session=api.session(options.session) if options.session else last_session(api)
    )


def _rewind(options: argparse.Namespace) -> int:
    body: dict[str, object] = {"message": options.message, "back": options.back, "by": login_name()}
    done = connect().post(f"{session_path(options.session)}/rewind", body)
    return emit(options, done, rewind_text(done))


def _branch(options: argparse.Namespace) -> int:
    name = session_name(options.name) if options.name else ""
    body: dict[str, object] = {"message": options.message, "name": name, "by": login_name()}
    branch = connect().post(f"{session_path(options.session)}/branch", body)
    hint = f"`hermes sessions resume {branch['name'] or branch['id']}` continues it"
    return emit(options, branch, f"{branch_text(branch)}; {hint}")


def _compare(options: argparse.Namespace) -> int:
    api = connect()
    found = api.get(f"{session_path(options.session)}/compare", **{"with": options.other})
    return emit(options, found, comparison_text(found))


def _rename(options: argparse.Namespace) -> int:
    name = session_name(options.name)
    api = connect()
    session = api.session(options.session)
    renamed = api.patch(session_path(session["id"]), {"name": name})
    return emit(options, renamed, f"{renamed['id']} is now called {renamed['name']!r}")


def _export(options: argparse.Namespace) -> int:
    if bool(options.session) == options.all:
        raise UsageError("name one session, or --all", "`hermes sessions` lists them")
    api = connect()
    chosen = api.get("/v1/sessions", limit=ALL) if options.all else [api.session(options.session)]
    form = options.format or ("json" if options.json else "markdown")
    if not options.out:
        sys.stdout.writelines(_exported(api, chosen, form))
        return 0
    try:
        with open(options.out, "w", encoding="utf-8") as file, Progress("exporting") as progress:
            sessions = progress.over(chosen, len(chosen))
            file.writelines(_exported(api, sessions, form))
    except OSError as error:
        raise HermesError(
            f"cannot write {options.out}: {error.strerror}", "name another file"
        ) from None
    print(f"wrote {options.out}", file=sys.stderr)
    return 0


def _exported(api: RuntimeClient, sessions: Iterable[dict[str, Any]], form: str) -> Iterator[str]:
    from hermes_agent.cli.output.sessions import export

    return (piece for session in sessions for piece in export(api, session, form))


def _delete(options: argparse.Namespace) -> int:
    api = connect()
    session = api.session(options.session)
    what = one_line(session["name"] or session["title"], 50)
    if not sure(f"delete session {session['id']} ({what}) and all its messages?", options.yes):
        print("nothing was deleted")
        return 1
    deleted = api.delete(session_path(session["id"]))
    if not options.json:
        for left in deleted["left"]:
            print(one_line(left, 500), file=sys.stderr)
    return emit(options, deleted, f"deleted {deleted['deleted']}")


def interrupt_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", help="its id, the beginning of its id, or its name")
    json_option(parser)


def interrupt(options: argparse.Namespace) -> int:
    """Stop what a session is doing, at once. Its work so far is saved."""
    path = session_path(options.session)
    stopped = connect().post(f"{path}/interrupt")
    text = "interrupted" if stopped["interrupted"] else "the session was not working"
    return emit(options, stopped, text)
