"""What a database does with the statements of a service: takes its time over them, waits for a
copy elsewhere, or goes by settings of a role that others do not have."""

import re
import shlex
from collections.abc import Iterator

from hermes_agent.models.responder.rules import postgres
from hermes_agent.models.responder.rules.ideas import Idea, earlier, lines, put_back, undo_of
from hermes_agent.models.responder.rules.postgres import Place, Session, literal, psql
from hermes_agent.models.responder.view import parse
from hermes_agent.models.responder.view.case import Case

_SLOW = re.compile(
    r"timed? ?out|too slow|slow|deadline|took \d|latency|\b504\b|statement timeout|busy|after \d",
    re.IGNORECASE,
)
_SETTING = {
    r"read-only|read only": r"read_only",
    r"timed? ?-?out|cancel|terminat": r"timeout",
    r"does not exist|no such table|undefined": r"search_path|role",
    r"permission denied|not permitted": r"^role$|row_security|session_authorization",
    r"memory|too large|no space|temporary file": r"mem|temp_file_limit|buffers",
}
"""What is said where a setting is at fault, and how such a setting is called."""
_DATABASE = re.compile(r"ERROR|FATAL|database|relation|statement|transaction|sql|pg", re.IGNORECASE)
_HURTS = re.compile(r"enable_|_cost|mem$|delay|limit|jit|cache|parallel|timeout|collapse|geqo")
"""Settings by which statements become slow."""
_TRIGGERS = (
    "select 'trigger', c.relname, t.tgname, t.tgenabled, left(regexp_replace(p.prosrc, '\\s+', "
    "' ', 'g'), 200) from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_proc p on "
    "p.oid = t.tgfoid where not t.tgisinternal order by t.oid desc"
)
_INDEXES = (
    "select 'index', c.relname, c.reltuples::bigint, coalesce(string_agg(pg_get_indexdef(i."
    "indexrelid), '; '), '') from pg_class c left join pg_index i on i.indrelid = c.oid and i."
    "indisvalid where c.relkind = 'r' and c.relnamespace >= 2200 group by 2, 3"
)
_TOLD = (
    "select 'set', coalesce(r.rolname, ''), coalesce(d.datname, ''), unnest(s.setconfig) from "
    "pg_db_role_setting s left join pg_roles r on r.oid = s.setrole left join pg_database d on "
    "d.oid = s.setdatabase"
)
_FILES = (
    "select 'file', name, setting, coalesce(sourcefile, '') from pg_settings where source in "
    "('configuration file', 'command line')"
)
_INSIDE = (_TRIGGERS, _INDEXES, _TOLD, _FILES)
"""What a database was told beside its tables, the newest triggers first."""
_WAITS = re.compile(r"pg_sleep|dblink|http|copy .* program|generate_series|loop", re.IGNORECASE)
FEW = 8
ROWS = 2000
"""In how many rows one is found soon without an index."""
PREVENT = ("set a statement_timeout for each role", "alert on statements over a second")


def statements(case: Case) -> Iterator[Idea]:
    """What is asked of a database comes late, or not at all, and nobody holds a lock."""
    said = [line for one in case.suspects for line in case.troubles(one)[:4]]
    slow = next((line for line in [*said, case.symptom] if _SLOW.search(line)), "")
    for place in postgres.places(case):
        wants, _, user = postgres.asked(case, place)
        if wants or not user:
            continue
        yield from _set_for(case, place, user, [*said, case.symptom])
        watch = case.look(postgres.watching(case, place, user))
        if watch is None or not slow:
            continue
        late = _late(case, postgres.meanwhile(watch.output))
        for one in late[:2]:
            yield from _lingering(case, place, user, one, slow)


def inside(place: Place, user: str) -> str:
    return psql(place, _INSIDE[0], user) + "".join(f' -c "{one}"' for one in _INSIDE[1:])


def _rows(case: Case, place: Place, user: str, kind: str) -> list[list[str]]:
    return [row[1:] for row in parse.table(case.text(inside(place, user))) if row[0] == kind]


def _late(case: Case, looks: list[list[Session]]) -> list[Session]:
    """Those that are at one statement from one look to the next, waiting for nobody; who was at it
    long before is at work of their own."""
    found: dict[tuple[int, str], list[Session]] = {}
    for one in (each for look in looks for each in look):
        if one.state == "active" and not one.waits_for:
            found.setdefault((one.pid, one.query), []).append(one)
    return [
        rows[-1]
        for rows in found.values()
        if len(rows) > 1 and (rows[0].seconds < FEW or rows[0].name in case.suspects)
    ]


def _lingering(case: Case, place: Place, user: str, late: Session, slow: str) -> Iterator[Idea]:
    """Over what it takes its time."""
    component = case.database_of(place[1]) or late.name
    if late.event.endswith(":SyncRep"):
        yield from _alone(case, place, user, late, slow)
        return
    table = re.search(r"\b(?:update|from|into)\s+\"?(?:\w+\.)?(\w+)", late.query, re.IGNORECASE)
    wants = case.missing((inside(place, user),))
    claim = f"{component} takes its time over {late.query[:60]!r}"
    yield Idea(
        "slow-dependency", component, claim, 0.66 if wants else 0.5,
        table[1] if table else f"port {place[1]}", lines(slow, late.line), wants,
    )  # fmt: skip
    if table is None:
        return
    writes = not re.match(r"\s*select", late.query, re.IGNORECASE)
    own = [
        row for row in _rows(case, place, user, "trigger") if row[0] == table[1] and row[2] != "D"
    ]
    for at, row in enumerate(own if writes else []):
        waits = bool(_WAITS.search(row[3])) if len(row) > 3 else False
        if not re.fullmatch(r"\w+", row[1]) or not waits:
            continue  # what it does may be what people count on
        turn = f"alter table {table[1]} {{}} trigger {row[1]}"
        yield Idea(
            "slow-dependency", component,
            f"the trigger {row[1]} of {table[1]} takes its time with each row",
            0.9 - 0.05 * min(at, 3), f"trigger {row[1]} on {table[1]}",
            lines("|".join(row), late.line, slow), (),
            (psql(place, turn.format("disable"), user),),
            psql(place, turn.format("enable"), user), ("try triggers out with load first",),
        )  # fmt: skip
    yield from _unindexed(case, place, user, late, table[1], slow)
    yield from _settings(case, place, user, _HURTS.pattern, slow, 0.74)


def _unindexed(
    case: Case, place: Place, user: str, late: Session, table: str, slow: str
) -> Iterator[Idea]:
    """A column that is searched by, of a large table, has no index."""
    row = next((x for x in _rows(case, place, user, "index") if x[0] == table), None)
    found = re.search(r"\bwhere\s+\(?\"?(?:\w+\.)?(\w+)\"?\s*(?:=|<|>|in\b|like\b|between\b)",
                      late.query, re.IGNORECASE)  # fmt: skip
    if row is None or found is None or parse.number(row[1]) < ROWS:
        return
    column = found[1]
    if re.search(rf"\(\"?{re.escape(column)}\b", row[2] if len(row) > 2 else ""):
        return
    name = f"{table}_{column}_again"
    yield Idea(
        "slow-dependency", case.database_of(place[1]) or late.name,
        f"{table} has no index by {column}, by which it is searched", 0.82,
        f"table {table}, column {column}", lines("|".join(row), late.line, slow), (),
        (psql(place, f"create index concurrently if not exists {name} on {table} ({column})", user),
         psql(place, f"analyze {table}", user)),
        f"drop the index {name}", ("review what changes indexes",),
    )  # fmt: skip


def _alone(case: Case, place: Place, user: str, late: Session, slow: str) -> Iterator[Idea]:
    """What is written waits for a copy on another machine that does not answer."""
    component = case.database_of(place[1]) or late.name
    wants = case.missing((inside(place, user),))
    told = next(
        (x for x in _rows(case, place, user, "file") if "synchronous_standby" in x[0]), None
    )
    claim = "each commit waits for a standby that is not there"
    if told is None:
        yield Idea("slow-dependency", component, claim, 0.7, f"port {place[1]}",
                   lines(late.line, slow), wants)  # fmt: skip
        return
    copy = earlier(case, told[2])
    change = next((x for x in copy.changes if "synchronous" in x), "")
    reload = psql(place, "select pg_reload_conf()", user)
    fix, undo = tuple[str, ...](), ""  # whether a copy may be lacking is for people to say
    if told[2].endswith("auto.conf"):
        fix = (psql(place, "alter system reset synchronous_standby_names", user), reload)
        before = f"alter system set synchronous_standby_names = {literal(told[1])}"
        undo = psql(place, before, user)
    elif copy.path and change:
        fix, undo = (*put_back(told[2], copy.path), reload), undo_of(told[2])
    yield Idea(
        "slow-dependency", component, claim, 0.86, f"{told[2]}: synchronous_standby_names",
        lines("|".join(told), late.line, slow), copy.wants, fix, undo, PREVENT,
    )  # fmt: skip


def _set_for(case: Case, place: Place, user: str, said: list[str]) -> Iterator[Idea]:
    """A setting that a role or a database has, and that fits what is said."""
    for text, name in _SETTING.items():
        spoken = next((x for x in said if re.search(text, x, re.IGNORECASE)), "")
        if not spoken or not _DATABASE.search(spoken):
            continue
        wants = case.missing((inside(place, user),))
        if wants:
            yield Idea("bad-config", case.database_of(place[1]) or case.brief.service,
                       "a setting of the database may be at fault", 0.58, f"port {place[1]}",
                       lines(spoken), wants)  # fmt: skip
        yield from _settings(case, place, user, name, spoken, 0.84)


def _settings(
    case: Case, place: Place, user: str, name: str, spoken: str, score: float
) -> Iterator[Idea]:
    for row in _rows(case, place, user, "set"):
        key, _, value = (row[2] if len(row) > 2 else "").partition("=")
        if not re.search(name, key) or not re.fullmatch(r"\w+", row[0] + row[1] + key):
            continue
        whose = f"role {row[0]}" if row[0] else f"database {row[1]}"
        kind = f"alter {whose}" + (f" in database {row[1]}" if row[0] and row[1] else "")
        yield Idea(
            "bad-config", case.database_of(place[1]) or case.brief.service,
            f"{whose} is told {key} = {value}", score, f"{whose}: {key}={value}",
            lines("|".join(["set", *row]), spoken), (),
            (_changed(place, f"{kind} reset {key}", user),
             *(case.restart(one) for one in _clients(case, place))),
            _changed(place, f"{kind} set {key} = {literal(value.strip(chr(34)))}", user),
            ("review what roles are told",),
        )  # fmt: skip


def _changed(place: Place, statement: str, user: str) -> str:
    """A change of settings, carried out though transactions may be told only to read."""
    free = "set default_transaction_read_only = off"
    return f"{psql(place, free, user)} -c {shlex.quote(statement)}"


def _clients(case: Case, place: Place) -> list[str]:
    """Services on the way to the check that ask this database: what they are told is told when
    they connect."""
    own = [case.brief.service, *case.needs(case.brief.service)]
    server = case.database_of(place[1])
    return [
        one for one in own
        if one != server and one in case.programs
        and any(re.search(rf"\b{place[1]}\b", value) for value in case.settings(one).values())
    ]  # fmt: skip


RULES = (statements,)
