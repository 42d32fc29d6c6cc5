"""The supervisor's own page is where a service should be."""

from hermes_agent.incidents.drills import bakery, tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.port_conflict.practice_quarter import GIVEN_UP
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

SUPERVISOR = "/etc/supervisor/supervisord.conf"


def web_panel(pick: Pick) -> Scene:
    (main, other), (port, other_port, free) = pick.services(2), pick.ports(3)
    kept, more = bakery.orders(pick), bakery.orders(pick)
    world = tiers.joined(
        [bakery.counter(main, port, kept), bakery.counter(other, other_port, more)],
        files={
            **bakery.months_ago(main, pick), **bakery.months_ago(other, pick),
            "/var/log/changes.log": File(f"2026-09-22 {other}: reviewed, no change\n"),
        },
        hostname=pick.host(),
    )  # fmt: skip
    page = f"[inet_http_server]\\nport=127.0.0.1:{port}\\nusername=ops\\npassword={pick.token(9)}"
    again = "supervisorctl reload; sleep 4"
    return Scene(
        world=world,
        check=bakery.is_open(main, port),
        healthy=lambda probe: said(
            bakery.takes(probe, port), bakery.lost(probe, port, kept), bakery.minded(probe, main)
        ),
        truth=Truth(
            (main, "supervisor", "supervisord"), ("port-conflict", "bad-config"),
            rf"{SUPERVISOR}|inet_http_server|supervisord|(pid|process) 1\b(?!\d)",
            rf"in use|LISTEN.*:{port}\b|inet_http_server",
        ),
        inject=lines(
            f"printf '\\n{page}\\n' >> {SUPERVISOR}",
            'echo "$(date +%F) supervisor: page for the shop added" >> /var/log/changes.log',
            f"supervisorctl reload; sleep 1; {GIVEN_UP.format(main)}",
        ),
        fix=(f"sed -i 's/^port=127.0.0.1:{port}$/port=127.0.0.1:{free}/' {SUPERVISOR}", again),
        wrong={
            "it is only started again": [f"supervisorctl start {main}"],
            "only the file": [f"sed -i '/inet_http_server/,$d' {SUPERVISOR}",
                              f"supervisorctl restart {main}"],
            "it is moved to another port": [
                f"sed -i 's/:{port}$/:{free}/' {bakery.conf_of(main)}",
                f"supervisorctl restart {main}",
            ],
        },
        stays=(bakery.conf_of(main), bakery.conf_of(other), bakery.CODE),
        harm=lambda probe: said(
            bakery.takes(probe, other_port), bakery.lost(probe, other_port, more)
        ),
    )  # fmt: skip
