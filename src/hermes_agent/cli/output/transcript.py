"""A session's journal for people: who said what, and what was done."""

from collections.abc import Iterator, Sequence
from typing import Any

from hermes_agent.cli.output.events import call_line, event_line, result_text
from hermes_agent.cli.output.formatting import one_line, stamp

Recorded = dict[str, Any]
REWOUND = " (rewound)"


def messages(journal: Sequence[Recorded]) -> Iterator[dict[str, Any]]:
    """What was said and done, in order: role, text, time, number; for tools also name and call.
    What the conversation has gone back over is marked as `rewound`."""
    calls: dict[str, str] = {}
    taken: dict[int, str] = {}
    rewound: set[int] = set()
    for one in journal:
        if one["event"]["kind"] == "rewound":
            rewound.update(range(one["event"]["to"], one["number"]))
    for one in journal:
        event = one["event"]
        place = {"number": one["number"], "time": one["time"]}
        if one["number"] in rewound:
            place["rewound"] = True
        match event["kind"]:
            case "message_taken":
                taken[one["number"]] = event["text"]
                yield {**place, "role": "user", "text": event["text"]}
            case "replied":
                calls.update((call["id"], call_line(call)) for call in event["calls"])
                if event["text"]:
                    yield {**place, "role": "assistant", "text": event["text"]}
            case "call_made":
                calls[event["call"]["id"]] = f"  {call_line(event['call'])}"
            case "call_finished":
                kept = {key: event[key] for key in ("tool", "ok", "seconds")}
                kept["text"] = result_text(event)
                call = calls.get(event["call_id"], event["tool"])
                yield {**place, "role": "tool", **kept, "call": call, "undo": event["inverse"]}
            case "compacted":
                text = f"the messages so far were summarised:\n{event['summary']}"
                yield {**place, "role": "note", "text": text}
            case "rewound" | "branched":
                line = event_line({**event, "message": taken.get(event.get("to"), "")})
                assert line is not None
                yield {**place, "role": "note", "text": line.text, "mark": line.mark}
            case "command_ended" if (line := event_line(event)) is not None:
                yield {**place, "role": "note", "text": line.text, "mark": line.mark}
            case "call_parked" | "turn_finished" if (line := event_line(event)) is not None:
                ended = "the turn ended: " if event["kind"] == "turn_finished" else ""
                yield {**place, "role": "note", "text": one_line(f"{ended}{line.text}", 300)}


def plain(journal: Sequence[Recorded], *, rewound: bool = True) -> Iterator[str]:
    """For a terminal: tools as a line each; with or without what was rewound."""
    for message in messages(journal):
        if message.get("rewound") and not rewound:
            continue
        mark = REWOUND if message.get("rewound") else ""
        match message["role"]:
            case "user":
                number = f"  #{message['number']}"
                yield f"\n[{stamp(message['time'])}] you{number}{mark}\n{message['text']}"
            case "assistant":
                yield f"\n[{stamp(message['time'])}] hermes{mark}\n{message['text']}"
            case "tool":
                yield tool_line(message["call"], message) + mark
                if message["undo"]:
                    yield f"    undo: {message['undo']}"
            case _:
                yield f"{message.get('mark', '!')} {message['text']}{mark}"


def tool_line(call: str, finished: dict[str, Any]) -> str:
    """`✓ $ ls -a  0.1 s`, or `✗ $ ls -a  0.1 s  failed: …`."""
    why = "" if finished["ok"] else f"  failed: {one_line(result_text(finished), 80)}"
    return f"{'✓' if finished['ok'] else '✗'} {call}  {finished['seconds']:.1f} s{why}"


def markdown(session: dict[str, Any], journal: Sequence[Recorded]) -> str:
    from hermes_agent.core.text.format import code_fence

    title = session["name"] or session["title"] or session["id"]
    lines = [
        f"# {one_line(title)}",
        "",
        f"Session {session['id']}, {session['model']}, {stamp(session['created'])}",
    ]
    for message in messages(journal):
        mark = REWOUND if message.get("rewound") else ""
        match message["role"]:
            case "user":
                lines += ["", f"## You{mark}", "", message["text"]]
            case "assistant":
                lines += ["", f"## Hermes{mark}", "", message["text"]]
            case "tool":
                fence = code_fence(message["text"])
                lines += ["", f"**{tool_line(message['call'], message)}**{mark}", ""]
                lines += [fence, message["text"].rstrip("\n"), fence]
            case _:
                lines += ["", f"> {message['text']}{mark}"]
    return "\n".join(lines) + "\n"


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ max-width: 50rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 sans-serif;
  color-scheme: light dark; }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; font: inherit; margin: .3rem 0 1.2rem; }}
details pre, .tool {{ font: .85rem/1.4 monospace; }}
.rewound {{ opacity: .5; }}
.note {{ font-style: italic; }}
</style></head><body>
<h1>{title}</h1>
<p>{about}</p>
{body}
</body></html>
"""


def html_page(session: dict[str, Any], journal: Sequence[Recorded]) -> str:
    """One file without scripts or outside resources; every text is escaped."""
    from html import escape

    from hermes_agent.core.text.terminal import clean

    def shown(text: str) -> str:
        return escape(clean(text))

    parts = []
    for message in messages(journal):
        mark = " rewound" if message.get("rewound") else ""
        text = f"<pre>{shown(message['text'])}</pre>"
        match message["role"]:
            case "tool":
                call = f"<summary class=tool>{shown(tool_line(message['call'], message))}</summary>"
                parts.append(f'<details class="call{mark}">{call}{text}</details>')
            case "user" | "assistant" as role:
                who = {"user": "You", "assistant": "Hermes"}[role]
                head = f"<b>{who}</b>{REWOUND if mark else ''}"
                parts.append(f'<section class="{role}{mark}">{head}{text}</section>')
            case _:
                parts.append(f'<section class="note{mark}">{text}</section>')
    title = shown(one_line(session["name"] or session["title"] or session["id"]))
    about = shown(f"Session {session['id']}, {session['model']}, {stamp(session['created'])}")
    return _PAGE.format(title=title, about=about, body="\n".join(parts))
