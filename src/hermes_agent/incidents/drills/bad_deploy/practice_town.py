"""In a house of its own: a release that wants a column which nobody has added, and one that cannot
read what was kept before it."""

import io
import zipfile

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills import workshop as house
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

HEALTH = (
    '                store.put("health", str(time.time()))\n',
    '                store.get("health")\n',
)
"""A page that only reads."""
INSERT = '            "insert or replace into records (key, body, changed) values (?, ?, ?)",\n'
TIMES = "            key, body, time.time(),\n"


def _versions(pick: Pick) -> tuple[str, str]:
    month, number = pick.size(6, 10), pick.size(1, 20)
    return f"2026.{month}.{number}", f"2026.{month}.{number + pick.size(1, 2)}"


def _writes(service: str, port: int) -> WatchedCheck:
    url = f"http://127.0.0.1:{port}{house.RECORDS}/write-check"
    run = f"curl -sS -m 3 -X PUT -d \"$(date +%s)\" -w ' (%{{http_code}})' {url}"
    check = Check(run, Expect(output=r"\(201\)"), timeout=6.0)
    return WatchedCheck(f"{service} writes", check, service, severity="P1")


def unmigrated(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    (old, new), kept = _versions(pick), house.rows(pick)
    column = pick.choice(("tenant", "region", "channel", "origin"))
    root = f"{house.APPS}/{main}"
    before = house.program(HEALTH, ('"3.2.0"', f'"{old}"'))
    after = house.program(
        HEALTH, ('"3.2.0"', f'"{new}"'),
        (INSERT, INSERT.replace("changed)", f"changed, {column})").replace("(?,", "(?, ?,")),
        (TIMES, f'            key, body, time.time(), os.environ.get("{column.upper()}"),\n'),
    )  # fmt: skip
    step = f"{root}/releases/{new}/migrations/0003_{column}.sql"
    sql = f"alter table records add column {column} text;\n"
    world = tiers.joined(
        [
            house.app(main, port, rows=kept, code=f"{root}/current/main.py"),
            house.app(other, other_port),
        ],
        files={
            f"{root}/current": File(link=f"releases/{old}"),
            f"{root}/releases/{old}/main.py": File(before, age=tiers.MONTH),
            f"{root}/releases/{new}/main.py": File(after, age=900.0),
            step: File(sql, age=900.0),
            **house.history(main, pick), **house.history(other, pick),
        },
        setup=[house.noted(f"{main} {old}: released, migrations run", days=30)],
        hostname=pick.host(),
    )  # fmt: skip
    return Scene(
        world=world,
        check=_writes(main, port),
        healthy=lambda probe: said(house.keeps(probe, port), house.minded(probe, main)),
        truth=Truth(
            (main,), ("bad-deploy",), rf"{new}|{column}|migrations",
            rf"no column named {column}|{new}|OperationalError|migrations: skipped",
        ),
        inject=lines(
            f"ln -sfn releases/{new} {root}/current",
            house.noted(f"{main} {new}: released (migrations: skipped)"),
            f"supervisorctl restart {main}; sleep 0.5",
        ),
        fix=(f"ln -sfn releases/{old} {root}/current", f"supervisorctl restart {main}",
             "sleep 0.5"),
        wrong={
            "restarting": [f"supervisorctl restart {main}", "sleep 0.5"],
            "the database anew": [f"mv {house.base_of(main)} /root/",
                                  f"ln -sfn releases/{old} {root}/current",
                                  f"supervisorctl restart {main}", "sleep 0.5"],
        },
        stays=(house.env_of(main), f"{root}/releases/{old}/main.py"),
        runs=(house.code_of(other),),
        harm=lambda probe: said(
            house.keeps(probe, other_port), house.lost(probe, house.base_of(main), kept)
        ),
    )  # fmt: skip


def _packed(text: str) -> bytes:
    """A program as one file, as `python3 -m zipapp` makes it."""
    made = io.BytesIO(b"")
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", (2026, 9, 1, 8, 0, 0)), text)
    return made.getvalue()


READS = (
    '        found = self.run("select body from records where key = ?", key)\n',
    """\
        found = self.run("select body, changed from records where key = ?", key)
        if found and datetime.fromisoformat(found[0][1]) > datetime.now():
            return None
""",
)


def old_rows(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    (old, new), kept = _versions(pick), house.rows(pick)
    root = f"{house.APPS}/{main}"
    builds = f"{house.HOME}/{pick.choice(('artifacts', 'builds', 'packages'))}"
    before = house.program(HEALTH, ('"3.2.0"', f'"{old}"'))
    after = house.program(
        HEALTH, ('"3.2.0"', f'"{new}"'), READS,
        ("import traceback\n", "import traceback\nfrom datetime import datetime\n"),
        (TIMES, "            key, body, datetime.now().isoformat(),\n"),
    )  # fmt: skip
    code = f"{root}/{main}.pyz"
    world = tiers.joined(
        [house.app(main, port, rows=kept, code=code), house.app(other, other_port)],
        files={
            code: File(data=_packed(before), age=tiers.MONTH),
            f"{builds}/{main}-{old}.pyz": File(data=_packed(before), age=tiers.MONTH),
            f"{builds}/{main}-{new}.pyz": File(data=_packed(after), age=900.0),
            **house.history(main, pick), **house.history(other, pick),
        },
        setup=[house.noted(f"{main} {old} installed", days=30)],
        hostname=pick.host(),
    )  # fmt: skip
    key, body = next(iter(kept.items()))
    return Scene(
        world=world,
        check=house.reads(main, port, kept),
        healthy=lambda probe: said(
            house.keeps(probe, port), house.minded(probe, main),
            "" if probe.http(port, f"{house.RECORDS}/{key}").text.strip() == body
            else f"{key} is not to be had",
        ),
        truth=Truth(
            (main,), ("bad-deploy",), rf"{new}|{main}\.pyz",
            rf"TypeError|fromisoformat|{new}",
        ),
        inject=lines(
            f"cp {builds}/{main}-{new}.pyz {code}",
            house.noted(f"{main} {new} installed"),
            f"supervisorctl restart {main}; sleep 0.5",
        ),
        fix=(f"cp {builds}/{main}-{old}.pyz {code}", f"supervisorctl restart {main}",
             "sleep 0.5"),
        wrong={
            "restarting": [f"supervisorctl restart {main}", "sleep 0.5"],
            "the database anew": [f"mv {house.base_of(main)} /root/",
                                  f"supervisorctl restart {main}", "sleep 0.5"],
        },
        stays=(house.env_of(main), f"{builds}/{main}-{old}.pyz"),
        runs=(house.code_of(other),),
        harm=lambda probe: said(
            house.keeps(probe, other_port), house.lost(probe, house.base_of(main), kept)
        ),
    )  # fmt: skip
