"""Connections that are all taken, on machines of other people."""

import json

from hermes_agent.incidents.drills import database, harbour, tiers, webshop
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Program, Truth

INDEXER = """import json, sys, time

from pgline import DatabaseError, Line

with open(sys.argv[1]) as file:
    own = json.load(file)
pool, rounds = [], 0
while True:
    while len(pool) < own["pool"]["minIdle"]:
        try:
            pool.append(Line(own["pool"]["url"], own["name"]))
        except DatabaseError as error:
            print(f"pool has {len(pool)} of {own['pool']['minIdle']}: {error}", flush=True)
            break
    for line in list(pool[:1]):
        try:
            line.query(own["query"])
        except DatabaseError as error:
            print(f"lost a connection: {error}", flush=True)
            pool.remove(line)
    time.sleep(own["every"])
"""
CONSOLE = """import sys

from pgline import DatabaseError, Line

line = Line(sys.argv[1], f"console-{sys.argv[2]}")
while True:
    try:
        asked = input("sql> ")
        for row in line.query(asked):
            print(*row, sep=" | ")
    except DatabaseError as error:
        print(error)
"""
HIGHER = (
    f"sed -i 's/^max_connections = .*/max_connections = 200/' {database.SETTINGS}",
    f"supervisorctl restart {database.NAME}; sleep 1",
)


def _indexer(name: str, store: webshop.Store, few: int) -> tiers.Part:
    """A program that has a pool of its own."""
    home, conf = f"/opt/{name}", f"/opt/{name}/etc/settings.json"
    own = {"name": name, "every": 0.5, "query": f"select count(*) from {store.table}",
           "pool": {"url": store.url, "minIdle": few, "maxLifetime": 1800}}  # fmt: skip
    return tiers.Part(
        Program(name=name, command=f"python3 {home}/indexer.py {conf}", directory=home,
                needs=(database.NAME,), about=f"keeps the search index fresh; {conf}"),
        {f"{home}/indexer.py": File(INDEXER, age=tiers.MONTH),
         f"{home}/pgline.py": File(tiers.program_text("pgline.py"), age=tiers.MONTH),
         conf: File(json.dumps(own, indent=2) + "\n", age=tiers.MONTH)},
    )  # fmt: skip


def _few(store: webshop.Store, probe: Probe, name: str, most: int) -> str:
    sql = f"select count(*) from pg_stat_activity where application_name like '{name}%'"
    held = store.ask(probe, sql)
    return "" if held.isdecimal() and int(held) <= most else f"{name} has {held} connections"


def _full(box: Box, store: webshop.Store) -> None:
    """Wait until nobody else is let in."""
    one = store.psql.replace("-U postgres", "-U app")
    box.run(f"while {one} -c 'select 1' >/dev/null 2>&1; do sleep 0.2; done", seconds=40)


def _limit(store: webshop.Store, probe: Probe, most: int) -> str:
    limit = store.ask(probe, "show max_connections")
    return "" if limit == str(most) else f"the limit is {limit} now"


def warmed_up(pick: Pick) -> Scene:
    """As `greedy`: an indexer with JSON settings was told to keep many connections warm; apps of a
    web shop with .env files, and a log of changes instead of a copy of the file."""
    (main, other), (port, other_port, base_port) = pick.services(2), pick.ports(3)
    store, most, few = webshop.Store(pick, main, base_port), pick.size(13, 19), pick.size(1, 3)
    job, many, host = f"{pick.word()}-indexer", pick.choice((40, 48, 64)), pick.host()
    home, conf = f"/opt/{job}", f"/opt/{job}/etc/settings.json"
    world = tiers.joined(
        [store.server(max_connections=most), _indexer(job, store, few),
         webshop.app(main, port, store.used_by(), needs=(database.NAME,)),
         webshop.app(other, other_port)],
        files={**webshop.weeks_ago(main, pick), **webshop.weeks_ago(other, pick)},
        hostname=host,
        setup=tiers.old_lines("/var/log/changes.log", {7000: "nginx: gzip on", 5600: "tzdata"}),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"supervisorctl stop {main}")
        box.run(f'sed -i \'s/"minIdle": {few}/"minIdle": {many}/\' {conf}')
        for line in tiers.old_lines(
            "/var/log/changes.log", {9: f"{job}: warmer pool, minIdle {few} -> {many}"}
        ):
            box.run(line)
        box.run(f"supervisorctl restart {job}")
        _full(box, store)
        box.run(f"supervisorctl start {main}")
        box.wait(f"tcp:{port}")

    def harm(probe: Probe) -> list[str]:
        return said(
            _limit(store, probe, most), store.lost(probe), webshop.serves(probe, other_port)
        )

    return Scene(
        world=world,
        check=webshop.up(main, port),
        healthy=lambda probe: said(webshop.serves(probe, port), _few(store, probe, job, most - 8)),
        truth=Truth(
            (job, database.NAME), ("pool-exhausted", "bad-config"), rf"{job}|minIdle|{conf}",
            rf"{job}|minIdle",
        ),
        inject=inject,
        fix=(f"sed -i 's/\"minIdle\": {many}/\"minIdle\": {few}/' {conf}",
             f"supervisorctl restart {job}"),
        wrong={
            "the app is restarted": [f"supervisorctl restart {main}"],
            "a higher limit": [*HIGHER, f"supervisorctl restart {main}"],
            "the indexer is only restarted": [f"supervisorctl restart {job}; sleep 2",
                                              f"supervisorctl restart {main}"],
            "the indexer is stopped": [f"supervisorctl stop {job}"],
        },
        stays=(database.SETTINGS, webshop.env_of(main), webshop.env_of(other)),
        runs=(f"{home}/indexer.py",),
        harm=harm,
    )  # fmt: skip


def open_terminals(pick: Pick) -> Scene:
    """As `consoles`: a console of the app itself, written in Python, is open in many terminals of
    one person; Spring-like apps, a pool of their own beside them, and a name for each console."""
    (main, other), (port, other_port, base_port) = pick.services(2), pick.ports(3)
    store, most, host = webshop.Store(pick, main, base_port), pick.size(12, 17), pick.host()
    job, person = f"{pick.word()}-indexer", pick.choice(("paola", "stefan", "yuki"))
    code = f"/data/{main}/app/{pick.choice(('console', 'sqlshell', 'prompt'))}.py"
    pool = {"spring.datasource.hikari.maximum-pool-size": 2}
    world = tiers.joined(
        [store.server(max_connections=most), _indexer(job, store, 2),
         harbour.app(main, port, harbour.in_base(store, **pool), needs=(database.NAME,)),
         harbour.app(other, other_port)],
        files={**harbour.weeks_ago(main, pick), **harbour.weeks_ago(other, pick),
               code: File(CONSOLE, age=tiers.MONTH)},
        folders={f"/home/{person}": 0o755},
        hostname=host,
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"supervisorctl stop {main}")
        one = f"{store.psql.replace('-U postgres', '-U app')} -c 'select 1' >/dev/null 2>&1"
        run = f"sleep 100000 | setsid /opt/bin/as-app python3 {code} {store.url} {person}-$n"
        box.spawn(
            f"cd /home/{person}; n=0; while {one}; do n=$((n + 1)); ({run} >/dev/null 2>&1) & "
            "sleep 0.4; done; touch /run/taken"
        )
        box.wait("file:/run/taken", seconds=40)
        box.run(f"rm /run/taken; supervisorctl start {main}")
        box.wait(f"tcp:{port}")

    def harm(probe: Probe) -> list[str]:
        return said(
            _limit(store, probe, most), store.lost(probe), harbour.stores(probe, other_port)
        )

    tool = code.rpartition("/")[2]
    return Scene(
        world=world,
        check=harbour.health(main, port),
        healthy=lambda probe: said(harbour.stores(probe, port), _few(store, probe, "console-", 4)),
        truth=Truth(
            (tool, "console", f"console-{person}", person, database.NAME), ("pool-exhausted",),
            rf"{tool}|console-|\b{person}\b", rf"{tool}|console-{person}|\b{person}\b",
        ),
        inject=inject,
        fix=(f"pkill -f '[{tool[0]}]{tool[1:]}'",),
        wrong={
            "the app is restarted": [f"supervisorctl restart {main}"],
            "a higher limit": [*HIGHER, f"supervisorctl restart {main}"],
            "who has connections by right is stopped": [f"supervisorctl stop {job}"],
        },
        stays=(code, database.SETTINGS, harbour.settings_of(main), harbour.settings_of(other)),
        runs=(f"/opt/{job}/indexer.py",),
        harm=harm,
    )  # fmt: skip
