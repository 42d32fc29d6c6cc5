"""Talk in the terminal.

Enter sends; Alt+Enter, or a backslash at the end of a line, starts a new line. Messages you send
while the agent works are queued until its next step. Ctrl-C stops the agent, a second Ctrl-C or
Ctrl-D leaves. `/help` lists the commands.

With standard input from a pipe, each line is a turn, and whatever needs approval is refused."""

import argparse
import os
import sys
from typing import Any

from hermes_agent.cli.actions import connect
from hermes_agent.cli.arguments import new_session, session_options
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.talk.chat.session import ChatSession, check_free, last_session
from hermes_agent.core.errors import UsageError
from hermes_agent.core.text.terminal import clean


def arguments(parser: argparse.ArgumentParser) -> None:
    session_options(parser)
    parser.add_argument(
        "--continue", dest="last", action="store_true", help="continue the newest session"
    )


def run(options: argparse.Namespace) -> int:
    if options.session and options.last:
        raise UsageError("use either --session or --continue", "leave out one of them")
    opening = new_session(
        options,
        "leave out --session and --continue to open a new one; /model in the chat switches the "
        "model",
    )
    api = connect()
    session: dict[str, Any] | None = None
    if options.session:
        session = api.session(options.session)
    elif options.last:
        session = last_session(api)
    if opening["name"]:
        check_free(api, str(opening["name"]))
    return converse(api, session=session, opening=opening)


def converse(
    api: RuntimeClient,
    *,
    session: dict[str, Any] | None = None,
    opening: dict[str, object] | None = None,
) -> int:
    """Chat in a session, or in a new one that the first message opens."""
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    new = opening or {"workspace": os.getcwd()}
    status = api.get("/v1/status")
    if session is None and not new.get("model") and not status["model"]:
        from hermes_agent.models.catalogue.catalogue import Catalogue

        Catalogue().resolve("")  # raises, and says how to choose one
    if status["reason"]:
        print(clean(f"! {status['reason']}\nhint: {status['hint']}"), file=sys.stderr)
    talk = ChatSession(api, new, session=session, interactive=terminal)
    talk.model = talk.model or status["model"]
    if terminal and os.environ.get("TERM", "dumb") != "dumb":
        from hermes_agent.cli.talk.chat.screen import Screen

        return Screen(talk, os.path.join(api.home, "history")).run()
    from hermes_agent.cli.talk.chat.plain import run_plain

    return run_plain(talk, terminal)
