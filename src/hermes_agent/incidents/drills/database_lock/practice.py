"""Locks of databases, in other houses."""

from hermes_agent.incidents.drills import database, porters, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Program, Truth

_HOLD = """import sqlite3, sys, time
base = sqlite3.connect(sys.argv[1], isolation_level=None)
base.execute("begin exclusive")
base.execute("update kept set v = v where k like 'old-%'")
time.sleep(100000)
"""


def sqlite_held(pick: Pick) -> Scene:
    """A script that somebody left has begun to write to the file, and never ended it."""
    api, beside = pick.services(2)
    port, beside_port = pick.ports(2)
    folder = pick.choice((f"/srv/{api}/state", f"/var/lib/{api}", f"/opt/{api}/data"))
    base = f"{folder}/{pick.choice(('main.db', 'app.sqlite3', f'{api}.db'))}"
    table, style = pick.choice(("kept", "entries")), porters.any_style(pick)
    script = f"/root/{pick.word()}_{pick.token(3)}.py"
    form = pick.choice(("yaml", "env", "environment"))
    rows = "; ".join(f"insert into {table} values ('old-{n}', '{pick.token(8)}')" for n in range(9))
    make = f"create table {table} (k text primary key, v text); {rows};"
    making = f'import sqlite3\nsqlite3.connect("{base}").executescript("""{make}""")\n'
    maker = f"{folder}/.make"
    parts = [
        porters.porter(api, port, f"sqlite:{base}", form=form, style=style, more={"table": table}),
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form="json", style=style),
    ]

    def inject(box: Box) -> None:
        box.spawn(f"exec python3 {script} {base}")
        tiers.until_broken(box, porters.status(api, port))

    return Scene(
        world=tiers.joined(
            parts,
            files={script: File(_HOLD.replace("kept", table)), maker: File(making)},
            folders={folder: 0o755},
            hostname=pick.host(),
            setup=[f"python3 {maker} && rm {maker} && chmod 666 {base}"],
        ),
        check=porters.status(api, port),
        healthy=lambda probe: said(
            probe.keeps(port, "/v"), "" if "old-1" in probe.text(base) else "rows are gone"
        ),
        truth=Truth(
            component=(api, script.rpartition("/")[2], "sqlite", base.rpartition("/")[2]),
            category=("database-lock",),
            locus=rf"{base}|{script}|pid \d+",
            evidence=f"locked|{script.rpartition('/')[2]}|{base}",
        ),
        inject=inject,
        fix=(f"pkill -f '[{script[0]}]{script[1:]}'",),
        wrong={"restarting": [f"supervisorctl restart {api}"]},
        stays=(porters.settings_file(api, form),),
        harm=lambda probe: said(probe.keeps(beside_port, "/v")),
    )


def _worker(name: str, psql: str, base: str, table: str) -> str:
    """A script that begins a transaction when it is told to, and then goes on without it."""
    return (
        f"#!/bin/bash\nexport PGAPPNAME={name}\n"
        f"until {psql} -U app -c 'select 1' {base}; do sleep 0.2; done\n(\n"
        f"  until [ -e /run/{name}.go ]; do sleep 0.1; done\n"
        f"  echo 'begin; update {table} set v = v;'\n  sleep 100000\n"
        f") | {psql} -U app {base} &\nwhile :; do date +%s > /run/{name}.beat; sleep 1; done\n"
    )


def left_open(pick: Pick) -> Scene:
    """A worker that goes on with other things never ended a transaction that it began."""
    api, beside = pick.services(2)
    port, base_port, beside_port = pick.ports(3)
    base, table = f"{api}db", pick.choice(("entries", "bookings"))
    worker = f"{pick.word()}-{pick.choice(('sync', 'runner', 'agent'))}"
    style, form = porters.any_style(pick), pick.choice(("yaml", "env", "json"))
    psql = f"psql -XAtq -h 127.0.0.1 -p {base_port}"
    script, flag = f"/opt/{worker}/bin/run", f"/run/{worker}.go"
    text = _worker(worker, psql, base, table)
    parts = [
        database.postgres(
            base_port, base,
            [f"create table {table} (k text primary key, v text)",
             f"insert into {table} values ('status', '0'), ('old', '{pick.token(9)}')"],
        ),
        porters.porter(
            api, port, f"postgresql://app@127.0.0.1:{base_port}/{base}", form=form, style=style,
            needs=[database.NAME], more={"table": table},
        ),
        tiers.Part(
            Program(name=worker, command=script, needs=(database.NAME,), about="must go on",
                    ready=f"file:/run/{worker}.beat"),
            {script: File(text, mode=0o755, age=tiers.MONTH)},
        ),
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form="flags", style=style),
    ]  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"touch {flag}")
        tiers.until_broken(box, porters.status(api, port))
        box.run(f"rm {flag}")

    who = f"pg_stat_activity where application_name = '{worker}'"
    return Scene(
        world=tiers.joined(parts, hostname=pick.host()),
        check=porters.status(api, port),
        healthy=lambda probe: said(
            probe.keeps(port, "/v"),
            porters.quick(probe, port, 1.5),
        ),
        truth=Truth(
            component=(database.NAME, base, worker, api),
            category=("database-lock",),
            locus=rf"{worker}|{table}|pid \d+",
            evidence=f"{worker}|idle in transaction|statement timeout",
        ),
        inject=inject,
        fix=(f'{psql} -U postgres {base} -c "select pg_terminate_backend(pid) from {who}"',),
        wrong={"restarting": [f"supervisorctl restart {api}"]},
        stays=(porters.settings_file(api, form), script),
        runs=(script,),
        harm=lambda probe: said(probe.keeps(beside_port, "/v")),
    )


def busy_exporter(pick: Pick) -> Scene:
    """A service that exports at night began to write to the other's file, and hangs in it."""
    api, beside = pick.services(2)
    port, beside_port = pick.ports(2)
    exporter = f"{pick.word()}-exporter"
    base = f"/data/{api}/{pick.choice(('store.db', 'live.sqlite'))}"
    style, form = porters.any_style(pick), pick.choice(("flags", "json", "properties"))
    code, flag = f"/opt/{exporter}/{exporter}.py", f"/run/{exporter}.go"
    export = (
        "import os, sqlite3, sys, time\n"
        f'open("/run/{exporter}.up", "w").close()\n'
        f'while not os.path.exists("{flag}"):\n    time.sleep(0.1)\n'
        "base = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        'base.execute("begin immediate")\ntime.sleep(100000)\n'
    )
    make = (
        "create table kept (k text primary key, v text); "
        f"insert into kept values ('old', '{pick.token(8)}');"
    )
    maker = f"/data/{api}/.make"
    parts = [
        porters.porter(api, port, f"sqlite:{base}", form=form, style=style),
        tiers.Part(
            Program(name=exporter, command=f"python3 {code} {base}", about="must go on",
                    ready=f"file:/run/{exporter}.up"),
            {code: File(export, age=tiers.MONTH)},
        ),
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form="env", style=style),
    ]  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"touch {flag}")
        tiers.until_broken(box, porters.status(api, port))
        box.run(f"rm {flag}")

    text = f'import sqlite3\nsqlite3.connect("{base}").executescript("""{make}""")\n'
    return Scene(
        world=tiers.joined(
            parts,
            files={maker: File(text)},
            folders={f"/data/{api}": 0o755},
            hostname=pick.host(),
            setup=[f"python3 {maker} && rm {maker}"],
        ),
        check=porters.status(api, port),
        healthy=lambda probe: said(probe.keeps(port, "/v")),
        truth=Truth(
            component=(exporter, api, "sqlite"),
            category=("database-lock",),
            locus=rf"{base}|{exporter}|pid \d+",
            evidence=f"locked|{exporter}",
        ),
        inject=inject,
        fix=(f"supervisorctl restart {exporter}",),
        wrong={"restarting": [f"supervisorctl restart {api}"]},
        stays=(code,),
        runs=(code,),
        harm=lambda probe: said(probe.keeps(beside_port, "/v")),
    )
