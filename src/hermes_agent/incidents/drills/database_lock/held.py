"""A change of a table that waits behind the nightly copy, and everybody else behind the change."""

import time

from hermes_agent.incidents.drills import database, harbour, tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Program, Truth


def _copy(name: str, store: house.Store) -> tiers.Part:
    """Reads the whole table for hours, in one transaction."""
    script, starts = f"/opt/backup/bin/{name}", f"/var/backups/{name}.starts"
    psql = store.psql.replace("-U postgres", "-U app")
    text = (
        f"#!/bin/sh\nuntil {psql} -c 'select 1' >/dev/null 2>&1; do sleep 0.1; done\n"
        f'date "+%F %T started" >> {starts}\n'
        f"exec {psql} -c 'begin isolation level repeatable read read only; "
        f"lock table {store.table} in access share mode; "
        f"select count(*), pg_sleep(86400) from {store.table}; commit'\n"
    )
    return tiers.Part(
        Program(
            name=name,
            command=script,
            environment={"PGAPPNAME": name},
            autorestart=False,
            needs=(database.NAME,),
            ready=f"file:{starts}",
            about="the copy for the auditors, runs for hours; must not be interrupted",
        ),
        {script: File(text, mode=0o755, age=tiers.MONTH)},
        {"/var/backups": 0o755},
    )


def _interrupted(probe: Probe, name: str, store: house.Store) -> str:
    sql = f"select count(*) from pg_stat_activity where application_name = '{name}'"
    once = probe.text(f"/var/backups/{name}.starts").count("started") == 1
    return "" if once and store.ask(probe, sql) == "1" else f"{name} was interrupted"


def behind_the_copy(pick: Pick) -> Scene:
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    store, copy = house.Store(pick, main, base_port), f"{main}-{pick.choice(('copy', 'dump'))}"
    column, release = pick.choice(("channel", "origin", "locale")), f"202611{pick.size(10, 16)}"
    step = f"/var/www/{main}/releases/{release}/db/{pick.size(100, 400)}_add_{column}.sql"
    change = f"alter table {store.table} add column if not exists {column} text;"
    world = tiers.joined(
        [store.server(),
         house.app(main, port, store.used_by(DATABASE_TIMEOUT_MS=900), needs=(database.NAME,),
                   release=release),
         _copy(copy, store), house.app(other, other_port)],
        files={
            **house.weeks_ago(main, pick), **house.weeks_ago(other, pick),
            step: File(f"-- {column} of each entry, empty for old ones\n{change}\n", age=900.0),
        },
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.spawn(f"PGAPPNAME=migrate exec {store.psql} -f {step}")
        sql = "select count(*) from pg_locks where not granted and mode = 'AccessExclusiveLock'"
        box.run(f'until [[ $({store.psql} -Atc "{sql}") > 0 ]]; do sleep 0.1; done', seconds=20)

    def healthy(probe: Probe) -> list[str]:
        waits = store.ask(probe, "select count(*) from pg_locks where not granted")
        return said(
            house.serves(probe, port), "" if waits == "0" else f"who waits for a lock: {waits}"
        )

    def harm(probe: Probe) -> list[str]:
        return said(
            _interrupted(probe, copy, store), store.lost(probe), house.serves(probe, other_port)
        )

    sessions = f'{store.psql} -c "select pg_terminate_backend(pid) from pg_stat_activity where '
    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=healthy,
        truth=Truth(
            (database.NAME, store.name, "migrate", store.table, main, "psql", copy),
            ("database-lock",),
            rf"{store.table}|migrate|pid:? ?\d+|^\d+$|alter table|{step}|add_{column}",
            r"alter table|AccessExclusiveLock|migrate|AccessShareLock|Lock +\| relation|"
            rf"add_{column}|{copy}",
        ),
        inject=inject,
        fix=(f"{sessions} application_name = 'migrate'\"",),
        wrong={
            "the app is restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "the copy is ended": [f"supervisorctl stop {copy}",
                                  f"{sessions} application_name = '{copy}'\""],
            "the database is restarted": [
                f"supervisorctl restart {database.NAME}; sleep 1", f"supervisorctl restart {main}",
            ],
        },
        stays=(house.env_of(main), database.SETTINGS, step),
        harm=harm,
    )  # fmt: skip


GATEWAY = '''"""Takes payments in, one after the other."""
import http.server
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"ok\\n")


print("ready", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
'''
SETTLING = '''"""Settles what is open: nobody may book meanwhile, and the gateway must agree."""
import sys
import time
import urllib.request

from pgline import DatabaseError, Line

url, table, gateway, name = sys.argv[1:5]
while True:
    try:
        line = Line(url, name)
        while True:
            line.query("begin")
            line.query(f"lock table {table} in share row exclusive mode")
            urllib.request.urlopen(gateway).read()
            line.query("commit")
            with open(f"/data/{name}/settled", "w") as file:
                file.write(f"{time.time()}\\n")
            time.sleep(1.5)
    except (DatabaseError, OSError) as error:
        print(time.strftime("%F %T"), "settling failed:", error, flush=True)
        time.sleep(0.5)
'''


def _settling(name: str, store: house.Store, gateway: str, port: int) -> list[tiers.Part]:
    """Who settles, and the gateway that is asked meanwhile."""
    code, own = f"/data/{name}/settle.py", f"/data/{gateway}/gateway.py"
    url = f"http://127.0.0.1:{port}/agree"
    return [
        tiers.Part(
            Program(name=name, command=f"python3 {code} {store.url} {store.table} {url} {name}",
                    needs=(database.NAME, gateway), ready=f"file:/data/{name}/settled",
                    about=f"settles every few seconds with {gateway}; must go on"),
            {code: File(SETTLING, age=tiers.MONTH),
             f"/data/{name}/pgline.py": File(tiers.program_text("pgline.py"), age=tiers.MONTH)},
        ),
        tiers.Part(
            Program(name=gateway, command=f"python3 {own} {port}", ready=f"tcp:{port}",
                    about="to the bank, one request after the other"),
            {own: File(GATEWAY, age=tiers.MONTH)},
        ),
    ]  # fmt: skip


def _settles(probe: Probe, name: str) -> str:
    when = probe.text(f"/data/{name}/settled").strip()
    return "" if when and time.time() - float(when) < 6 else f"{name} does not settle"


def across_a_call(pick: Pick) -> Scene:
    """A lock is held while somebody else is asked, who does not answer any more."""
    (main, other), ports = pick.services(2), pick.ports(4)
    port, base_port, other_port, gateway_port = ports
    store, gateway = (
        house.Store(pick, main, base_port),
        f"{pick.choice(('bank', 'pay', 'giro'))}-gw",
    )
    worker = f"{main}-{pick.choice(('settle', 'clearing', 'payout'))}"
    conf = harbour.settings_of(main)
    world = tiers.joined(
        [store.server(), harbour.app(main, port, harbour.in_base(store), needs=(database.NAME,)),
         *_settling(worker, store, gateway, gateway_port), harbour.app(other, other_port)],
        files={**harbour.weeks_ago(main, pick), **harbour.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.spawn(f"exec 3<>/dev/tcp/127.0.0.1/{gateway_port}; exec sleep 86400 <&3")
        sql = (
            "select count(*) from pg_stat_activity where state = 'idle in transaction' "
            f"and application_name = '{worker}' and xact_start < now() - interval '2 s'"
        )
        box.run(f'until [[ $({store.psql} -Atc "{sql}") > 0 ]]; do sleep 0.2; done', seconds=30)

    def healthy(probe: Probe) -> list[str]:
        return said(harbour.stores(probe, port), _settles(probe, worker))

    ended = f'{store.psql} -c "select pg_terminate_backend(pid) from pg_stat_activity where '
    return Scene(
        world=world,
        check=harbour.health(main, port),
        healthy=healthy,
        truth=Truth(
            (worker, gateway, database.NAME, store.name, store.table),
            ("database-lock", "slow-dependency"),
            rf"{worker}|{gateway}|{gateway_port}|{store.table}|pid:? ?\d+|^\d+$",
            rf"{worker}|idle in transaction|ShareRowExclusive|{gateway}|{gateway_port}",
        ),
        inject=inject,
        fix=(f"supervisorctl restart {gateway}", "sleep 3"),
        wrong={
            "the app is restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "the session is ended": [f"{ended} application_name = '{worker}'\"; sleep 6"],
            "who settles is restarted": [f"supervisorctl restart {worker}; sleep 7"],
            "who settles is stopped": [f"supervisorctl stop {worker}; sleep 7"],
            "it waits longer": [
                f"echo spring.datasource.statement-timeout-ms=60000 >> {conf}",
                f"supervisorctl restart {main}; sleep 1",
            ],
        },
        stays=(conf, f"/data/{worker}/settle.py", f"/data/{gateway}/gateway.py",
               database.SETTINGS),
        runs=(f"/data/{worker}/settle.py", f"/data/{gateway}/gateway.py"),
        harm=lambda probe: said(store.lost(probe), harbour.stores(probe, other_port)),
    )  # fmt: skip
