"""Of one account's server: nginx keeps the body of each request since somebody looked into an
upload, and a reader that lets no log of SQLite be cleared."""

from collections.abc import Callable

from msgspec.structs import replace

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import cabinets as house
from hermes_agent.incidents.drills import parts, tiers, yard
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Truth

SPARE = 0.25


def _takes(name: str, port: int) -> WatchedCheck:
    """The check of whoever sends: a record is taken."""
    run = (
        f"date +%s%N | curl -sS -m 3 -w ' %{{http_code}}' -X PUT --data-binary @- "
        f"http://127.0.0.1:{port}{house.RECORDS}/sent-by-monitoring"
    )
    return WatchedCheck(f"{name} takes records", Check(run, Expect(output="201$"), timeout=8.0),
                        name, severity="P1")  # fmt: skip


def _tight(probe: Probe, path: str) -> str:
    return f"{path} has hardly any room" if parts.free_share(probe, path) < SPARE else ""


def _keep(site: str, bodies: str, port: int) -> Callable[[Box], None]:
    """All bodies are kept, and many came."""

    def inject(box: Box) -> None:
        box.run(
            f"sed -i 's/^ *client_max_body_size.*/&\\n    client_body_in_file_only on;/' {site}"
        )
        box.run("nginx -s reload; sleep 0.4")
        for number in range(3):
            box.run(
                f"head -c 60000 /dev/urandom | base64 -w 100 | curl -s -X PUT --data-binary @- "
                f"http://127.0.0.1:{port}{house.RECORDS}/upload-{number}"
            )
        box.run(
            f"cd {bodies}; n=20; while head -c 190000 /dev/urandom > $(printf %010d $n); do "
            'touch -d "$((900 - n)) minutes ago" $(printf %010d $n); n=$((n+1)); done '
            "2>/dev/null; true"
        )

    return inject


def kept_bodies(pick: Pick) -> Scene:
    (main, other), (port, inner, other_port) = pick.services(2), pick.ports(3)
    root, bodies = "/var/cache/nginx", "/var/cache/nginx/client_temp"
    rows, site = house.Rows(pick), tiers.site_file(main)
    text = yard.proxy(port, f"http://127.0.0.1:{inner}", more="    client_max_body_size 20m;")
    made = tiers.nginx({main: text}, [main], port)
    main_conf = made.files["/etc/nginx/nginx.conf"]
    conf = replace(main_conf, text=main_conf.text.replace("/var/lib/nginx/body", bodies))
    made = replace(made, files={**made.files, "/etc/nginx/nginx.conf": conf})
    assets = f"{root}/assets/bundle-{pick.token(8)}.bin"
    mb = pick.size(9, 15)
    world = tiers.joined(
        [house.app(main, inner, rows), house.app(other, other_port), made],
        files={
            **house.weeks_ago(main, pick), **house.weeks_ago(other, pick),
            assets: File(size=mb * 2**18, age=9e5),
            f"{house.HOME}/{main}/storage/dump-2025.sql": File(size=6 << 20, age=9e6),
        },
        mounts=(Mount(root, mb=mb),),
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        wrong = house.saves(probe, port)
        was = len(probe.names(bodies))
        probe.http(port, f"{house.RECORDS}/one-more", "PUT", b"more")
        more = len(probe.names(bodies)) > was
        return said(wrong, _tight(probe, root), "bodies of requests are kept" if more else "")

    return Scene(
        world=world,
        check=_takes(main, port),
        healthy=healthy,
        truth=Truth(
            ("nginx", main), ("disk-full", "bad-config"),
            rf"{bodies}|client_body_in_file_only|{site}",
            rf"client_body_in_file_only|{bodies}|100% +{root}",
        ),
        inject=_keep(site, bodies, port),
        fix=(f"sed -i /client_body_in_file_only/d {site}", "nginx -t && nginx -s reload",
             f"sleep 0.4; rm -f {bodies}/0*"),
        wrong={
            "nginx is restarted": ["supervisorctl restart nginx"],
            "the bodies are only removed": [f"rm -f {bodies}/0*"],
            "the big files go": [f"rm {assets} {house.HOME}/{main}/storage/dump-2025.sql"],
        },
        stays=(assets, f"{house.HOME}/{main}/storage/dump-2025.sql", house.env_of(main)),
        harm=lambda probe: said(rows.lost(probe, inner), house.saves(probe, other_port)),
    )  # fmt: skip


EXPORT = """import sqlite3
import sys
import time

# Sends all records to the partner. They allow two requests a minute.
base = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
for key, value in base.execute("select key, value from records order by key"):
    time.sleep(30)
    print(key, len(value), flush=True)
"""
CHANGING = """import sqlite3, sys
base = sqlite3.connect(sys.argv[1], isolation_level=None)
for row in (sys.argv[2:4], ["daily", ""]):
    base.execute("insert or replace into records values (?, ?)", row)
for size in (60000, 2000):
    try:
        while True:
            base.execute("update records set value = randomblob(?) where key = 'daily'", (size,))
    except sqlite3.OperationalError:
        pass
"""


def long_reader(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    rows, latest, token = house.Rows(pick, spare=600_000), f"r{pick.token(5)}", pick.token(30)
    root, base = f"{house.HOME}/{main}/storage", house.base_of(main)
    name, mb = f"{pick.word()}.py", pick.size(8, 14)
    script, scans = f"{house.HOME}/{main}/bin/{name}", f"{root}/scans-{pick.token(4)}.tar"
    world = tiers.joined(
        [house.app(main, port, rows, {"JOURNAL_MODE": "wal"}), house.app(other, other_port)],
        files={
            **house.weeks_ago(main, pick), **house.weeks_ago(other, pick),
            script: File(EXPORT, age=tiers.MONTH), scans: File(size=mb * 2**18, age=9e6),
        },
        mounts=(Mount(root, mb=mb),),
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        log = f"{house.HOME}/{main}/log/{name}.out"
        box.spawn(f"exec python3 {script} {base} >> {log} 2>&1")
        box.run("sleep 0.6")
        box.write("/root/.c", CHANGING)
        box.run(f"python3 /root/.c {base} {latest} {token}; rm /root/.c")

    def lost(probe: Probe) -> str:
        got = probe.http(port, f"{house.RECORDS}/{latest}")
        return "" if got.text == token else f"{latest} is lost"

    return Scene(
        world=world,
        check=_takes(main, port),
        healthy=lambda probe: said(house.saves(probe, port), _tight(probe, root)),
        truth=Truth(
            (main, name, name.removesuffix(".py"), script), ("disk-full",),
            rf"sqlite3-wal|{name}|{script}",
            rf"100% +{root}|sqlite3-wal|bin/{name}",
        ),
        inject=inject,
        fix=(f"pkill -f bin/{name}", f"sqlite3 {base} 'pragma wal_checkpoint(truncate)'"),
        wrong={
            "it is restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "the big file goes": [f"rm {scans}"],
            "what is to be written goes": [
                f"rm {base}-wal {base}-shm; supervisorctl restart {main}; sleep 0.5"
            ],
        },
        stays=(scans, house.env_of(main), script),
        harm=lambda probe: said(
            rows.lost(probe, port), lost(probe), house.saves(probe, other_port)
        ),
    )  # fmt: skip
