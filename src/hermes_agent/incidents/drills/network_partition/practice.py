"""Ways that are cut, in other houses."""

from hermes_agent.incidents.drills import porters, tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import Node, Truth


def stolen_route(pick: Pick) -> Scene:
    """A narrower route sends what is for the node into an interface where nobody is."""
    api, store, beside = pick.services(3)
    port, store_port, beside_port = pick.ports(3)
    node, address = f"{store}-{pick.size(1, 9)}", f"10.77.0.{pick.size(2, 126)}"
    device = pick.choice(("lab0", "tun-lab", "vpn0"))
    stolen = pick.choice((f"{address}/32", "10.77.0.0/25"))
    style, log = porters.any_style(pick), f"/var/log/{api}.out"
    parts = [
        porters.porter(api, port, f"http://{address}:{store_port}", form="yaml", style=style,
                       log=log, needs=[store]),
        porters.porter(store, store_port, f"/srv/{store}/values", form="flags", style=style,
                       bind=address, node=node),
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form="json", style=style),
    ]  # fmt: skip
    return Scene(
        world=tiers.joined(
            parts, hostname=pick.host(), nodes=(Node(node, address),),
            setup=[f"ip link add {device} type veth peer name far-{device}",
                   f"ip link set far-{device} up", f"ip addr add 172.30.9.1/24 dev {device}",
                   f"ip link set {device} up"],
        ),
        check=porters.status(api, port),
        healthy=lambda probe: said(probe.keeps(port, "/v")),
        truth=Truth(
            component=("network", api, store, node),
            category=("network-partition",),
            locus=rf"{address}|{device}|{store_port}|10\.77",
            evidence=f"{device}|timed out|{address}|No route|unreachable",
        ),
        inject=lines(f"ip route add {stolen} dev {device}"),
        fix=(f"ip route del {stolen} dev {device}",),
        wrong={"restarting": ["supervisorctl restart all"]},
        stays=(porters.settings_file(api, "yaml"),),
        harm=lambda probe: said(
            probe.keeps(beside_port, "/v"),
            "" if "172.30.9.1" in probe.run(["ip", "addr"]).stdout else "an address is gone",
        ),
    )  # fmt: skip


def own_chain(pick: Pick) -> Scene:
    """A chain of its own, with rules that belong there, and one that takes a whole range."""
    api, store, beside = pick.services(3)
    port, store_port, beside_port = pick.ports(3)
    node, address = f"{store}{pick.size(10, 99)}", f"10.77.0.{pick.size(2, 200)}"
    chain = pick.choice(("EGRESS", "policy-out", "hardening"))
    style, form = porters.any_style(pick), pick.choice(("env", "properties", "environment"))
    kept = (f"-A {chain} -p tcp -m tcp --dport 25 -j DROP", f"-A {chain} -d 192.0.2.0/24 -j DROP")
    how = pick.choice(("REJECT --reject-with tcp-reset", "DROP"))
    rule = f"{chain} -d 10.77.0.0/24 -p tcp -m tcp --dport 6000:9999 -j {how}"
    parts = [
        porters.porter(api, port, f"http://{address}:{store_port}", form=form, style=style,
                       needs=[store]),
        porters.porter(store, store_port, f"/srv/{store}/values", form="yaml", style=style,
                       bind=address, node=node),
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form="json", style=style),
    ]  # fmt: skip
    return Scene(
        world=tiers.joined(
            parts, hostname=pick.host(), nodes=(Node(node, address),),
            setup=[f"iptables -N {chain}", f"iptables -A OUTPUT -j {chain}",
                   *(f"iptables {one}" for one in kept)],
        ),
        check=porters.status(api, port),
        healthy=lambda probe: said(probe.keeps(port, "/v")),
        truth=Truth(
            component=("firewall", "network", api, store, node),
            category=("network-partition",),
            locus=rf"{chain}|{address}|6000:9999",
            evidence=f"{chain}|refused|timed out|{address}",
        ),
        inject=lines(f"iptables -I {rule}"),
        fix=(f"iptables -D {rule}",),
        wrong={"restarting": ["supervisorctl restart all"]},
        stays=(porters.settings_file(api, form),),
        harm=lambda probe: said(
            probe.keeps(beside_port, "/v"),
            *(
                "" if one in probe.run(["iptables", "-S"]).stdout else f"the rule {one} is gone"
                for one in kept
            ),
        ),
    )  # fmt: skip


def side_table(pick: Pick) -> Scene:
    """A rule sends what is for the node to another table of routes, which ends it there."""
    api, store, beside = pick.services(3)
    port, store_port, beside_port = pick.ports(3)
    node, address = f"{pick.choice(('rack', 'zone'))}{pick.size(1, 9)}", "10.77.0.44"
    table, order = pick.size(60, 200), pick.size(100, 900)
    how = pick.choice(("unreachable", "blackhole"))
    style, form = porters.any_style(pick), pick.choice(("json", "yaml", "flags"))
    parts = [
        porters.porter(api, port, f"http://{address}:{store_port}", form=form, style=style,
                       needs=[store], log=f"/opt/{api}/log/{api}.jsonl"),
        porters.porter(store, store_port, f"/srv/{store}/values", form="env", style=style,
                       bind=address, node=node),
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form=form, style=style),
    ]  # fmt: skip
    rule = f"to {address}/32 lookup {table} pref {order}"
    return Scene(
        world=tiers.joined(parts, hostname=pick.host(), nodes=(Node(node, address),)),
        check=porters.status(api, port),
        healthy=lambda probe: said(probe.keeps(port, "/v")),
        truth=Truth(
            component=("network", api, store, node),
            category=("network-partition",),
            locus=rf"{address}|{table}|{order}|{store_port}",
            evidence=f"{address}|{how}|{table}|timed out|No route|unreachable",
        ),
        inject=lines(f"ip route add {how} default table {table}", f"ip rule add {rule}"),
        fix=(f"ip rule del {rule}",),
        wrong={"restarting": ["supervisorctl restart all"]},
        stays=(porters.settings_file(api, form),),
        harm=lambda probe: said(probe.keeps(beside_port, "/v")),
    )
