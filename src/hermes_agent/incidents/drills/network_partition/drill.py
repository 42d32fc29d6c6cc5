"""The way to the other node is cut: by a rule of the firewall here or there, a route, the link."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import Node, Truth, World


class Plan(tiers.Pair, frozen=True, kw_only=True):
    node: str
    address: str
    admin_port: int
    comment: str


def plan(pick: Pick, variant: str) -> Plan:
    return Plan(
        node=f"{pick.choice(('db', 'back', 'far', 'east'))}-{pick.size(1, 9)}",
        address=f"10.77.0.{pick.size(2, 200)}",
        admin_port=pick.port(),
        comment=f"{pick.word()} {pick.token(4)}",
        **tiers.pair(pick, variant),
    )


def _legit(plan: Plan) -> list[str]:
    """Rules that belong there."""
    return [
        f"-A INPUT -s 10.77.0.0/24 -p tcp -m tcp --dport {plan.admin_port} -j DROP",
        (
            "-A OUTPUT -d 10.77.0.250/32 -p tcp -m tcp --dport 25 -j REJECT --reject-with "
            "icmp-port-unreachable"
        ),
    ]


def world(plan: Plan) -> World:
    return tiers.joined(
        tiers.pair_parts(
            plan,
            upstream=f"http://{plan.address}:{plan.store_port}",
            node=plan.node,
            bind=plan.address,
        ),
        files=tiers.kept_files(plan),
        hostname=plan.host,
        nodes=(Node(plan.node, plan.address),),
        setup=[f"iptables {rule}" for rule in _legit(plan)],
    )


def _rule(plan: Plan) -> str:
    here = f"OUTPUT -d {plan.address}" if plan.variant == "dropped" else "INPUT -s 10.77.0.1"
    return f"{here} -p tcp --dport {plan.store_port} -m comment --comment '{plan.comment}' -j DROP"


def inject(box: Box, plan: Plan) -> None:
    match plan.variant:
        case "dropped":
            box.run(f"iptables -I {_rule(plan)}")
        case "far-rule":
            box.run(f"iptables -I {_rule(plan)}", node=plan.node)
        case "blackhole":
            box.run(f"ip route add blackhole {plan.address}/32")
        case _:
            box.run("ip link set veth0 down")


def check(plan: Plan) -> WatchedCheck:
    return tiers.answers(plan.front, plan.front_port)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    said = probe.keeps(plan.front_port)
    return [said] if said else []


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    return {tiers.configured(name): probe.sha256(tiers.configured(name)) for name in
            (plan.front, plan.store)}  # fmt: skip


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    rules = probe.run(["iptables", "-S"]).stdout
    gone = [f"the rule {rule!r} is gone" for rule in _legit(plan) if rule not in rules]
    return [*tiers.lost(probe, plan), *tiers.changed(probe, before), *gone]


def truth(plan: Plan) -> Truth:
    return Truth(
        component=(plan.host, plan.node, plan.store, plan.front, "firewall", "network"),
        category=("network-partition",),
        locus=rf"{plan.address}|{plan.store_port}|{plan.comment}|veth0|{plan.node}",
        evidence=rf"{plan.comment}|blackhole|state DOWN|timed out|No route|unreachable|DROP",
    )


def reference(plan: Plan) -> list[str]:
    return {
        "dropped": [f"iptables -D {_rule(plan)}"],
        "far-rule": [f"/opt/bin/on-node {plan.node} iptables -D {_rule(plan)}"],
        "blackhole": [f"ip route del blackhole {plan.address}/32"],
    }.get(plan.variant, ["ip link set veth0 up"])


def wrong(plan: Plan) -> dict[str, list[str]]:
    return {
        "restarting": ["supervisorctl restart all"],
        "no firewall at all": [
            "iptables -F", "ip route flush type blackhole", "ip link set veth0 up",
            f"/opt/bin/on-node {plan.node} iptables -F",
        ],
    }  # fmt: skip
