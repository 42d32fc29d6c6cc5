"""A database of PostgreSQL, asked as its users ask it: where it is, and who does what there."""

import re
import shlex
from collections.abc import Iterator

from msgspec import Struct

from hermes_agent.models.responder.view import parse
from hermes_agent.models.responder.view.case import Case

_PLACE = re.compile(r"\b([\w.-]+):(\d{2,5})/(\w+)(?:[ ?]+(?:user=)?(\w+))?")
_URL = re.compile(
    r"\bpostgres(?:ql)?(?:\+\w+)?:/{2}(?:([\w.-]+)(?::[^@\s]*)?@)?([\w.-]*)(?::(\d{2,5}))?"
    r"(?:/([\w-]+))?"
)
SOCKETS = "ss -lxp"
_QUERY = (
    "select pid, usename, translate(application_name, '|', ' '), client_port, state, "
    "coalesce(extract(epoch from now() - coalesce(xact_start, state_change))::int, 0), "
    "array_to_string(pg_blocking_pids(pid), ','), "
    "left(regexp_replace(query, '\\s+', ' ', 'g'), 160), "
    "coalesce(wait_event_type || ':' || wait_event, '') from pg_stat_activity "
    "where backend_type = 'client backend' and pid <> pg_backend_pid()"
)
LOOKS, PAUSE = 8, 0.3
"""How often it is asked while something waits there, and how long between."""

Place = tuple[str, int, str, str]
"""Host, port, database and user."""


class Session(Struct, frozen=True):
    pid: int
    user: str
    name: str
    port: str
    state: str
    seconds: int
    waits_for: tuple[int, ...]
    query: str
    line: str
    event: str = ""
    """What it waits for, as PostgreSQL calls it."""


def places(case: Case) -> list[Place]:
    """Host, port, database and user of each database that a suspect has, and of each that listens
    here."""
    found = list[Place]()
    for one in case.suspects:
        values = case.settings(one)
        for value in [*values.values(), case.about(one)]:
            found += written(value)
        host = values.last("pghost", "db_host", "database_host")
        port = values.last("pgport", "db_port", "database_port")
        if host or port.isdigit():
            base = values.last("pgdatabase", "db_name", "dbname", "database_name", "database")
            user = values.last("pguser", "db_user", "database_user")
            found.append((host or "127.0.0.1", _port(port), base or "postgres", user))
    listening = [each.port for each in case.listeners if each.name.startswith("postgres")]
    found += [("127.0.0.1", own, "postgres", "") for own in listening]
    for folder, port in re.findall(r"(/\S*)/\.s\.PGSQL\.(\d{2,5})\b", case.text(SOCKETS)):
        found.append((folder, int(port), "postgres", ""))
    best: dict[tuple[str, int], Place] = {}
    for place in found:
        if re.fullmatch(r"[\w./-]+", place[0]):
            best.setdefault(place[:2], place)
    return list(best.values())


def written(value: str) -> Iterator[Place]:
    """A place as it is written in one value: an address, pairs, or a call of psql."""
    if url := _URL.search(value):
        yield url[2] or "127.0.0.1", _port(url[3]), url[4] or "postgres", url[1] or ""
        return
    pairs = dict(re.findall(r"\b(host|port|dbname|user)\s*=\s*'?([\w./-]+)", value))
    if "host" in pairs or "dbname" in pairs:
        yield (pairs.get("host", "127.0.0.1"), _port(pairs.get("port", "")),
               pairs.get("dbname", "postgres"), pairs.get("user", ""))  # fmt: skip
    elif call := re.search(r"\bpsql\b((?:\s+-[hpUd]\s*\S+)+)(?:\s+(\w+))?", value):
        flags: dict[str, str] = dict(re.findall(r"-([hpUd])\s*(\S+)", call[1]))
        yield (flags.get("h", "127.0.0.1"), _port(flags.get("p", "")),
               flags.get("d") or call[2] or "postgres", flags.get("U", ""))  # fmt: skip
    elif "http" not in value and (plain := _PLACE.search(value)):
        yield plain[1], int(plain[2]), plain[3], plain[4] or ""


def _port(text: str | None) -> int:
    return int(text) if text and text.isdigit() and len(text) < 6 else 5432


def psql(place: Place, query: str, user: str = "") -> str:
    host, port, database, own = place
    name = user or own or "postgres"
    where = (
        f"host={_value(host)} port={port} user={_value(name)} dbname={_value(database)} "
        "connect_timeout=3"
    )
    if query.startswith("select"):
        where += " options=-clock_timeout=3s"  # whoever looks does not wait behind others
    return f"psql -X -At -d {shlex.quote(where)} -c {shlex.quote(query)}"


def _value(text: str) -> str:
    """A value of a place as libpq reads it: other words beside it are none of its own."""
    if re.fullmatch(r"[\w./-]+", text):
        return text
    return "'" + re.sub(r"(['\\])", r"\\\1", text) + "'"


def literal(text: str) -> str:
    """A text in a statement."""
    plain = text.replace("'", "''")
    return f"E'{plain.replace(chr(92), chr(92) * 2)}'" if "\\" in text else f"'{plain}'"


def asked(case: Case, place: Place) -> tuple[tuple[str, ...], str, str]:
    """What to ask yet, the answer, and who may ask."""
    for user in ("postgres", place[3]):
        if not user:
            continue
        command = psql(place, _QUERY, user)
        found = case.look(command)
        if found is None:
            return (command,), "", user
        if found.ok:
            return (), found.output, user
    return (), "", ""


def sessions(text: str) -> Iterator[Session]:
    for line in text.splitlines():
        words = line.split("|")
        event = words.pop() if re.fullmatch(r"(?:[A-Z]\w+:\w+)?", words[-1]) else ""
        if len(words) >= 8 and words[0].isdigit():
            waits = tuple(int(pid) for pid in words[6].split(",") if pid.isdigit())
            yield Session(
                int(words[0]), words[1], words[2], words[3], words[4],
                int(parse.number(words[5])), waits, "|".join(words[7:]), line, event,
            )  # fmt: skip


def watching(case: Case, place: Place, user: str) -> str:
    """Who does what there while the check asks: who waits only then is seen, too."""
    return watched(case, psql(place, _QUERY, user))


def watched(case: Case, ask: str) -> str:
    """A look that is taken again and again while the check asks."""
    check = case.brief.check
    asks = f"( {check.command} ) >/dev/null 2>&1 & " if check is not None else ""
    return f"{asks}for i in $(seq {LOOKS}); do {ask}; echo; sleep {PAUSE}; done; wait"


def meanwhile(text: str) -> list[list[Session]]:
    """What was seen at each look."""
    return [list(sessions(part)) for part in text.split("\n\n")]
