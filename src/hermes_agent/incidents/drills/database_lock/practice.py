"""Locks of databases, in other houses."""

from hermes_agent.incidents.drills import porters, tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

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
        inject=lambda box: (
            box.spawn(f"exec python3 {script} {base}"),
            tiers.until_broken(box, porters.status(api, port)),
        )[1],
        fix=(f"pkill -f '[{script[0]}]{script[1:]}'",),
        wrong={"restarting": [f"supervisorctl restart {api}"]},
        stays=(porters.settings_file(api, form),),
        harm=lambda probe: said(probe.keeps(beside_port, "/v")),
    )
