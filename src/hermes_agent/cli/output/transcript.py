"""A session's journal for people: who said what, and what was done."""

from collections.abc import Iterator, Sequence
from typing import Any

from hermes_agent.cli.output.events import call_line, event_line
from hermes_agent.cli.output.formatting import one_line, stamp

Recorded = dict[str, Any]


def messages(journal: Sequence[Recorded]) -> Iterator[dict[str, Any]]:
    """What was said and done, in order: role, text, time, number; for tools also name and call."""
    calls: dict[str, str] = {}
    for one in journal:
        event = one["event"]
        place = {"number": one["number"], "time": one["time"]}
        match event["kind"]:
            case "message_taken":
                yield {**place, "role": "user", "text": event["text"]}
            case "replied":
                calls.update((call["id"], call_line(call)) for call in event["calls"])
                if event["text"]:
                    yield {**place, "role": "assistant", "text": event["text"]}
            case "call_made":
                calls[event["call"]["id"]] = f"  {call_line(event['call'])}"
            case "call_finished":
                kept = {key: event[key] for key in ("tool", "ok", "seconds", "text")}
                call = calls.get(event["call_id"], event["tool"])
                yield {**place, "role": "tool", **kept, "call": call, "undo": event["inverse"]}
            case "compacted":
                text = f"the messages so far were summarised:\n{event['summary']}"
                yield {**place, "role": "note", "text": text}
            case "call_parked" | "turn_finished" if (line := event_line(event)) is not None:
                ended = "the turn ended: " if event["kind"] == "turn_finished" else ""
                yield {**place, "role": "note", "text": one_line(f"{ended}{line.text}", 300)}


def plain(journal: Sequence[Recorded]) -> Iterator[str]:
    """For a terminal: tools as a line each."""
    for message in messages(journal):
        match message["role"]:
            case "user":
                yield f"\n[{stamp(message['time'])}] you\n{message['text']}"
            case "assistant":
                yield f"\n[{stamp(message['time'])}] hermes\n{message['text']}"
            case "tool":
                yield tool_line(message["call"], message)
                if message["undo"]:
                    yield f"    undo: {message['undo']}"
            case _:
                yield f"! {message['text']}"


def tool_line(call: str, finished: dict[str, Any]) -> str:
    """`✓ $ ls -a  0.1 s`, or `✗ $ ls -a  0.1 s  failed: …`."""
    why = "" if finished["ok"] else f"  failed: {one_line(finished['text'], 80)}"
    return f"{'✓' if finished['ok'] else '✗'} {call}  {finished['seconds']:.1f} s{why}"


def markdown(session: dict[str, Any], journal: Sequence[Recorded]) -> str:
    title = session["name"] or session["title"] or session["id"]
    lines = [
        f"# {one_line(title)}",
        "",
        f"Session {session['id']}, {session['model']}, {stamp(session['created'])}",
    ]
    for message in messages(journal):
        match message["role"]:
            case "user":
                lines += ["", "## You", "", message["text"]]
            case "assistant":
                lines += ["", "## Hermes", "", message["text"]]
            case "tool":
                fence = "`" * max(3, _longest_fence(message["text"]) + 1)
                lines += ["", f"**{tool_line(message['call'], message)}**", ""]
                lines += [fence, message["text"].rstrip("\n"), fence]
            case _:
                lines += ["", f"> {message['text']}"]
    return "\n".join(lines) + "\n"


def _longest_fence(text: str) -> int:
    import re

    return max(map(len, re.findall("`+", text)), default=0)
