"""What is asked for each note though once an hour would do."""

from hermes_agent.incidents.drills import tiers, yard
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth

HOOK = """#!/bin/bash
# Looks at a note before it is stored: notes that contain a signature are refused.
. CONF
list=/var/lib/NAME/signatures
age=$(( $(date +%s) - $(stat -c %Y "$list") ))
if [ "$age" -ge "$REFRESH_SECONDS" ]; then
    curl -fsS -m 4 -o "$list.$$" "$MIRROR/signatures" && mv "$list.$$" "$list"
fi
body=$(cat; echo x)
if grep -qFf "$list" <<<"$body"; then
    echo "refused: the note contains a signature" >&2
    exit 1
fi
printf %s "${body%x}"
"""

MIRROR = '''"""Hands out signatures, one client after the other. Made for a few requests an hour."""
import http.server
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(float(sys.argv[3]))
        body = open(sys.argv[2], "rb").read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
'''

CONF = """# where signatures are from
MIRROR=http://127.0.0.1:{}
# how long a list is good for; people have it at half an hour to two hours
REFRESH_SECONDS={}
"""


def _mirror(name: str, port: int, seconds: float, signatures: str) -> tiers.Part:
    code, listed = f"/srv/{name}/mirror.py", f"/srv/{name}/signatures"
    return tiers.Part(
        Program(
            name=name,
            command=f"python3 {code} {port} {listed} {seconds}",
            ready=f"tcp:{port}",
            about="hands out signatures; not quick",
        ),
        {code: File(MIRROR, age=tiers.MONTH), listed: File(signatures, age=tiers.MONTH)},
    )


def each_time(pick: Pick) -> Scene:
    """Somebody wanted the newest signatures at once, and left it so: each note waits for them."""
    front, store, other = pick.services(3)
    port, store_port, other_port, mirror_port = pick.ports(4)
    scan = pick.choice(("notescan", "cleansweep", "guardhook"))
    mirror, bad = f"{scan}-mirror", f"X5-{pick.token(14)}"
    conf, hook = f"/etc/{scan}.conf", f"/opt/{scan}/libexec/{scan}"
    listed, code = f"/srv/{mirror}/signatures", f"/srv/{mirror}/mirror.py"
    usual, kept = pick.choice((1800, 3600, 7200)), yard.notes(store, pick)
    text = HOOK.replace("CONF", conf).replace("NAME", scan)
    signatures = f"{bad}\nX5-EICAR-{pick.token(9)}\n"
    slow = pick.choice((1.8, 2.0, 2.3))
    world = tiers.joined(
        [yard.depot(store, store_port, {"hook": hook}),
         yard.depot(front, port, {"backend": f"http://127.0.0.1:{store_port}"}, needs=(store,)),
         yard.depot(other, other_port),
         _mirror(mirror, mirror_port, slow, signatures)],
        files={
            **kept, **yard.days_ago(front, pick), **yard.days_ago(other, pick),
            hook: File(text, mode=0o755, age=tiers.MONTH),
            f"/var/lib/{scan}/signatures": File(signatures, age=200.0),
            conf: File(CONF.format(mirror_port, usual), age=tiers.MONTH),
        },
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        reply = probe.http(port, "/status", timeout=4.0)
        late = reply.status != 200 or reply.seconds > 1.0
        passed = probe.http(port, f"{yard.NOTES}/probe-x5", "PUT", f"a {bad} b".encode())
        return said(
            yard.stores(probe, port), "the status is late" if late else "",
            "notes are not looked at" if passed.status in (200, 201) else "",
        )  # fmt: skip

    settings = yard.settings_of(front)
    return Scene(
        world=world,
        check=yard.passes(front, port),
        healthy=healthy,
        truth=Truth(
            (scan, store, mirror), ("slow-dependency", "bad-config"),
            rf"{conf}|{hook}|REFRESH_SECONDS|{scan}|{mirror_port}",
            rf"REFRESH_SECONDS=0|GET /signatures|{mirror_port}|{scan}",
        ),
        inject=lines(f"sed -i 's/^REFRESH_SECONDS=.*/REFRESH_SECONDS=0/' {conf}"),
        fix=(f"sed -i 's/^REFRESH_SECONDS=.*/REFRESH_SECONDS={usual}/' {conf}",),
        wrong={
            "restarting": [f"supervisorctl restart {front} {store} {mirror}; sleep 0.5"],
            "waiting longer": [f"echo 'backend_timeout = 30' >> {settings}",
                               f"supervisorctl restart {front}; sleep 0.5"],
            "without the hook": [
                f"sed -i '/^hook/d' {yard.settings_of(store)}",
                f"supervisorctl restart {store}; sleep 0.5",
            ],
        },
        stays=(*kept, *map(yard.settings_of, (front, store, other)), hook, listed),
        runs=(code,),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip
