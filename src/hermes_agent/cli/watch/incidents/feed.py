"""Polls the runtime for news of an incident: its timeline, and the journals of the sessions that
work on it. Nothing is reported twice, even if the runtime dies meanwhile."""

import re
from typing import Any

from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.watch.incidents.narration import IncidentNarrator, entry_line
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
