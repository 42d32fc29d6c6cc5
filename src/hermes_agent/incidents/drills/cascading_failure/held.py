"""A database that was killed, and apps that were started while it was gone."""

from msgspec.structs import replace

from hermes_agent.incidents.drills import database, parts, tiers
from hermes_agent.incidents.drills import house_ha3 as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import Truth


def _kept_up(probe: Probe, *names: str) -> str:
    for name in names:
        if not parts.supervised(probe, name, house.TOP):
            return f"{name} is not under supervision"
    return ""


def gone_base(pick: Pick) -> Scene:
    main, second, other = pick.services(3)
    port, inner, second_port, other_port, base_port = pick.ports(5)
    store = house.Store(pick, main, base_port)
    server = store.server()
    server = replace(server, program=replace(server.program, autorestart=False))
    used = store.used_by(DATABASE_PREWARM="true")
    world = tiers.joined(
        [server,
         house.app(main, inner, used, needs=(database.NAME,), start_seconds=1),
         house.app(second, second_port, used, needs=(database.NAME,), start_seconds=1),
         house.app(other, other_port),
         tiers.nginx({main: house.site(port, f"http://127.0.0.1:{inner}")}, [main], port)],
        files={**house.weeks_ago(main, pick), **house.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"supervisorctl signal KILL {database.NAME}")
        box.wait(f"down:{base_port}")
        box.run(f"supervisorctl restart {main} {second}", check=False)
        fatal = f"supervisorctl status {main} {second} | grep -c FATAL"
        box.run(f"until [[ $({fatal}) = 2 ]]; do sleep 0.3; done", check=False, seconds=40)

    def healthy(probe: Probe) -> list[str]:
        found = house.serves(probe, port, second_port)
        return said(found, _kept_up(probe, main, second))

    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=healthy,
        truth=Truth(
            (database.NAME, store.name), ("cascading-failure", "service-crash"),
            rf"{database.NAME}|{base_port}|{store.name}|{database.DATA}",
            rf"{database.NAME} +(EXITED|STOPPED)|port {base_port} failed|boot failed|"
            rf"terminated by SIGKILL|exited: {database.NAME}",
        ),
        inject=inject,
        fix=(
            f"supervisorctl start {database.NAME}",
            f"until (exec 3<>/dev/tcp/127.0.0.1/{base_port}) 2>/dev/null; do sleep 0.2; done",
            f"supervisorctl start {main} {second}",
        ),
        wrong={
            "the app alone": [f"supervisorctl start {main}"],
            "the database alone": [f"supervisorctl start {database.NAME}"],
            "nginx is restarted": ["supervisorctl restart nginx"],
        },
        stays=(house.env_of(main), house.env_of(second), database.SETTINGS),
        harm=lambda probe: said(store.lost(probe), house.serves(probe, other_port)),
    )  # fmt: skip
