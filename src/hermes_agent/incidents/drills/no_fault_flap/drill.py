"""The front failed for a moment, while the store was restarted or busy. It is over."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import Truth, World


class Plan(tiers.Pair, frozen=True, kw_only=True):
    minutes: int


def plan(pick: Pick, variant: str) -> Plan:
    return Plan(minutes=pick.size(2, 6), **tiers.pair(pick, variant))


def _said(plan: Plan) -> str:
    url = f"http://127.0.0.1:{plan.store_port}/items/ready"
    if plan.variant == "slow-minute":
        return f"ERROR GET /ready: {url}: timed out"
    return f"ERROR GET /ready: {url}: <urlopen error [Errno 111] Connection refused>"


def world(plan: Plan) -> World:
    reasons = {
        "restarted": "INFO is restarted for the weekly rotation of its log",
        "reloaded": "INFO is restarted: new configuration",
        "slow-minute": "INFO compacted what it keeps in 2.3 s",
    }
    return tiers.joined(
        tiers.pair_parts(plan),
        files=tiers.kept_files(plan),
        hostname=plan.host,
        setup=[
            *tiers.old_lines(
                f"/var/log/{plan.store}/{plan.store}.log", {plan.minutes: reasons[plan.variant]}
            ),
            *tiers.old_lines(
                f"/var/log/{plan.front}/{plan.front}.log", {plan.minutes: _said(plan)}
            ),
        ],
    )


def inject(box: Box, plan: Plan) -> None:
    """It was over before anybody looked."""


def signal(plan: Plan) -> str:
    return f"{plan.front}-answers failed once, {plan.minutes} minutes ago: exit 22"


def check(plan: Plan) -> WatchedCheck:
    return tiers.answers(plan.front, plan.front_port)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    ports = (plan.front_port, plan.store_port, plan.beside_port)
    return [said for port in ports if (said := probe.keeps(port))]


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    return tiers.lost(probe, plan)


def truth(plan: Plan) -> Truth:
    return Truth((plan.front, plan.store, plan.host, ""), ("no-fault",))


def reference(plan: Plan) -> list[str]:
    return []


def wrong(plan: Plan) -> dict[str, list[str]]:
    return {
        "restarted to be sure": [f"supervisorctl restart {plan.front}"],
        "waiting longer": [f"sed -i 's/^timeout = .*/timeout = 9/' {tiers.configured(plan.front)}"],
    }
