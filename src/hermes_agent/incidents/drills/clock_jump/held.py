"""A clock that is kept in step with a machine which lives in another time, and a database whose
clock shows local time."""

import re
import time
from email.utils import parsedate_to_datetime

from hermes_agent.incidents.drills import cabinets as house
from hermes_agent.incidents.drills import database, tiers, vhosts
from hermes_agent.incidents.drills.needs import find
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth

TOLERANCE = 5.0
DAEMON = "webclock"
CONF = "/etc/webclock.conf"
STEP = "/var/lib/webclock/step"
LOG = "/var/log/webclock.log"


def _off(probe: Probe, name: str, port: int) -> str:
    date = probe.http(port, "/up").headers.get("Date", "")
    if not date:
        return f"the clock of {name} is not told"
    off = parsedate_to_datetime(date).timestamp() - time.time()
    return f"the clock of {name} is off by {off:+.0f} s" if abs(off) > TOLERANCE else ""


def _source(probe: Probe) -> str:
    """Why the daemon does not follow a clock that is right; empty when it does."""
    found = re.search(r"(?m)^\s*source\s+http://[\w.]+:(\d+)", probe.text(CONF))
    return _off(probe, "the source", int(found[1])) if found else "the daemon has no source"


def _daemon(source: int) -> tiers.Part:
    code = "/opt/webclock/webclock.py"
    text = (
        f"# whose Date header we keep in step with\nsource http://127.0.0.1:{source}/up\n"
        f"every 1\nstep {STEP}\nlog {LOG}\n"
    )
    return tiers.Part(
        Program(
            name=DAEMON, command=f"python3 {code} {CONF}", ready=f"file:{STEP}",
            about=f"keeps the clock in step with a web server; settings {CONF}, log {LOG}",
        ),
        {
            code: File(tiers.program_text("webclock.py"), age=tiers.MONTH),
            CONF: File(text, age=tiers.MONTH),
            STEP: File("+0\n"),
        },
        {"/var/lib/webclock": 0o755},
    )  # fmt: skip


def wrong_source(pick: Pick) -> Scene:
    """The daemon that keeps the clock follows the machine of the testers."""
    (web, auth, other, lab), ports = pick.services(4), pick.ports(4)
    port, auth_port, other_port, lab_port = ports
    rows, secret, tests = house.Rows(pick), pick.token(32), f"{lab}-{pick.choice(('qa', 'uat'))}"
    shift = f"{pick.choice('+-')}{pick.size(2, 40)}{pick.choice('hd')}"
    faked = {"LD_PRELOAD": find("faketime") or ""}
    kept = {**faked, "FAKETIME_TIMESTAMP_FILE": STEP, "FAKETIME_NO_CACHE": "1"}
    world = tiers.joined(
        [
            house.app(other, other_port),
            _daemon(other_port),
            house.app(auth, auth_port, None, {"AUTH_SECRET": secret, "TICKET_SECONDS": 300},
                      environment=kept, needs=(DAEMON,),
                      about=f"gives out tickets; settings {house.env_of(auth)}"),
            house.app(web, port, rows, {"AUTH_URL": f"http://127.0.0.1:{auth_port}",
                                        "AUTH_SECRET": secret}, needs=(auth,)),
            house.app(tests, lab_port, environment={**faked, "FAKETIME": shift},
                      about="for the testers, who set its clock as they need it"),
        ],
        files={**house.weeks_ago(web, pick), **house.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    good, bad = f"source http://127.0.0.1:{other_port}/up", f"source http://127.0.0.1:{lab_port}/up"
    entry = f"/etc/supervisor/conf.d/{tests}.conf"
    return Scene(
        world=world,
        check=house.is_up(web, port),
        healthy=lambda probe: said(
            house.saves(probe, port), _off(probe, auth, auth_port), _off(probe, web, port),
            _source(probe),
        ),
        truth=Truth(
            (DAEMON, auth), ("clock-jump", "bad-config"), rf"{CONF}|{STEP}|{DAEMON}|:{lab_port}",
            rf"(?i)stepping|{bad}|\bdate: |is [+-]?\d+ s off|faketime",
        ),
        inject=lines(
            f"sed -i 's|^{good}|#{good}\\n{bad}|' {CONF}",
            f"supervisorctl restart {DAEMON}",
            f"for n in $(seq 40); do grep -qx '+0' {STEP} || break; sleep 0.1; done",
        ),
        fix=(f"sed -i '\\|^{bad}|d; s|^#source|source|' {CONF}", f"supervisorctl restart {DAEMON}",
             "sleep 1.5"),
        wrong={
            "both are restarted": [f"supervisorctl restart {auth} {web}; sleep 0.5"],
            "the step is taken back": [f"echo +0 > {STEP}; sleep 0.2"],
            "the daemon is stopped": [f"supervisorctl stop {DAEMON}; echo +0 > {STEP}; sleep 0.3"],
            "more leeway": [
                f"echo AUTH_LEEWAY=99999999 >> {house.env_of(web)}",
                f"supervisorctl restart {web}; sleep 0.5",
            ],
            "the testers' clock is set": [
                f"sed -i 's/FAKETIME=\"{shift}\"/FAKETIME=\"+0\"/' {entry}",
                "supervisorctl update; sleep 2",
            ],
        },
        stays=(house.env_of(web), house.env_of(auth), entry),
        runs=("/opt/webclock/",),
        harm=lambda probe: said(rows.lost(probe, port), house.saves(probe, other_port)),
    )  # fmt: skip


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
