"""The store fell, and the front gave up on it for good; in one variant the edge did so too."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import Truth, World

GIVES_UP_AFTER = 3


class Plan(tiers.Pair, frozen=True, kw_only=True):
    edge: str
    edge_port: int
    moved: str

    @property
    def data(self) -> str:
        return f"/var/lib/{self.store}"


def plan(pick: Pick, variant: str) -> Plan:
    fields = tiers.pair(pick, variant)
    return Plan(
        edge=f"{pick.choice(('edge', 'public', 'entry'))}-api",
        edge_port=next(p for p in pick.ports(9) if p not in fields.values()),
        moved=pick.token(5),
        **fields,
    )


def world(plan: Plan) -> World:
    front, store, beside = tiers.pair_parts(
        plan, front={"give_up_after": GIVES_UP_AFTER}, autorestart=False
    )
    asking: dict[str, object] = {
        "upstream": f"http://127.0.0.1:{plan.front_port}", "timeout": 2.0,
    }  # fmt: skip
    if plan.variant == "three-deep":
        asking["give_up_after"] = GIVES_UP_AFTER
    return tiers.joined(
        [tiers.items(plan.edge, plan.edge_port, asking, needs=[plan.front]), front, store, beside],
        files=tiers.kept_files(plan),
        hostname=plan.host,
        setup=tiers.old_lines(
            f"/var/log/{plan.beside}/{plan.beside}.log",
            {60: "ERROR GET /ready: cannot write: Too many open files", 58: "INFO well again"},
        ),
    )


def inject(box: Box, plan: Plan) -> None:
    conf = tiers.configured(plan.store)
    match plan.variant:
        case "misconfigured":
            box.run(f"cp -p {conf} {conf}.bak && sed -i 's/^port = .*/&0/' {conf}")
            box.run(f"supervisorctl restart {plan.store}", check=False)
        case "lost-data":
            box.run(f"mv {plan.data} {plan.data}.{plan.moved}")
        case _:
            box.run(f"supervisorctl signal KILL {plan.store}")
    if plan.variant != "lost-data":
        box.wait(f"down:{plan.store_port}")
    for _ in range(2 * GIVES_UP_AFTER):
        box.run(f"curl -s -m 3 http://127.0.0.1:{plan.edge_port}/ready", check=False)


def check(plan: Plan) -> WatchedCheck:
    return tiers.answers(plan.edge, plan.edge_port)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    ports = (plan.edge_port, plan.front_port, plan.store_port)
    return [said for port in ports if (said := probe.keeps(port))]


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    names = (plan.edge, plan.front, plan.store)
    return {tiers.configured(name): probe.sha256(tiers.configured(name)) for name in names}


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    return [*tiers.lost(probe, plan), *tiers.changed(probe, before)]


def truth(plan: Plan) -> Truth:
    locus = {
        "misconfigured": rf"{tiers.configured(plan.store)}|{plan.store_port}",
        "lost-data": plan.data,
    }.get(plan.variant, rf"{plan.store}|{plan.store_port}")
    return Truth(
        component=(plan.store,),
        category=("cascading-failure",),
        locus=locus,
        evidence=rf"gave up on|refused|EXITED|{plan.store}",
    )


def reference(plan: Plan) -> list[str]:
    conf = tiers.configured(plan.store)
    first = {
        "misconfigured": [f"cp -p {conf}.bak {conf}", f"supervisorctl restart {plan.store}"],
        "lost-data": [f"mv {plan.data}.{plan.moved} {plan.data}"],
    }.get(plan.variant, [f"supervisorctl start {plan.store}"])
    last = [f"supervisorctl restart {plan.edge}"] if plan.variant == "three-deep" else []
    return [*first, f"supervisorctl restart {plan.front}", *last]


def wrong(plan: Plan) -> dict[str, list[str]]:
    empty = [f"mkdir -p {plan.data}"] if plan.variant == "lost-data" else []
    return {
        "the front alone": [f"supervisorctl restart {plan.front} {plan.edge}"],
        "the store alone": [*empty, f"supervisorctl restart {plan.store}"],
    }
