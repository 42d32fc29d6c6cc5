"""Waiting for others, in other houses."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check
from hermes_agent.incidents.drills import porters, tiers
from hermes_agent.incidents.drills.box import Box
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


def one_of_two(pick: Pick) -> Scene:
    """nginx shares requests out to two of a kind, and one of them was told to take its time."""
    api, beside = pick.services(2)
    port, first, second, beside_port = pick.ports(4)
    style, form = porters.any_style(pick), pick.choice(("env", "json", "yaml"))
    late, delay = f"{api}-b", pick.choice((2.5, 3.1, 4))
    path = porters.settings_file(late, form)
    site = (
        f"upstream {api} {{\n    server 127.0.0.1:{first};\n    server 127.0.0.1:{second};\n}}\n"
        f"server {{\n    listen 127.0.0.1:{port};\n    location / {{\n"
        f"        proxy_pass http://{api};\n    }}\n}}\n"
    )
    shared = f"/srv/{api}/values"
    parts = [
        tiers.nginx({api: site}, [f"{api}-a", late], port),
        porters.porter(f"{api}-a", first, shared, form=form, style=style, more={"delay": 0}),
        porters.porter(late, second, shared, form=form, style=style, more={"delay": 0}),
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form="flags", style=style),
    ]
    one = f"curl -fsS -m 2 http://127.0.0.1:{port}/status"

    def inject(box: Box) -> None:
        box.run(f"mkdir -p /var/backups/{late} && cp -p {path} /var/backups/{late}/")
        box.run(rf"""sed -i -E 's/(delay"?[:=] ?"?)0/\1{delay}/I' {path}""")
        box.run(f"supervisorctl restart {late}")
        box.wait(f"tcp:{second}")

    return Scene(
        world=tiers.joined(parts, hostname=pick.host()),
        check=WatchedCheck(
            "nginx-answers", Check(f"{one} && {one} && {one} && {one}", timeout=10), "nginx",
            severity="P1",
        ),
        healthy=lambda probe: said(
            *(porters.quick(probe, each, 1.5) for each in (port, first, second))
        ),
        truth=Truth(
            component=(late,),
            category=("slow-dependency", "bad-config"),
            locus=rf"{path}|{late}|{second}|delay",
            evidence=rf"{late}|{second}|delay|DELAY|timed out",
        ),
        inject=inject,
        fix=(f"cp -p /var/backups/{late}/{path.rpartition('/')[2]} {path}",
             f"supervisorctl restart {late}"),
        wrong={"restarting": ["supervisorctl restart all"]},
        stays=("/etc/nginx", porters.settings_file(f"{api}-a", form)),
        harm=lambda probe: said(probe.keeps(beside_port, "/v")),
    )  # fmt: skip


def detour(pick: Pick) -> Scene:
    """Requests go to the mirror that is meant for reports, and was never quick."""
    api, beside = pick.services(2)
    port, near, far, beside_port = pick.ports(4)
    style, form = porters.any_style(pick), pick.choice(("json", "yaml", "properties"))
    path = porters.settings_file(api, form)
    kept = pick.choice((f"{path}.save", f"/var/backups/{api}/{path.rpartition('/')[2]}"))
    shared = f"/srv/{api}/values"
    parts = [
        porters.porter(api, port, f"http://127.0.0.1:{near}", form=form, style=style,
                       more={"timeout": 4}, needs=[f"{api}-near"]),
        porters.porter(f"{api}-near", near, shared, form="env", style=style),
        porters.porter(f"{api}-reports", far, shared, form="flags", style=style,
                       more={"delay": pick.choice((1.6, 1.9))}, about="for reports, not quick"),
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form="env", style=style),
    ]  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"mkdir -p {kept.rpartition('/')[0]} && cp -p {path} {kept}")
        box.run(f"sed -i 's/127.0.0.1:{near}/127.0.0.1:{far}/' {path}")
        box.run(f"supervisorctl restart {api}")
        box.wait(f"tcp:{port}")

    return Scene(
        world=tiers.joined(parts, hostname=pick.host()),
        check=porters.status(api, port, seconds=2),
        healthy=lambda probe: said(porters.quick(probe, port, 1.5)),
        truth=Truth(
            component=(api, f"{api}-reports"),
            category=("slow-dependency", "bad-config"),
            locus=rf"{path}|{far}|{api}-reports",
            evidence=rf"{far}|timed out|{api}-reports",
        ),
        inject=inject,
        fix=(f"cp -p {kept} {path}", f"supervisorctl restart {api}"),
        wrong={"restarting": ["supervisorctl restart all"]},
        stays=(f"/etc/default/{api}-near",),
        harm=lambda probe: said(probe.keeps(beside_port, "/v")),
    )
