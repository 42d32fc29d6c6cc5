"""What is asked for each note though once an hour would do; a directory that is gone and is still
asked first."""

import re

from hermes_agent.incidents.drills import harbour, tiers, yard
from hermes_agent.incidents.drills.box import Box
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


def _told(conf: str, key: str, value: str) -> str:
    """A command that sets something of the directory."""
    return f"sed -i 's/^directory.{key}=.*/directory.{key}={value}/' {conf}"


def _line(device: str, address: str) -> tuple[str, ...]:
    """A line to another place, where nobody is."""
    return (
        f"ip link add {device} type veth peer name {device}-p",
        f"ip link set {device} arp off up; ip link set {device}-p up",
        f"ip addr add {address}/24 dev {device}",
    )


def first_in_line(pick: Pick) -> Scene:
    """The list of directories was put back as it was before the move: the first is gone, and
    nobody says so."""
    (main, other), (port, other_port, directory_port) = pick.services(2), pick.ports(3)
    directory, old_port = f"{pick.choice(('accounts', 'people', 'staff'))}-dir", pick.port()
    office = f"192.168.{pick.size(20, 90)}"
    office_host, kept = f"{office}.{pick.size(5, 60)}", harbour.parcels(main, pick)
    old = f"{office_host}:{old_port}"
    new, conf = f"127.0.0.1:{directory_port}", harbour.settings_of(main)
    device = pick.choice(("ppp0", "wg0", "tun0"))
    asks = {"directory.hosts": new, "directory.timeout-ms": pick.choice((3500, 4000, 5000))}
    app = harbour.app(main, port, asks, needs=(directory,))
    before = File(app.files[conf].text.replace(new, old), age=3 * tiers.MONTH)
    world = tiers.joined(
        [harbour.app(directory, directory_port, about="the directory of accounts"), app,
         harbour.app(other, other_port)],
        files={**kept, **harbour.weeks_ago(main, pick), **harbour.weeks_ago(other, pick),
               f"{conf}.before-the-move": before},
        hostname=pick.host(),
        setup=_line(device, f"{office}.1"),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"{_told(conf, 'hosts', f'{old},{new}')}; supervisorctl restart {main}")
        box.wait(f"tcp:{port}")

    def healthy(probe: Probe) -> list[str]:
        first = f"{old} is asked first" if f"hosts={old}" in probe.text(conf) else ""
        return said(harbour.stores(probe, port), harbour.late(probe, port), first)

    def harm(probe: Probe) -> list[str]:
        asked = re.search(rf"^directory\.hosts=.*{new}", probe.text(conf), re.MULTILINE)
        linked = device in probe.run(["ip", "addr"]).stdout
        return said(
            "" if asked else f"{main} does not ask {new}", "" if linked else f"{device} is gone",
            harbour.stores(probe, other_port),
        )  # fmt: skip

    restart = f"supervisorctl restart {main}; sleep 1"
    return Scene(
        world=world,
        check=harbour.health(main, port),
        healthy=healthy,
        truth=Truth(
            (main, directory, "directory", old, office_host, "network"),
            ("slow-dependency", "bad-config", "network-partition"),
            rf"directory\.hosts|{conf}|{office_host}", rf"{office_host}|directory\.hosts",
        ),
        inject=inject,
        fix=(_told(conf, "hosts", new), restart),
        wrong={
            "restarting": [f"supervisorctl restart {directory}", restart],
            "accounts are not looked at": [f"sed -i '/^directory.hosts/d' {conf}", restart],
            "only the old one is left": [_told(conf, "hosts", old), restart],
            "it waits for less": [_told(conf, "timeout-ms", "500"), restart],
        },
        stays=(*kept, harbour.settings_of(directory), harbour.settings_of(other)),
        harm=harm,
    )  # fmt: skip
