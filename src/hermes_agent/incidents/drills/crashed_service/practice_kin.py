"""A database that ended in good order and was left so, and a binder whose register was cut off."""

import re

from hermes_agent.incidents.drills import database, harbour, layout, parish, parts, tiers, webshop
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

COPY = """#!/bin/bash
# Cold copy of the database, Sundays at 3. Nobody may write while it is made.
set -e
echo "$(date '+%F %T') cold copy begins" >> {log}
as-app {pg_ctl} -D {data} -m fast -w stop >> {log}
tar -C {data} -czf {target}/base.tar.gz base global
echo "$(date '+%F %T') cold copy done, $(stat -c %s {target}/base.tar.gz) bytes" >> {log}
"""

NUMBERED = '''

from xml.etree import ElementTree


class Numbered(Binder):
    """Papers have running numbers, which go on where the register says."""

    def __init__(self, own: dict[str, str]) -> None:
        super().__init__(own)
        self.register, self.turn, self.last = Path(own["Register"]), threading.Lock(), 0
        if self.register.exists():
            try:
                self.last = int(ElementTree.parse(self.register).findtext("last") or "")
            except (ElementTree.ParseError, ValueError) as error:
                self.log("emerg", f"cannot parse register {self.register}: {error}")
                raise SystemExit(1) from None

    def put(self, key: str, body: bytes) -> None:
        with self.turn:
            super().put(key, body)
            self.last += 1
            text = f"<register>\\n  <office>{self.own['ServerName']}</office>\\n"
            self.register.write_text(f"{text}  <last>{self.last}</last>\\n</register>\\n")


if __name__ == "__main__":
    run(Numbered)
'''


def _minded(probe: Probe) -> str:
    up = parts.supervised(probe, "postgresql", "/etc")
    return "" if up else f"{database.NAME} is not kept by the supervisor"


def closed_for_copy(pick: Pick) -> Scene:
    """As `quit-at-night`: a job of the night shuts it down and leaves that to others; here it is
    PostgreSQL for a cold copy, below an app with properties, and the alarm is the app's."""
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    store, kept = webshop.Store(pick, main, base_port), harbour.parcels(other, pick)
    script = f"/data/jobs/{pick.choice(('cold-copy', 'sunday-copy', 'db-copy'))}.sh"
    target, log = "/data/copies", "/data/jobs/copy.log"
    server = store.server()
    start = server.program.command
    entry = layout.entry(server.program).replace("autorestart=true", "autorestart=unexpected")
    text = COPY.format(
        log=log, data=database.DATA, target=target,
        pg_ctl=start.split()[0].removesuffix("postgres") + "pg_ctl",
    )  # fmt: skip
    world = tiers.joined(
        [
            server,
            harbour.app(main, port, harbour.in_base(store), needs=(database.NAME,)),
            harbour.app(other, other_port),
        ],
        files={
            **kept, **harbour.weeks_ago(main, pick), **harbour.weeks_ago(other, pick),
            f"/etc/supervisor/conf.d/{database.NAME}.conf": File(entry, age=tiers.MONTH),
            script: File(text, mode=0o755, age=90_000.0),
            log: File("2026-10-04 03:00:01 cold copy skipped: no room\n"),
        },
        folders={target: 0o750},
        hostname=pick.host(),
    )  # fmt: skip

    return Scene(
        world=world,
        check=harbour.health(main, port),
        healthy=lambda probe: said(harbour.stores(probe, port), store.lost(probe), _minded(probe)),
        truth=Truth(
            (database.NAME,), ("service-crash",),
            rf"{script}|pg_ctl|process|conf\.d/{database.NAME}|autorestart|{database.DATA}",
            rf"{database.NAME}\s+(EXITED|STOPPED)|exited: {database.NAME}|shutdown request|"
            rf"is shut down|pg_ctl|cold copy|{script}",
        ),
        inject=lines(script, f"while supervisorctl pid {database.NAME} | grep -qv '^0'; do "
                     "sleep 0.1; done"),
        fix=(f"supervisorctl start {database.NAME}",),
        wrong={
            "the app is restarted": [f"supervisorctl restart {main}; sleep 1"],
            "the app goes without it": [
                (f"sed -i 's#^spring.datasource.url=.*#parcels.dir=/data/{main}/parcels#' "
                f"{harbour.settings_of(main)}"),
                f"supervisorctl restart {main}; sleep 1",
            ],
            "it is started by hand": [
                f"setsid as-app {start} </dev/null &>/dev/null & sleep 1.5",
            ],
        },
        stays=(*kept, harbour.settings_of(main), harbour.settings_of(other), database.SETTINGS),
        harm=lambda probe: said(harbour.stores(probe, other_port)),
    )  # fmt: skip


def torn_register(pick: Pick) -> Scene:
    """As `cut-off`: what it goes on from was cut off in the middle, and a copy of before is there;
    here a register in XML of a binder, after the power failed, with two copies of other nights."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    register = f"{parish.STORE}/{pick.choice(('registers', 'numbers', 'books'))}/{main}.xml"
    copy, power = f"/var/backups/parish/{main}.xml", "/var/log/ups.log"
    last, kept = pick.size(20_000, 90_000), parish.papers(main, pick)

    def xml(number: int) -> str:
        text = f"<register>\n  <office>{main}</office>\n"
        return f"{text}  <last>{number}</last>\n</register>\n"

    made = parish.binder(
        main, port, {"Register": register}, code=parish.program(NUMBERED), start_seconds=1
    )
    world = tiers.joined(
        [made, parish.binder(other, other_port)],
        files={
            **kept, **parish.former(main, pick), **parish.former(other, pick),
            register: File(xml(last)),
            copy: File(xml(last - pick.size(1, 6)), age=20_000.0),
            f"{copy}.1": File(xml(last - pick.size(300, 900)), age=9e6),
            power: File("2026-08-19 11:02:40 self test passed\n"),
        },
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        found = re.search(r"<last>(\d+)</last>", probe.text(register))
        known = found is not None and int(found[1]) >= last - 8
        return said(
            parish.files(probe, port, other_port),
            "" if known else "numbers are given out anew",
        )  # fmt: skip

    start = f"supervisorctl start {main}; sleep 1.2"
    return Scene(
        world=world,
        check=parish.ready(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("service-crash",), rf"{register}|{main}\.xml".replace(".", r"\."),
            r"cannot parse|no element found|unclosed token|ParseError",
        ),
        inject=lines(
            f"supervisorctl stop {main}",
            f"truncate -s {pick.size(14, 40)} {register}",
            f"echo \"$(date '+%F %T') on battery; battery exhausted\" >> {power}",
            f"supervisorctl start {main}",
        ),
        fix=(f"cp -p {copy} {register}", start),
        wrong={
            "it is only started again": [start],
            "it begins anew": [f"mv {register} {register}.torn", start],
            "the oldest copy": [f"cp -p {copy}.1 {register}", start],
        },
        stays=(*kept, parish.settings_of(main), parish.code_of(main)),
        runs=(parish.code_of(other),),
    )  # fmt: skip
