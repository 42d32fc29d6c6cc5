"""A gateway with too few connections for those who follow the feed."""

import re

from hermes_agent.incidents.drills import harbour, tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Program, Truth

FOLLOWING = '''"""Scanners: each follows the feed, and calls again when it ends."""
import http.client
import sys
import threading
import time


def follow(port):
    while True:
        try:
            asked = http.client.HTTPConnection("127.0.0.1", port, timeout=4000)
            asked.request("GET", "/feed")
            asked.getresponse().read()
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.7)


for _ in range(int(sys.argv[2])):
    threading.Thread(target=follow, args=(int(sys.argv[1]),), daemon=True).start()
    time.sleep(0.02)
threading.Event().wait()
'''

NGINX = "/etc/nginx/nginx.conf"


def few_connections(pick: Pick) -> Scene:
    """nginx was told to have fewer connections than those who stay on the line take."""
    (main, other), (port, inner, other_port) = pick.services(2), pick.ports(3)
    scanners, count = f"{pick.choice(('hall', 'dock', 'gate'))}-scanners", pick.size(14, 22)
    few, kept, code = (
        2 * pick.size(9, 13),
        harbour.parcels(main, pick),
        f"/data/{scanners}/follow.py",
    )
    site = house.site(
        port, f"http://127.0.0.1:{inner}", inside="        proxy_read_timeout 4000s;\n"
    )
    follows = tiers.Part(
        Program(name=scanners, command=f"python3 {code} {port} {count}", needs=("nginx",),
                about=f"{count} scanners that follow the feed of {main}; must go on"),
        {code: File(FOLLOWING, age=tiers.MONTH)},
    )  # fmt: skip
    world = tiers.joined(
        [harbour.app(main, inner), tiers.nginx({main: site}, [main], port), follows,
         harbour.app(other, other_port)],
        files={**kept, **harbour.weeks_ago(main, pick), **harbour.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"sed -i 's/worker_connections .*;/worker_connections {few};/' {NGINX}")
        box.run("supervisorctl restart nginx; sleep 2.5")

    def healthy(probe: Probe) -> list[str]:
        told = re.search(r"worker_connections\s+(\d+)", probe.text(NGINX))
        enough = told is not None and int(told[1]) > 2 * count + 4
        served = [harbour.stores(probe, port) for _ in range(3)]
        return said(*served, "" if enough else "nginx may have too few connections")

    change = f"sed -i 's/worker_connections .*;/worker_connections {{}};/' {NGINX}"
    return Scene(
        world=world,
        check=harbour.health("nginx", port, name=main),
        healthy=healthy,
        truth=Truth(
            ("nginx", main), ("pool-exhausted", "bad-config"), rf"worker_connections|{NGINX}",
            r"worker_connections",
        ),
        inject=inject,
        fix=(change.format(512), "nginx -t && nginx -s reload; sleep 1"),
        wrong={
            "the app is restarted": [f"supervisorctl restart {main}; sleep 2.5"],
            "nginx is restarted": ["supervisorctl restart nginx; sleep 2.5"],
            "the scanners are stopped": [f"supervisorctl stop {scanners}; sleep 1"],
            "a little more": [change.format(few + 4), "supervisorctl restart nginx; sleep 2.5"],
        },
        stays=(*kept, tiers.site_file(main), harbour.settings_of(main), code),
        runs=(code,),
        harm=lambda probe: said(harbour.stores(probe, other_port)),
    )  # fmt: skip
