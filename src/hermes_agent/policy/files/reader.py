"""Reads YAML nodes as typed values. Problems are collected, so that one run finds all."""

import re
from collections.abc import Sequence
from typing import Any

from hermes_agent.policy.files.rule_lint import near
from hermes_agent.policy.files.schema import PolicyProblem, Strings, Times
from hermes_agent.policy.yaml_nodes import Node, scalar

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SPAN = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)")
_DURATION = re.compile(r"(\d{1,6})\s*(s|m|min|h|d)")
_DAY = 24 * 60
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}


class PolicyReader:
    def __init__(self, path: str) -> None:
        self.path = path
        self.problems: list[PolicyProblem] = []

    def wrong(self, node: Node, message: str, hint: str = "") -> None:
        self.problems.append(PolicyProblem(self.path, node.line, node.column, message, hint))

    def mapping(self, node: Node, what: str, known: tuple[str, ...]) -> dict[str, Node]:
        """The values of a mapping by name; an unknown name is a problem."""
        if node.pairs is None:
            self.wrong(node, f"{what} must be a mapping of names to values")
            return {}
        found = {}
        for key, value in node.pairs:
            name = key.text or ""
            if name in known:
                found[name] = value
            else:
                self.wrong(key, f"{what} has no key {name!r}", near(name, known))
        return found

    def sequence(self, node: Node | None, what: str) -> Sequence[Node]:
        if node is None:
            return ()
        if node.items is None:
            self.wrong(node, f"{what} must be a list")
            return ()
        return node.items

    def string(self, node: Node, what: str) -> str:
        if node.text is None or node.is_null:
            self.wrong(node, f"{what} must be text", "quote it, or YAML reads it as something else")
            return ""
        return node.text

    def strings(self, node: Node, what: str) -> Strings:
        """A string, or a list of them."""
        items = [node] if node.items is None else node.items
        if not items:
            self.wrong(node, f"{what} is an empty list", "remove the key, or name something")
        return tuple(self.string(item, what) for item in items)

    def choices(self, node: Node, what: str, known: tuple[str, ...]) -> Strings:
        given = self.strings(node, what)
        for word in given:
            if word not in known:
                self.wrong(node, f"{what} cannot be {word!r}", near(word, known))
        return given

    def choice(self, node: Node, what: str, known: tuple[str, ...]) -> str:
        word = self.string(node, what)
        if word and word not in known:
            self.wrong(node, f"{what} cannot be {word!r}", near(word, known))
        return word

    def boolean(self, node: Node, what: str) -> bool:
        value = scalar(node) if node.text is not None else None
        if not isinstance(value, bool):
            self.wrong(node, f"{what} must be true or false")
            return False
        return value

    def count(self, node: Node, what: str) -> int:
        value = scalar(node) if node.text is not None else None
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self.wrong(node, f"{what} must be a whole number of at least 1")
            return 1
        return value

    def duration(self, node: Node, what: str) -> float | None:
        found = _DURATION.fullmatch(self.string(node, what))
        if found is None or int(found[1]) == 0:
            self.wrong(node, f"{what} must be a time such as 90s, 10m, 2h or 1d")
            return None
        return float(int(found[1]) * _SECONDS[found[2]])

    def anything(self, node: Node, what: str) -> dict[str, Any]:
        """A mapping of names to any JSON values."""
        value = node.value()
        if not isinstance(value, dict):
            self.wrong(node, f"{what} must be a mapping of names to values")
            return {}
        return value

    def times(self, node: Node) -> Times:
        given = self.mapping(node, "time", ("hours", "days", "zone"))
        if node.pairs is not None and not given.keys() & {"hours", "days"}:
            self.wrong(node, "time needs hours or days", 'for instance {hours: "22:00-06:00"}')
        hours = self._hours(given["hours"]) if "hours" in given else ()
        days = self._days(given["days"]) if "days" in given else ()
        zone = self._zone(given["zone"]) if "zone" in given else "UTC"
        return Times(hours, tuple(DAYS.index(day) for day in days if day in DAYS), zone)

    def _days(self, node: Node) -> Strings:
        days = self.strings(node, "days")
        for day in days:
            if day not in DAYS:
                hint = f"write a list: [{', '.join(DAYS[:3])}]" if "-" in day else near(day, DAYS)
                self.wrong(node, f"days cannot be {day!r}", hint)
        return days

    def _hours(self, node: Node) -> tuple[tuple[int, int], ...]:
        spans = []
        for text in self.strings(node, "hours"):
            found = _SPAN.fullmatch(text)
            if found is None:
                self.wrong(node, f"hours cannot be {text!r}", 'write them as "22:00-06:00"')
                continue
            hour, minute, last_hour, last_minute = map(int, found.groups())
            first, last = hour * 60 + minute, last_hour * 60 + last_minute
            if first == last or last > _DAY:
                self.wrong(node, f"hours cannot be {text!r}", "for all day, write 00:00-24:00")
            spans.append((first, last))
        return tuple(spans)

    def _zone(self, node: Node) -> str:
        from zoneinfo import ZoneInfo

        name = self.string(node, "zone")
        try:
            ZoneInfo(name)
        except (KeyError, ValueError, OSError):  # not there; not a name; a folder
            self.wrong(node, f"no time zone called {name!r}", "for instance Europe/Berlin")
            return "UTC"
        return name
