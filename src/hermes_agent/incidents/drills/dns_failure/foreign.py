"""An alias that lacks a dot."""

from hermes_agent.incidents.drills import harbour, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.dns_failure.practice_quarter import RESOLVER
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Program, Truth


def _zone(domain: str, serial: int, names: dict[str, str], alias: str, target: str) -> str:
    head = f"@ IN SOA ns.{domain}. hostmaster.{domain}. {serial} 3600 600 86400 60\n  IN NS ns\n"
    rows = "".join(f"{name:<12} IN A     {address}\n" for name, address in names.items())
    return f"$ORIGIN {domain}.\n$TTL 60\n{head}{rows}{alias:<12} IN CNAME {target}\n"


def undotted(pick: Pick) -> Scene:
    """The store moved; its alias names the new machine in full, without the dot at the end."""
    (front, store, other), (port, inner, other_port) = pick.services(3), pick.ports(3)
    domain = pick.choice(("depot.example.net", "int.example.org", "dc2.example.com"))
    old, new = (f"{pick.choice(('srv', 'vm'))}{number}" for number in pick.some(range(10, 60), 2))
    address, zone = f"127.8.{pick.size(1, 200)}.{pick.size(2, 250)}", f"/etc/bind/db.{domain}"
    names = {"ns": "127.0.0.54", old: address, new: address, other: "127.0.0.1"}
    serial, alias, code = 2026101500 + pick.size(1, 9), f"{store}.{domain}", "/opt/zones/zones.py"
    kept, host, conf = harbour.parcels(store, pick), pick.host(), harbour.settings_of(front)
    remote = {"parcels.remote.url": f"http://{alias}:{inner}"}
    server = tiers.Part(
        Program(name="zones", command=f"python3 {code} 127.0.0.54 {domain} {zone}",
                about=f"name server of {domain}, zone {zone}, read again on a hangup"),
        {code: File(tiers.program_text("zones.py"), age=tiers.MONTH),
         zone: File(_zone(domain, serial, names, store, old), age=tiers.MONTH)},
    )  # fmt: skip
    world = tiers.joined(
        [server, harbour.app(store, inner, address=address),
         harbour.app(front, port, remote, needs=(store, "zones")), harbour.app(other, other_port)],
        files={**kept, **harbour.weeks_ago(front, pick), **harbour.weeks_ago(other, pick),
               RESOLVER: File("nameserver 127.0.0.54\noptions timeout:1 attempts:1\n")},
        hostname=host,
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.write(zone, _zone(domain, serial + 10000, names, store, f"{new}.{domain}"))
        box.run("supervisorctl signal HUP zones; sleep 0.3")

    def harm(probe: Probe) -> list[str]:
        rows = probe.text(zone)
        gone = [
            name for name, where in names.items() if f" {where}" not in rows or name not in rows
        ]
        return said(f"{zone} has lost {gone}" if gone else "", harbour.stores(probe, other_port))

    twice = rf"{new}\.{domain}\.{domain}"
    return Scene(
        world=world,
        check=harbour.health(front, port),
        healthy=lambda probe: said(harbour.stores(probe, port)),
        truth=Truth(
            ("zones", "dns", store, front, host, "resolver"), ("dns-failure", "bad-config"),
            rf"{zone}|CNAME|{twice}|{new}\b", rf"{twice}|CNAME|NXDOMAIN|{zone}",
        ),
        inject=inject,
        fix=(f"sed -i 's/CNAME {new}.{domain}$/&./' {zone}", "supervisorctl signal HUP zones"),
        wrong={
            "restarting": ["supervisorctl restart all; sleep 1"],
            "a line in the hosts file": [f"echo '{address} {alias}' >> /etc/hosts"],
            "an address in the settings": [
                f"sed -i 's/{alias}/{address}/' {conf}", f"supervisorctl restart {front}; sleep 1",
            ],
            "read again": ["supervisorctl signal HUP zones; sleep 0.3"],
        },
        stays=(*kept, conf, harbour.settings_of(store), "/etc/hosts", RESOLVER),
        runs=("zones.py",),
        harm=harm,
    )  # fmt: skip
