"""The supervisor has given up on a service."""

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
    state: str
    wrong: str
    salt: int


def plan(pick: Pick, variant: str) -> Plan:
    service, other = pick.services(2)
    port, other_port = pick.ports(2)
    ending = pick.choice(("orig", "disabled", "old"))
    wrong = {
        "moved-code": f"/srv/{service}/{pick.choice(('bin', 'app', 'src', 'lib'))}-{pick.token()}",
        "renamed-config": f"/etc/{service}/{service}.conf.{ending}",
        "interpreter": f"/opt/python3.{pick.size(5, 9)}/bin/python3",
        "missing-folder": "",
    }[variant]
    return Plan(
        variant=variant,
        service=service,
        port=port,
        other=other,
        other_port=other_port,
        state=f"/run/{service}-{pick.word()}/state",
        wrong=wrong,
        salt=pick.size(1, 10**6),
    )


def entry(plan: Plan) -> str:
    return f"/etc/supervisor/conf.d/{plan.service}.conf"


def world(plan: Plan) -> World:
    files = {
        **parts.items(f"/var/lib/{plan.service}", plan.salt),
        f"/var/log/{plan.service}/{plan.service}.log": File(text=parts.old_log(plan.salt)),
    }
    return parts.joined(
        parts.keeper(
            plan.service,
            plan.port,
            code="stateful.py",
            start_seconds=1,
            settings={"state": plan.state},
        ),
        parts.neighbour(plan.other, plan.other_port, plan.salt + 1),
        parts.Part((), files, {str(Path(plan.state).parent): 0o755}),
    )


def inject(box: Box, plan: Plan) -> None:
    box.run(f"supervisorctl stop {plan.service}")
    config = f"/etc/{plan.service}/{plan.service}.conf"
    match plan.variant:
        case "moved-code":
            edit(box, plan, f"/srv/{plan.service}/stateful.py", f"{plan.wrong}/stateful.py")
        case "interpreter":
            edit(box, plan, " python3 ", f" {plan.wrong} ")
        case "renamed-config":
            box.run(f"mv {config} {plan.wrong}")
        case _:
            box.run(f"rm -r {Path(plan.state).parent}")
    box.run(f"supervisorctl start {plan.service}", check=False)


def edit(box: Box, plan: Plan, was: str, now: str) -> None:
    """Change the entry as a person would, who keeps what it was."""
    path = entry(plan)
    box.run(f"cp -p {path} {path}.bak; sed -i 's#{was}#{now}#' {path}")
    box.run("supervisorctl reread; supervisorctl update", check=False)


def check(plan: Plan) -> WatchedCheck:
    return parts.saves(plan.service, plan.port)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    said = [probe.keeps(plan.port)]
    if not parts.supervised(probe, plan.service):
        said.append(f"{plan.service} does not run under supervision")
    return [sentence for sentence in said if sentence]


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    return parts.digest(probe, *parts.items(f"/var/lib/{plan.service}", plan.salt))


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    return [*parts.changed(probe, before), *parts.stopped(probe, world(plan))]


def truth(plan: Plan) -> Truth:
    locus = {
        "moved-code": f"{plan.wrong}|{entry(plan)}",
        "interpreter": f"{plan.wrong}|{entry(plan)}",
        "renamed-config": plan.wrong.replace(".", r"\."),
        "missing-folder": str(Path(plan.state).parent),
    }[plan.variant]
    category: tuple[str, ...] = ("service-crash",)
    if plan.variant != "missing-folder":
        category = ("service-crash", "bad-config")
    return Truth(
        component=(plan.service,),
        category=category,
        locus=locus,
        evidence=r"No such file or directory|can't open file|cannot write /run",
    )


def reference(plan: Plan) -> list[str]:
    start = f"supervisorctl start {plan.service}"
    config = f"/etc/{plan.service}/{plan.service}.conf"
    match plan.variant:
        case "renamed-config":
            return [f"cp -p {plan.wrong} {config}", start]
        case "missing-folder":
            return [f"mkdir -p {Path(plan.state).parent}", start]
        case _:
            path = entry(plan)
            return [f"cp -p {path}.bak {path}", "supervisorctl reread; supervisorctl update; true"]


def wrong(plan: Plan) -> dict[str, list[str]]:
    found = {
        "it is only started again": [f"supervisorctl start {plan.service}"],
        "its entry is removed": [f"rm {entry(plan)}", "supervisorctl reread; supervisorctl update"],
    }
    if plan.variant in ("moved-code", "interpreter"):
        by_hand = f"python3 stateful.py /etc/{plan.service}/{plan.service}.conf"
        found["it is started by hand"] = [
            f"cd /srv/{plan.service}; setsid {by_hand} >/dev/null 2>&1 & sleep 0.5"
        ]
    return found
