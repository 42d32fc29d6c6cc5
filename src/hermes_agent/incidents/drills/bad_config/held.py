"""Settings that name a port at which nobody is, and a value whose unit nginx does not know."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import bakery, tiers, troves, workshop
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

UNITS = (
    ("client_max_body_size", "12m", "12MB"),
    ("client_body_timeout", "20s", "20sec"),
    ("proxy_read_timeout", "1m", "1min"),
    ("keepalive_timeout", "45s", "45 sec"),
    ("client_body_buffer_size", "64k", "64kB"),
)
GIVEN_UP = "until supervisorctl status {} | grep -q FATAL || ((SECONDS > 25)); do sleep 0.2; done"
ROLLED_OUT = "/var/log/rollout.log"

SITE = """upstream {name} {{
    server 127.0.0.1:{inner};
}}

server {{
    listen 127.0.0.1:{port};
    include {snippet};
    location / {{
        proxy_pass http://{name};
    }}
}}
"""


def wrong_backend(pick: Pick) -> Scene:
    """As `upstream`: a rollout wrote settings with a port at which nobody listens; here of the
    service itself, which asks another for its entries, with no nginx and no copy of before."""
    (main, store, other), ports = pick.services(3), pick.ports(4)
    port, inner, other_port, nobody = ports
    front = troves.house(pick, main, port)
    behind, beside = troves.house(pick, store, inner), troves.house(pick, other, other_port)
    kept, more = troves.entries(behind, pick), troves.entries(beside, pick)
    place, file = next(iter(kept.items()))
    key, text = place.rpartition("/")[2], file.text.strip()
    world = tiers.joined(
        [
            troves.trove(behind), troves.trove(beside),
            troves.trove(front, {"backend": f"http://127.0.0.1:{inner}"}, needs=(store,)),
        ],
        files={
            **kept, **more,
            ROLLED_OUT: File(f"2026-10-12 08:30 {other}: settings written anew\n"),
        },
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        found = text in probe.http(port, f"/v1/{key}").text
        return said(*troves.keeps(probe, port), "" if found else f"entry {key} is not to be had")

    again = f"supervisorctl restart {main}; sleep 0.7"
    run = f"curl -fsS -m 4 http://127.0.0.1:{port}/up"
    return Scene(
        world=world,
        check=WatchedCheck(f"{main} up", Check(run, Expect(output="up"), timeout=8.0), main,
                           severity="P1"),
        healthy=healthy,
        truth=Truth((main,), ("bad-config",), rf"{front.config}|backend", rf"\b{nobody}\b"),
        inject=lines(
            f"sed -i 's/:{inner}\\b/:{nobody}/' {front.config}",
            f"echo \"$(date '+%F %H:%M') {main}: settings written anew\" >> {ROLLED_OUT}",
            again,
        ),
        fix=(f"sed -i 's/:{nobody}/:{inner}/' {front.config}", again),
        wrong={
            "restarting": [f"supervisorctl restart {main} {store}; sleep 0.7"],
            "another is asked": [f"sed -i 's/:{nobody}/:{other_port}/' {front.config}", again],
        },
        stays=(*kept, *more, behind.config, beside.config, front.code),
        runs=(behind.code, beside.code),
        harm=lambda probe: troves.keeps(probe, other_port),
    )  # fmt: skip


def wrong_unit(pick: Pick) -> Scene:
    """As `bad-value`: a value was written with a unit that the server does not know, and it does
    not start with it; here nginx in front of counters, in a snippet that two sites include."""
    (main, other), (port, inner, other_port, second) = pick.services(2), pick.ports(4)
    setting, good, bad = pick.choice(UNITS)
    snippet = f"/etc/nginx/snippets/{pick.choice(('limits', 'uploads', 'common'))}.conf"
    kept, more = bakery.orders(pick), bakery.orders(pick)
    sites = {
        main: SITE.format(name=main, inner=inner, port=port, snippet=snippet),
        other: SITE.format(name=other, inner=other_port, port=second, snippet=snippet),
    }
    text = f"# for all counters\nsend_timeout 30s;\n{setting} {good};\ntcp_nodelay on;\n"
    notes = "/etc/nginx/CHANGES"
    world = tiers.joined(
        [
            bakery.counter(main, inner, kept), bakery.counter(other, other_port, more),
            workshop.nginx(sites, (main, other), port, start_seconds=1),
        ],
        files={
            snippet: File(text, age=tiers.MONTH),
            notes: File("2026-06-30 send_timeout for slow tills\n"),
            **bakery.months_ago(main, pick), **bakery.months_ago(other, pick),
        },
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        return said(
            bakery.takes(probe, port, second), bakery.lost(probe, port, kept),
            workshop.minded(probe, "nginx", "/etc"),
        )  # fmt: skip

    again = "supervisorctl restart nginx; sleep 1"
    return Scene(
        world=world,
        check=bakery.is_open(main, port),
        healthy=healthy,
        truth=Truth(
            ("nginx",), ("bad-config",), rf"{snippet}|{setting}",
            rf"invalid value|invalid number of arguments|emerg|{setting} {bad}",
        ),
        inject=lines(
            f"sed -i 's/^{setting} .*/{setting} {bad};/' {snippet}",
            f"echo \"$(date +%F) {setting} as the supplier of the tills says\" >> {notes}",
            again,
            GIVEN_UP.format("nginx"),
        ),
        fix=(f"sed -i 's/^{setting} .*/{setting} {good};/' {snippet}", "nginx -t", again),
        wrong={
            "restarting": [f"supervisorctl restart nginx {main}; sleep 1"],
            "without the site": [f"rm {tiers.site_file(other)}", again],
            "around nginx": [
                "supervisorctl stop nginx",
                f"sed -i 's/:{inner}$/:{port}/' {bakery.conf_of(main)}",
                f"supervisorctl restart {main}; sleep 1",
            ],
        },
        stays=(bakery.conf_of(main), bakery.conf_of(other), "/etc/nginx/nginx.conf"),
        harm=lambda probe: said(bakery.takes(probe, other_port)),
    )  # fmt: skip
