"""One falls and others with it, in other houses."""

from msgspec import structs

from hermes_agent.incidents.drills import porters, tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth


def breaker(pick: Pick) -> Scene:
    """The breaker of the one in the middle opened while the lowest was down, and stays open."""
    edge, middle, beside = pick.services(3)
    (
        port,
        middle_port,
        beside_port,
        store_port,
    ) = pick.ports(4)
    store = pick.choice(("keydb", "lineserver", "blobd"))
    style = porters.any_style(pick)
    parts = [
        porters.porter(edge, port, f"http://127.0.0.1:{middle_port}", form="json", style=style,
                       more={"timeout": 2}, needs=[middle]),
        porters.porter(middle, middle_port, f"http://127.0.0.1:{middle_port + 1}", form="flags",
                       style=style, more={"breaker": 3, "timeout": 2}, needs=[f"{store}-api"]),
        porters.porter(f"{store}-api", middle_port + 1, f"kv://127.0.0.1:{store_port}", form="env",
                       style=style, needs=[store]),
        porters.lines(store, store_port, autorestart=False),
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form="yaml", style=style),
    ]  # fmt: skip
    return Scene(
        world=tiers.joined(parts, hostname=pick.host()),
        check=porters.status(edge, port),
        healthy=lambda probe: said(
            *(probe.keeps(one, "/v") for one in (port, middle_port, middle_port + 1))
        ),
        truth=Truth(
            component=(store,),
            category=("cascading-failure",),
            locus=f"{store}|{store_port}",
            evidence=rf"{store}|{store_port}|breaker|refused",
        ),
        inject=lines(
            f"supervisorctl signal KILL {store}",
            *[f"curl -s -m 3 http://127.0.0.1:{port}/status; sleep 0.1"] * 6,
        ),
        fix=(f"supervisorctl start {store}", f"supervisorctl restart {middle}"),
        wrong={
            "the lowest alone": [f"supervisorctl start {store}"],
            "the others alone": [f"supervisorctl restart {middle} {edge}"],
        },
        stays=(porters.settings_file(edge, "json"), f"/etc/{store}.conf"),
        harm=lambda probe: said(probe.keeps(beside_port, "/v")),
    )


def dead_connections(pick: Pick) -> Scene:
    """The store fell and was started anew at once; whoever had connections to it still has the
    dead ones."""
    edge, api, beside = pick.services(3)
    port, api_port, beside_port, store_port = pick.ports(4)
    store = pick.choice(("queue", "tablet", "memstore"))
    style, form = porters.any_style(pick), pick.choice(("json", "env", "properties"))
    parts = [
        porters.porter(edge, port, f"http://127.0.0.1:{api_port}", form="flags", style=style,
                       more={"timeout": 2}, needs=[api]),
        porters.porter(api, api_port, f"kv://127.0.0.1:{store_port}", form=form, style=style,
                       more={"reconnect": "no", "pool": 2}, needs=[store]),
        porters.lines(store, store_port),
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form="yaml", style=style),
    ]  # fmt: skip
    touch = f"curl -s -m 3 http://127.0.0.1:{port}/status"
    return Scene(
        world=tiers.joined(parts, hostname=pick.host()),
        check=porters.status(edge, port),
        healthy=lambda probe: said(*(probe.keeps(one, "/v") for one in (port, api_port))),
        truth=Truth(
            component=(store, api),
            category=("cascading-failure",),
            locus=f"{store}|{api}|{store_port}",
            evidence=f"{store}|{store_port}|{api}|pipe|closed",
        ),
        inject=lines(
            *[touch] * 3, "sleep 4", f"supervisorctl signal KILL {store}", "sleep 2", *[touch] * 4
        ),
        fix=(f"supervisorctl restart {api}",),
        wrong={"the store again": [f"supervisorctl restart {store}"],
               "the edge": [f"supervisorctl restart {edge}"]},
        stays=(porters.settings_file(api, form), f"/etc/{store}.conf"),
        harm=lambda probe: said(probe.keeps(beside_port, "/v")),
    )  # fmt: skip


def base_first(pick: Pick) -> Scene:
    """The lowest fell; what is started only where it answers ended as well."""
    edge, api, beside = pick.services(3)
    port, base_port, api_port, beside_port = pick.ports(4)
    base, style = pick.choice(("ledgerdb", "rowstore")), porters.any_style(pick)
    below = porters.porter(
        api, api_port, f"kv://127.0.0.1:{base_port}", form="env", style=style, needs=[base],
        autorestart=False,
    )  # fmt: skip
    start = below.program.command
    script = (
        f"#!/bin/bash\nfor n in 1 2 3 4 5 6 7 8; do\n"
        f"  (exec 3<>/dev/tcp/127.0.0.1/{base_port}) 2>/dev/null && exec {start}.real\n"
        f"  sleep 0.5\ndone\necho 'FATAL {base} not available, exiting'\nexit 3\n"
    )
    files = {**below.files, start: File(script, mode=0o755, age=tiers.MONTH),
             f"{start}.real": below.files[start]}  # fmt: skip
    parts = [
        porters.porter(edge, port, f"http://127.0.0.1:{api_port}", form="json", style=style,
                       needs=[api]),
        porters.lines(base, base_port, autorestart=False),
        structs.replace(below, files=files),
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form="yaml", style=style),
    ]  # fmt: skip
    return Scene(
        world=tiers.joined(parts, hostname=pick.host()),
        check=porters.status(edge, port),
        healthy=lambda probe: said(*(probe.keeps(one, "/v") for one in (port, api_port))),
        truth=Truth(
            component=(base,),
            category=("cascading-failure",),
            locus=f"{base}|{base_port}",
            evidence=f"{base}|{api}|refused|available",
        ),
        inject=lines(
            f"supervisorctl signal KILL {base}", "sleep 0.5", f"supervisorctl restart {api}",
            f"until supervisorctl status {api} | grep -q EXITED; do sleep 0.2; done",
        ),
        fix=(f"supervisorctl start {base}", "sleep 1", f"supervisorctl start {api}"),
        wrong={"the lowest alone": [f"supervisorctl start {base}"]},
        stays=(start, f"/etc/default/{api}", f"/etc/{base}.conf"),
        harm=lambda probe: said(probe.keeps(beside_port, "/v")),
    )  # fmt: skip
