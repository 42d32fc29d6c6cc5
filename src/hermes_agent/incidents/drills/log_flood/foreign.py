"""One that asks for a database which is not there, and PostgreSQL writes it down each time."""

import time

from hermes_agent.incidents.drills import database, parish, tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.log_flood.practice_quarter import _grows, _since_days, _tight
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Truth

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
