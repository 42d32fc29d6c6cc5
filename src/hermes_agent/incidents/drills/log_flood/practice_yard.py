"""In another house: a probe that asks nginx without a pause, and a PostgreSQL that writes down
every statement."""

import time

from msgspec.structs import replace

from hermes_agent.incidents.drills import database, parts, tiers, yard
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Program, Truth

GROWTH = 25_000
"""Bytes in half a second that no log may gain when all is well."""


def _grows(probe: Probe, root: str) -> str:
    was = probe.space(root).free
    time.sleep(0.5)
    return f"what is in {root} grows" if was - probe.space(root).free > GROWTH else ""


def _fill(box: Box, log: str) -> None:
    """As it has gone on for hours."""
    box.run(
        f"until (($(stat -c %s {log}) > 20000)); do sleep 0.1; done; tail -n 60 {log} > /root/l; "
        f"while cat /root/l >> {log}; do :; done 2>/dev/null; rm /root/l; sleep 0.1",
        seconds=40,
    )


def eager_probe(pick: Pick) -> Scene:
    (main, other), (port, inner, other_port) = pick.services(2), pick.ports(3)
    word, person = pick.words(2)
    script = f"/home/{person}/{word}-{pick.token(4)}.sh"
    root, log = f"/mnt/{main}", f"/mnt/{main}/access.log"
    store = f"{root}/notes"
    kept = yard.notes(main, pick, store=store)
    site = yard.proxy(port, f"http://127.0.0.1:{inner}", more=f"    access_log {log};")
    text = (
        "#!/bin/bash\n# is it still up?\nwhile true; do\n"
        f"  exec 3<>/dev/tcp/127.0.0.1/{port}\n"
        f"  for n in $(seq 80); do printf 'GET /up?from={word}-{'x' * 300} HTTP/1.1\\r\\nHost: x"
        "\\r\\n\\r\\n' >&3; done\n"
        "  timeout 0.1 cat <&3 >/dev/null\n  exec 3>&-\ndone\n"
    )
    world = tiers.joined(
        [yard.depot(main, inner, {"store": store}), yard.depot(other, other_port),
         tiers.nginx({main: site}, [main], port)],
        files={**kept, **yard.days_ago(other, pick), script: File(text, mode=0o755, age=900.0)},
        folders={store: 0o755},
        mounts=(Mount(root, mb=pick.size(4, 7)),),
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.spawn(f"exec nice bash {script}")
        _fill(box, log)

    def healthy(probe: Probe) -> list[str]:
        asks = any(script in process.command for process in probe.processes())
        tight = parts.free_share(probe, root) < 0.4
        return said(
            yard.stores(probe, port), f"{script} still asks" if asks else "",
            f"{root} has hardly any room" if tight else "", _grows(probe, root),
        )  # fmt: skip

    name = script.rpartition("/")[2]
    return Scene(
        world=world,
        check=yard.passes(main, port),
        healthy=healthy,
        truth=Truth(
            ("nginx", main, name, script), ("log-flood", "runaway-process"), rf"{log}|{name}",
            rf"100% +{root}|{log}|{name}|GET /up\?from",
        ),
        inject=inject,
        fix=(f"kill $(pgrep -f '[/]{name}')", f"sleep 0.3; truncate -s 0 {log}"),
        wrong={
            "the log is only emptied": [f"truncate -s 0 {log}; sleep 0.3"],
            "nginx is stopped": ["supervisorctl stop nginx", f"truncate -s 0 {log}"],
            "the notes go": [f"rm -f {store}/*"],
        },
        stays=(*kept, yard.settings_of(main)),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip


POLLING = """import subprocess
import sys
import time

while True:
    subprocess.run(sys.argv[1:], input=b"select 1 from pg_class limit 1;" * 40,
                   stdout=subprocess.DEVNULL)
    time.sleep(0.05)
"""


def _logging(base: yard.Base, root: str) -> tiers.Part:
    """PostgreSQL that writes to a file, through a script that starts it."""
    made = base.server(settings={"log_statement": "'none'", "logging_collector": "off"})
    start = "/opt/postgresql/bin/start"
    program = replace(
        made.program,
        command=f"{start} {made.program.command}",
        about=f"{made.program.about}; log {root}/server.log",
    )
    text = f'#!/bin/sh\nexec "$@" >>{root}/server.log 2>&1\n'
    files = {**made.files, start: File(text, mode=0o755, age=tiers.MONTH)}
    return replace(made, program=program, files=files)


def statements(pick: Pick) -> Scene:
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    base, poller = yard.Base(pick, main, base_port), f"{pick.word()}-sync"
    root, code = "/var/log/postgresql", f"/opt/{poller}/bin/poll.py"
    log = f"{root}/server.log"
    polling = tiers.Part(
        Program(
            name=poller, command=f"python3 {code} {base.psql.replace('-U postgres', '-U app')}",
            needs=(database.NAME,), about="looks for new rows all the time; must go on",
        ),
        {code: File(POLLING, age=tiers.MONTH)},
    )  # fmt: skip
    world = tiers.joined(
        [
            _logging(base, root),
            polling,
            yard.depot(other, other_port),
            yard.depot(main, port, {"store": f"{root}/spool"}, needs=(database.NAME,)),
        ],
        files={**yard.days_ago(other, pick), f"{root}/spool/first": File("kept\n", age=9e5)},
        folders={f"{root}/spool": 0o755},
        mounts=(Mount(root, mb=pick.size(4, 7)),),
        hostname=pick.host(),
    )
    anew = f"kill -HUP $(head -1 {database.DATA}/postmaster.pid)"
    change = f"sed -i \"s/^log_statement = .*/log_statement = '{{}}'/\" {database.SETTINGS}"

    def inject(box: Box) -> None:
        box.run(f"cp -p {database.SETTINGS} {database.SETTINGS}~; {change.format('all')}; {anew}")
        _fill(box, log)

    def healthy(probe: Probe) -> list[str]:
        tight = parts.free_share(probe, root) < 0.4
        full = f"{root} has hardly any room" if tight else ""
        every = base.ask(probe, "show log_statement") == "all"
        return said(
            yard.stores(probe, port), full, _grows(probe, root), base.lost(probe),
            "every statement is written down" if every else "",
        )  # fmt: skip

    return Scene(
        world=world,
        check=yard.passes(main, port),
        healthy=healthy,
        truth=Truth(
            (database.NAME,), ("log-flood", "bad-config"),
            rf"{log}|log_statement|{database.SETTINGS}",
            rf"100% +{root}|log_statement = 'all'|LOG: +statement",
        ),
        inject=inject,
        fix=(change.format("none"), anew, f"sleep 0.3; truncate -s 0 {log}"),
        wrong={
            "the log is only emptied": [f"truncate -s 0 {log}; sleep 0.3"],
            "who asks is stopped": [f"supervisorctl stop {poller}", f"truncate -s 0 {log}"],
            "the spool goes": [f"rm -f {root}/spool/*"],
        },
        stays=(f"{root}/spool/first", yard.settings_of(main)),
        runs=(code,),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip
