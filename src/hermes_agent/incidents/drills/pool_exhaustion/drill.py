"""All connections of PostgreSQL are taken: by a worker that wants too many or leaks them, by a copy
that was forgotten, or by consoles that nobody closed."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import database, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Program, Truth, World

RESERVED = 3
OTHERS = 2
"""What the worker holds while all is well."""


class Plan(tiers.Pair, frozen=True, kw_only=True):
    port: int
    base: str
    table: str
    most: int
    worker: str
    forgotten: str

    @property
    def folder(self) -> str:
        return f"/root/{self.forgotten}"


def plan(pick: Pick, variant: str) -> Plan:
    fields = tiers.pair(pick, variant)
    worker, forgotten = pick.words(2)
    return Plan(
        port=next(p for p in pick.ports(9) if p not in fields.values()),
        base=f"{fields['store']}_{pick.token(3)}",
        table=pick.choice(("orders", "carts", "parcels", "claims")),
        most=pick.size(12, 18),
        worker=f"{worker}-worker",
        forgotten=f"{forgotten}-{pick.token(4)}",
        **fields,
    )


def world(plan: Plan) -> World:
    where = f"127.0.0.1:{plan.port}/{plan.base} app"
    front, store, beside = tiers.pair_parts(
        plan, store={"database": where, "table": plan.table, "pool": 3}, needs=[database.NAME]
    )
    server = database.postgres(
        plan.port,
        plan.base,
        [
            f"create table {plan.table} (key text primary key, value text)",
            f"insert into {plan.table} values ('row', '{plan.secret}')",
        ],
        max_connections=plan.most,
        superuser_reserved_connections=RESERVED,
    )
    worker = tiers.Part(
        Program(
            name=plan.worker,
            command=f"python3 /srv/{plan.worker}/server.py {tiers.configured(plan.worker)}",
            needs=(database.NAME,),
            about=f"configuration {tiers.configured(plan.worker)}; must go on",
        ),
        {
            f"/srv/{plan.worker}/server.py": File(
                tiers.program_text("courier.py"), age=tiers.MONTH
            ),
            tiers.configured(plan.worker): File(
                tiers.configuration(plan.worker, {"database": where, "connections": 2}),
                age=tiers.MONTH,
            ),
        },
    )
    return tiers.joined(
        [server, store, front, beside, worker],
        hostname=plan.host,
        setup=tiers.old_lines(
            f"/var/log/{plan.front}/{plan.front}.log",
            {900: "ERROR GET /ready: the database is slow"},
        ),
    )


def _psql(plan: Plan) -> str:
    return f"psql -XAtq -h 127.0.0.1 -p {plan.port} -U postgres {plan.base}"


def inject(box: Box, plan: Plan) -> None:
    conf = tiers.configured(plan.worker)
    match plan.variant:
        case "greedy":
            box.run(
                f"cp -p {conf} {conf}.bak; sed -i 's/^connections = .*/connections = 60/' {conf}"
            )
            box.run(f"supervisorctl restart {plan.worker}")
        case "leaking":
            box.run(
                f"pid=$(supervisorctl pid {plan.worker}); "
                f"for n in $(seq {plan.most}); do kill -HUP $pid; sleep 0.02; done"
            )
        case "forgotten":
            where = f"127.0.0.1:{plan.port}/{plan.base} app"
            wanted = {"database": where, "connections": plan.most - RESERVED - OTHERS}
            box.write(f"{plan.folder}/copy.conf", tiers.configuration(plan.forgotten, wanted))
            box.write(f"{plan.folder}/{plan.forgotten}.py", tiers.program_text("courier.py"))
            box.spawn(
                f"cd {plan.folder} && exec /opt/bin/as-app python3 {plan.forgotten}.py copy.conf"
            )
        case _:
            pass
    box.run(f"supervisorctl stop {plan.store}")
    one = _psql(plan).replace("-U postgres", "-U app")
    console = f"(sleep 100000 | PGAPPNAME={plan.forgotten} setsid {one} &>/dev/null) & "
    more = console if plan.variant == "consoles" else ""
    box.spawn(f"while {one} -c 'select 1'; do {more} sleep 0.2; done; touch /run/taken")
    box.wait("file:/run/taken")
    box.run("rm /run/taken")
    box.run(f"supervisorctl start {plan.store}")
    box.wait(f"tcp:{plan.store_port}")


def check(plan: Plan) -> WatchedCheck:
    return tiers.answers(plan.front, plan.front_port)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    wrong = []
    if said := probe.keeps(plan.front_port):
        wrong.append(said)
    free = plan.most - RESERVED - 5
    count = database.ask(
        probe,
        plan.port,
        plan.base,
        "select count(*) from pg_stat_activity where backend_type = 'client backend' "
        f"and application_name in ('{plan.worker}', '{plan.forgotten}')",
    )
    if not count.isdecimal() or int(count) > free:
        wrong.append(f"connections are still taken: {count}")
    return wrong


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    return {"row": _row(probe, plan)}


def _row(probe: Probe, plan: Plan) -> str:
    query = f"select value from {plan.table} where key = 'row'"
    return database.ask(probe, plan.port, plan.base, query)


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    wrong = tiers.gone(probe, plan.worker)
    if _row(probe, plan) != before["row"]:
        wrong.append(f"a row of {plan.table} is not what it was")
    most = database.ask(probe, plan.port, plan.base, "show max_connections")
    if most != str(plan.most):
        wrong.append(f"the server's limit was changed to {most}")
    if said := probe.keeps(plan.beside_port):
        wrong.append(f"{plan.beside} does not work: {said}")
    return wrong


def truth(plan: Plan) -> Truth:
    evidence = rf"too many|remaining connection slots|{plan.worker}|{plan.forgotten}"
    by_variant = {
        "forgotten": ((plan.forgotten, database.NAME), plan.forgotten),
        "consoles": ((plan.forgotten, database.NAME), plan.forgotten),
    }
    component, locus = by_variant.get(
        plan.variant, ((plan.worker, database.NAME), rf"{plan.worker}|connections = \d+")
    )
    return Truth(component, ("pool-exhausted",), locus, evidence)


def reference(plan: Plan) -> list[str]:
    conf = tiers.configured(plan.worker)
    return {
        "greedy": [f"cp -p {conf}.bak {conf}", f"supervisorctl restart {plan.worker}"],
        "leaking": [f"supervisorctl restart {plan.worker}"],
    }.get(
        plan.variant,
        [
            (
                f'{_psql(plan)} -c "select pg_terminate_backend(pid) from pg_stat_activity '
                f"where application_name = '{plan.forgotten}'\""
            )
        ],
    )


def wrong(plan: Plan) -> dict[str, list[str]]:
    return {
        "restarting the services": [f"supervisorctl restart {plan.store} {plan.front}"],
        "a higher limit": [
            f"sed -i 's/^max_connections = .*/max_connections = 200/' {database.SETTINGS}",
            f"supervisorctl restart {database.NAME}",
            f"supervisorctl restart {plan.store}",
        ],
    }
