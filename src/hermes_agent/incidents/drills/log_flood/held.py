"""A script of the shop that tells each of its steps, since somebody looked for a fault in it; one
that asks for a database which is not there, and PostgreSQL writes down each time."""

import secrets
import time

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import database, parish, parts, tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Program, Truth

GROWTH = 1500
"""Bytes in half a second that no log may gain when all is well."""
SPARE = 0.4
MIRROR = """#!/bin/bash
# copies new records to where the warehouse fetches them
set -u
cd {shared}
exec >>log/{name}.log 2>&1
echo "$(date '+%F %T') started, $(ls data | wc -l) records"
while true; do
  for file in data/*; do
    [[ -e {mirror}/${{file##*/}} ]] && continue
    cp "$file" {mirror}/ && echo "$(date '+%F %T') copied ${{file##*/}}"
  done
  sleep 0.1
done
"""


def _grows(probe: Probe, log: str) -> str:
    def size() -> int:
        facts = probe.stat(log)
        return facts.size if facts else 0

    was = size()
    time.sleep(0.5)
    return f"{log} grows" if size() - was > GROWTH else ""


def _tight(probe: Probe, root: str) -> str:
    return f"{root} has hardly any room" if parts.free_share(probe, root) < SPARE else ""


def _since_days(box: Box, log: str) -> None:
    """What it said is said again, until nothing fits any more."""
    box.run(
        f"until (($(stat -c %s {log}) > 40000)); do sleep 0.1; done; tail -n 300 {log} > /root/t; "
        f"while cat /root/t >> {log}; do :; done 2>/dev/null; rm /root/t; sleep 0.2",
        seconds=50,
    )


def _takes(service: str, port: int) -> WatchedCheck:
    """The check of whoever uses it: is a new record taken."""
    url = f"http://127.0.0.1:{port}{house.RECORDS}/watch-$(date +%s%N)"
    check = Check(f"curl -sS -m 3 -X PUT -d watched {url}", Expect(output="^saved"), timeout=8.0)
    return WatchedCheck(f"{service} takes records", check, service, severity="P1")


def _behind(probe: Probe, port: int, name: str, mirror: str) -> str:
    """Why a new record is not copied; empty when it is."""
    key = f"n-{secrets.token_hex(5)}"
    probe.http(port, f"{house.RECORDS}/{key}", "PUT", b"x")
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        if probe.stat(f"{mirror}/{key}"):
            return ""
        time.sleep(0.1)
    return f"{name} does not copy {key}"


def told_step_by_step(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    name = f"{main}-{pick.choice(('mirror', 'handover', 'copies'))}"
    shared, mirror = f"{house.TOP}/{main}/shared", f"/srv/warehouse/{main}"
    script, log = f"{house.TOP}/{main}/bin/{name}.sh", f"{shared}/log/{name}.log"
    text, orders = MIRROR.format(shared=shared, name=name, mirror=mirror), f"{shared}/orders.zip"
    copying = tiers.Part(
        Program(
            name=name, command=f"bash {script}",
            about=f"copies new records to {mirror}; log {log}",
        ),
        {script: File(text, mode=0o755, age=tiers.MONTH)},
        {mirror: 0o755},
    )  # fmt: skip
    kept = house.records(main, pick, 120)
    world = tiers.joined(
        [house.app(main, port), house.app(other, other_port), copying],
        files={
            **kept, **house.weeks_ago(main, pick), **house.weeks_ago(other, pick),
            orders: File(size=900_000, age=9e6),
        },
        mounts=(Mount(shared, mb=pick.size(5, 8)),),
        hostname=pick.host(),
    )  # fmt: skip
    anew = f"supervisorctl restart {name}"

    def inject(box: Box) -> None:
        box.run(f"sed -i 's/^set -u$/set -ux/' {script}; {anew}")
        _since_days(box, log)

    return Scene(
        world=world,
        check=_takes(main, port),
        healthy=lambda probe: said(
            house.serves(probe, port), _tight(probe, shared), _grows(probe, log),
            _behind(probe, port, name, mirror)
        ),
        truth=Truth(
            (name, main), ("log-flood",), rf"{log}|{script}|{name}|xtrace|set -\w*x",
            rf"100% +{shared}|{name}\.log|set -\w*x|^\+|\+ (for|\[\[|continue|sleep)",
        ),
        inject=inject,
        fix=(f"sed -i 's/^set -ux$/set -u/' {script}", f"{anew}; sleep 0.3",
             f"truncate -s 0 {log}"),
        wrong={
            "the log is only emptied": [f"truncate -s 0 {log}; sleep 0.5"],
            "it is emptied and restarted": [f"truncate -s 0 {log}; {anew}; sleep 0.5"],
            "it is stopped": [f"supervisorctl stop {name}; truncate -s 0 {log}"],
            "old orders go": [f"rm {orders}"],
        },
        stays=(*kept, orders, house.env_of(main)),
        harm=lambda probe: said(house.serves(probe, other_port)),
    )  # fmt: skip


FIGURES = '''"""Writes down how many members there are: figures.py SETTINGS"""

import sys
import time

from pgline import DatabaseError, Line

own = dict(line.split(None, 1) for line in open(sys.argv[1]) if not line.startswith("#"))
own = {name: value.strip() for name, value in own.items()}
url = f"postgres://{own['User']}@{own['Server']}/{own['Database']}"
line = None
while True:
    try:
        line = line or Line(url, own["ServerName"])
        rows = line.query(f"select count(*) from {own['Table']}")
        with open(own["Output"], "w") as file:
            file.write(f"members {rows[0][0]}\\n")
        time.sleep(0.5)
    except DatabaseError:
        line = None  # again
        time.sleep(0.002)
    except OSError as error:
        print(error, flush=True)
        time.sleep(0.5)
'''


def _stale(probe: Probe, product: str, count: int) -> str:
    """Why the figures are not of now; empty when they are."""
    facts = probe.stat(product)
    fresh = facts is not None and time.time() - facts.mtime < 4
    right = probe.text(product) == f"members {count}\n"
    return "" if fresh and right else f"{product} is old or wrong"


def _figures(name: str, store: house.Store, product: str) -> tiers.Part:
    settings = {
        "ServerName": name, "Server": f"127.0.0.1:{store.port}", "Database": store.name,
        "User": "app", "Table": store.table, "Output": product,
    }  # fmt: skip
    return parish.helper(
        name, FIGURES, settings, f"writes figures of the members to {product}",
        needs=(database.NAME,),
    )  # fmt: skip


def unknown_database(pick: Pick) -> Scene:
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    store, name = house.Store(pick, main, base_port), f"{main}-figures"
    root, product = "/srv/papers", f"/var/www/{main}/figures.txt"
    log, plans = f"{root}/log/postgresql.log", f"{root}/{main}/plans.tif"
    wrong = pick.choice((f"{main}_prod", f"{main}-production", f"{main}_live", f"{main}production"))
    line = {f"{parish.CODE}/{name}/pgline.py": File(tiers.program_text("pgline.py"))}
    place, kept = parish.settings_of(name), parish.papers(main, pick)
    base = store.server(
        logging_collector="on", log_directory=f"'{root}/log'", log_filename="'postgresql.log'",
        log_connections="on", log_rotation_age=0, log_rotation_size=0,
    )  # fmt: skip
    world = tiers.joined(
        [base, parish.binder(main, port), parish.binder(other, other_port),
         _figures(name, store, product)],
        files={**kept, **line, **parish.former(main, pick), **parish.former(other, pick),
               plans: File(size=1 << 20, age=9e6)},
        folders={f"{root}/log": 0o755, product.rpartition("/")[0]: 0o755},
        mounts=(Mount(root, mb=pick.size(6, 9)),),
        hostname=pick.host(),
    )  # fmt: skip
    anew = f"supervisorctl restart {name}"

    def inject(box: Box) -> None:
        box.run(f"sed -i 's/^Database .*/Database {wrong}/' {place}; {anew}")
        _since_days(box, log)

    return Scene(
        world=world,
        check=parish.takes(main, port),
        healthy=lambda probe: said(
            parish.files(probe, port), _tight(probe, root), _grows(probe, log),
            _stale(probe, product, store.COUNT),
            store.lost(probe),
        ),
        truth=Truth(
            (name, database.NAME, main), ("log-flood", "bad-config"),
            rf"{log}|{place}|{name}|Database\b|{wrong}",
            rf"100% +{root}|postgresql\.log|does not exist|Database {wrong}",
        ),
        inject=inject,
        fix=(f"sed -i 's/^Database .*/Database {store.name}/' {place}", f"{anew}; sleep 0.5",
             f"truncate -s 0 {log}"),
        wrong={
            "the log is only emptied": [f"truncate -s 0 {log}; sleep 0.5"],
            "it is emptied and restarted": [f"truncate -s 0 {log}; {anew}; sleep 0.5"],
            "who asks is stopped": [f"supervisorctl stop {name}; truncate -s 0 {log}; sleep 4"],
            "nothing is said any more": [
                f"echo \"log_min_messages = 'panic'\" >> {database.SETTINGS}",
                f"kill -HUP $(head -1 {database.DATA}/postmaster.pid)",
                f"truncate -s 0 {log}; sleep 4",
            ],
            "the plans go": [f"rm {plans}"],
        },
        stays=(*kept, plans, parish.settings_of(main)),
        harm=lambda probe: said(parish.files(probe, other_port)),
    )  # fmt: skip
