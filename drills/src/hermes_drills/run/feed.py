"""Follows an incident: its timeline, and the journals of the sessions that work on it."""

import json
import re
from collections import Counter
from typing import Any

from msgspec import Struct

from hermes_drills.run.client import Runtime
from hermes_drills.run.view import Line, cut

OVER = ("resolved", "escalated", "closed")
QUIET_TOOLS = frozenset({"incident", "todo", "read_on", "delegate", "skill", "write_skill"})
"""What the timeline tells of, or what touches no machine."""
NAMED = 3
"""Commands that are named of those that only look."""
QUOTES = 2
SEEN = 3
"""Lines of what a check printed."""
RUNBOOK = "runbook/"
"""How the name of whoever follows a runbook without a model begins."""
_ENTRIES = {
    "declared": ("alert", "bad"), "worse": ("worse", "bad"), "rolled-back": ("undone", "good"),
    "resolved": ("resolved", "good"), "escalated": ("handed over", "bad"),
    "closed": ("closed", "good"), "learned": ("learned", "good"), "report": ("report", "bold"),
}  # fmt: skip
_HYPOTHESES = {"confirmed": ("cause", "good"), "refuted": ("ruled out", "faint")}


_FUNCTION = re.compile(r"\w+ ?\(\) ?[({]")
_NAMES = re.compile(r"^(?:\w+=(?:\$\([^()]*\)|[^\s;]*) *(?:; *|$))+")
_OPEN = re.compile(r"(\b(?:do|then|else)|[{(|&;]);")


class Call(Struct):
    """A tool call, and what the gate said to it."""

    time: float
    tool: str
    shown: str
    allowed: bool
    why: str
    again: bool = False
    """It was begun a second time, because a runtime had died."""


class Work(Struct, frozen=True):
    """What was done until it was over."""

    steps: int = 0
    calls: int = 0
    tokens: int = 0
    cost: float | None = None
    model: str = ""
    again: int = 0


class IncidentFeed:
    def __init__(self, runtime: Runtime, id: str) -> None:
        self._runtime = runtime
        self.id = id
        self.incident: dict[str, Any] = {}
        self.timeline: list[dict[str, Any]] = []
        self.calls: dict[str, Call] = {}
        """By the effect that each is called in the journal."""
        self._replies: list[tuple[float, dict[str, Any]]] = []
        self._asked: dict[str, dict[str, Any]] = {}
        """Calls as the model wrote them, by their effects."""
        self._texts: dict[str, str] = {}
        """What the model said with its calls, by how their effects begin."""
        self._read: dict[str, int] = {}
        """How far each session's journal was read."""
        self._looks: list[str] = []
        """Effects of which nothing was said yet."""
        self._said: set[tuple[str, ...]] = set()
        self._held: bool | None = None

    @property
    def over(self) -> bool:
        return self.incident.get("state") in OVER

    @property
    def reported(self) -> bool:
        return any(one["kind"] == "report" for one in self.timeline)

    @property
    def status(self) -> str:
        return f"{self.id} {self.incident.get('state', '')}, {len(self.calls)} calls"

    def poll(self) -> list[Line]:
        """What happened since it was last asked."""
        found = self._runtime.get(f"/v1/incidents/{self.id}")
        self.incident = found["incident"]
        fresh = found["timeline"][len(self.timeline) :]
        self.timeline = found["timeline"]
        self._read_journals()
        lines = []
        for entry in fresh:
            if (line := self._line(entry)) is not None:
                if (looked := self.looked(entry["time"])) is not None:
                    lines.append(looked)
                lines.append(line)
        return lines

    def work(self) -> Work:
        until = self.incident.get("ended") or float("inf")
        replies = [event for time, event in self._replies if time <= until]
        costs = [one["cost"] for one in replies if one.get("cost") is not None]
        usage = Counter[str]()
        for one in replies:
            usage.update({key: one.get("usage", {}).get(key, 0) for key in ("input", "output")})
        return Work(
            sum(not one.get("model", "").startswith(RUNBOOK) for one in replies),
            sum(len(one.get("calls", ())) for one in replies),
            usage.total(),
            sum(costs) if costs else None,
            ", ".join(dict.fromkeys(one.get("model", "") for one in replies)),
            sum(call.again for call in self.calls.values()),
        )

    # journals

    def _read_journals(self) -> None:
        session = self.incident.get("session")
        if not session:
            return
        children = self._runtime.get("/v1/sessions", parent=session, limit=100)
        for id in (session, *(child["id"] for child in children)):
            rows = self._runtime.get(f"/v1/sessions/{id}/journal", after=self._read.get(id, 0))
            for row in rows:
                self._read[id] = row["number"]
                if row["event"]["kind"] == "replied":
                    self._texts[f"{id}-{row['number']}"] = row["event"].get("text", "")
                    for index, call in enumerate(row["event"]["calls"]):
                        self._asked[f"{id}-{row['number']}-{index}"] = call
                self._event(row["time"], row["event"])

    def _event(self, time: float, event: dict[str, Any]) -> None:
        match event["kind"]:
            case "replied":
                self._replies.append((time, event))
            case "call_judged":
                why = ": ".join(filter(None, (event.get("rule", ""), event["reason"])))
                asked = self._asked.get(event["effect"], {})
                shown = _shown(event.get("input") or asked.get("arguments", ""), event["text"])
                allowed = event["action"] == "allow"
                self.calls[event["effect"]] = Call(time, event["tool"], shown, allowed, why)
                if event["tool"] not in QUIET_TOOLS:
                    self._looks.append(event["effect"])
            case "call_intended" if event.get("attempt", 1) > 1 and event["effect"] in self.calls:
                self.calls[event["effect"]].again = True

    def looked(self, until: float = float("inf")) -> Line | None:
        """One line for all that only looked since the last line."""
        acts = {one["data"].get("effect") for one in self.timeline if one["kind"] == "action"}
        mine = [one for one in self._looks if self.calls[one].time <= until]
        self._looks = [one for one in self._looks if one not in mine]
        looks = [one for one in mine if one not in acts]
        if not looks:
            return None
        at_once = max(Counter(one.rpartition("-")[0] for one in looks).values())
        shown = list(dict.fromkeys(cut(self.calls[one].shown, 44) for one in looks))
        if len(looks) == 1 and (told := self._told(looks[0])):
            shown = [told]
        more = f" · and {len(shown) - NAMED} more" if len(shown) > NAMED else ""
        many = f"{len(looks)} commands" if len(looks) > 1 else "1 command"
        many += f", {at_once} of them at once" if 1 < at_once < len(looks) else ""
        many += " at once" if 1 < at_once == len(looks) else ""
        text = f"{many}: {' · '.join(shown[:NAMED])}{more}"
        return Line(self.calls[looks[0]].time, "looks", text, "look")

    def _told(self, effect: str) -> str:
        """What the model said that a call is for, in one line."""
        return cut(self._texts.get(effect.rpartition("-")[0], "").strip(), 100)

    # the timeline

    def _line(self, entry: dict[str, Any]) -> Line | None:
        kind, time, text, data = entry["kind"], entry["time"], entry["text"], entry["data"]
        match kind:
            case "hypothesis":
                return self._hypothesis(time, data.get("hypothesis", ""))
            case "action":
                call = self.calls.get(data.get("effect", ""))
                shown = self._told(data.get("effect", "")) or (call.shown if call else text)
                return Line(time, "acts", shown, "act", (f"allowed by {call.why}",) if call else ())
            case "verified":
                held, self._held = self._held, bool(data.get("ok", True))
                if held == self._held:
                    return None
                return Line(time, "verified" if self._held else "not yet", text,
                            "good" if self._held else "bad")  # fmt: skip
            case _ if kind in _ENTRIES:
                word, tone = _ENTRIES[kind]
                said = text.removeprefix(f"{kind} ").removeprefix(f"{kind}: ")
                seen = str(data.get("detail", "")).strip().splitlines()
                details = (*(seen if kind == "declared" else ())[-SEEN:], data.get("needed", ""))
                return Line(time, word, said, tone, tuple(filter(None, details)))
        return None

    def _hypothesis(self, time: float, id: str) -> Line | None:
        board = self.incident.get("hypotheses", ())
        found = next((one for one in board if one["id"] == id), None)
        if found is None:
            return None
        state, category = found.get("state", "open"), found.get("category", "unknown")
        if (id, state, found["claim"]) in self._said:
            return None
        self._said.add((id, state, found["claim"]))
        word, tone = _HYPOTHESES.get(state, ("suspects", "think"))
        about = f"{found['component']}: " if found.get("component") else ""
        text = f"{about}{found['claim']} ({category}, {found.get('confidence', 0.5):.0%})"
        quotes = [f"“{one['quote']}”" for one in found.get("supports", ())[:QUOTES]]
        return Line(time, word, text, tone, tuple(quotes) if state != "refuted" else ())


def _shown(given: Any, text: str) -> str:
    """A call as a person would type it, without the functions and names that it defines first."""
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except ValueError:
            given = {}
    command = given.get("command") if isinstance(given, dict) else None
    if not command:  # cut short in the journal, or another tool
        return text.replace('terminal {"command":"', "$ ").replace("\\n", "; ").replace('\\"', '"')
    lines = [line.strip() for line in str(command).strip().splitlines()]
    kept, depth = [], 0
    for line in lines:
        if depth > 0 or _FUNCTION.match(line):  # until its brackets are closed
            depth += sum(line.count(one) for one in "({") - sum(line.count(one) for one in ")}")
        else:
            kept.append(_NAMES.sub("", line))
    return _OPEN.sub(r"\1", "$ " + "; ".join(list(filter(None, kept)) or lines))
