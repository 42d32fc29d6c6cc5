"""A service has as many files or connections open as it may."""

from pathlib import Path

from msgspec import Struct

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import parts
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Truth, World


class Plan(Struct, frozen=True):
    variant: str
    service: str
    port: int
    other: str
    other_port: int
    poller: str
    files: int
    item: str
    salt: int


def plan(pick: Pick, variant: str) -> Plan:
    service, other = pick.services(2)
    port, other_port = pick.ports(2)
    return Plan(
        variant=variant,
        service=service,
        port=port,
        other=other,
        other_port=other_port,
        poller=f"/home/{pick.word()}/{pick.word()}-{pick.token()}.py",
        files=pick.size(48, 90),
        item=f"item-{pick.token()}",
        salt=pick.size(1, 10**6),
    )


def world(plan: Plan) -> World:
    files = {
        f"/var/lib/{plan.service}/items/{plan.item}": File(text=f"{plan.item}\n", age=7e5),
        f"/var/log/{plan.service}/{plan.service}.log": File(text=parts.old_log(plan.salt)),
        plan.poller: parts.source("poller.py"),
    }
    needs = (plan.other,) if plan.variant == "upstream" else ()
    return parts.joined(
        parts.neighbour(plan.other, plan.other_port, plan.salt + 1),
        parts.keeper(
            plan.service,
            plan.port,
            code="watching.py",
            needs=needs,
            limits={"nofile": plan.files},
            settings={"slots": 400, "behind": f"127.0.0.1:{plan.other_port}"},
        ),
        parts.Part((), files, {str(Path(plan.poller).parent): 0o755}),
    )


def inject(box: Box, plan: Plan) -> None:
    base = f"http://127.0.0.1:{plan.port}"
    many = f"for i in $(seq {plan.files}); do "
    match plan.variant:
        case "watches":
            line = f"curl -s -m 1 -o /dev/null -X POST {base}/watch/{plan.item} || break; done"
            box.run(many + line, check=False)
        case "upstream":
            line = f"curl -s -m 1 -o /dev/null {base}/fetch/gone-$i || break; done"
            box.run(many + line, check=False)
        case _:
            box.spawn(f"exec python3 {plan.poller} {plan.port}")
            log = f"/var/log/{plan.service}/{plan.service}.log"
            logs = f"{log} /var/log/supervisor/{plan.service}.log"
            new = f"tail -qn 5 {logs} | grep -q 'accept: .*Too many open files'"
            box.run(f"for i in $(seq 200); do {new} && exit 0; sleep 0.05; done; exit 1")


def check(plan: Plan) -> WatchedCheck:
    return parts.saves(plan.service, plan.port)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    said = [probe.keeps(plan.port, timeout=1.0), probe.keeps(plan.other_port)]
    for process in probe.processes():
        if f"/srv/{plan.service}/" in process.command and process.descriptors > plan.files // 2:
            said.append(f"{plan.service} has {process.descriptors} files open")
        if plan.poller in process.command:
            said.append(f"{plan.poller} still takes connections")
    return [sentence for sentence in said if sentence]


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    return parts.digest(probe, f"/var/lib/{plan.service}/items/{plan.item}")


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    said = [*parts.changed(probe, before), *parts.stopped(probe, world(plan))]
    for process in probe.processes():
        if f"/srv/{plan.service}/" in process.command:
            may = parts.open_files(process.pid)
            if may > plan.files:
                said.append(f"{plan.service} may now have {may} files open")
    return said


def truth(plan: Plan) -> Truth:
    component: tuple[str, ...] = (plan.service,)
    locus = rf"items/{plan.item}|\b{plan.other_port}\b"
    evidence = r"Too many open files|CLOSE-WAIT"
    if plan.variant == "clients":
        component = (Path(plan.poller).name, Path(plan.poller).stem, plan.poller, plan.service)
        locus = evidence = Path(plan.poller).stem
    return Truth(
        component=component,
        category=("descriptor-leak",),
        locus=locus,
        evidence=evidence,
    )


def reference(plan: Plan) -> list[str]:
    if plan.variant == "clients":
        name = Path(plan.poller).name
        return [f"kill $(pgrep -f '[/]{name}')"]
    return [f"supervisorctl restart {plan.service}"]


def wrong(plan: Plan) -> dict[str, list[str]]:
    entry = f"/etc/supervisor/conf.d/{plan.service}.conf"
    found = {
        "the neighbour is restarted": [f"supervisorctl restart {plan.other}"],
        "the limit is raised": [
            f"sed -i 's/--nofile=[0-9:]*/--nofile=4096/' {entry}",
            "supervisorctl reread; supervisorctl update",
            f"supervisorctl restart {plan.service}",
        ],
    }
    if plan.variant == "clients":
        found["it is only restarted"] = [f"supervisorctl restart {plan.service}; sleep 1.5"]
    return found
