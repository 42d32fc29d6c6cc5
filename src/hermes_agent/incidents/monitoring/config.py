"""Health checks and log patterns: `checks/*.yaml` in the home, one entry or a list in each file. A
problem in one file is reported and does not affect the others.

- name: shop-answers
  service: shop
  run: curl -fsS http://127.0.0.1:8080/healthz
  expect: {output: ok}
  level: critical                       # every 5 minutes; hourly; daily at 08:00; or every: 30
  severity: P1
- name: out-of-memory
  service: shop
  log: {path: /var/log/kern.log, pattern: "Out of memory: Killed process"}
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from hermes_agent.core.errors import UsageError
from hermes_agent.core.incidents import MonitoredService, Severity, SignalSource, WatchedCheck
from hermes_agent.core.skills import Check, Expectation
from hermes_agent.core.text.patterns import matches
from hermes_agent.policy.files.reader import PolicyReader
from hermes_agent.policy.files.schema import PolicyProblem
from hermes_agent.policy.yaml_nodes import BadYaml, Node, parse, scalar

Level = Literal["critical", "hourly", "daily"]
EVERY: Mapping[str, float] = {"critical": 300.0, "hourly": 3_600.0, "daily": 86_400.0}
MORNING = 8
"""The local hour of daily checks and the briefing."""
TIMEOUT = 30.0
LEAST_SECONDS = 1.0

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LOG = ("path", "pattern")
_SHARED = ("name", "service", "severity", "owner", "labels", "needs")
_CHECK = (
    *_SHARED, "run", "expect", "timeout", "level", "every", "after", "terminal", "policy", "source",
    "log", "vital",
)  # fmt: skip
_EXPECT = ("exit", "output", "no_output")


class Watched(Struct, frozen=True):
    """A check, its schedule, and how its failures are reported."""

    check: WatchedCheck
    every: float = EVERY["critical"]
    daily: bool = False
    """At 08:00 local time."""
    after: int = 2
    """Failures in a row before it raises a signal."""
    policy: str = ""
    source: SignalSource = "check"
    needs: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    file: str = ""
    level: str = ""
    """The job that runs it; empty if it has its own interval."""
    vital: bool = False
    """Its service is vital: a critical alert about it is P0."""

    @property
    def name(self) -> str:
        return self.check.name

    @property
    def service(self) -> str:
        return self.check.service or self.check.name


class LogPattern(Struct, frozen=True):
    """A pattern that must not occur in a log of this machine."""

    name: str
    path: str
    pattern: str
    service: str = ""
    severity: Severity = "P2"
    owner: str = ""
    needs: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    file: str = ""


class LoadedChecks(Struct, frozen=True):
    checks: tuple[Watched, ...] = ()
    logs: tuple[LogPattern, ...] = ()
    problems: tuple[PolicyProblem, ...] = ()

    @property
    def entries(self) -> tuple[Watched | LogPattern, ...]:
        return (*self.checks, *self.logs)

    @property
    def services(self) -> tuple[MonitoredService, ...]:
        """The dependencies that the entries declare."""
        logs = [
            MonitoredService(one.service or one.name, one.needs) for one in self.logs if one.needs
        ]
        return tuple(logs) + tuple(
            MonitoredService(one.service, one.needs, terminal=one.check.terminal, vital=one.vital)
            for one in self.checks
            if one.needs or one.vital
        )


class CheckFiles:
    """The check files of a home, read again when they change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, tuple[tuple[int, int, int], LoadedChecks]] = {}

    def load(self) -> LoadedChecks:
        found: dict[str, tuple[tuple[int, int, int], LoadedChecks]] = {}
        for path in sorted(self.folder.glob("*.yaml")) + sorted(self.folder.glob("*.yml")):
            try:
                facts = path.stat()
                mark = facts.st_mtime_ns, facts.st_size, facts.st_ino
                known = self._read.get(path.name)
                if known is not None and known[0] == mark:
                    found[path.name] = known
                    continue
                text = path.read_text(encoding="utf-8")
                found[path.name] = mark, read(path.name, text)
            except FileNotFoundError:
                if path.is_symlink():  # otherwise it was removed since
                    found[path.name] = _unread(path.name, "broken link")
            except (OSError, UnicodeDecodeError) as error:
                why = str(error.strerror) if isinstance(error, OSError) else "not UTF-8"
                found[path.name] = _unread(path.name, why)
        self._read = found
        return _together([loaded for _, loaded in found.values()])


def _unread(file: str, why: str) -> tuple[tuple[int, int, int], LoadedChecks]:
    wrong = PolicyProblem(file, 1, 1, f"cannot be read: {why}", "fix or remove it")
    return (0, 0, 0), LoadedChecks(problems=(wrong,))


def _together(files: list[LoadedChecks]) -> LoadedChecks:
    """Merge files; an entry whose name is taken is a problem."""
    names: dict[str, str] = {}
    checks: list[Watched] = []
    logs: list[LogPattern] = []
    problems: list[PolicyProblem] = []
    for loaded in files:
        problems += loaded.problems
        for entry in loaded.entries:
            if entry.name in names:
                what = f"{entry.name!r} is already the name of an entry in {names[entry.name]}"
                problems.append(
                    PolicyProblem(entry.file, 1, 1, what, "give one of them another name")
                )
                continue
            names[entry.name] = entry.file
            if isinstance(entry, Watched):
                checks.append(entry)
            else:
                logs.append(entry)
    return LoadedChecks(tuple(checks), tuple(logs), tuple(problems))


def read(file: str, text: str) -> LoadedChecks:
    """The entries of one file. Valid entries count, whatever is wrong with others."""
    try:
        root = parse(file, text)
    except BadYaml as bad:
        return LoadedChecks(problems=(bad.problem,))
    if root is None or root.is_null:
        return LoadedChecks()
    reader = _Reader(file)
    checks: list[Watched] = []
    logs: list[LogPattern] = []
    for node in [root] if root.items is None else root.items:
        before = len(reader.problems)
        entry = reader.entry(node)
        if len(reader.problems) > before:
            continue
        if isinstance(entry, Watched):
            checks.append(entry)
        else:
            logs.append(entry)
    return LoadedChecks(tuple(checks), tuple(logs), tuple(reader.problems))


class _Reader(PolicyReader):
    def entry(self, node: Node) -> Watched | LogPattern:
        given = self.mapping(node, "a check", _CHECK)
        name = self.string(given["name"], "name") if "name" in given else ""
        if "name" not in given and node.pairs is not None:
            self.wrong(node, "a check needs a name", "add name: with a word of your own")
        elif "name" in given and not _NAME.fullmatch(name):
            hint = "letters, digits, dots, dashes and underscores, at most 64"
            self.wrong(given["name"], f"not a valid name: {name!r}", hint)
        if "log" in given:
            return self._log(given, name)
        return self._check(node, given, name)

    def _check(self, node: Node, given: Mapping[str, Node], name: str) -> Watched:
        run = self.string(given["run"], "run") if "run" in given else ""
        if node.pairs is not None and not run.strip():
            place = given.get("run", node)
            self.wrong(place, "a check needs a command", "run: the command, or log: for a log")
        if "level" in given and "every" in given:
            self.wrong(
                given["every"], "level and every both set the interval", "leave one of them out"
            )
        level = self.choice(given["level"], "level", tuple(EVERY)) if "level" in given else ""
        every = self._seconds(given["every"], "every") if "every" in given else 0.0
        timeout = self._seconds(given["timeout"], "timeout") if "timeout" in given else TIMEOUT
        source = self._word(given, "source", ("check", "drill")) or "check"
        return Watched(
            WatchedCheck(
                name, Check(run, self._expect(given), timeout), self._text(given, "service"),
                self._text(given, "terminal"), self._severity(given), self._text(given, "owner"),
            ),
            every or EVERY.get(level, EVERY["critical"]),
            level == "daily",
            self.count(given["after"], "after") if "after" in given else 2,
            self._text(given, "policy"),
            source,  # type: ignore[arg-type]  # one of the two
            self._needs(given),
            self._labels(given),
            self.path,
            "" if every else level or "critical",
            "vital" in given and self.boolean(given["vital"], "vital"),
        )  # fmt: skip

    def _log(self, given: Mapping[str, Node], name: str) -> LogPattern:
        for other in [key for key in given if key not in (*_SHARED, "log")]:
            self.wrong(given[other], f"a log check has no {other!r}", "leave it out")
        said = self.mapping(given["log"], "log", _LOG)
        if given["log"].pairs is not None and said.keys() != set(_LOG):
            self.wrong(given["log"], "log needs a path and a pattern", "log: {path: …, pattern: …}")
        path = self.string(said["path"], "path") if "path" in said else "/"
        if not path.startswith("/"):
            self.wrong(said["path"], f"the path {path!r} is not absolute", "start it with /")
        return LogPattern(
            name, path, self._pattern(said, "pattern"), self._text(given, "service"),
            self._severity(given), self._text(given, "owner"), self._needs(given),
            self._labels(given), self.path,
        )  # fmt: skip

    def _text(self, given: Mapping[str, Node], name: str) -> str:
        return self.string(given[name], name) if name in given else ""

    def _word(self, given: Mapping[str, Node], name: str, known: tuple[str, ...]) -> str:
        return self.choice(given[name], name, known) if name in given else ""

    def _severity(self, given: Mapping[str, Node]) -> Severity:
        word = self._word(given, "severity", get_args(Severity))
        return word or "P2"  # type: ignore[return-value]  # one of them, or it was said

    def _needs(self, given: Mapping[str, Node]) -> tuple[str, ...]:
        node = given.get("needs")
        return () if node is None or node.items == [] else self.strings(node, "needs")

    def _labels(self, given: Mapping[str, Node]) -> dict[str, str]:
        if "labels" not in given:
            return {}
        pairs = given["labels"].pairs
        if pairs is None:
            self.wrong(given["labels"], "labels must be a mapping of names to texts")
            return {}
        return {key.text or "": self.string(value, key.text or "") for key, value in pairs}

    def _expect(self, given: Mapping[str, Node]) -> Expectation:
        if "expect" not in given:
            return Expectation()
        said = self.mapping(given["expect"], "expect", _EXPECT)
        code: int | None = 0
        if "exit" in said:
            value = scalar(said["exit"]) if said["exit"].text is not None else ""
            code = value if isinstance(value, int) and not isinstance(value, bool) else None
            if value is not None and (code is None or not 0 <= code <= 255):
                self.wrong(said["exit"], "exit must be a code from 0 to 255, or null for any")
        return Expectation(code, self._pattern(said, "output"), self._pattern(said, "no_output"))

    def _pattern(self, said: Mapping[str, Node], name: str) -> str:
        if name not in said:
            return ""
        text = self.string(said[name], name)
        try:
            matches(text, "")
        except UsageError as error:
            self.wrong(said[name], f"{name}: {error.message}", error.hint)
        return text

    def _seconds(self, node: Node, what: str) -> float:
        value = scalar(node) if node.text is not None else None
        if isinstance(value, str):
            return self.duration(node, what) or LEAST_SECONDS
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
        if not LEAST_SECONDS <= number < math.inf:
            self.wrong(node, f"{what} must be a number of seconds from 1, or a time such as 5m")
            return LEAST_SECONDS
        return float(number)
