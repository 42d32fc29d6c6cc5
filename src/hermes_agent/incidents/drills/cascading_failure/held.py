"""A task that nobody can do, a worker that falls over it each time, and an intake that is full."""

import json

from msgspec.structs import replace

from hermes_agent.incidents.drills import database, harbour, tiers, webshop
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


def _balanced(port: int, inner: tuple[int, ...], minutes: int) -> str:
    servers = "".join(
        f"    server 127.0.0.1:{one} max_fails=1 fail_timeout={minutes}m;\n" for one in inner
    )
    return (
        f"upstream parcels {{\n{servers}}}\n\nserver {{\n    listen 127.0.0.1:{port};\n"
        "    location / {\n        proxy_pass http://parcels;\n"
        "        proxy_next_upstream error timeout http_502 http_503;\n    }\n}\n"
    )


def no_live_upstreams(pick: Pick) -> Scene:
    """The database fell, the apps said so, and nginx will not ask them again for long."""
    (main, other), (port, first, second, other_port, base_port) = pick.services(2), pick.ports(5)
    store, minutes = webshop.Store(pick, main, base_port), pick.choice((20, 30, 60))
    used, apps = harbour.in_base(store), (f"{main}-1", f"{main}-2")
    server = store.server()
    server = replace(server, program=replace(server.program, autorestart=False))
    site = _balanced(port, (first, second), minutes)
    world = tiers.joined(
        [server, *(harbour.app(name, inner, used, needs=(database.NAME,))
                   for name, inner in zip(apps, (first, second), strict=True)),
         harbour.app(other, other_port), tiers.nginx({main: site}, apps, port)],
        files={**harbour.weeks_ago(apps[0], pick), **harbour.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    ask = f"curl -s -m 3 http://127.0.0.1:{port}/actuator/health"

    def inject(box: Box) -> None:
        box.run(f"supervisorctl signal KILL {database.NAME}")
        box.wait(f"down:{base_port}")
        box.run(f"for n in 1 2 3; do {ask}; sleep 0.2; done", check=False)

    path = tiers.site_file(main)
    return Scene(
        world=world,
        check=harbour.health("nginx", port, name=main),
        healthy=lambda probe: said(harbour.stores(probe, port, first, second)),
        truth=Truth(
            (database.NAME, store.name), ("cascading-failure", "service-crash"),
            rf"{database.NAME}|{base_port}|{store.name}|fail_timeout|{path}",
            rf"{database.NAME} +(EXITED|STOPPED)|no live upstreams|port {base_port} failed|"
            rf"SIGKILL|exited: {database.NAME}|fail_timeout",
        ),
        inject=inject,
        fix=(
            f"supervisorctl start {database.NAME}",
            f"until (exec 3<>/dev/tcp/127.0.0.1/{base_port}) 2>/dev/null; do sleep 0.2; done",
            "sleep 1; nginx -s reload; sleep 0.5",
        ),
        wrong={
            "the database alone": [f"supervisorctl start {database.NAME}; sleep 1"],
            "nginx alone": ["supervisorctl restart nginx; sleep 0.5"],
            "the apps are restarted": [f"supervisorctl restart {apps[0]} {apps[1]}; sleep 1"],
        },
        stays=(*map(harbour.settings_of, apps), database.SETTINGS),
        harm=lambda probe: said(store.lost(probe), harbour.stores(probe, other_port)),
    )  # fmt: skip
