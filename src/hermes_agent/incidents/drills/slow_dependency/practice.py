"""Waiting for others, in other houses."""

from hermes_agent.incidents.drills import porters, tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import Truth


def cache_gone(pick: Pick) -> Scene:
    """Without its cache, all goes to the archive, which was never quick."""
    api, archive, beside = pick.services(3)
    port, archive_port, beside_port, cache_port = pick.ports(4)
    cache = pick.choice(("memo", "hotkeys", "cachelet"))
    style, form = porters.any_style(pick), pick.choice(("environment", "env", "json"))
    log = pick.choice(("", f"/srv/{api}/log/current"))
    parts = [
        porters.porter(
            api, port, f"http://127.0.0.1:{archive_port}", form=form, style=style, log=log,
            more={"cache": f"kv://127.0.0.1:{cache_port}", "timeout": 9}, needs=[cache, archive],
        ),
        porters.lines(cache, cache_port, autorestart=False),
        porters.porter(archive, archive_port, f"/srv/{archive}/values", form="properties",
                       style=style, more={"delay": 1.2}, about="slow by nature: tape"),
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form="yaml", style=style),
    ]  # fmt: skip
    return Scene(
        world=tiers.joined(parts, hostname=pick.host()),
        check=porters.status(api, port, seconds=1.5),
        healthy=lambda probe: said(porters.quick(probe, port, 1.0)),
        truth=Truth(
            component=(cache,),
            category=("slow-dependency", "service-crash"),
            locus=f"{cache}|{cache_port}",
            evidence=f"{cache}|refused|cache",
        ),
        inject=lines(f"supervisorctl signal KILL {cache}"),
        fix=(f"supervisorctl start {cache}",),
        wrong={"restarting": [f"supervisorctl restart {api} {archive}"]},
        stays=(porters.settings_file(api, form), porters.settings_file(archive, "properties")),
        harm=lambda probe: said(probe.keeps(beside_port, "/v")),
    )
