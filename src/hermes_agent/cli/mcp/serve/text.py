"""The texts of the MCP server: results, steps and questions."""

import json
from collections.abc import Sequence
from typing import Any

from mcp.types import CallToolResult, ElicitResult, TextContent

from hermes_agent.cli.output.consent import question_lines
from hermes_agent.cli.output.events import call_line, event_line, typed_answer
from hermes_agent.cli.output.formatting import dollars, one_line
from hermes_agent.cli.output.transcript import messages
from hermes_agent.cli.talk.turn import collect
from hermes_agent.core.errors import HermesError

Event = dict[str, Any]

CONSENTS = ("no", "yes", "session")
"""The answers offered. A permanent rule needs `hermes approvals`, which shows it."""
PAGE_CHARS = 20_000
"""Characters of a transcript per page."""
DECLINED = "(the user declined to answer)"

HINTS = {
    "parked": "`hermes parked` shows the effect whose outcome is unknown, and decides",
    "interrupted": "ask again with this session to continue",
}


def result(text: str, data: dict[str, Any], *, failed: bool = False) -> CallToolResult:
    content = [TextContent(type="text", text=text)]
    return CallToolResult(content=list(content), structured_content=data, is_error=failed)


def error_result(error: HermesError) -> CallToolResult:
    return result(str(error), {"error": error.message, "hint": error.hint}, failed=True)


def turn_result(outcome: Event, refused: Sequence[str] = ()) -> CallToolResult:
    """How a turn ended: the answer, then its cost."""
    reason = outcome.get("reason", "failed")
    hint = outcome.get("hint") or HINTS.get(reason, "")
    data = {
        "session": outcome["session"],
        "state": reason,
        "text": outcome.get("text") or "",
        "cost": outcome.get("cost"),
        "steps": outcome.get("steps"),
        "usage": outcome.get("usage"),
        "refused": list(refused),
        "error": outcome.get("error") or "",
        "hint": "" if reason == "done" else hint,
    }
    lines = [data["text"]] if reason == "done" else []
    if reason != "done":
        lines += [" ".join(filter(None, (f"{reason}:", data["error"])))]
        lines += [f"hint: {hint}"] if hint else []
    lines += [f"refused: {what}" for what in refused]
    spent = f", {dollars(data['cost'])}" if data["cost"] is not None else ""
    lines.append(f"[session {data['session']}{spent}]")
    return result("\n".join(lines), data, failed=reason in ("failed", "budget", "interrupted"))


def progress_lines(event: Event) -> list[str]:
    """What a waiting client is told: each step, each call, and what holds them up."""
    match event["kind"]:
        case "model_requested" if event["use"] == "main":
            return [f"step {event['step']}: asking {event['model']}"]
        case "replied":
            return [call_line(call) for call in event["calls"]]
        case "call_made":
            return [call_line(event["call"])]
        case "question_asked":
            return [f"waiting for an answer: {one_line(event['text'])}"]
        case "turn_finished":
            return []  # the result tells
    return [one_line(line.text, 300)] if (line := event_line(event)) is not None else []


def form(question: Event) -> tuple[str, dict[str, Any]]:
    """A question as a form with one field."""
    if question["purpose"] == "question":
        field: dict[str, Any] = {"type": "string", "title": "Answer"}
    else:
        offered = _offered(question)
        question = {**question, "choices": offered}
        field = {"type": "string", "title": "Allow it?", "enum": offered}
    message = "\n".join(["Hermes asks:", *question_lines(question)])
    return message, {"type": "object", "properties": {"answer": field}, "required": ["answer"]}


def answer_of(question: Event, said: ElicitResult) -> str:
    """Only a clear yes counts; anything else is no."""
    given = (said.content or {}).get("answer") if said.action == "accept" else None
    if question["purpose"] == "question":
        return DECLINED if given is None else typed_answer(question, str(given).strip()) or ""
    return str(given) if given in _offered(question) else "no"


def _offered(question: Event) -> list[str]:
    return [name for name in CONSENTS if name in question["choices"]]


def last_turn(session: str, journal: Sequence[Event]) -> Event | None:
    """How the last finished turn of a journal ended; None without one."""
    outcome: Event = {"session": session, "parked": []}
    for one in journal:
        collect(one["event"], outcome)
    return outcome if "reason" in outcome else None


def page_of(journal: Sequence[Event], after: int, most: int) -> tuple[str, Event]:
    """A page of messages after a number, and where the next page begins."""
    left = [one for one in messages(journal) if one["number"] > after]
    page: list[Event] = []
    room = PAGE_CHARS
    for one in left[:most]:
        text = one["text"]
        if page and len(text) > room:
            break
        if len(text) > PAGE_CHARS:
            more = len(text) - PAGE_CHARS
            text = f"{text[:PAGE_CHARS]}\n… {more} more characters in the resource"
        page.append({**one, "text": text})
        room -= len(text)
    lines = [f"[{one['number']} {one.get('call') or one['role']}]\n{one['text']}" for one in page]
    following = page[-1]["number"] if len(page) < len(left) else None
    if following is not None:
        lines.append(f"hint: {len(left) - len(page)} more; continue with after={following}")
    return "\n".join(lines) or "nothing more", {"messages": page, "next": following}


def as_text(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1)
