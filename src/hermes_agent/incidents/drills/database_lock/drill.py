"""Something in PostgreSQL holds a lock that the service needs: an idle transaction, a change of the
table that waits behind one, one that was prepared and never ended, or a job that takes its time."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import database, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Program, Truth, World

ROWS = 40


class Plan(tiers.Pair, frozen=True, kw_only=True):
    port: int
    base: str
    table: str
    holder: str
    """What the culprit calls itself."""
    reader: str
    """A long query that harms nobody."""


def plan(pick: Pick, variant: str) -> Plan:
    fields = tiers.pair(pick, variant)
    holder, reader = pick.words(2)
    return Plan(
        port=next(p for p in pick.ports(9) if p not in fields.values()),
        base=f"{fields['store']}_{pick.token(3)}",
        table=pick.choice(("orders", "carts", "parcels", "claims")),
        holder=f"{holder}-{pick.token(4)}",
        reader=f"{reader}-reader",
        **fields,
    )


def _client(plan: Plan, name: str, statements: str) -> str:
    """A session that says these and then only waits."""
    say = "; ".join(f"echo '{one.rstrip(';')};'" for one in statements.split("; "))
    psql = f"psql -q -h 127.0.0.1 -p {plan.port} -U postgres {plan.base}"
    return f"({say}; sleep 100000) | PGAPPNAME={name} {psql}"


def world(plan: Plan) -> World:
    where = f"127.0.0.1:{plan.port}/{plan.base} app"
    front, store, beside = tiers.pair_parts(
        plan,
        store={"database": where, "table": plan.table, "pool": 3, "timeout_ms": 700},
        needs=[database.NAME],
    )
    server = database.postgres(
        plan.port,
        plan.base,
        [
            f"create table {plan.table} (key text primary key, value text)",
            (
                f"insert into {plan.table} select 'row-' || n, md5('{plan.secret}' || n) "
                f"from generate_series(1, {ROWS}) n"
            ),
            f"insert into {plan.table} values ('ready', '')",
        ],
        max_prepared_transactions=4,
    )
    query = f"select pg_sleep(100000), count(*) from pg_class /* {plan.reader} */;"
    reader = tiers.Part(
        Program(
            name=plan.reader,
            command=f"/srv/{plan.reader}/run",
            environment={"PGAPPNAME": plan.reader},
            autorestart=False,
            needs=(database.NAME,),
            about="a long report over the catalogue; must not be interrupted",
            ready=f"file:/run/{plan.reader}",
        ),
        {
            f"/srv/{plan.reader}/run": File(
                f"#!/bin/sh\nuntil psql -h 127.0.0.1 -p {plan.port} -U app -c 'select 1' "
                f"{plan.base}; do sleep 0.1; done\ntouch /run/{plan.reader}\n"
                f"exec psql -h 127.0.0.1 -p {plan.port} -U app -c '{query}' {plan.base}\n",
                mode=0o755,
                age=tiers.MONTH,
            )
        },
    )
    return tiers.joined([server, store, front, beside, reader], hostname=plan.host)


def inject(box: Box, plan: Plan) -> None:
    table = plan.table
    match plan.variant:
        case "idle":
            box.spawn(_client(plan, plan.holder, f"begin; update {table} set value = value;"))
        case "queue":
            box.spawn(_client(plan, plan.holder, f"begin; select count(*) from {table};"))
            _until(box, plan, "select count(*) from pg_stat_activity where state ~ 'idle in tr'")
            box.spawn(_client(plan, "migration", f"alter table {table} add column note text;"))
        case "prepared":
            text = f"begin; update {table} set value = value; prepare transaction '{plan.holder}'"
            _query(box, plan, text)
            return
        case _:
            held = f"begin; lock table {table} in exclusive mode; select pg_sleep(100000);"
            box.spawn(_client(plan, plan.holder, held))
    waits = "l.granted" if plan.variant != "queue" else "not l.granted"
    _until(
        box,
        plan,
        "select count(*) from pg_locks l join pg_class c on c.oid = l.relation "
        f"where c.relname = '{table}' and {waits}",
    )


def _query(box: Box, plan: Plan, text: str) -> str:
    psql = f"psql -XAtq -h 127.0.0.1 -p {plan.port} -U postgres"
    lines = text.replace("; ", ";\n")
    return box.run(f"{psql} {plan.base} <<'END'\n{lines};\nEND\n").stdout.strip()


def _until(box: Box, plan: Plan, count: str) -> None:
    """Until a query counts something."""
    psql = f"psql -XAtq -h 127.0.0.1 -p {plan.port} -U postgres {plan.base}"
    box.run(f'until [[ $({psql} -c "{count}") > 0 ]]; do sleep 0.05; done', seconds=20)


def check(plan: Plan) -> WatchedCheck:
    return tiers.answers(plan.front, plan.front_port)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    wrong = []
    if said := probe.keeps(plan.front_port):
        wrong.append(said)
    elif (reply := probe.http(plan.front_port, "/ready")).status != 200:
        wrong.append(f"{plan.front} is not ready: {reply.error or reply.text.strip()}")
    waiting = database.ask(
        probe, plan.port, plan.base, "select count(*) from pg_locks where not granted"
    )
    if waiting != "0":
        wrong.append(f"somebody waits for a lock: {waiting}")
    return wrong


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    return {"reader": _reader(probe, plan), "rows": _rows(probe, plan)}


def _reader(probe: Probe, plan: Plan) -> str:
    query = f"select pid from pg_stat_activity where application_name = '{plan.reader}'"
    return database.ask(probe, plan.port, plan.base, query)


def _rows(probe: Probe, plan: Plan) -> str:
    query = (
        f"select md5(string_agg(key || value, ',' order by key)) from {plan.table} "
        "where key like 'row-%'"
    )
    return database.ask(probe, plan.port, plan.base, query)


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    wrong = []
    if _reader(probe, plan) != before["reader"]:
        wrong.append(f"the query of {plan.reader} was ended")
    if _rows(probe, plan) != before["rows"]:
        wrong.append(f"rows of {plan.table} are not what they were")
    if said := probe.keeps(plan.beside_port):
        wrong.append(f"{plan.beside} does not work: {said}")
    return wrong


def truth(plan: Plan) -> Truth:
    return Truth(
        component=(database.NAME, plan.base, plan.holder),
        category=("database-lock",),
        locus=rf"{plan.holder}|{plan.table}|pid \d+|^\d+$"
        + "|migration" * (plan.variant == "queue"),
        evidence=rf"{plan.holder}|idle in transaction|Lock|lock|statement timeout",
    )


def reference(plan: Plan) -> list[str]:
    psql = f"psql -XAtq -h 127.0.0.1 -p {plan.port} -U postgres {plan.base} -c"
    if plan.variant == "prepared":
        return [f"{psql} \"rollback prepared '{plan.holder}'\""]
    return [
        (
            f'{psql} "select pg_terminate_backend(pid) from pg_stat_activity '
            f"where application_name = '{plan.holder}'\""
        )
    ]


def wrong(plan: Plan) -> dict[str, list[str]]:
    return {
        "restarting the services": [f"supervisorctl restart {plan.store} {plan.front}"],
        "restarting the database": [f"supervisorctl restart {database.NAME}"],
    }
