"""A dependency is well, but its address cannot be reached."""

import re
from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import upstream_of
from hermes_drills.needs import find
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits

MAIL = "OUTPUT -p tcp -m tcp --dport 25 -j REJECT --reject-with icmp-port-unreachable"
"""The operator's own rule: no mail leaves this machine."""


class _Cut(Fault):
    category = "network-partition"
    wants = "upstream"

    def fits(self, world: World, at: Target) -> bool:
        return _place(at)[0] in world.hosts

    def _truth(self, world: World, at: Target, undo: str, evidence: str) -> Truth:
        host, port = _place(at)
        address = world.hosts[host]
        needed = upstream_of(world, at.service)
        others = () if needed is None else (needed.name,)
        return Truth(
            (at.service, *others, world.hostname, host, address, "network", "firewall", "lo"),
            (self.category,), rf"{re.escape(address)}|{re.escape(host)}|\b{port}\b|iptables|\blo\b",
            rf"{evidence}|{re.escape(address)}", at=Target("upstream", at.service, value=at.value),
            notes={"address": address, "port": str(port), "undo": undo},
        )  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        address, port = truth.notes["address"], int(truth.notes["port"])
        return [] if probe.tcp(port, address) else [f"{address}:{port} is unreachable"]

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:  # noqa: ARG002
        return (truth.notes["undo"],)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        name = truth.at.service
        host, port = _place(truth.at)
        config, again = quote(world.service(name).config), inits.restart(world, name)
        others = [inits.restart(world, needed) for needed in world.service(name).needs]
        rename = f"sed 's/^.*{re.escape(host)}$/127.0.0.1 {host}/' /etc/hosts > /root/hosts"
        return {
            "restart both": [*others, again],
            "go around it in the configuration": [
                f"sed -i 's/{re.escape(host)}:{port}/127.0.0.1:{port}/' {config}", again,
            ],
            "go around it in /etc/hosts": [rename, "cat /root/hosts > /etc/hosts", again],
        }  # fmt: skip


class LostAddress(_Cut):
    """Its address was removed from the interface, or a route makes it unreachable."""

    mechanism = "address"
    needs = ("ip",)

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        address = world.hosts[_place(at)[0]]
        if pick.chance(0.5):
            box.run(f"ip addr del {address}/32 dev lo")
            undo = f"ip addr add {address}/32 dev lo"
        else:
            box.run(f"ip route replace unreachable {address} table local")
            undo = f"ip route replace local {address} dev lo src {address} table local"
        return self._truth(world, at, undo, "unreachable|No route to host")


class _Rule(_Cut):
    needs = ("iptables",)

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        rules = probe.run([find("iptables") or "iptables", "-S"]).stdout
        lost = [] if f"-A {MAIL}" in rules else ["the operator's own rule is lost"]
        return super().gone(probe, world, truth) or lost

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        flush = ["iptables -F; iptables -t nat -F"]
        return {**super().wrong(world, truth), "no firewall at all": flush}


class FirewallRule(_Rule):
    """A firewall rule drops or rejects traffic to its port."""

    mechanism = "firewall"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        host, port = _place(at)
        chain, verdict = pick.choice(("INPUT", "OUTPUT")), pick.choice(("DROP", "REJECT"))
        note = f"{pick.choice(('hardening', 'audit', 'ban'))}-{pick.token(4)}"
        rule = (f"{chain} -d {world.hosts[host]}/32 -p tcp --dport {port} -m comment "
                f"--comment {note} -j {verdict}")  # fmt: skip
        box.run(f"iptables -A {MAIL}; iptables -I {rule}")
        return self._truth(world, at, f"iptables -D {rule}", f"{note}|timed out|refused|{verdict}")


class Redirected(_Rule):
    """A rule left from a migration redirects its port to one where nothing listens."""

    mechanism = "redirect"
    foreign = True

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        host, port = _place(at)
        rule = (f"OUTPUT -d {world.hosts[host]}/32 -p tcp --dport {port} -j REDIRECT "
                f"--to-ports {pick.size(20000, 29000)}")  # fmt: skip
        box.run(f"iptables -A {MAIL}; iptables -t nat -A {rule}")
        return self._truth(world, at, f"iptables -t nat -D {rule}", "REDIRECT|refused")


def _place(at: Target) -> tuple[str, int]:
    host, _, port = at.value.partition("://")[2].rpartition(":")
    return host, int(port)


FAULTS = (LostAddress(), FirewallRule(), Redirected())
