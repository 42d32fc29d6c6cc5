"""A machine that was a router until somebody hardened it, and a route that a VPN brought along."""

from msgspec.structs import replace

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import tiers, troves, vhosts
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import BOX_ADDRESS, File, Node, Truth

FORWARD = "/proc/sys/net/ipv4/ip_forward"
SMTP = "-A FORWARD -i br0 -o br1 -p tcp -m tcp --dport 25 -j DROP"


def _at(name: str, address: str, port: int) -> dict[str, dict[str, object]]:
    """Where a site of another machine listens."""
    log = vhosts.log_of(name)
    own: dict[str, object] = {"name": name, "listen": f"{address}:{port}", "error_log": log}
    return {"site": own}


def _two_legs(near: str, far: str, net: str) -> tuple[str, ...]:
    """Lines that make this machine the way between two networks."""
    return (
        "ip link add br1 type bridge", f"ip addr add {net}.1/24 dev br1", "ip link set br1 up",
        "ip link set veth1 master br1", f"on-node {near} ip route add {net}.0/24 via {BOX_ADDRESS}",
        f"on-node {far} ip route add default via {net}.1", f"echo 1 > {FORWARD}",
        f"iptables {SMTP}",
    )  # fmt: skip


def hardened(pick: Pick) -> Scene:
    """As `forwarding`: the router is this machine itself, between two bridges, and a baseline of
    hardening switched it off; who asks and who is asked are both elsewhere, told by INI files."""
    (front, store, other), (port, inner, other_port) = pick.services(3), pick.ports(3)
    near, far, host = f"web-{pick.size(1, 9)}", f"cms-{pick.size(1, 9)}", pick.host()
    net, here = f"10.{pick.size(90, 140)}.{pick.size(1, 9)}", f"10.77.0.{pick.size(5, 90)}"
    there = f"{net}.{pick.size(5, 90)}"
    saved = f"/etc/sysctl.d/{pick.choice(('30-routing', '50-two-legs', '20-net'))}.conf"
    log, kept = "/var/log/cis-baseline.log", vhosts.pages(store, pick)
    run = f"curl -sS -m 4 -w '%{{http_code}}' http://{here}:{port}/healthcheck"
    world = tiers.joined(
        [vhosts.site(front, port, {"kind": "remote", "url": f"http://{there}:{inner}"},
                     _at(front, here, port), node=near, needs=(store,),
                     ready=f"file:{vhosts.log_of(front)}"),
         vhosts.site(store, inner, None, _at(store, there, inner), node=far,
                     ready=f"file:{vhosts.log_of(store)}"),
         vhosts.site(other, other_port)],
        files={
            **kept, **vhosts.months_ago(other, pick),
            saved: File(f"# br0 10.77.0.0/24, br1 {net}.0/24\nnet.ipv4.ip_forward = 1\n"
                        "net.ipv4.conf.all.send_redirects = 0\n", age=tiers.MONTH),
        },
        hostname=host,
        nodes=(Node(near, here), Node(far, there)),
        setup=_two_legs(near, far, net),
    )  # fmt: skip

    def harm(probe: Probe) -> list[str]:
        rules = probe.run(["iptables", "-S"]).stdout
        gone = "" if SMTP in rules else "a rule of the firewall is gone"
        return said(gone, vhosts.writes(probe, other_port))

    stamp = "$(date -d '-12 min' '+%F %T')"
    return Scene(
        world=world,
        check=WatchedCheck(f"{front} healthcheck", Check(run, Expect(output="^healthy"), 9.0),
                           front, severity="P1"),
        healthy=lambda probe: said(vhosts.writes(probe, port, address=here, timeout=4.0)),
        truth=Truth(
            (host, "network", "router", "gateway", "kernel", "sysctl", near, far, store, front),
            ("network-partition", "bad-config"), rf"ip_forward|forwarding|{saved}|br1|{net}",
            rf"ip_forward|forwarding|{saved}|{log}|via {net}|{there}",
        ),
        inject=lines(
            f"echo 0 > {FORWARD}",
            f'echo "{stamp} 3.3.1 net.ipv4.conf.all.accept_redirects: 0, unchanged" >> {log}',
            f'echo "{stamp} 3.3.2 net.ipv4.ip_forward: was 1, set to 0" >> {log}',
            f'echo "{stamp} 5.2.8 umask: 027, unchanged" >> {log}',
        ),
        fix=(f"sysctl -p {saved}",),
        wrong={
            "restarting": ["supervisorctl restart all"],
            "no firewall at all": ["iptables -F", "iptables -P FORWARD ACCEPT"],
            "a route of its own": [f"/opt/bin/on-node {near} ip route replace {there} dev eth0"],
        },
        stays=(*kept, *map(vhosts.conf_of, (front, store, other))),
        harm=harm,
    )  # fmt: skip


def _tunnel(device: str, peer: str, wanted: str) -> tuple[str, ...]:
    """Lines for a VPN that has been up for days."""
    return (
        f"ip link add {device} type veth peer name {device}-p", f"ip link set {device}-p up",
        f"ip addr add {peer}.6/24 dev {device}", f"ip link set {device} up",
        f"ip route add {wanted} via {peer}.1 dev {device}",
    )  # fmt: skip


def pushed_route(pick: Pick) -> Scene:
    """As `stolen-route`: a VPN brought the route, by way of a gateway and wider than one machine;
    two stores are behind it, and services with settings, files and logs of any form."""
    (front, store, second, vault), ports = pick.services(4), pick.ports(4)
    addresses = [f"10.77.0.{last}" for last in pick.some(range(130, 190), 2)]
    tunnel, peer = pick.choice(("tun0", "tun1", "tun-hq")), f"10.{pick.size(8, 40)}.0"
    bits, last = pick.choice(((25, 128), (26, 192)))
    stolen, wanted = f"10.77.0.128/{bits}", f"192.168.{pick.size(20, 99)}.0/24"
    fronts = [
        troves.house(pick, name, port) for name, port in ((front, ports[0]), (second, ports[1]))
    ]
    parts, nodes, host = [], [], pick.host()
    for name, port, address, asks in zip((store, vault), ports[2:], addresses, fronts, strict=True):
        kept = troves.house(pick, name, port, log=f"/var/log/{name}.log")
        part = troves.trove(kept, {"listen": f"{address}:{port}"})
        node = f"{name}-{pick.choice(('vm', 'pi', 'box'))}"
        program = replace(part.program, node=node, ready=f"file:{kept.log}")
        backend = {"backend": f"http://{address}:{port}", "timeout": 1}
        parts += [replace(part, program=program), troves.trove(asks, backend, needs=(name,))]
        nodes.append(Node(node, address))
    log = f"/var/log/openvpn/{pick.choice(('office', 'hq', 'partner'))}.log"
    told = {4000: f"net_addr_v4_add: {peer}.6/24 dev {tunnel}",
            3999: f"net_route_v4_add: {wanted} via {peer}.1 dev [NULL]"}  # fmt: skip
    world = tiers.joined(
        parts,
        hostname=host,
        nodes=tuple(nodes),
        folders={"/var/log/openvpn": 0o755},
        setup=(*_tunnel(tunnel, peer, wanted), *tiers.old_lines(log, told)),
    )  # fmt: skip

    def harm(probe: Probe) -> list[str]:
        routes = probe.run(["ip", "route"]).stdout
        return [f"the way to {to} is gone" for to in (wanted, f"{peer}.0/24") if to not in routes]

    mask = f"10.77.0.128 255.255.255.{last}"
    pushed = {16: f"PUSH: Received control message: 'PUSH_REPLY,route {mask}'",
              15: f"net_route_v4_add: {stolen} via {peer}.1 dev [NULL]"}  # fmt: skip
    return Scene(
        world=world,
        check=troves.is_up(front, ports[0]),
        healthy=lambda probe: troves.keeps(probe, *ports[:2]),
        truth=Truth(
            ("network", host, tunnel, "vpn", "openvpn", front, store, nodes[0].name),
            ("network-partition",), rf"{stolen}|{tunnel}|{addresses[0]}|{addresses[1]}|10\.77\.0",
            rf"{stolen}|{tunnel}|{peer}|{addresses[0]}|timed out|No route|unreachable",
        ),
        inject=lines(f"ip route add {stolen} via {peer}.1 dev {tunnel}",
                     *tiers.old_lines(log, pushed)),
        fix=(f"ip route del {stolen} via {peer}.1 dev {tunnel}",),
        wrong={
            "restarting": ["supervisorctl restart all"],
            "the tunnel goes": [f"ip link set {tunnel} down"],
            "a way to one of the two": [f"ip route add {addresses[0]}/32 dev br0"],
        },
        stays=tuple(one.config for one in fronts),
        harm=harm,
    )  # fmt: skip
