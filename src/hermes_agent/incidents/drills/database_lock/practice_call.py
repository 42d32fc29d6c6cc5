"""A settlement that keeps a table locked while it waits for the gateway of a bank."""

import time

from hermes_agent.incidents.drills import database, harbour, tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Program, Truth

GATEWAY = '''"""Takes payments in, one after the other."""
import http.server
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"ok\\n")


print("ready", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
'''

SETTLING = '''"""Settles what is open: nobody may book meanwhile, and the gateway must agree."""
import sys
import time
import urllib.request

from pgline import DatabaseError, Line

url, table, gateway, name = sys.argv[1:5]
while True:
    try:
        line = Line(url, name)
        while True:
            line.query("begin")
            line.query(f"lock table {table} in share row exclusive mode")
            urllib.request.urlopen(gateway).read()
            line.query("commit")
            with open(f"/data/{name}/settled", "w") as file:
                file.write(f"{time.time()}\\n")
            time.sleep(1.5)
    except (DatabaseError, OSError) as error:
        print(time.strftime("%F %T"), "settling failed:", error, flush=True)
        time.sleep(0.5)
'''


def _settling(name: str, store: house.Store, gateway: str, port: int) -> list[tiers.Part]:
    """Who settles, and the gateway that is asked meanwhile."""
    code, own = f"/data/{name}/settle.py", f"/data/{gateway}/gateway.py"
    url = f"http://127.0.0.1:{port}/agree"
    return [
        tiers.Part(
            Program(name=name, command=f"python3 {code} {store.url} {store.table} {url} {name}",
                    needs=(database.NAME, gateway), ready=f"file:/data/{name}/settled",
                    about=f"settles every few seconds with {gateway}; must go on"),
            {code: File(SETTLING, age=tiers.MONTH),
             f"/data/{name}/pgline.py": File(tiers.program_text("pgline.py"), age=tiers.MONTH)},
        ),
        tiers.Part(
            Program(name=gateway, command=f"python3 {own} {port}", ready=f"tcp:{port}",
                    about="to the bank, one request after the other"),
            {own: File(GATEWAY, age=tiers.MONTH)},
        ),
    ]  # fmt: skip


def _settles(probe: Probe, name: str) -> str:
    when = probe.text(f"/data/{name}/settled").strip()
    return "" if when and time.time() - float(when) < 6 else f"{name} does not settle"


def across_a_call(pick: Pick) -> Scene:
    """A lock is held while somebody else is asked, who does not answer any more."""
    (main, other), ports = pick.services(2), pick.ports(4)
    port, base_port, other_port, gateway_port = ports
    store, gateway = (
        house.Store(pick, main, base_port),
        f"{pick.choice(('bank', 'pay', 'giro'))}-gw",
    )
    worker = f"{main}-{pick.choice(('settle', 'clearing', 'payout'))}"
    conf = harbour.settings_of(main)
    world = tiers.joined(
        [store.server(), harbour.app(main, port, harbour.in_base(store), needs=(database.NAME,)),
         *_settling(worker, store, gateway, gateway_port), harbour.app(other, other_port)],
        files={**harbour.weeks_ago(main, pick), **harbour.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.spawn(f"exec 3<>/dev/tcp/127.0.0.1/{gateway_port}; exec sleep 86400 <&3")
        sql = (
            "select count(*) from pg_stat_activity where state = 'idle in transaction' "
            f"and application_name = '{worker}' and xact_start < now() - interval '2 s'"
        )
        box.run(f'until [[ $({store.psql} -Atc "{sql}") > 0 ]]; do sleep 0.2; done', seconds=30)

    def healthy(probe: Probe) -> list[str]:
        return said(harbour.stores(probe, port), _settles(probe, worker))

    ended = f'{store.psql} -c "select pg_terminate_backend(pid) from pg_stat_activity where '
    return Scene(
        world=world,
        check=harbour.health(main, port),
        healthy=healthy,
        truth=Truth(
            (worker, gateway, database.NAME, store.name, store.table),
            ("database-lock", "slow-dependency"),
            rf"{worker}|{gateway}|{gateway_port}|{store.table}|pid:? ?\d+|^\d+$",
            rf"{worker}|idle in transaction|ShareRowExclusive|{gateway}|{gateway_port}",
        ),
        inject=inject,
        fix=(f"supervisorctl restart {gateway}", "sleep 3"),
        wrong={
            "the app is restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "the session is ended": [f"{ended} application_name = '{worker}'\"; sleep 6"],
            "who settles is restarted": [f"supervisorctl restart {worker}; sleep 7"],
            "who settles is stopped": [f"supervisorctl stop {worker}; sleep 7"],
            "it waits longer": [
                f"echo spring.datasource.statement-timeout-ms=60000 >> {conf}",
                f"supervisorctl restart {main}; sleep 1",
            ],
        },
        stays=(conf, f"/data/{worker}/settle.py", f"/data/{gateway}/gateway.py",
               database.SETTINGS),
        runs=(f"/data/{worker}/settle.py", f"/data/{gateway}/gateway.py"),
        harm=lambda probe: said(store.lost(probe), harbour.stores(probe, other_port)),
    )  # fmt: skip
