"""Logs that grow without measure: a database that notes how long each question took, and one that
tells all that it does inside."""

from msgspec.structs import replace

from hermes_agent.incidents.drills import database, harbour, parish, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.log_flood.practice_kin import _takes
from hermes_agent.incidents.drills.log_flood.practice_quarter import _tight
from hermes_agent.incidents.drills.log_flood.practice_town import _grows, _since_hours
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.webshop import Store
from hermes_agent.incidents.drills.world import File, Mount, Program, Truth

DISPATCH = """import sys
import time

from pgline import DatabaseError, Line

url, table = sys.argv[1:]
wanted = (f"select t.key, length(t.body) as weight, count(*) over (partition by left(t.key, 4)) as "
          f"load, rank() over (order by t.key) as place from {table} t left join {table} o on "
          f"o.key = t.key and o.body <> t.body where t.key not like 'health%' and o.key is null "
          f"and t.key > 'lorry-%' order by load desc, place limit 1")
while True:
    try:
        line = Line(url, "dispatch")
        while True:
            for lorry in range(14):
                line.query(wanted.replace("%", f"{lorry:02}", 1))
            time.sleep(0.05)
    except DatabaseError as error:
        print(error, flush=True)
        time.sleep(0.5)
"""

BOARD = """import sys
import time
from pathlib import Path

from pgline import DatabaseError, Line

own = dict(row.split(None, 1) for row in Path(sys.argv[1]).read_text().splitlines()
           if row[:1] not in ("", "#"))
while True:
    try:
        line = Line(own["Database"], "board")
        for number in range(1, 26):
            line.query(f"select body from {own['Table']} where key = 'old-{number}'")
        line.close()
        time.sleep(0.02)
    except DatabaseError as error:
        print(error, flush=True)
        time.sleep(0.5)
"""


def _dispatch(name: str, store: Store) -> tiers.Part:
    home = f"/data/{name}"
    return tiers.Part(
        Program(
            name=name, command=f"python3 {home}/dispatch.py {store.url} {store.table}",
            directory=home, needs=(database.NAME,),
            about=f"looks all the time which lorry is next; {home}, must not rest",
        ),
        {f"{home}/dispatch.py": File(DISPATCH, age=tiers.MONTH),
         f"{home}/pgline.py": File(tiers.program_text("pgline.py"), age=tiers.MONTH)},
    )  # fmt: skip


def each_question(pick: Pick) -> Scene:
    """As `statements`: PostgreSQL notes all that it is asked; here how long each took, set with
    ALTER SYSTEM and written by its own collector, beside the parcels of a Spring-like app."""
    (main, other, who), (port, base_port, other_port) = pick.services(3), pick.ports(3)
    store, asking, root = Store(pick, main, base_port), f"{who}-dispatch", f"/data/{main}"
    folder = f"{root}/{pick.choice(('pg_log', 'logs/db', 'dblogs'))}"
    log, scans = f"{folder}/postgresql.log", f"{root}/customs-forms.zip"
    server = store.server(
        logging_collector="on", log_directory=f"'{folder}'", log_filename="'postgresql.log'",
        log_rotation_age=0, log_rotation_size=0, log_min_duration_statement=pick.size(400, 900),
    )  # fmt: skip
    kept = harbour.parcels(main, pick, 24)
    world = tiers.joined(
        [server, _dispatch(asking, store), harbour.app(other, other_port),
         harbour.app(main, port, needs=(database.NAME,))],
        files={**kept, **harbour.weeks_ago(main, pick), **harbour.weeks_ago(other, pick),
               scans: File(size=800_000, age=9e6)},
        folders={folder: 0o755},
        mounts=(Mount(root, mb=pick.size(5, 8)),),
        hostname=pick.host(),
    )  # fmt: skip
    setting, anew = "log_min_duration_statement", f'{store.psql} -c "select pg_reload_conf()"'

    def inject(box: Box) -> None:
        box.run(f'{store.psql} -c "alter system set {setting} = 0"; {anew}')
        _since_hours(box, log)

    def healthy(probe: Probe) -> list[str]:
        every = store.ask(probe, f"show {setting}") == "0"
        return said(
            harbour.stores(probe, port), _tight(probe, root), _grows(probe, root),
            store.lost(probe), "every question is written down" if every else "",
        )  # fmt: skip

    return Scene(
        world=world,
        check=_takes(main, port),
        healthy=healthy,
        truth=Truth(
            (database.NAME, "postgresql"), ("log-flood", "bad-config"),
            rf"{folder}|postgresql\.(log|auto\.conf)|{setting}|{database.SETTINGS}",
            rf"100% +{root}|{setting}|LOG: +duration|{log}",
        ),
        inject=inject,
        fix=(f'{store.psql} -c "alter system reset {setting}"', anew,
             f"sleep 0.3; truncate -s 0 {log}"),
        wrong={
            "the log is only emptied": [f"truncate -s 0 {log}; sleep 0.5"],
            "who asks is stopped": [f"supervisorctl stop {asking}", f"truncate -s 0 {log}"],
            "the biggest that is no log goes": [f"rm {scans}"],
            "it is quiet and full": [f'{store.psql} -c "alter system reset {setting}"', anew],
        },
        stays=(*kept, scans, harbour.settings_of(main), harbour.settings_of(other)),
        runs=(f"{asking}/dispatch.py",),
        harm=lambda probe: said(harbour.stores(probe, other_port)),
    )  # fmt: skip


def _board(name: str, store: Store) -> tiers.Part:
    made = parish.helper(
        name, BOARD, {"Database": store.url, "Table": store.table},
        "the board at the door, shows what is on today; is to run day and night",
        needs=(database.NAME,),
    )  # fmt: skip
    line = File(tiers.program_text("pgline.py"), age=tiers.MONTH)
    return replace(made, files={**made.files, f"{parish.CODE}/{name}/pgline.py": line})


def inner_voice(pick: Pick) -> Scene:
    """As `debug-left-on`: a server tells all that it does, since somebody looked for a fault; here
    PostgreSQL, by a file of its conf.d, beside the papers of a parish office."""
    (main, other, who), (port, base_port, other_port) = pick.services(3), pick.ports(3)
    store, board, root = Store(pick, who, base_port), f"{who}-board", parish.store_of(main)
    log = f"{root}/{pick.choice(('database', 'pg', 'sql'))}/{pick.choice(('server', who))}.log"
    folder, _, file = log.rpartition("/")
    setting, register = "log_min_messages", f"{root}/register-1911.tif"
    place = f"/etc/postgresql/conf.d/{pick.choice(('logging', '20-log', 'log'))}.conf"
    text = (f"logging_collector = on\nlog_directory = '{folder}'\nlog_filename = '{file}'\n"
            f"log_rotation_age = 0\nlog_rotation_size = 0\n{setting} = warning\n")  # fmt: skip
    kept = parish.papers(main, pick, 20, below="binder")
    world = tiers.joined(
        [store.server(include_dir="'conf.d'"), _board(board, store),
         parish.binder(main, port, {"StoreRoot": f"{root}/binder"}),
         parish.binder(other, other_port)],
        files={**kept, **parish.former(main, pick), **parish.former(other, pick),
               place: File(text, age=tiers.MONTH), register: File(size=850_000, age=9e6)},
        folders={folder: 0o755},
        mounts=(Mount(root, mb=pick.size(5, 9)),),
        hostname=pick.host(),
    )  # fmt: skip
    anew, loud = f'{store.psql} -c "select pg_reload_conf()"', "debug5"

    def inject(box: Box) -> None:
        box.run(f"sed -i 's/^{setting} = .*/{setting} = {loud}/' {place}; {anew}")
        _since_hours(box, log)

    def healthy(probe: Probe) -> list[str]:
        inside = store.ask(probe, f"show {setting}") in ("debug3", "debug4", "debug5")
        return said(
            parish.files(probe, port), _tight(probe, root), _grows(probe, root),
            store.lost(probe), "the server still tells all that it does" if inside else "",
        )  # fmt: skip

    quiet = f"sed -i 's/^{setting} = .*/{setting} = warning/' {place}"
    return Scene(
        world=world,
        check=parish.takes(main, port),
        healthy=healthy,
        truth=Truth(
            (database.NAME, "postgresql"), ("log-flood", "bad-config"),
            rf"{log}|{folder}|{place}|{setting}", rf"100% +{root}|{setting}|DEBUG: |{log}",
        ),
        inject=inject,
        fix=(quiet, anew, f"sleep 0.4; truncate -s 0 {log}"),
        wrong={
            "the log is only emptied": [f"truncate -s 0 {log}; sleep 0.5"],
            "it is emptied and read anew": [anew, f"truncate -s 0 {log}; sleep 0.5"],
            "the board is stopped": [f"supervisorctl stop {board}", f"truncate -s 0 {log}"],
            "the old register goes": [f"rm {register}"],
            "it is quiet and full": [quiet, f"{anew}; sleep 0.4"],
        },
        stays=(*kept, register, parish.settings_of(main), parish.settings_of(other)),
        runs=(f"{board}/{board}.py",),
        harm=lambda probe: said(parish.files(probe, other_port)),
    )  # fmt: skip
