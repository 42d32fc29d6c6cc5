"""An index that was dropped as unused, and a page that needs it."""

from hermes_agent.incidents.drills import database, tiers
from hermes_agent.incidents.drills import house_ha3 as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import Truth

ACCOUNTS, VISITS = 900, 60_000


def _late(probe: Probe, port: int, path: str, lines: int, most: float = 1.0) -> str:
    reply = probe.http(port, path, timeout=3.0)
    if reply.status != 200 or len(reply.text.splitlines()) != lines:
        return f"{path}: {reply.error or reply.status}"
    return f"{path} took {reply.seconds:.1f} s" if reply.seconds > most else ""


def lost_index(pick: Pick) -> Scene:
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    store = house.Store(pick, main, base_port)
    many = pick.choice(("visits", "readings", "shipments"))
    index = f"{many}_account_at_idx"
    release = f"202611{pick.size(10, 15)}"
    step = f"/var/www/{main}/releases/{release}/migrate/{release}_drop_unused_indexes.sql"
    summary = (
        f"select a.id, (select max(at) from {many} v where v.account = a.id) as last "
        "from accounts a order by a.id"
    )
    server = store.server(
        f"create table accounts as select n as id from generate_series(1, {ACCOUNTS}) n",
        f"create table {many} as select n as id, n % {ACCOUNTS} + 1 as account, n * 7 as at, "
        f"n % 40 as place from generate_series(1, {VISITS}) n",
        f"create index {index} on {many} (account, at)",
        f"create index {many}_place_idx on {many} (place)",
        f"analyze {many}", "analyze accounts",
        log_min_duration_statement="'500ms'", max_parallel_workers_per_gather=0, jit="off",
    )  # fmt: skip
    used = store.used_by(SUMMARY_SQL=summary, DATABASE_TIMEOUT_MS=1500)
    world = tiers.joined(
        [server, house.app(main, port, used, release=release, needs=(database.NAME,)),
         house.app(other, other_port)],
        files={**house.weeks_ago(main, pick), **house.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.write(
            step,
            f"-- nobody seems to use these\ndrop index {many}_place_idx;\ndrop index {index};\n",
        )
        box.run(f"{store.psql} -f {step}")

    def healthy(probe: Probe) -> list[str]:
        return said(house.serves(probe, port), _late(probe, port, "/summary", ACCOUNTS))

    def harm(probe: Probe) -> list[str]:
        rows = store.ask(probe, f"select count(*) from {many}")
        return said(
            store.lost(probe), "" if rows == str(VISITS) else f"rows of {many}: {rows}",
            house.serves(probe, other_port),
        )  # fmt: skip

    env = house.env_of(main)
    return Scene(
        world=world,
        check=house.up(f"{main}", port, path="/summary", word="HTTP 200"),
        healthy=healthy,
        truth=Truth(
            (database.NAME, store.name, main, many), ("slow-dependency", "bad-deploy"),
            rf"{many}|{index}|drop_unused_indexes", rf"Seq Scan|{many}|{index}",
        ),
        inject=inject,
        fix=(f'{store.psql} -c "create index {index} on {many} (account, at)"',),
        wrong={
            "the app is restarted": [f"supervisorctl restart {main}"],
            "it waits longer": [
                f"sed -i 's/^DATABASE_TIMEOUT_MS=.*/DATABASE_TIMEOUT_MS=60000/' {env}",
                f"supervisorctl restart {main}",
            ],
            "the database is restarted": [
                f"supervisorctl restart {database.NAME}", f"supervisorctl restart {main}",
            ],
        },
        stays=(env, house.env_of(other)),
        harm=harm,
    )  # fmt: skip
