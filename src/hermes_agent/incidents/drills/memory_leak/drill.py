"""A service has used up the memory that it may take."""

from pathlib import Path

from msgspec import Struct

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import parts
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Truth, World

ONE_HEAP = {"MALLOC_ARENA_MAX": "1"}
KEPT = 4
"""Pages that are kept when all is well."""


class Plan(Struct, frozen=True):
    variant: str
    service: str
    port: int
    renderer: str
    renderer_port: int
    cache: str
    cache_mb: int
    memory: int
    item: str
    feed: str
    salt: int


def plan(pick: Pick, variant: str) -> Plan:
    service, renderer, cache = pick.services(3)
    port, renderer_port = pick.ports(2)
    return Plan(
        variant=variant,
        service=service,
        port=port,
        renderer=f"{renderer}-render",
        renderer_port=renderer_port,
        cache=f"{cache}-cache",
        cache_mb=pick.size(90, 120),
        memory=pick.size(52, 72),
        item=f"item-{pick.token()}",
        feed=f"/var/spool/{pick.word()}/incoming-{pick.token()}.part",
        salt=pick.size(1, 10**6),
    )


def leaking(plan: Plan) -> tuple[str, int]:
    """Name and port of the one whose memory is gone."""
    if plan.variant == "dependency":
        return plan.renderer, plan.renderer_port
    return plan.service, plan.port


def world(plan: Plan) -> World:
    files = {f"/var/lib/{plan.service}/items/{plan.item}": File(text=f"{plan.item}\n", age=7e5)}
    common: dict[str, object] = {"memory": plan.memory, "recent": KEPT, "feed": plan.feed}
    shown = common
    behind = parts.Part()
    if plan.variant == "dependency":
        shown = {**common, "renderer": f"http://127.0.0.1:{plan.renderer_port}"}
        behind = parts.keeper(
            plan.renderer, plan.renderer_port, code="pages.py", environment=ONE_HEAP,
            about="makes pages for others", settings=common,
        )  # fmt: skip
    needs = (plan.renderer,) if plan.variant == "dependency" else ()
    return parts.joined(
        behind,
        parts.keeper(
            plan.service,
            plan.port,
            code="pages.py",
            needs=needs,
            environment=ONE_HEAP,
            about="keeps items and shows them as pages",
            settings=shown,
        ),
        parts.hoard(plan.cache, plan.cache_mb),
        parts.Part((), files, {str(Path(plan.feed).parent): 0o755}),
    )


def inject(box: Box, plan: Plan) -> None:
    name, port = leaking(plan)
    if plan.variant == "unbounded":
        config = f"/etc/{name}/{name}.conf"
        box.run(f"cp -p {config} {config}.bak; sed -i 's/^recent = .*/recent = 0/' {config}")
        box.run(f"supervisorctl restart {name}")
        box.wait(f"tcp:{port}")
        page = f"http://127.0.0.1:{port}/pages/{plan.item}"
        box.run(
            f"for i in $(seq {plan.memory}); do curl -s -m 3 -o /dev/null {page}; done", check=False
        )
    else:
        box.run(f"head -c 900000 /dev/urandom > {plan.feed}")
        box.run(f"curl -sS -m 3 -X POST http://127.0.0.1:{port}/import")
        log = f"/var/log/{name}/{name}.log"
        box.run(
            f"for i in $(seq 200); do grep -q MemoryError {log} && exit 0; sleep 0.05; done; exit 1"
        )


def check(plan: Plan) -> WatchedCheck:
    page = f"http://127.0.0.1:{plan.port}/pages/{plan.item}"
    return WatchedCheck(
        name=f"{plan.service}-pages",
        check=Check(
            run=f"curl -sS -m 3 {page}", expect=Expect(output=f"^{plan.item}$"), timeout=6.0
        ),
        service=plan.service,
        severity="P1",
    )


def healthy(probe: Probe, plan: Plan) -> list[str]:
    """Pages are made of what was just kept, and making many takes no more memory than a few."""
    said = [probe.keeps(plan.port)]
    name, _ = leaking(plan)
    rounds = plan.memory // 2
    for _ in range(KEPT):
        probe.http(plan.port, f"/pages/{plan.item}")
    first = memory(probe, name)
    for number in range(rounds):
        reply = probe.http(plan.port, f"/pages/{plan.item}")
        if reply.status != 200 or reply.body.decode(errors="replace").strip() != plan.item:
            said.append(f"page {number} was not made: {reply.status} {reply.error}")
            break
    grown = memory(probe, name) - first
    if grown > 16 << 10:
        said.append(f"{name} takes {grown >> 10} MB more after {rounds} pages")
    return [sentence for sentence in said if sentence]


def memory(probe: Probe, name: str) -> int:
    """Kilobytes of the process that runs the service."""
    return max((p.rss_kb for p in probe.processes() if f"/srv/{name}/" in p.command), default=0)


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    return parts.digest(probe, f"/var/lib/{plan.service}/items/{plan.item}")


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    said = [*parts.changed(probe, before), *parts.stopped(probe, world(plan))]
    name, _ = leaking(plan)
    config = (probe.read(f"/etc/{name}/{name}.conf") or b"").decode()
    if f"memory = {plan.memory}\n" not in config:
        said.append(f"the memory that {name} may take was changed")
    return said


def truth(plan: Plan) -> Truth:
    name, port = leaking(plan)
    config = f"/etc/{name}/{name}.conf"
    locus = f"{plan.feed}|{config}"
    if plan.variant == "dependency":  # nobody is told of the one behind
        locus += rf"|{name}|\b{port}\b"
    category = ("memory-leak", "bad-config") if plan.variant == "unbounded" else ("memory-leak",)
    return Truth(
        component=(name,),
        category=category,
        locus=locus,
        evidence=r"MemoryError|start new thread|^recent = 0",
    )


def reference(plan: Plan) -> list[str]:
    name, _ = leaking(plan)
    config = f"/etc/{name}/{name}.conf"
    restore = [f"cp -p {config}.bak {config}"] if plan.variant == "unbounded" else []
    return [*restore, f"supervisorctl restart {name}"]


def wrong(plan: Plan) -> dict[str, list[str]]:
    name, _ = leaking(plan)
    config = f"/etc/{name}/{name}.conf"
    found = {
        "the big cache is restarted": [f"supervisorctl restart {plan.cache}"],
        "the big cache is stopped": [f"supervisorctl stop {plan.cache}"],
        "more memory is allowed": [
            f"sed -i 's/^memory = .*/memory = 4000/' {config}",
            f"supervisorctl restart {name}",
        ],
    }
    if plan.variant == "unbounded":
        found["it is only restarted"] = [f"supervisorctl restart {name}"]
    if plan.variant == "dependency":
        found["the one that complains is restarted"] = [f"supervisorctl restart {plan.service}"]
    return found
