"""In another house: clients that occupy every slot of a service, and a role of PostgreSQL that may
hardly connect any more."""

from hermes_agent.incidents.drills import database, tiers, yard
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Program, Truth

SLOW = '''
class Slow(Depot):
    """GET /v1/notes/export-N reads N seconds long."""

    def get(self, key: str) -> bytes:
        if not key.startswith("export-"):
            return super().get(key)
        time.sleep(float(key.removeprefix("export-")))
        return b"exported\\n"


if __name__ == "__main__":
    run(Slow)
'''
OCCUPYING = """import sys
import threading
import time
import urllib.request


def ask(url):
    while True:
        try:
            urllib.request.urlopen(url, timeout=600).read()
        except OSError:
            time.sleep(0.1)


for _ in range(int(sys.argv[2])):
    threading.Thread(target=ask, args=(sys.argv[1],)).start()
"""


def occupied(pick: Pick) -> Scene:
    (main, other, front), (port, other_port, front_port) = pick.services(3), pick.ports(3)
    slots = pick.size(6, 10)
    person, word = pick.words(2)
    script = f"/home/{person}/{word}-{pick.token(4)}.py"
    name = script.rpartition("/")[2]
    kept = yard.notes(main, pick)
    world = tiers.joined(
        [yard.depot(main, port, {"slots": slots}, code=yard.program(SLOW)),
         yard.depot(front, front_port, {"backend": f"http://127.0.0.1:{port}"}, needs=(main,)),
         yard.depot(other, other_port)],
        files={**kept, **yard.days_ago(other, pick), script: File(OCCUPYING, age=8000.0)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        url = f"http://127.0.0.1:{port}{yard.NOTES}/export-900"
        box.spawn(f"exec python3 {script} {url} {slots * 3}")

    def healthy(probe: Probe) -> list[str]:
        asks = any(script in process.command for process in probe.processes())
        return said(yard.stores(probe, front_port), f"{script} still asks" if asks else "")

    return Scene(
        world=world,
        check=yard.passes(front, front_port),
        healthy=healthy,
        truth=Truth(
            (main, name, script), ("pool-exhausted",), rf"{name}|slots",
            rf"all slots are in use|{name}|export-900",
        ),
        inject=inject,
        fix=(f"kill $(pgrep -f '[/]{name}')", f"supervisorctl restart {main}"),
        wrong={
            "restarting": [f"supervisorctl restart {main} {front}; sleep 0.6"],
            "more slots": [
                f"sed -i 's/^slots = .*/slots = 500/' {yard.settings_of(main)}",
                f"supervisorctl restart {main}; sleep 0.4",
            ],
        },
        stays=(*kept, *map(yard.settings_of, (main, front, other))),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip


def _courier(base: yard.Base, name: str) -> tiers.Part:
    """A worker with one connection."""
    code, place = f"/opt/{name}/bin/courier.py", f"/opt/{name}/courier.ini"
    where = f"127.0.0.1:{base.port}/{base.name} app"
    text = tiers.configuration(name, {"database": where, "connections": 1})
    return tiers.Part(
        Program(
            name=name, command=f"python3 {code} {place}", needs=(database.NAME,),
            about="carries rows on, over one connection; must go on",
        ),
        {
            code: File(tiers.program_text("courier.py"), age=tiers.MONTH),
            place: File(text, age=tiers.MONTH),
        },
    )  # fmt: skip


def by_role(pick: Pick) -> Scene:
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    base, most = yard.Base(pick, main, base_port), pick.size(6, 9)
    worker, stray = (f"{word}-{pick.token(3)}" for word in pick.words(2))
    world = tiers.joined(
        [
            base.server(
                f"alter role app connection limit {most}", settings={"max_connections": 40}
            ),
            base.service(main, port, pool=3),
            _courier(base, worker),
            yard.depot(other, other_port),
        ],
        files=yard.days_ago(other, pick),
        hostname=pick.host(),
    )
    taken = f"select count(*) from pg_stat_activity where application_name = '{stray}'"

    def inject(box: Box) -> None:
        box.run(f"supervisorctl stop {main}")
        for _ in range(most - 1):
            box.spawn(base.session(stray, "begin; select 1;", "app"))
        full = f'$({base.psql} -c "{taken}") -ge {most - 1}'
        box.run(f"until [[ {full} ]]; do sleep 0.1; done", seconds=20)
        box.run(f"supervisorctl start {main}")
        box.wait(f"tcp:{port}")

    def healthy(probe: Probe) -> list[str]:
        count = base.ask(probe, taken)
        return said(probe.keeps(port), "" if count == "0" else f"{stray} holds {count}")

    def harm(probe: Probe) -> list[str]:
        limit = base.ask(probe, "select rolconnlimit from pg_roles where rolname = 'app'")
        raised = "" if limit == str(most) else f"app may now have {limit} connections"
        return said(yard.stores(probe, other_port), base.lost(probe), raised)

    return Scene(
        world=world,
        check=tiers.answers(main, port),
        healthy=healthy,
        truth=Truth(
            (database.NAME, stray, base.name), ("pool-exhausted",), rf"{stray}|\bapp\b",
            rf"too many connections for role|{stray}|idle in transaction",
        ),
        inject=inject,
        fix=(base.ended(stray),),
        wrong={
            "restarting the services": [f"supervisorctl restart {main} {worker}"],
            "a higher limit": [
                f"{base.psql} -c 'alter role app connection limit -1'",
                f"supervisorctl restart {main}",
            ],
        },
        stays=(tiers.configured(main), f"/opt/{worker}/courier.ini"),
        runs=(f"/opt/{worker}/bin/courier.py",),
        harm=harm,
    )  # fmt: skip
