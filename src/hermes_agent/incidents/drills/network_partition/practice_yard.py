"""In another house: an address that the bridge lost, and one that is looked for at the wrong
machine."""

from hermes_agent.incidents.drills import tiers, yard
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import BOX_ADDRESS, File, Node, Truth, World


class Pair:
    """A front here and a store on another node."""

    def __init__(self, pick: Pick) -> None:
        self.front, self.store, self.other = pick.services(3)
        self.port, self.store_port, self.other_port = pick.ports(3)
        self.node = f"{pick.choice(('cell', 'blade', 'annex'))}{pick.size(1, 40)}"
        self.address = f"10.77.0.{pick.size(5, 240)}"
        self.kept = yard.notes(self.store, pick)
        self.old = yard.days_ago(self.other, pick)
        self.hostname = pick.host()
        self.rule = f"-A INPUT -p tcp -m tcp --dport {pick.size(20000, 30000)} -j DROP"

    def world(self) -> World:
        listen = f"{self.address}:{self.store_port}"
        return tiers.joined(
            [
                yard.depot(self.store, self.store_port, listen=listen, node=self.node),
                yard.depot(self.front, self.port, {"backend": f"http://{listen}"},
                           needs=(self.store,)),
                yard.depot(self.other, self.other_port),
            ],
            files={
                **self.kept, **self.old,
                "/etc/network/interfaces": File(
                    "auto br0\niface br0 inet static\n    bridge_ports veth0\n"
                    f"    address {BOX_ADDRESS}/24\n# {self.node} is {self.address}\n",
                    age=tiers.MONTH,
                ),
            },
            hostname=self.hostname,
            nodes=(Node(self.node, self.address),),
            setup=[f"iptables {self.rule}"],
        )  # fmt: skip

    def healthy(self, probe: Probe) -> list[str]:
        return said(yard.stores(probe, self.port))

    def harm(self, probe: Probe) -> list[str]:
        rules = probe.run(["iptables", "-S"]).stdout
        return said(
            yard.stores(probe, self.other_port),
            "" if self.rule in rules else f"the rule {self.rule!r} is gone",
        )

    def stays(self) -> tuple[str, ...]:
        places = map(yard.settings_of, (self.front, self.store, self.other))
        return (*self.kept, *places, "/etc/network/interfaces")

    def truth(self, locus: str, evidence: str) -> Truth:
        component = (self.hostname, self.node, self.store, self.front, "network", "br0")
        return Truth(component, ("network-partition",), locus, evidence)


def lost_address(pick: Pick) -> Scene:
    pair = Pair(pick)
    return Scene(
        world=pair.world(),
        check=yard.passes(pair.front, pair.port),
        healthy=pair.healthy,
        truth=pair.truth(
            rf"br0|{BOX_ADDRESS}|{pair.address}", r"unreachable|br0|No route|timed out"
        ),
        inject=lines(f"ip addr del {BOX_ADDRESS}/24 dev br0"),
        fix=(f"ip addr add {BOX_ADDRESS}/24 dev br0",),
        wrong={
            "restarting": ["supervisorctl restart all; sleep 0.4"],
            "no firewall at all": ["iptables -F"],
        },
        stays=pair.stays(),
        harm=pair.harm,
    )


def wrong_neighbour(pick: Pick) -> Scene:
    pair = Pair(pick)
    mac = ":".join(["02", *(f"{pick.size(16, 255):02x}" for _ in range(5))])
    return Scene(
        world=pair.world(),
        check=yard.passes(pair.front, pair.port),
        healthy=pair.healthy,
        truth=pair.truth(
            rf"{mac}|{pair.address}|neigh", rf"{mac}|PERMANENT|timed out|No route|unreachable"
        ),
        inject=lines(
            f"ip neigh replace {pair.address} lladdr {mac} nud permanent dev br0",
            f"echo \"$(date '+%F %T') moved {pair.node} to {mac}\" >> /var/log/network.log",
        ),
        fix=(f"ip neigh del {pair.address} dev br0",),
        wrong={
            "restarting": ["supervisorctl restart all; sleep 0.4"],
            "no firewall at all": ["iptables -F", f"ip neigh del {pair.address} dev br0"],
        },
        stays=pair.stays(),
        harm=pair.harm,
    )


def doubled_address(pick: Pick) -> Scene:
    """Somebody gave the node's address to this machine, too: nothing leaves it any more."""
    pair = Pair(pick)
    taken = f"{pair.address}/32 dev lo"
    return Scene(
        world=pair.world(),
        check=yard.passes(pair.front, pair.port),
        healthy=pair.healthy,
        truth=pair.truth(rf"{pair.address}|\blo\b", rf"{pair.address}|refused"),
        inject=lines(f"ip addr add {taken}"),
        fix=(f"ip addr del {taken}",),
        wrong={
            "restarting": ["supervisorctl restart all; sleep 0.4"],
            "no firewall at all": ["iptables -F", f"ip addr del {taken}"],
        },
        stays=pair.stays(),
        harm=pair.harm,
    )


def left_bridge(pick: Pick) -> Scene:
    """The link to the node is up, and belongs to no bridge any more."""
    pair = Pair(pick)
    return Scene(
        world=pair.world(),
        check=yard.passes(pair.front, pair.port),
        healthy=pair.healthy,
        truth=pair.truth(
            rf"veth0|br0|{pair.address}", r"veth0|No route|unreachable|timed out|FAILED"
        ),
        inject=lines("ip link set veth0 nomaster"),
        fix=("ip link set veth0 master br0",),
        wrong={
            "restarting": ["supervisorctl restart all; sleep 0.4"],
            "no firewall at all": ["iptables -F", "ip link set veth0 master br0"],
        },
        stays=pair.stays(),
        harm=pair.harm,
    )
