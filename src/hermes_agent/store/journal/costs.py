"""Costs: sums over one row per priced call."""

from hermes_agent.core.messages import Usage
from hermes_agent.core.records import Cost, CostKey
from hermes_agent.store.engine.connection import Connection

_NAMES: dict[CostKey, str] = {
    "day": "strftime('%Y-%m-%d', time, 'unixepoch')",
    "session": "session",
    "job": "case when belongs like 'job:%' then substr(belongs, 5, "
    "instr(substr(belongs, 5) || '/', '/') - 1) else '' end",
    "model": "model",
    "service": "substr(model, 1, instr(model || '/', '/') - 1)",
    "use": "use",
}


def spent(db: Connection, since: float) -> float:
    """Dollars spent by all sessions since then."""
    return float(db.execute("select total(cost) from costs where time >= ?", (since,)).get)


def spent_by(db: Connection, session: str) -> tuple[float, int]:
    """Dollars and tokens of a session and its descendants."""
    dollars, tokens = db.execute(
        "with recursive family (id) as (select ? union select s.id from sessions s "
        "join family f on s.parent = f.id where s.parent <> '') "
        "select total(cost), total(input + output) from costs where session in family",
        (session,),
    ).get
    return float(dollars), int(tokens)


def refund(db: Connection, charge: int) -> None:
    """Remove a charge that was made in advance."""
    db.execute("delete from costs where id = ?", (charge,))


def costs(
    db: Connection, by: CostKey, since: float = 0.0, until: float | None = None, session: str = ""
) -> list[Cost]:
    """Costs by day (UTC, newest first) or by another key, most expensive first."""
    order = "name desc" if by == "day" else "dollars desc, calls desc, name"
    title = "(select title from sessions where id = paid.name)" if by == "session" else "null"
    found = db.rows(
        f"select *, {title} from (select {_NAMES[by]} as name, count(*) as calls, sum(input), "
        "sum(output), sum(cached), sum(written), sum(reasoning), total(cost) as dollars, "
        "sum(cost is null) from costs where time >= ?1 and (?2 is null or time < ?2) "
        f"and (?3 = '' or session = ?3) group by 1) as paid order by {order}",
        (since, until, session),
    )
    return [
        Cost(
            name,
            calls,
            Usage(input, output, cached, written, reasoning),
            cost,
            unpriced,
            title or "",
        )
        for name, calls, input, output, cached, written, reasoning, cost, unpriced, title in found
    ]
