"""An index that was dropped as unused, and a page that needs it; an nginx between two apps that
lets through less than they ask for."""

from hermes_agent.incidents.drills import database, tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Program, Truth

ACCOUNTS, VISITS = 900, 60_000


def _late(probe: Probe, port: int, path: str, lines: int, most: float = 1.0) -> str:
    reply = probe.http(port, path, timeout=3.0)
    if reply.status != 200 or len(reply.text.splitlines()) != lines:
        return f"{path}: {reply.error or reply.status}"
    return f"{path} took {reply.seconds:.1f} s" if reply.seconds > most else ""


def _visited(store: house.Store, many: str, index: str) -> tiers.Part:
    """A server with a table of accounts and a larger one of what they did."""
    return store.server(
        f"create table accounts as select n as id from generate_series(1, {ACCOUNTS}) n",
        f"create table {many} as select n as id, n % {ACCOUNTS} + 1 as account, n * 7 as at, "
        f"n % 40 as place from generate_series(1, {VISITS}) n",
        f"create index {index} on {many} (account, at)",
        f"create index {many}_place_idx on {many} (place)",
        f"analyze {many}",
        "analyze accounts",
        log_min_duration_statement="'500ms'",
        max_parallel_workers_per_gather=0,
        jit="off",
    )


def lost_index(pick: Pick) -> Scene:
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    store = house.Store(pick, main, base_port)
    many = pick.choice(("visits", "readings", "shipments"))
    index = f"{many}_account_at_idx"
    release = f"202611{pick.size(10, 15)}"
    step = f"/var/www/{main}/releases/{release}/migrate/{release}_drop_unused_indexes.sql"
    summary = (
        f"select a.id, (select max(at) from {many} v where v.account = a.id) as last "
        "from accounts a order by a.id"
    )
    used = store.used_by(SUMMARY_SQL=summary, DATABASE_TIMEOUT_MS=1500)
    world = tiers.joined(
        [_visited(store, many, index),
         house.app(main, port, used, release=release, needs=(database.NAME,)),
         house.app(other, other_port)],
        files={**house.weeks_ago(main, pick), **house.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        drops = f"drop index {many}_place_idx;\ndrop index {index};\n"
        box.write(step, f"-- nobody seems to use these\n{drops}")
        box.run(f"{store.psql} -f {step}")

    def healthy(probe: Probe) -> list[str]:
        return said(house.serves(probe, port), _late(probe, port, "/summary", ACCOUNTS))

    def harm(probe: Probe) -> list[str]:
        rows = store.ask(probe, f"select count(*) from {many}")
        return said(
            store.lost(probe), "" if rows == str(VISITS) else f"rows of {many}: {rows}",
            house.serves(probe, other_port),
        )  # fmt: skip

    env = house.env_of(main)
    return Scene(
        world=world,
        check=house.up(main, port, path="/summary", word="HTTP 200"),
        healthy=healthy,
        truth=Truth(
            (database.NAME, store.name, main, many), ("slow-dependency", "bad-deploy"),
            rf"{many}|{index}|drop_unused_indexes", rf"Seq Scan|{many}|{index}",
        ),
        inject=inject,
        fix=(f'{store.psql} -c "create index {index} on {many} (account, at)"',),
        wrong={
            "the app is restarted": [f"supervisorctl restart {main}"],
            "it waits longer": [
                f"sed -i 's/^DATABASE_TIMEOUT_MS=.*/DATABASE_TIMEOUT_MS=60000/' {env}",
                f"supervisorctl restart {main}",
            ],
            "the database is restarted": [
                f"supervisorctl restart {database.NAME}", f"supervisorctl restart {main}",
            ],
        },
        stays=(env, house.env_of(other)),
        harm=harm,
    )  # fmt: skip


CALLS = """import sys
import threading
import time
import urllib.request

url, threads = sys.argv[1], int(sys.argv[2])


def call():
    while True:
        try:
            with urllib.request.urlopen(url, timeout=120) as reply:
                reply.read()
        except OSError as error:
            print(error, flush=True)
        time.sleep(2)


for _ in range(threads):
    threading.Thread(target=call, daemon=True).start()
    time.sleep(0.1)
threading.Event().wait()
"""


def narrow_rate(pick: Pick) -> Scene:
    (front, store, other), (port, middle, inner, other_port) = pick.services(3), pick.ports(4)
    caller, kept = f"{pick.word()}-pull", house.records(store, pick)
    threads, rate = pick.size(12, 16), pick.choice((60, 80, 100))
    code, path = f"/var/www/{caller}/pull.py", tiers.site_file(store)
    zone = f"limit_req_zone $binary_remote_addr zone={store}:1m rate={rate}r/s;\n"
    text = house.site(
        middle, f"http://127.0.0.1:{inner}", top=zone,
        inside=f"        limit_req zone={store} burst=200;\n",
    )  # fmt: skip
    url = f"http://127.0.0.1:{middle}{house.RECORDS}/{next(iter(kept)).rpartition('/')[2]}"
    calling = tiers.Part(
        Program(
            name=caller, command=f"python3 {code} {url} {threads}", needs=(store,),
            about=f"fetches records of {store} for the partners; must go on",
        ),
        {code: File(CALLS, age=tiers.MONTH)},
    )  # fmt: skip
    back = {"BACKEND_URL": f"http://127.0.0.1:{middle}", "BACKEND_TIMEOUT": 1.2}
    world = tiers.joined(
        [house.app(store, inner), tiers.nginx({store: text}, [store], middle),
         house.app(front, port, back, needs=("nginx", store)), calling,
         house.app(other, other_port)],
        files={**kept, **house.weeks_ago(front, pick), **house.weeks_ago(store, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"cp -p {path} /root/{store}.conf.old")
        box.run(f"sed -i 's/rate={rate}r.s/rate=2r\\/s/' {path}; nginx -s reload")

    def healthy(probe: Probe) -> list[str]:
        reply = probe.http(port, "/up", timeout=3.0)
        late = reply.status != 200 or reply.seconds > 1.0
        return said(house.serves(probe, port), "/up is late" if late else "")

    env = house.env_of(front)
    return Scene(
        world=world,
        check=house.up(front, port),
        healthy=healthy,
        truth=Truth(
            ("nginx", store), ("slow-dependency", "bad-config"), rf"limit_req|rate|{path}|{store}",
            r"rate=2r/s|limit_req|delaying request|limiting requests",
        ),
        inject=inject,
        fix=(f"sed -i 's/rate=2r.s/rate={rate}r\\/s/' {path}", "nginx -t && nginx -s reload"),
        wrong={
            "restarting": [f"supervisorctl restart {store} {front}"],
            "waiting longer": [
                f"sed -i 's/^BACKEND_TIMEOUT=.*/BACKEND_TIMEOUT=60/' {env}",
                f"supervisorctl restart {front}",
            ],
            "who asks most is stopped": [f"supervisorctl stop {caller}; sleep 8"],
        },
        stays=(*kept, env, house.env_of(store)),
        runs=(code,),
        harm=lambda probe: said(house.serves(probe, other_port)),
    )  # fmt: skip
