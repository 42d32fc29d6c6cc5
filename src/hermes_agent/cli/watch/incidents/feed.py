"""Polls the runtime for news of an incident and words it: its timeline, and the journals of the
sessions that work on it. Nothing is reported twice, even if the runtime dies meanwhile."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.events import call_arguments, call_line, event_line
from hermes_agent.cli.output.formatting import one_line
from hermes_agent.cli.watch.incidents.view import IncidentLine

OVER = ("resolved", "escalated", "closed")
IN_JOURNAL = ("action", "note", "state")
"""Entries that the journals tell better, or that are only for the record."""
_SERVICE = re.compile(r"\b(?:service|of|for) [`'\"]?([\w.-]+)")


class IncidentFeed:
    def __init__(self, api: RuntimeClient, id: str) -> None:
        self._api = api
        self.id = id
        self.incident: dict[str, Any] = {}
        self.done = False
        """The report, the last entry of its timeline, was shown."""
        self._entries = 0
        self._believed: set[tuple[str, str]] = set()
        """Hypotheses that were shown; more evidence alone does not repeat them."""
        self._sessions: dict[str, tuple[IncidentNarrator, int]] = {}

    def poll(self) -> list[IncidentLine]:
        """What happened since the last poll, in order. Raises `RuntimeGone` without a runtime."""
        found = self._api.get(f"/v1/incidents/{self.id}")
        self.incident = found["incident"]
        entries = [one for one in found["timeline"] if one["number"] > self._entries]
        lines = [*self._session_lines(), *self._entry_lines(entries)]
        lines.sort(key=lambda one: one.time)
        self.done = self.done or any(one["kind"] == "report" for one in entries)
        return lines

    @property
    def over(self) -> bool:
        """Whether the work on it is over; its report may still be written."""
        return self.incident.get("state") in OVER

    @property
    def ended(self) -> bool:
        """Whether nothing more can come: people may still resolve an escalated one."""
        return self.done and self.incident.get("state") != "escalated"

    @property
    def summary(self) -> str:
        """Its state in a few words."""
        board = [
            one for one in self.incident.get("hypotheses", ()) if one.get("state") != "refuted"
        ]
        best = max(board, key=lambda one: one.get("confidence", 0.5), default=None)
        believes = f" · {best['claim']}" if best is not None else ""
        children = len(self._sessions) - 1
        beside = f" · {children} children" if children > 0 else ""
        return f"{self.id} {self.incident.get('state', '')}{beside}{believes}"

    @property
    def _checks(self) -> tuple[str, ...]:
        return tuple(one["check"]["run"] for one in self.incident.get("checks", ()))

    def _entry_lines(self, entries: list[dict[str, Any]]) -> list[IncidentLine]:
        board, new = self.incident.get("hypotheses", ()), []
        for entry in entries:
            self._entries = entry["number"]
            line = None if entry["kind"] in IN_JOURNAL else entry_line(entry, board)
            if line is None or (line.word, line.text) in self._believed:
                continue
            new.append(line)
            if line.tone == "think":
                self._believed.add((line.word, line.text))
        return new

    def _session_lines(self) -> list[IncidentLine]:
        session = self.incident.get("session")
        if not session:
            return []
        lines = self._new(session, "")
        for child in self._api.get("/v1/sessions", parent=session, limit=50):
            if child["title"]:  # it has its task
                lines += self._new(child["id"], _name(child["title"], len(self._sessions)))
        return lines

    def _new(self, session: str, name: str) -> list[IncidentLine]:
        narrator, after = self._sessions.get(session) or (IncidentNarrator(name, self._checks), 0)
        rows = self._api.journal(session, after)
        self._sessions[session] = (narrator, rows[-1]["number"] if rows else after)
        return list(narrator.events(rows))


def _name(title: str, number: int) -> str:
    """What a child investigates, by the words of its task."""
    found = _SERVICE.search(title)
    return found[1] if found else f"child {number}"


# wording

Entry = dict[str, Any]
Event = dict[str, Any]
QUOTES = 2
"""Pieces of evidence shown below a hypothesis."""
FOUND = 2
"""Lines shown of what a child found."""
LOOKS = 4
"""Read-only commands that are named."""
_PLAIN = {
    "signal": ("signal", "bad"),
    "declared": ("declared", "bold"),
    "action": ("action", "act"),
    "worse": ("worse", "bad"),
    "rolled-back": ("undone", "good"),
    "progress": ("progress", "faint"),
    "resolved": ("resolved", "good"),
    "escalated": ("escalated", "bad"),
    "closed": ("closed", "good"),
    "note": ("note", "faint"),
    "report": ("report", "bold"),
    "learned": ("learned", "good"),
}
_WAITING = re.compile(r"\s*sleep [\d.]+\s*")
_STATES = {
    "confirmed": ("knows", "good"),
    "refuted": ("rejects", "faint"),
    "open": ("believes", "think"),
}


def entry_line(entry: Entry, board: Sequence[dict[str, Any]]) -> IncidentLine | None:
    """An entry of the timeline. `board` has the hypotheses with their evidence."""
    kind, time, text = entry["kind"], entry["time"], entry["text"]
    data = entry.get("data") or {}
    if kind == "hypothesis":
        found = next((one for one in board if one["id"] == data.get("hypothesis")), None)
        return _belief(time, found, text)
    if kind == "verified":
        held = data.get("ok", True)
        word = "refused" if data.get("refused") else "verified" if held else "not yet"
        return IncidentLine(time, word, text, "good" if held else "bad")
    if kind == "state":
        return None
    word, tone = _PLAIN.get(kind, (kind, "faint"))
    if kind == "signal" and data.get("over"):
        tone = "good"
    if kind == "learned" and not data.get("skill"):
        tone = "faint"
    needed = data.get("needed")
    said = text.removeprefix(f"{word} ").removeprefix(f"{word}: ")
    return IncidentLine(time, word, said, tone, (f"needed: {needed}",) if needed else ())


def _belief(time: float, found: dict[str, Any] | None, text: str) -> IncidentLine:
    if found is None:
        return IncidentLine(time, "believes", text, "think")
    word, tone = _STATES.get(found.get("state", "open"), ("believes", "think"))
    about = f"{found['component']}: " if found.get("component") else ""
    sure = f"{found.get('confidence', 0.5):.0%}"
    quotes = [f"because “{one['quote']}”" for one in found.get("supports", ())[-QUOTES:]]
    quotes += [f"although “{one['quote']}”" for one in found.get("contradicts", ())[-1:]]
    named = f"{found['id']} {about}{found['claim']} ({found.get('category', 'unknown')}, {sure})"
    return IncidentLine(time, word, named, tone, tuple(quotes))


class IncidentNarrator:
    """Lines for the events of one session. `name` precedes what a child does; `checks` are commands
    known to be read-only."""

    def __init__(self, name: str = "", checks: Sequence[str] = ()) -> None:
        self._name = name
        self._checks = checks
        self._calls: dict[str, dict[str, Any]] = {}
        self._looks: list[str] = []
        self._looking: set[str] = set()
        """Read-only effects, whose failures are not worth a line."""
        self._looked = 0.0
        self._text = ""
        self._due = 0
        """Calls of the last reply that are not judged yet."""

    def events(self, rows: Sequence[Event]) -> Iterator[IncidentLine]:
        """Lines for these events. The read-only calls of a reply share one line, which comes when
        all its calls are judged or something else happens."""
        for row in rows:
            if row["event"]["kind"] == "replied":
                self._remember_calls(row)
            yield from self._event(row["time"], row["event"])
        if not self._due:
            yield from self._seen()

    def _remember_calls(self, row: Event) -> None:
        """Calls by the ids of their effects."""
        for index, call in enumerate(row["event"]["calls"]):
            self._calls[f"{row['session']}-{row['number']}-{index}"] = call

    def _event(self, time: float, event: Event) -> Iterator[IncidentLine]:
        match event["kind"]:
            case "replied":
                yield from self._seen()
                self._replied(event)
            case "call_made":
                self._calls[event["effect"]] = event["call"]
            case "call_judged":
                yield from self._judged(time, event)
            case "call_finished" if not event["ok"] and event["effect"] not in self._looking:
                yield from self._seen()
                word = "rejected" if event["tool"] == "incident" else "failed"
                said = f"{event['tool']}: {one_line(event['text'], 200)}"
                yield self._said(time, word, said, "bad")
            case "turn_resumed" if not self._name:
                line = event_line(event)
                yield self._said(time, "resumes", line.text if line else "", "bold")
            case "call_parked":
                yield self._said(time, "parked", f"{event['tool']}: {event['reason']}", "bad")
            case "question_asked":
                yield self._said(time, "asks", one_line(event["text"], 200), "act")
            case "turn_finished":
                yield from self._seen()
                if self._name:
                    yield self._said(time, "found", _answer(event["text"]), "look")

    def _replied(self, event: Event) -> None:
        """Its text is shown with what it does next."""
        self._due = len(event["calls"])
        self._text = one_line(event["text"], 240) if event["calls"] and not self._name else ""

    def _judged(self, time: float, event: Event) -> Iterator[IncidentLine]:
        tool = event["tool"]
        self._due = max(0, self._due - 1)
        call = self._calls.get(event["effect"], {"name": tool, "arguments": "{}"})
        shown, given = call_line(call), event.get("input") or call_arguments(call)
        by = f"{event['rule']}: {event['reason']}" if event.get("rule") else event["reason"]
        if event["action"] != "allow":
            word = "refused" if event["action"] == "deny" else "asks"
            yield self._said(time, word, shown, "bad", (by,))
            return
        match tool:
            case "incident" | "todo" | "read_on":
                return  # the timeline tells it
            case "delegate":
                tasks = given.get("tasks") or [given]
                said = self._why() or (f"{len(tasks)} subagents work in parallel",)
                details = tuple(_task(task) for task in tasks)
                yield self._said(time, "delegates", said[0], "act", details)
            case "skill":
                named = f"the skill {given.get('name', '')}"
                if not given.get("file"):
                    yield self._said(time, "follows", named, "good", self._why())
            case "write_skill":
                yield self._said(time, "writes", f"the skill {given.get('name', '')}", "good")
            case "terminal" if _WAITING.fullmatch(str(given.get("command", ""))):
                return
            case _ if self._only_looks(tool, given):
                self._looks.append(shown)
                self._looking.add(event["effect"])
                self._looked = time
            case _:
                yield from self._seen()
                yield self._said(time, "acts", shown, "act", (*self._why(), f"allowed by {by}"))

    def _only_looks(self, tool: str, given: dict[str, Any]) -> bool:
        from hermes_agent.incidents.response.side_effects import did

        command = str(given.get("command", ""))
        return any(check in command for check in self._checks) or did(tool, given) == "looked"

    def _seen(self) -> Iterator[IncidentLine]:
        looks, self._looks = self._looks, []
        if not looks or self._name:
            return  # of a child, only the result
        shown = " · ".join(one_line(look, 60) for look in looks[:LOOKS])
        more = f" · and {len(looks) - LOOKS} more" if len(looks) > LOOKS else ""
        why = self._why()
        text = why[0] if why else f"{shown}{more}"
        details = (f"{shown}{more}",) if why else ()
        yield self._said(self._looked, "looks", text, "look", details)

    def _why(self) -> tuple[str, ...]:
        """The text of the reply, once."""
        text, self._text = self._text, ""
        return (text,) if text else ()

    def _said(
        self, time: float, word: str, text: str, tone: str = "faint", details: tuple[str, ...] = ()
    ) -> IncidentLine:
        return IncidentLine(
            time, word, f"[{self._name}] {text}" if self._name else text, tone, details
        )


def _answer(text: str) -> str:
    """The first lines of a child's answer; the rest is for its parent."""
    lines = [line.strip(" -") for line in text.partition("```")[0].splitlines()]
    said = [line for line in lines if line and not line.endswith(":")]
    return " · ".join(one_line(line, 110) for line in said[:FOUND]) or "nothing"


def _task(task: object) -> str:
    given = task if isinstance(task, dict) else {"task": str(task)}
    return one_line(str(given.get("name") or given.get("task") or ""), 90)
