"""A database whose data somebody began to move, and an app whose entry was parked."""

import re

from msgspec.structs import replace

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import cabinets, database, layout, parts, tiers, webshop
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Mount, Program, Truth

CHANGES = "/var/log/changes.log"


def _noted(text: str) -> str:
    return f"echo \"$(date '+%F %H:%M') {text}\" >> {CHANGES}"


def _minded(probe: Probe) -> str:
    up = parts.supervised(probe, "postgresql", "/etc")
    return "" if up else f"{database.NAME} is not kept by the supervisor"


def other_volume(pick: Pick) -> Scene:
    """As `moved-data`: the folder of its data was moved and an empty one would lose all; here the
    cluster of PostgreSQL, on another volume, and the alarm is a query."""
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    store, kept = webshop.Store(pick, main, base_port), webshop.records(other, pick)
    volume = f"/mnt/{pick.choice(('ssd1', 'vol-b', 'nvme'))}"
    away = f"{volume}/{pick.choice(('pgdata', 'postgresql', 'db/data'))}"
    made = store.server()
    server = replace(made, program=replace(made.program, start_seconds=3))
    initdb = made.program.command.split()[0].removesuffix("postgres") + "initdb"
    world = tiers.joined(
        [
            server,
            webshop.app(main, port, store.used_by(), needs=(database.NAME,)),
            webshop.app(other, other_port),
        ],
        files={
            **kept, **webshop.weeks_ago(main, pick), **webshop.weeks_ago(other, pick),
            CHANGES: File(f"2026-10-02 09:14 {other}: new release\n"),
            "/var/lib/postgresql/12/data/PG_VERSION": File("12\n", mode=0o600, age=9e7),
            f"{volume}/media/{other}/logo.svg": File("<svg/>\n", age=tiers.MONTH),
        },
        mounts=(Mount(volume, mb=96),),
        hostname=pick.host(),
    )  # fmt: skip

    start = f"supervisorctl start {database.NAME}; sleep 1"
    run = f"{store.psql} -Atc 'select count(*) > 0 from {store.table}'"
    return Scene(
        world=world,
        check=WatchedCheck(
            f"{store.name} query", Check(run, Expect(output="^t$"), timeout=8.0), database.NAME,
            severity="P1",
        ),
        healthy=lambda probe: said(webshop.serves(probe, port), store.lost(probe), _minded(probe)),
        truth=Truth(
            (database.NAME,), ("service-crash", "bad-config"), rf"{database.DATA}|{away}",
            rf"No such file or directory|could not access|Run initdb|does not exist|{away}",
        ),
        inject=lines(
            f"supervisorctl stop {main}; supervisorctl stop {database.NAME}",
            f"mkdir -p {away.rpartition('/')[0]} && mv {database.DATA} {away}",
            _noted(f"databases go to {volume}, copied over"),
            f"supervisorctl start {database.NAME}; supervisorctl start {main}",
            f"until supervisorctl status {database.NAME} | grep -q FATAL || ((SECONDS > 25)); "
            "do sleep 0.2; done",
        ),
        fix=(f"mv {away} {database.DATA}", start),
        wrong={
            "it is restarted": [f"supervisorctl restart {database.NAME} {main}; sleep 1"],
            "an empty one is made": [
                f"as-app {initdb} -D {database.DATA} -U postgres -A trust --no-sync >/dev/null",
                start,
                f"{store.psql.replace(store.name, 'postgres')} -c 'create database {store.name}'",
            ],
        },
        stays=(*kept, webshop.env_of(main), webshop.env_of(other)),
        runs=(f"{webshop.TOP}/{other}/",),
    )  # fmt: skip


def parked(pick: Pick) -> Scene:
    """As `put-aside`: the supervisor took in its entries anew while one was out of its reach; here
    in another folder, beside one that was given up for good, in a house of apps with .env files."""
    main, other, former = pick.services(3)
    port, other_port, former_port = pick.ports(3)
    rows, aside = cabinets.Rows(pick), f"/etc/supervisor/{pick.choice(('parked', 'off', 'later'))}"
    entry = f"/etc/supervisor/conf.d/{main}.conf"
    code = f"{cabinets.HOME}/{former}/app.py"
    gone = Program(name=former, command=f"python3 {code} {cabinets.env_of(former)}")
    world = tiers.joined(
        [cabinets.app(main, port, rows, start_seconds=1), cabinets.app(other, other_port)],
        files={
            **cabinets.weeks_ago(main, pick), **cabinets.weeks_ago(other, pick),
            f"{aside}/{former}.conf": File(layout.entry(gone), age=9e6),
            code: File("raise SystemExit('given up, see the wiki')\n", age=9e6),
            cabinets.env_of(former): File(f"PORT={former_port}\n", mode=0o640, age=9e6),
            CHANGES: File(f"2026-03-11 15:40 {former} is given up, entry parked\n"),
        },
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        up = parts.supervised(probe, main, cabinets.HOME)
        return said(
            cabinets.saves(probe, port), rows.lost(probe, port),
            "" if up else f"{main} is not kept by the supervisor",
        )  # fmt: skip

    took = "supervisorctl reread; supervisorctl update"
    return Scene(
        world=world,
        check=cabinets.is_up(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("service-crash", "bad-config"), rf"{entry}|{aside}|conf\.d",
            rf"{re.escape(aside)}/{main}|removed|no such process|No config updates|parked",
        ),
        inject=lines(
            f"mv {entry} {aside}/", _noted(f"{main}: parked while its table is rebuilt"), took,
        ),
        fix=(f"mv {aside}/{main}.conf {entry}", "supervisorctl reread", "supervisorctl update"),
        wrong={
            "it is only started again": [f"supervisorctl start {main}"],
            "it is started by hand": [
                (f"cd {cabinets.HOME}/{main}; setsid as-app python3 app.py .env "
                "</dev/null &>/dev/null & sleep 1"),
            ],
            "only the file": [f"cp {aside}/{main}.conf {entry}"],
        },
        stays=(cabinets.env_of(main), cabinets.env_of(other), f"{cabinets.HOME}/{main}/app.py"),
        runs=(f"{cabinets.HOME}/{other}/app.py",),
        harm=lambda probe: said(
            cabinets.saves(probe, other_port),
            f"{former} is back" if former in probe.text(f"/etc/supervisor/conf.d/{former}.conf")
            else "",
        ),
    )  # fmt: skip
