"""A directory that is gone and is still asked first."""

import re

from hermes_agent.incidents.drills import harbour, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth


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
