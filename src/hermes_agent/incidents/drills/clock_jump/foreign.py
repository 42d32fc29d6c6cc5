"""A database whose clock shows local time."""

import time

from hermes_agent.incidents.drills import database, tiers, vhosts
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import Truth

TABLES = (
    "create table pages (key text primary key, body text)",
    "insert into pages select 'page' || n, md5('page' || n) from generate_series(1, 30) n",
    "create table sessions (token text primary key, made timestamptz default now())",
    "alter table sessions add column begins timestamp default localtimestamp",
    "alter table sessions add column ends timestamp default localtimestamp + interval '9 min'",
)

HUP = f"supervisorctl signal HUP {database.NAME}; sleep 0.5"


def _session(probe: Probe, port: int, base: str) -> str:
    """Why sessions do not begin now; empty when they do."""
    sql = "select extract(epoch from begins) from sessions order by made desc limit 1"
    told = database.ask(probe, port, base, sql)
    try:
        off = float(told) - time.time()
    except ValueError:
        return f"sessions: {told}"
    return f"sessions begin {off:+.0f} s from now" if abs(off) > 30 else ""


def _pages_lost(probe: Probe, port: int, base: str) -> str:
    sql = "select count(*) from pages where key like 'page%' and body = md5(key)"
    found = database.ask(probe, port, base, sql)
    return "" if found == "30" else f"pages: {found}"


def zone_of_the_base(pick: Pick) -> Scene:
    """The database counts in local time since its settings came from another server."""
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    base, conf = f"{main}_{pick.token(3)}", vhosts.conf_of(main)
    far = pick.choice(("America/Chicago", "Asia/Tokyo", "America/Sao_Paulo", "Asia/Kolkata"))
    where = f"postgres://app@127.0.0.1:{base_port}/{base}"
    world = tiers.joined(
        [
            database.postgres(base_port, base, TABLES),
            vhosts.site(main, port, {"kind": "database", "url": where},
                        {"sessions": {"leeway": 60}}, needs=(database.NAME,)),
            vhosts.site(other, other_port, environment={"TZ": "Europe/Lisbon"}),
        ],
        files={**vhosts.months_ago(main, pick), **vhosts.months_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    return Scene(
        world=world,
        check=vhosts.sound(main, port),
        healthy=lambda probe: said(
            vhosts.writes(probe, port), _session(probe, base_port, base)
        ),
        truth=Truth(
            (database.NAME,), ("clock-jump", "bad-config"),
            rf"(?i){database.SETTINGS}|time ?zone|{far}",
            rf"(?i){far}|session \w+ (ended|begins) at|(?<!log_)timezone ?=",
        ),
        inject=lines(
            f"sed -i \"s#^timezone = .*#timezone = '{far}'#; s/^shared_buffers.*/shared_buffers = "
            f"9MB/; s/^max_connections.*/max_connections = 21/\" {database.SETTINGS}",
            f"supervisorctl restart {database.NAME}; sleep 1",
        ),
        fix=(f"sed -i \"s#^timezone = .*#timezone = 'UTC'#\" {database.SETTINGS}", HUP),
        wrong={
            "both are restarted": [f"supervisorctl restart {database.NAME} {main}; sleep 1"],
            "more leeway": [f"sed -i 's/^leeway.*/leeway = 9999999/' {conf}",
                            f"supervisorctl restart {main}; sleep 0.5"],
            "the site moves there": [
                f"sed -i 's#^command=#command=env TZ={far} #' /etc/supervisor/conf.d/{main}.conf",
                "supervisorctl update; sleep 1",
            ],
        },
        stays=(conf, f"{vhosts.TOP}/{main}/app/folio.py", vhosts.conf_of(other)),
        harm=lambda probe: said(
            vhosts.writes(probe, other_port), _pages_lost(probe, base_port, base)
        ),
    )  # fmt: skip
