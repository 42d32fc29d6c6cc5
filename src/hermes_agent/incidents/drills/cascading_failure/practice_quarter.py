"""A task that nobody can do, a worker that falls over it each time, and an intake that is full."""

import json

from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills import workshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import Truth

TAKES = '                draft = self.server.spool / "inbox" / f".{key}"\n'

LIMITED = """\
                waiting = len(list((self.server.spool / "inbox").glob("*.json")))
                if waiting >= int(os.environ.get("INBOX_LIMIT", "40")):
                    self.server.log.say("ERROR", f"{key} turned away, inbox is full: {waiting}")
                    return 503, f"Service Unavailable: inbox is full, {waiting} are waiting"
"""

PLACES = ("/home", "/root", "/tmp", "/var/tmp", "/var/backups", "/var/spool", "/opt", "/srv")  # noqa: S108 in a box


def _task(item: str, price: object) -> str:
    return json.dumps({"lines": [{"item": item, "count": 2, "price": price}]})


def _nowhere(probe: Probe, key: str) -> str:
    found = any(key in path for place in PLACES for path in probe.tree(place))
    return "" if found else f"task {key} is nowhere"


def poison(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    worker, spool = f"{main}-{pick.choice(('biller', 'packer'))}", f"{house.HOME}/spool/{main}"
    inbox, env = f"{spool}/inbox", house.env_of(main)
    most, bad = pick.size(25, 45), f"{pick.size(1000, 9999)}-{pick.token(5)}"
    waiting = [f"{pick.size(1000, 9999)}-{pick.token(5)}" for _ in range(most)]
    kept, limited = house.rows(pick), house.program((TAKES, LIMITED + TAKES))
    world = tiers.joined(
        [house.app(main, port, {"SPOOL": spool, "INBOX_LIMIT": most}, rows=kept, text=limited,
                   needs=(worker,)),
         house.worker(worker, spool, start_seconds=5), house.app(other, other_port)],
        files={**house.history(main, pick), **house.history(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.write(f"{inbox}/{bad}.json", _task(f"part {bad[-3:]}", f"{most},50"))
        fatal = f"supervisorctl status {worker} | grep -q FATAL"
        box.run(f"until {fatal}; do sleep 0.2; done", seconds=90)
        for key in waiting[1:]:
            box.write(f"{inbox}/{key}.json", _task(f"part {key[-3:]}", 120))

    def healthy(probe: Probe) -> list[str]:
        left = [name for name in probe.names(inbox) if name.endswith(".json")]
        return said(
            house.does(probe, port), house.minded(probe, worker),
            f"{len(left)} tasks wait" if len(left) > 3 else "",
        )  # fmt: skip

    def harm(probe: Probe) -> list[str]:
        there = {*probe.names(inbox), *probe.names(f"{spool}/done")}
        lost = [key for key in waiting[1:] if f"{key}.json" not in there]
        return said(
            f"{len(lost)} tasks are not done" if lost else "",
            _nowhere(probe, bad), house.keeps(probe, other_port),
            house.lost(probe, house.base_of(main), kept),
        )  # fmt: skip

    return Scene(
        world=world,
        check=house.works(main, port),
        healthy=healthy,
        truth=Truth(
            (worker, main), ("cascading-failure", "service-crash"),
            rf"{worker}|{bad}|{inbox}|intake\.py",
            rf"ValueError|invalid literal for int|{bad}|{worker} +FATAL",
        ),
        inject=inject,
        fix=(f"mkdir -p {spool}/failed && mv {inbox}/{bad}.json {spool}/failed/",
             f"supervisorctl start {worker}", "sleep 1"),
        wrong={
            "the worker again": [f"supervisorctl start {worker}; sleep 3"],
            "a larger inbox": [f"sed -i 's/^INBOX_LIMIT=.*/INBOX_LIMIT=9999/' {env}",
                               f"supervisorctl restart {main}; sleep 0.5"],
            "an empty inbox": [f"rm -f {inbox}/*.json", f"supervisorctl start {worker}; sleep 1"],
            "the intake is restarted": [f"supervisorctl restart {main}"],
        },
        stays=(env, house.env_of(worker), house.env_of(other)),
        harm=harm,
    )  # fmt: skip
