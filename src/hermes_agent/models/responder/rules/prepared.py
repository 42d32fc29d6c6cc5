"""Transactions of PostgreSQL that were prepared and never ended: only one that others wait for is,
as whoever leads it decided."""

import re
import shlex
from collections.abc import Iterator

from msgspec import Struct

from hermes_agent.models.responder.rules import postgres
from hermes_agent.models.responder.rules.ideas import Idea, lines
from hermes_agent.models.responder.rules.postgres import Place, psql
from hermes_agent.models.responder.view.case import Case

_SAME = " and ".join(
    f"w.{name} is not distinct from h.{name}"
    for name in ("locktype", "database", "relation", "page", "tuple", "transactionid", "classid",
                 "objid", "objsubid")
)  # fmt: skip
QUERY = (
    "select p.owner, p.database, extract(epoch from now() - p.prepared)::int, h.mode, "
    "coalesce(c.relname, h.locktype), coalesce((select string_agg(distinct w.mode, ',') from "
    f"pg_locks w where not w.granted and {_SAME}), ''), p.gid from pg_prepared_xacts p join "
    "pg_locks x on x.transactionid = p.transaction and x.granted and x.pid is null join pg_locks h "
    "on h.virtualtransaction = x.virtualtransaction and h.granted left join pg_class c on "
    "c.oid = h.relation"
)
"""What each holds, and in which ways others want to have it just now."""
_MODES = ("AccessShare", "RowShare", "RowExclusive", "ShareUpdateExclusive", "Share",
          "ShareRowExclusive", "Exclusive", "AccessExclusive")  # fmt: skip
_SHARED = 4
"""The place of the first mode that keeps all writers of a table out."""
SECONDS = 10
"""How long one was left, at least."""
_DROPPED = re.compile(r"roll(?:ed|ing|s)?[ _-]?back|abort", re.IGNORECASE)
_DECIDED = re.compile(
    r"(?:decid\w*|decision|outcome|verdict)\W+(?:\w+\W+){0,3}commit|(?<!not )\bcommitted\b",
    re.IGNORECASE,
)
_COMMIT = re.compile(r"commit", re.IGNORECASE)
_GOES_ON = re.compile(
    r"\bg(?:oes|o|oing) on|wait|pending|\blater|tonight|tomorrow|\bkeep|do not|don't|must not"
    r"|in progress|schedul|resum|continu|manual",
    re.IGNORECASE,
)
PREVENT = ("alert on prepared transactions over a minute", "let coordinators end what they began")


class Held(Struct, frozen=True):
    """What a prepared transaction has, and whether somebody wants what it does not go with."""

    gid: str
    seconds: int
    mode: str
    name: str
    in_the_way: bool
    line: str


def looks(case: Case, place: Place, user: str) -> str:
    """What is held while the check asks: who waits only then is seen, too."""
    return postgres.watched(case, psql(place, QUERY, user))


def told(gid: str) -> str:
    """What was written down about a transaction by whoever leads it."""
    return (
        f"grep -rhsIF --exclude-dir=.git -- {shlex.quote(gid)} /var/log /opt /srv /data /app | "
        "cut -c1-300 | tail -n 20"
    )


def conflicts(held: str, wanted: str) -> bool:
    """Whether two modes of locks keep each other out, as PostgreSQL has it."""
    names = [one.removesuffix("Lock") for one in (held, wanted)]
    if not all(name in _MODES for name in names):
        return True
    one, other = sorted(_MODES.index(name) + 1 for name in names)
    if (one, other) in ((3, 5), (4, 4)):
        return True
    return one + other > len(_MODES) and (one, other) != (5, 5)


def held(text: str) -> Iterator[Held]:
    for line in text.splitlines():
        words = line.split("|", 6)
        if len(words) == 7 and words[2].isdigit():
            wanted = [one for one in words[5].split(",") if one]
            blocks = any(conflicts(words[3], one) for one in wanted)
            yield Held(words[6], int(words[2]), words[3], words[4], blocks, line)


def undecided(
    case: Case, component: str, place: Place, user: str, spoken: str, alone: bool
) -> Iterator[Idea]:
    """`alone`: nobody else has what others wait for."""
    look = looks(case, place, user)
    if wants := case.missing((look,)):
        yield Idea("database-lock", component, "what was prepared may hold a table", 0.6,
                   f"port {place[1]}", lines(spoken), wants)  # fmt: skip
        return
    rows = [one for one in held(case.text(look)) if one.seconds >= SECONDS]
    gids = list(dict.fromkeys(one.gid for one in rows))
    guilty = {one.gid: one for one in rows if one.in_the_way}
    if not guilty and alone and len(gids) == 1:
        hard = [one for one in rows if one.mode.removesuffix("Lock") in _MODES[_SHARED:]]
        guilty = {one.gid: one for one in hard if one.name != "transactionid"}
    for gid, one in guilty.items():
        yield from _ended(case, component, place, user, one, gid, spoken)


def _ended(
    case: Case, component: str, place: Place, user: str, one: Held, gid: str, spoken: str
) -> Iterator[Idea]:
    claim = f"the prepared transaction {gid} was never ended, and has what others wait for"
    said = case.look(told(gid))
    rows = said.lines if said is not None and said.ok else []
    verb = _verdict(rows)
    fix = (psql(place, f"{verb} prepared {postgres.literal(gid)}", user),) if verb else ()
    yield Idea(
        "database-lock", component, claim, 0.8 + 0.1 * one.in_the_way,
        f"{gid}, {one.mode} on {one.name}", lines(one.line, spoken, *rows[-2:]),
        case.missing((told(gid),)), fix, "its coordinator begins it again", PREVENT,
    )  # fmt: skip


def _verdict(rows: list[str]) -> str:
    """How it is to be ended by what was written about it; empty where that is for people."""
    own = [row for row in rows if not re.search(r"prepare transaction", row, re.IGNORECASE)]
    dropped, decided = (any(map(one.search, own)) for one in (_DROPPED, _DECIDED))
    if dropped or decided:
        return "" if dropped and decided else ("rollback" if dropped else "commit")
    doubt = any(_COMMIT.search(row) or _GOES_ON.search(row) for row in own)
    return "" if doubt else "rollback"
