"""A database that was killed, and apps that were started while it was gone; a store that was
killed, and an nginx that remembers the errors."""

from msgspec.structs import replace

from hermes_agent.incidents.drills import database, parts, tiers
from hermes_agent.incidents.drills import webshop as house
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
         house.app(main, inner, used, needs=(database.NAME,), start_seconds=5),
         house.app(second, second_port, used, needs=(database.NAME,), start_seconds=5),
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
        box.run(f"until [[ $({fatal}) = 2 ]]; do sleep 0.3; done", check=False, seconds=120)

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


def _caching(name: str, port: int, target: int, cache: str, hours: int) -> str:
    return house.site(
        port,
        f"http://127.0.0.1:{target}",
        top=f"proxy_cache_path {cache} levels=1 keys_zone={name}:1m;\n",
        inside=f"        proxy_cache {name};\n        proxy_cache_valid 200 1s;\n"
        f"        proxy_cache_valid any {hours}h;\n"
        "        add_header X-Cache $upstream_cache_status always;\n",
    )


def kept_errors(pick: Pick) -> Scene:
    (front, store, other), (port, middle, inner, other_port) = pick.services(3), pick.ports(4)
    cache, hours = f"/var/cache/nginx/{front}", pick.size(2, 9)
    kept = house.records(store, pick)
    world = tiers.joined(
        [house.app(store, inner, autorestart=False),
         house.app(front, middle, {"BACKEND_URL": f"http://127.0.0.1:{inner}"}, needs=(store,)),
         tiers.nginx({front: _caching(front, port, middle, cache, hours)}, [front], port),
         house.app(other, other_port)],
        files={**kept, **house.weeks_ago(front, pick), **house.weeks_ago(other, pick)},
        folders={cache: 0o755},
        hostname=pick.host(),
    )  # fmt: skip
    old = f"{house.RECORDS}/{next(iter(kept)).rpartition('/')[2]}"

    def inject(box: Box) -> None:
        box.run(f"supervisorctl signal KILL {store}")
        box.wait(f"down:{inner}")
        for path in ("/up", old, "/up"):
            box.run(f"curl -s -m 3 http://127.0.0.1:{port}{path}", check=False)

    def healthy(probe: Probe) -> list[str]:
        codes = {path: probe.http(port, path).status for path in ("/up", old)}
        bad = {path: code for path, code in codes.items() if code != 200}
        return said(
            house.serves(probe, port), f"what is given out: {bad}" if bad else "",
            _kept_up(probe, store, front),
        )  # fmt: skip

    site = tiers.site_file(front)
    return Scene(
        world=world,
        check=house.up(front, port),
        healthy=healthy,
        truth=Truth(
            (store, "nginx"), ("cascading-failure", "service-crash"),
            rf"{store}|{cache}|proxy_cache", rf"{store} +(EXITED|STOPPED)|X-Cache: HIT|"
            rf"proxy_cache_valid any|SIGKILL|exited: {store}|{cache}",
        ),
        inject=inject,
        fix=(
            f"supervisorctl start {store}",
            f"until (exec 3<>/dev/tcp/127.0.0.1/{inner}) 2>/dev/null; do sleep 0.2; done",
            f"rm -rf {cache}/*",
        ),
        wrong={
            "the store alone": [f"supervisorctl start {store}"],
            "the front alone": [f"supervisorctl restart {front}; sleep 1", f"rm -rf {cache}/*"],
            "everything is restarted": [f"supervisorctl restart {store} {front} nginx; sleep 1"],
        },
        stays=(*kept, house.env_of(front), house.env_of(store)),
        harm=lambda probe: said(
            house.serves(probe, other_port),
            "" if f"http://127.0.0.1:{middle}" in probe.text(site) else f"{site} leads elsewhere",
        ),
    )  # fmt: skip
