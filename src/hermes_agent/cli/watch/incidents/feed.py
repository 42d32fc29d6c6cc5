"""What is new about an incident, asked of the runtime: its timeline, and the journals of the
sessions that work on it. A runtime that dies meanwhile is waited for, and nothing is told twice."""

import re
from collections import Counter
from typing import Any, NamedTuple

from hermes_agent.cli.client.api import RuntimeClient, session_path
from hermes_agent.cli.watch.incidents.narration import IncidentNarrator, entry_said
from hermes_agent.cli.watch.incidents.view import IncidentLine

OVER = ("resolved", "escalated", "closed")
IN_JOURNAL = ("action", "note", "state")
"""What the sessions tell better themselves, and what is only for the record."""
_SERVICE = re.compile(r"\b(?:service|of|for) [`'\"]?([\w.-]+)")


class Work(NamedTuple):
    """What was done until it was over."""

    replies: int
    calls: int
    rules: tuple[tuple[str, str, str, int], ...]
    """What the gate answered: the action, the rule, its reason, how often."""
    children: int
    again: int = 0
    """Calls that were begun a second time, because a runtime had died meanwhile."""


class Feed:
    def __init__(self, api: RuntimeClient, id: str) -> None:
        self._api = api
        self.id = id
        self.incident: dict[str, Any] = {}
        self.done = False
        """The last entry of its timeline, its report, has been told."""
        self._entries = 0
        self._believed: set[tuple[str, str]] = set()
        """Beliefs that were told; one that only has more evidence is not told again."""
        self._sessions: dict[str, tuple[IncidentNarrator, int]] = {}
        self._events: list[tuple[float, dict[str, Any]]] = []

    def poll(self) -> list[IncidentLine]:
        """What happened since it was last asked, in order. `Gone` when there is no runtime."""
        found = self._api.get(f"/v1/incidents/{self.id}")
        self.incident = found["incident"]
        entries = [one for one in found["timeline"] if one["number"] > self._entries]
        said = [*self._worked(), *self._told(entries)]
        said.sort(key=lambda one: one.time)
        self.done = self.done or any(one["kind"] == "report" for one in entries)
        return said

    @property
    def over(self) -> bool:
        """Whether nothing more is done about it; its report may still be written."""
        return self.incident.get("state") in OVER

    @property
    def ended(self) -> bool:
        """Whether there is no more to tell: what people took over may still be resolved."""
        return self.done and self.incident.get("state") != "escalated"

    @property
    def standing(self) -> str:
        """How it stands, in a few words."""
        board = [
            one for one in self.incident.get("hypotheses", ()) if one.get("state") != "refuted"
        ]
        best = max(board, key=lambda one: one.get("confidence", 0.5), default=None)
        believes = f" · {best['claim']}" if best is not None else ""
        children = len(self._sessions) - 1
        beside = f" · {children} children" if children > 0 else ""
        return f"{self.id} {self.incident.get('state', '')}{beside}{believes}"

    def work(self) -> Work:
        until = self.incident.get("ended") or float("inf")
        events = [event for time, event in self._events if time <= until]
        judged = Counter(
            (event["action"], event.get("rule", ""), event["reason"])
            for event in events
            if event["kind"] == "call_judged"
        )
        return Work(
            replies=sum(event["kind"] == "replied" for event in events),
            calls=judged.total(),
            rules=tuple((*answer, times) for answer, times in judged.most_common()),
            children=max(0, len(self._sessions) - 1),
            again=sum(event.get("attempt", 1) > 1 for event in events),
        )

    @property
    def _checks(self) -> tuple[str, ...]:
        return tuple(one["check"]["run"] for one in self.incident.get("checks", ()))

    def _told(self, entries: list[dict[str, Any]]) -> list[IncidentLine]:
        board, new = self.incident.get("hypotheses", ()), []
        for entry in entries:
            self._entries = entry["number"]
            said = None if entry["kind"] in IN_JOURNAL else entry_said(entry, board)
            if said is None or (said.word, said.text) in self._believed:
                continue
            new.append(said)
            if said.tone == "think":
                self._believed.add((said.word, said.text))
        return new

    def _worked(self) -> list[IncidentLine]:
        session = self.incident.get("session")
        if not session:
            return []
        said = self._new(session, "")
        for child in self._api.get("/v1/sessions", parent=session, limit=50):
            if child["title"]:  # it has been told what to do
                said += self._new(child["id"], _name(child["title"], len(self._sessions)))
        return said

    def _new(self, session: str, name: str) -> list[IncidentLine]:
        telling, after = self._sessions.get(session) or (IncidentNarrator(name, self._checks), 0)
        rows = self._api.get(f"{session_path(session)}/journal", after=after)
        self._sessions[session] = (telling, rows[-1]["number"] if rows else after)
        self._events += ((row["time"], row["event"]) for row in rows)
        return list(telling.events(rows))


def _name(title: str, number: int) -> str:
    """What a child looks at, as its task names it."""
    found = _SERVICE.search(title)
    return found[1] if found else f"child {number}"
