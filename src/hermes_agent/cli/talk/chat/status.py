"""The header of a chat, its status line, and what rings when it needs somebody."""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hermes_agent.cli.output import formatting
from hermes_agent.cli.output.events import with_effort
from hermes_agent.cli.output.formatting import count, dollars, one_line
from hermes_agent.cli.talk.chat.session import ChatSession, last_session
from hermes_agent.cli.talk.chat.view import ChatView, Event
from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.root import ChatSettings, Settings
from hermes_agent.core.text.terminal import clean

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
OSC_9 = ("iTerm.app", "WezTerm", "ghostty", "xterm-ghostty", "xterm-kitty")
"""Values of TERM_PROGRAM or TERM whose terminals show desktop notices by OSC 9."""
OSC_777 = ("foot", "rxvt-unicode")
"""The same for OSC 777, as beginnings of TERM."""

Part = tuple[str, str]
"""A style and a text, as prompt_toolkit shows them."""


class StatusPart(NamedTuple):
    text: str
    short: str = ""
    """What it becomes where the line is narrow; empty means that it goes."""


def tokens(number: int) -> str:
    """`950`, `3.2k`, `128k`, `1.0M`."""
    if number < 1_000:
        return str(number)
    if number < 99_950:
        return f"{number / 1_000:.1f}k"
    return f"{number / 1_000:.0f}k" if number < 999_500 else f"{number / 1_000_000:.1f}M"


def context_part(used: int, window: int) -> StatusPart:
    if not used:
        return StatusPart("")
    if not window:
        return StatusPart(f"{tokens(used)} context")
    share = f"{min(999, round(100 * used / window))}%"
    return StatusPart(f"{tokens(used)}/{tokens(window)} context ({share})", f"ctx {share}")


def fitted(parts: list[StatusPart], width: int, measure: Callable[[str], int] = len) -> list[str]:
    """The texts of as many parts as fit. From the last to the first, they are shortened, then left
    out; the first is cut at last."""
    shown = [part.text for part in parts]

    def fits() -> bool:
        return measure(" · ".join(filter(None, shown))) <= width

    for place in reversed(range(1, len(parts))):
        for text in (parts[place].short, ""):
            if not fits():
                shown[place] = text
    shown[0] = formatting.fitted(shown[0], width, measure)
    return [text for text in shown if text]


def status_line(
    view: ChatView, talk: ChatSession, width: int, measure: Callable[[str], int], moment: float
) -> list[Part]:
    state = view.state
    style = "class:state.problem" if view.has_problem else "class:state.waiting"
    if state == "idle":
        style = "class:state.idle"
    elif state.startswith("working"):
        style = "class:state.working"
        state = f"{SPINNER[int(moment * 4) % len(SPINNER)]} {state}"
    model = one_line(talk.model, 40)
    parts = [
        StatusPart(state, state),
        context_part(view.context, view.window),
        StatusPart("" if view.spent is None else dollars(view.spent)),
        StatusPart(f"{view.queue} queued" if view.queue else "", f"+{view.queue}"),
        StatusPart(model, one_line(model.rpartition("/")[2], 20)),
        StatusPart(one_line(talk.name or talk.id or "new session", 30)),
    ]
    first, *rest = fitted(parts, width - 1, measure)
    shown = [(style, f" {first}")]
    if rest:
        shown.append(("class:status", " · " + " · ".join(rest)))
    return shown


# the header


def header(talk: ChatSession, settings: Settings | None) -> str:
    """Which model works where, under which policy and budget."""
    session = _session(talk)
    effort = session.get("effort") or talk.effort
    lines = [f"Hermes · {one_line(talk.model or 'no model', 60)}{with_effort(effort)}"]
    folder = str(session.get("workspace") or talk.opening.get("workspace") or os.getcwd())
    policy = session.get("policy") or talk.opening.get("policy") or (settings and settings.policy)
    facts = [
        short_folder(folder, os.path.expanduser("~")),
        _place(session.get("terminals") or talk.opening.get("terminals"), settings),
        f"policy {policy}" if policy else "",
        _budget(talk, session, settings),
    ]
    lines.append("  " + " · ".join(filter(None, facts)))
    if session:
        name = session["name"] or session["id"]
        lines.append(f"  session {one_line(name)} · {count(session['messages'], 'message')}")
    elif _can_resume(talk):
        lines.append("  new session · /resume continues the last one")
    lines.append("  / lists commands · @ attaches a file · Ctrl-O shows the output of tools")
    return clean("\n".join(lines))


def _can_resume(talk: ChatSession) -> bool:
    try:
        return bool(last_session(talk.api))
    except HermesError:
        return False


def _session(talk: ChatSession) -> dict[str, Any]:
    try:
        return talk.session() if talk.id else {}
    except HermesError:
        return {}


def short_folder(folder: str, home: str, most: int = 48) -> str:
    """`~/src/shop`; the end of a long one."""
    if home != "/" and (folder + "/").startswith(home.rstrip("/") + "/"):
        folder = "~" + folder[len(home.rstrip("/")) :]
    return folder if len(folder) <= most else "…" + folder[1 - most :]


def _place(names: Any, settings: Settings | None) -> str:
    names = names or ([settings.terminal.default] if settings else [])
    shown = []
    for name in names:
        place = settings.places.get(name) if settings else None
        kind = place.__struct_config__.tag if place is not None else name
        shown.append(name if name == kind else f"{name} ({kind})")
    return "terminal " + ", ".join(shown) if shown else ""


def _budget(talk: ChatSession, session: Mapping[str, Any], settings: Settings | None) -> str:
    if settings is None:
        return ""
    left = []
    if (most := settings.budgets.day_dollars) is not None:
        try:
            spent = talk.api.get("/v1/costs", limit=1)["today"]
        except HermesError:
            return ""
        left.append(f"{dollars(max(0.0, most - spent))} left today")
    if (most := settings.budgets.session_dollars) is not None:
        left.append(f"{dollars(max(0.0, most - (session.get('cost') or 0.0)))} left here")
    return ", ".join(left) or "no spending limit"


# the bell


def notice(event: Event, elapsed: float, settings: ChatSettings) -> str:
    """What somebody who looks elsewhere should know of an event; empty if nothing."""
    if settings.notify == "off":
        return ""
    if event["kind"] == "question_asked":
        return f"Hermes asks: {one_line(event['text'].partition(chr(10))[0], 80)}"
    if event["kind"] == "turn_finished" and elapsed >= settings.notify_after_seconds:
        return "Hermes has finished" if event["reason"] == "done" else "Hermes has stopped"
    return ""


def bell(text: str, notify: str, environ: Mapping[str, str]) -> str:
    """What to send to the terminal for a notice."""
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    told = clean(text).replace(";", ",").replace("\n", " ")
    if notify == "desktop" and (program in OSC_9 or term in OSC_9):
        return f"\a\x1b]9;{told}\x1b\\"
    if notify == "desktop" and term.startswith(OSC_777):
        return f"\a\x1b]777;notify;Hermes;{told}\x1b\\"
    return "\a"
