"""More processes of an app than the database has connections for; reports of each minute that all
wait for an archive."""

from hermes_agent.incidents.drills import crontab, database, tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth


def _limit(probe: Probe, store: house.Store, most: int) -> str:
    found = store.ask(probe, "show max_connections")
    return "" if found == str(most) else f"the server's limit is {found} now"


def _taken(probe: Probe, store: house.Store, name: str, most: int) -> str:
    sql = f"select count(*) from pg_stat_activity where application_name = '{name}'"
    found = store.ask(probe, sql)
    well = found.isdecimal() and int(found) <= most
    return "" if well else f"{name} has {found} connections"


def more_workers(pick: Pick) -> Scene:
    (web, api, other), (web_port, port, other_port, base_port) = pick.services(3), pick.ports(4)
    most, pool = pick.size(16, 20), pick.size(3, 4)
    workers = most // pool + 2
    store = house.Store(pick, web, base_port)
    env = house.env_of(web)
    settings = {"WEB_CONCURRENCY": 2, "DATABASE_POOL": pool, "DATABASE_PREWARM": "true"}
    world = tiers.joined(
        [store.server(max_connections=most),
         house.app(web, web_port, store.used_by(**settings), needs=(database.NAME,)),
         house.app(api, port, store.used_by(DATABASE_POOL=2), needs=(database.NAME,)),
         house.app(other, other_port)],
        files={**house.weeks_ago(api, pick), **house.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"supervisorctl stop {api}")
        box.run(
            f"cp -p {env} {env}.orig; "
            f"sed -i 's/^WEB_CONCURRENCY=.*/WEB_CONCURRENCY={workers}/' {env}"
        )
        box.run(f"supervisorctl restart {web}")
        one = f"{store.psql.replace('-U postgres', '-U app')} -c 'select 1'"
        box.run(f"while {one} >/dev/null 2>&1; do sleep 0.2; done", seconds=60)
        box.run(f"supervisorctl start {api}")
        box.wait(f"tcp:{port}")

    def healthy(probe: Probe) -> list[str]:
        return said(
            house.serves(probe, port, web_port), _taken(probe, store, web, most - 3 - 4),
        )  # fmt: skip

    return Scene(
        world=world,
        check=house.up(api, port),
        healthy=healthy,
        truth=Truth(
            (web, database.NAME), ("pool-exhausted", "bad-config"),
            rf"WEB_CONCURRENCY|{env}|{web}",
            rf"WEB_CONCURRENCY={workers}|{web}.*(idle|\|)|worker \(pid|boot failed: FATAL",
        ),
        inject=inject,
        fix=(f"cp -p {env}.orig {env}", f"supervisorctl restart {web}"),
        wrong={
            "who cannot connect is restarted": [f"supervisorctl restart {api}"],
            "a higher limit": [
                f"sed -i 's/^max_connections = .*/max_connections = 200/' {database.SETTINGS}",
                f"supervisorctl restart {database.NAME}; sleep 1",
                f"supervisorctl restart {web} {api}",
            ],
            "the others are stopped": [f"supervisorctl stop {web}"],
        },
        stays=(house.env_of(api), database.SETTINGS),
        harm=lambda probe: said(
            _limit(probe, store, most), store.lost(probe), house.serves(probe, other_port)
        ),
    )  # fmt: skip


UPLOAD = """import http.client
import sys

port, path = int(sys.argv[1]), sys.argv[2]
key = path.rpartition("/")[2].replace(".", "-").replace("_", "-")
line = http.client.HTTPConnection("127.0.0.1", port)
with open(path, "rb") as file:
    line.request("PUT", f"/api/records/{key}", file.read())
print(line.getresponse().status)
"""


def _reporting(job: str, store: house.Store, archive: int) -> dict[str, File]:
    """What cron runs: a report, and on to the archive."""
    home, psql = f"/var/www/{job}", store.psql.replace("-U postgres", "-U app")
    texts = {
        "report.sh": f"export PGAPPNAME={job}\nexec {psql} -q -f {home}/report.sql\n",
        "report.sql": f"\\o {home}/out/report\nselect count(*) from {store.table};\n\\o\n"
        f"\\! python3 {home}/upload.py {archive} {home}/out/report\nselect now();\n",
        "upload.py": UPLOAD,
    }
    return {f"{home}/{name}": File(text, age=tiers.MONTH) for name, text in texts.items()}


def piled_reports(pick: Pick) -> Scene:
    (main, archive, other), (port, inner, other_port, base_port) = pick.services(3), pick.ports(4)
    most, word = pick.size(14, 18), pick.word()
    store, job = house.Store(pick, main, base_port), f"{word}-report"
    home = f"/var/www/{job}"
    script, step = f"{home}/report.sh", f"{home}/report.sql"
    psql = store.psql.replace("-U postgres", "-U app")
    table = f"PATH=/opt/bin:/usr/bin:/bin\n* * * * * root bash {script}\n"
    world = tiers.joined(
        [store.server(max_connections=most), crontab.cron({job: table}),
         house.app(main, port, store.used_by(DATABASE_POOL=2), needs=(database.NAME,)),
         house.app(archive, inner), house.app(other, other_port)],
        files={
            **_reporting(job, store, inner), **house.weeks_ago(main, pick),
            **house.weeks_ago(other, pick),
        },
        folders={f"{home}/out": 0o755},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"supervisorctl stop {main}; supervisorctl signal STOP {archive}")
        one = f"{psql} -c 'select 1' >/dev/null 2>&1"
        box.spawn(f"while {one}; do setsid bash {script} & sleep 0.3; done; touch /run/full")
        box.wait("file:/run/full", seconds=30)
        box.run(f"rm /run/full; supervisorctl start {main}")
        box.wait(f"tcp:{port}")

    def healthy(probe: Probe) -> list[str]:
        return said(
            house.serves(probe, port, timeout=1.5),
            house.serves(probe, inner, timeout=1.0),
            _taken(probe, store, job, 3),
        )  # fmt: skip

    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=healthy,
        truth=Truth(
            (archive, job, database.NAME),
            ("pool-exhausted", "cascading-failure", "slow-dependency"),
            rf"{job}|{archive}|{inner}|{script}|upload\.py", rf"{job}|upload\.py",
        ),
        inject=inject,
        fix=(f"supervisorctl restart {archive}",),
        wrong={
            "who cannot connect is restarted": [f"supervisorctl restart {main}"],
            "only those who wait are ended": [f"pkill -f {home}/upload.p[y]"],
            "a higher limit": [
                f"sed -i 's/^max_connections = .*/max_connections = 200/' {database.SETTINGS}",
                f"supervisorctl restart {database.NAME}; sleep 1",
                f"supervisorctl restart {main}",
            ],
        },
        stays=(house.env_of(main), house.env_of(archive), database.SETTINGS, script, step),
        harm=lambda probe: said(
            _limit(probe, store, most), store.lost(probe), house.serves(probe, other_port)
        ),
    )  # fmt: skip
