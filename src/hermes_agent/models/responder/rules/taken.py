"""Locks that are rows of a table: of a migration, a job, a lease. Whoever took one is gone, and
nobody gives it back. The row is given back as its program would do it; no row is deleted."""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from hermes_agent.models.responder.rules.ideas import Idea, lines
from hermes_agent.models.responder.view.case import Case, stamp

HOST = "cat /proc/sys/kernel/hostname"
LOCKED = re.compile(
    r"\block(?:ed|s)?\b|lock\b|\blease\b|held by|taken by|another (?:\w+ )?(?:instance|node)"
    r"|owned by|not the leader|standing by|already (?:running|locked|in progress)",
    re.IGNORECASE,
)
_BASE = re.compile(r"\.(?:db|db3|sqlite3?|s3db)$")
_HOLDER = re.compile(
    r"(?:^|_)(?:by|owner|holder|host|pid|worker|instance|node|leader)(?:_?(?:id|name|pid))?$"
    r"|^(?:locked|leased|claimed|reserved|owned|held|taken)_?by", re.IGNORECASE
)  # fmt: skip
_NUMBERED = re.compile(r"(?:worker|instance|node|leader|host|name|(?<!p)id)$", re.IGNORECASE)
"""Columns in which a number alone is that of a worker, a machine or a person, not of a process."""
_PLACE = re.compile(r"host|node|machine|server", re.IGNORECASE)
_SET = re.compile(r"^(?:is_?)?(?:locked|lock|held|taken|busy|running|active)$", re.IGNORECASE)
_UNTIL = re.compile(r"expir|until|valid_to|deadline", re.IGNORECASE)
_WHEN = re.compile(
    r"(?:_at|_on|since|time|granted|acquired|started|heartbeat|seen)$", re.IGNORECASE
)
_TRUE = ("1", "true", "t", "y", "yes")
_CLOCK = re.compile(r"(?<!\w)(?:\d{4}-\d\d-\d\d[T ]?|\d{1,2}:\d\d(?::\d\d)?(?:\.\d+)?Z?)(?!\d)")
_PID = re.compile(r"\bpid\W{0,4}(\d{1,8})\b", re.IGNORECASE)
_AFTER = re.compile(r"(?<=[\w.][:/@#])(\d{1,8})(?![\w.])")
_OF_LINK = re.compile(r"@[\w-]+(?:\.[\w-]+)*?\.(\d{1,8})(?::\d+)?\s*$")
_ALONE = re.compile(r"(?<![\w.:/-])(\d{2,8})(?![\w.:/-])")
_OF_LOCKS = re.compile(r"lock|lease|leader|mutex|semaphore", re.IGNORECASE)
LONG_SECONDS = 300.0
"""A lock that says nothing of who has it is looked at only when it is that old."""
_LOOK = (
    "import json,re,sqlite3,sys; "
    'b = sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True, timeout=2); '
    'q = lambda s: b.execute(s).fetchall(); [print(json.dumps({"table": t, "row": r[0], '
    '"columns": [[c[1], c[3], v] for c, v in zip(k, r[1:])]}, default=str)) '
    "for (t,) in q(\"select name from sqlite_master where type = 'table'\") "
    "for k in [q('pragma table_info(\"' + t + '\")')] "
    'if re.search("lock|lease|leader|mutex", " ".join([t, *[c[1] for c in k]]), re.I) '
    "for r in q('select rowid, * from \"' + t + '\" limit 40')]"
)


class Held(Struct, frozen=True):
    """A row that says that somebody has something."""

    table: str
    row: int
    columns: tuple[tuple[str, bool, Any], ...]
    """Name, whether it may not be empty, and value."""

    def first(self, kind: re.Pattern[str]) -> tuple[str, bool, Any] | None:
        return next((one for one in self.columns if kind.search(one[0])), None)

    @property
    def holder(self) -> str:
        found = [x for x in self.columns if _HOLDER.search(x[0]) and x[2] not in (None, "")]
        return " ".join(str(one[2]) for one in found)

    @property
    def pid(self) -> int:
        """The process that has it; 0 where no column tells."""
        told = [(name, str(value)) for name, _, value in self.columns if _HOLDER.search(name)]
        rest = [text for name, text in told if not (text.isdigit() and _NUMBERED.search(name))]
        return holder_of(" ".join(text for text in rest if text != "None"))

    @property
    def is_taken(self) -> bool:
        state = self.first(_SET)
        if state is not None and str(state[2]).lower() not in _TRUE:
            return False
        return state is not None or bool(self.holder)


def look(path: str) -> str:
    """The rows of a database file that look like locks."""
    return f"python3 -c {shlex.quote(_LOOK)} {shlex.quote(path)}"


def taken(case: Case) -> Iterator[Idea]:
    """It waits for a lock that lies in its database."""
    for service in case.suspects:
        said = list(case.said(service, LOCKED.pattern))[:6]
        bases = [path for path in case.named(service) if _BASE.search(path)][:2]
        for path in bases if said else []:
            wants = case.missing((look(path), HOST))
            if wants:
                yield Idea("stale-lock", service, f"{service} may wait for a row of {path}", 0.6,
                           path, lines(said[0]), wants)  # fmt: skip
                continue
            for one in held(case.text(look(path))):
                yield from _given_back(case, service, path, one, said)


def held(text: str) -> list[Held]:
    found = list[Held]()
    for line in text.splitlines():
        try:
            row = json.loads(line)
            columns = tuple((str(n), bool(must), value) for n, must, value in row["columns"])
            found.append(Held(str(row["table"]), int(row["row"]), columns))
        except (ValueError, TypeError, KeyError):
            continue
    return [one for one in found if one.is_taken]


def holder_of(text: str) -> int:
    """The process that a text names as the one that has something; 0 if none."""
    plain = _CLOCK.sub(" ", text)
    for pattern in (_PID, _OF_LINK, _AFTER, _ALONE):
        if found := pattern.search(plain):
            return int(found[1])
    return 0


def _given_back(case: Case, service: str, path: str, one: Held, said: list[str]) -> Iterator[Idea]:
    holder, pid = one.holder, one.pid
    line = _spoken(one, said)
    if not line or _is_alive(case, service, path, one, pid):
        return
    free = _release(one)
    undo = _sql(one, {name: value for name, _, value in one.columns if name in free})
    who = f"{holder}, which is gone" if holder else "nobody who lives"
    fix = (change(path, one), *_again(case, service, line))
    yield Idea(
        "stale-lock", service, f"{one.table} in {path} is locked by {who}",
        (0.9 if pid else 0.66) if free else 0.5, f"{path}: {one.table}, row {one.row}",
        lines(line), (), fix if free else (), _run(path, undo),
        ("let locks in tables end by themselves after a while",),
    )  # fmt: skip


def _spoken(one: Held, said: list[str]) -> str:
    """The line that speaks of this lock: by who has it, by its table, or by its name."""
    own = _OF_LOCKS.search(one.table) is not None
    words = [one.holder, *([one.table] if own else [])]
    words += [str(x[2]) for x in one.columns if own and isinstance(x[2], str)]
    words = [word for word in words if len(word) > 3]
    named = next((line for line in said if any(word in line for word in words)), "")
    return named or (said[0] if own else "")


def _is_alive(case: Case, service: str, path: str, one: Held, pid: int) -> bool:
    """Whether the holder lives, or may live where nobody can look."""
    taken_at = [x for name, _, value in one.columns if _WHEN.search(name) and
                (x := _moment(case, value))]  # fmt: skip
    age = case.now - max(taken_at) if taken_at else 0.0
    host = case.text(HOST).strip()
    if not pid:
        own = case.pids(service)
        others = [x for x in case.processes if path in x.command and x.pid not in own]
        others += [x for x in case.processes if x.pid in own and x.age >= age]
        used = any(path in case.named(x) for x in _running(case) if x != service)
        unknown = bool(one.holder and one.holder != host)
        return age < LONG_SECONDS or bool(others) or used or unknown
    places = [str(x) for name, _, x in one.columns if _PLACE.search(name) and isinstance(x, str)]
    if host and any(not _is_here(x, host) for x in places if x):
        return True
    named = re.sub(r"\W?\bpid\b|\b\d+\b", "", one.holder).strip(" :/@#-")
    if named and host and not _is_here(one.holder, host) and re.search(r"[:/@#]", one.holder):
        return True  # on another machine
    process = case.process(pid)
    if process is None:
        return False
    born_later = bool(age) and process.age + 5 < age
    return not born_later or process.pid in case.pids(service)


def _is_here(text: str, host: str) -> bool:
    """Whether a text names this machine."""
    short = re.escape(host.partition(".")[0])
    return re.search(rf"(?<![\w-]){short}(?![\w-])", text) is not None


def _running(case: Case) -> list[str]:
    return [name for name, program in case.programs.items() if program.up]


def _moment(case: Case, value: object) -> float:
    if isinstance(value, (int, float)) and value > 1e9:
        return float(value) / (1000 if value > 1e11 else 1)
    return stamp(str(value), case.now) if isinstance(value, str) else 0.0


def _release(one: Held) -> dict[str, Any]:
    """What the row must say so that nobody has it."""
    state, until = one.first(_SET), one.first(_UNTIL)
    loose = {
        name: None
        for name, must, value in one.columns
        if not must and value is not None and (_HOLDER.search(name) or _WHEN.search(name))
    }
    if state is not None:
        off: Any = 0 if str(state[2]) == "1" else {"y": "N", "t": "f", "yes": "no"}.get(
            str(state[2]).lower(), "false"
        )  # fmt: skip
        return {state[0]: off, **loose}
    if until is not None and until[2] is not None:
        return {until[0]: 0 if isinstance(until[2], (int, float)) else "1970-01-01 00:00:00"}
    return loose if any(_HOLDER.search(name) for name in loose) else {}


def change(path: str, one: Held) -> str:
    """The command that gives a lock back."""
    return _run(path, _sql(one, _release(one), checked=True))


def _sql(one: Held, change: dict[str, Any], *, checked: bool = False) -> str:
    """The statement that changes a row, as long as it still says what was seen."""
    given = ", ".join(f"{_name(key)} = {_value(value)}" for key, value in change.items())
    same = "".join(
        f" and {_name(name)} is {_value(value)}" for name, _, value in one.columns
        if checked and name in change
    )  # fmt: skip
    return f"update {_name(one.table)} set {given} where rowid = {one.row}{same}"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _value(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, (int, float)):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"


def _run(path: str, sql: str) -> str:
    code = (
        "import sqlite3,sys; b = sqlite3.connect(sys.argv[1], timeout=5); "
        "n = b.execute(sys.argv[2]).rowcount; b.commit(); print(n); sys.exit(n != 1)"
    )
    return f"python3 -c {shlex.quote(code)} {shlex.quote(path)} {shlex.quote(sql)}"


def _again(case: Case, service: str, line: str) -> tuple[str, ...]:
    """Whoever runs and waits goes on by itself."""
    program = case.programs.get(service)
    waits = re.search(
        r"\bwait|standing by|trying again|will (?:try|retry)|retry", line, re.IGNORECASE
    )
    if program is not None and program.up and waits:
        return ("sleep 3",)
    return (case.restart(service),)
