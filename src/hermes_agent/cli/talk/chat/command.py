"""Talk in the terminal.

Enter sends, Alt+Enter or a backslash at the end of a line goes on in the next one. What you say
while the agent works is queued and seen at its next step. Ctrl-C stops the agent, and a second one
leaves; Ctrl-D leaves. `/help` lists the commands.

With standard input from a pipe, each line is a turn; what needs consent is refused then."""

import argparse
import os
import sys
from typing import Any

from hermes_agent.cli.arguments import (
    absolute_model,
    chosen_terminals,
    chosen_tools,
    effort_option,
    session_name,
    terminal_option,
    tools_option,
)
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.talk.chat.session import ChatSession, check_free
from hermes_agent.core.errors import NotFound, UsageError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", help="go on with a session: its id or name")
    parser.add_argument(
        "--continue", dest="last", action="store_true", help="go on with the newest session"
    )
    parser.add_argument("--name", help="name the new session")
    parser.add_argument("--model", default="", help="service/name, for a new session")
    effort_option(parser, "for a new session")
    parser.add_argument("--policy", default="", help="policy profile, for a new session")
    parser.add_argument("--workspace", default="", help="where to work; default: this folder")
    terminal_option(parser)
    tools_option(parser)


def run(options: argparse.Namespace) -> int:
    if options.session is not None and not options.session.strip():
        raise UsageError("name a session", "`hermes sessions` lists them")
    name = "" if options.name is None else session_name(options.name)
    tools = chosen_tools(options)
    chosen = (
        options.model or options.policy or options.workspace or options.name or options.terminal
    )
    if options.session and options.last:
        raise UsageError("--session and --continue name two sessions", "leave one of them out")
    if (options.session or options.last) and (chosen or options.effort or tools):
        raise UsageError(
            "a session keeps its model, policy, workspace, terminals, tools and name",
            "leave --session and --continue out to open a new one; /model in the chat lets another "
            "model go on",
        )
    api = RuntimeClient()
    api.ensure()
    session: dict[str, Any] | None = None
    if options.session:
        from hermes_agent.cli.talk.sessions.text import find

        session = find(api, options.session)
    elif options.last:
        newest = [one for one in api.get("/v1/sessions?parent=") if one["source"] != "library"]
        if not newest:
            raise NotFound("there is no session to go on with", "`hermes chat` opens one")
        session = newest[0]
    if name:
        check_free(api, name)
    return converse(
        api,
        session=session,
        opening={
            "name": name,
            "model": absolute_model(options.model) or os.environ.get("HERMES_MODEL", ""),
            "policy": options.policy or os.environ.get("HERMES_POLICY", ""),
            "workspace": os.path.abspath(options.workspace or os.getcwd()),
            "terminals": chosen_terminals(options),
            "effort": options.effort,
            "tools": tools,
        },
    )


def converse(
    api: RuntimeClient,
    *,
    session: dict[str, Any] | None = None,
    opening: dict[str, object] | None = None,
) -> int:
    """Talk in a session, or in a new one that the first message opens."""
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    new = opening or {"workspace": os.getcwd()}
    status = api.get("/v1/status")
    if session is None and not new.get("model") and not status["model"]:
        from hermes_agent.models.catalogue.catalogue import Catalogue

        Catalogue().resolve("")  # says what to do
    talk = ChatSession(api, new, session=session, interactive=terminal)
    talk.model = talk.model or status["model"]
    if terminal and os.environ.get("TERM", "dumb") != "dumb":
        try:
            from hermes_agent.cli.talk.chat.screen import Screen
        except ModuleNotFoundError as error:
            lacking = (error.name or "").split(".")[0]
            if lacking not in ("prompt_toolkit", "rich"):
                raise
            print(
                f"this is the plain chat: {lacking} is not installed\n"
                "hint: pip install prompt-toolkit rich",
                file=sys.stderr,
            )
        else:
            return Screen(talk, os.path.join(api.home, "history")).run()
    from hermes_agent.cli.talk.chat.plain import run_plain

    return run_plain(talk, terminal)
