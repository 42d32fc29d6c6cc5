"""A database that restarted, and a gateway that has struck all behind it off its list."""

from msgspec.structs import replace

from hermes_agent.incidents.drills import database, harbour, tiers, webshop
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import Truth


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
