"""A log fills its file system faster than anybody clears it."""

import time

from msgspec import Struct

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import parts
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Mount, Program, Truth, World

GROWTH = 40_000
"""Bytes in half a second that no log may gain when all is well."""


class Plan(Struct, frozen=True):
    variant: str
    service: str
    port: int
    other: str
    other_port: int
    shipper: str
    nobody: int
    mb: int
    salt: int


def plan(pick: Pick, variant: str) -> Plan:
    service, other = pick.services(2)
    port, other_port, nobody = pick.ports(3)
    return Plan(
        variant=variant,
        service=service,
        port=port,
        other=other,
        other_port=other_port,
        shipper=f"{service}-shipper",
        nobody=nobody,
        mb=pick.size(4, 7),
        salt=pick.size(1, 10**6),
    )


def root(plan: Plan) -> str:
    """The file system that the service shares with its logs."""
    return f"/var/lib/{plan.service}"


def folder(plan: Plan) -> str:
    return f"{root(plan)}/log"


def flooded(plan: Plan) -> tuple[str, str]:
    """The log that grows, and the name of the one that writes it."""
    name = plan.shipper if plan.variant == "retries" else plan.service
    return f"{folder(plan)}/{name}.log", name


def world(plan: Plan) -> World:
    journal = f"{folder(plan)}/journal"
    log = f"{folder(plan)}/{plan.service}.log"
    settings = {
        "name": plan.shipper,
        "journal": journal,
        "target": f"http://127.0.0.1:{plan.other_port}",
        "log": f"{folder(plan)}/{plan.shipper}.log",
    }
    config = f"/etc/{plan.shipper}/{plan.shipper}.conf"
    shipper = Program(
        name=plan.shipper,
        command=f"python3 /srv/{plan.shipper}/shipper.py {config}",
        needs=(plan.other,),
        about=f"ships the journal of {plan.service} to {plan.other}; configuration {config}",
    )
    lines = "".join(f"{n:02}:00:00 put item-{plan.salt + n} 20\n" for n in range(24))
    files = {
        **parts.items(f"/var/lib/{plan.service}", plan.salt, count=20),
        journal: File(text=lines),
        log: File(text=parts.old_log(plan.salt)),
        f"/srv/{plan.shipper}/shipper.py": parts.source("shipper.py"),
        config: File(text=parts.conf(settings), age=86400.0 * 40),
    }
    return parts.joined(
        parts.neighbour(plan.other, plan.other_port, plan.salt + 1),
        parts.keeper(
            plan.service,
            plan.port,
            code="looking.py",
            settings={"journal": journal, "level": "info", "log": log},
        ),
        parts.Part((shipper,), files),
        mounts=(Mount(root(plan), mb=plan.mb),),
    )


def inject(box: Box, plan: Plan) -> None:
    log, name = flooded(plan)
    config = f"/etc/{name}/{name}.conf"
    match plan.variant:
        case "environment":
            config = f"/etc/supervisor/conf.d/{name}.conf"
            change = '$ a environment=LOG_LEVEL="debug"'
        case "debug":
            change = "s/^level = .*/level = debug/"
        case _:
            change = f"s#^target = .*#target = http://127.0.0.1:{plan.nobody}#"
    box.run(f"cp -p {config} {config}.bak; sed -i '{change}' {config}")
    if plan.variant == "retries":
        box.run(f"supervisorctl stop {name}")
    box.run("supervisorctl reread; supervisorctl update", check=False)
    box.run(f"supervisorctl restart {name}")
    box.run(  # as it has done for hours
        f"for i in $(seq 100); do test $(wc -l < {log}) -gt 90 && break; sleep 0.05; done; "
        f"tail -n 40 {log} > /root/lines; sed -i 's/ [0-9:]* / 03:14:15 /' /root/lines; "
        f"while cat /root/lines >> {log}; do :; done 2>/dev/null; rm /root/lines; sleep 0.1"
    )


def check(plan: Plan) -> WatchedCheck:
    return parts.saves(plan.service, plan.port)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    said = [probe.keeps(plan.port)]
    if parts.free_share(probe, root(plan)) < 0.5:
        said.append(f"{root(plan)} has hardly any room")
    was = probe.space(root(plan)).free
    time.sleep(0.5)
    if was - probe.space(root(plan)).free > GROWTH:
        said.append(f"the logs in {folder(plan)} grow without measure")
    if not parts.supervised(probe, flooded(plan)[1]):
        said.append(f"{flooded(plan)[1]} does not run")
    return [sentence for sentence in said if sentence]


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    kept = parts.items(f"/var/lib/{plan.service}", plan.salt, count=20)
    return parts.digest(probe, *kept)


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    said = [*parts.changed(probe, before), *parts.stopped(probe, world(plan))]
    journal = probe.read(f"{folder(plan)}/journal") or b""
    if f"put item-{plan.salt} 20\n".encode() not in journal:
        said.append("the journal is gone or emptied")
    return said


def truth(plan: Plan) -> Truth:
    log, name = flooded(plan)
    return Truth(
        component=(name,),
        category=("log-flood",),
        locus=rf"{log}|/etc/{name}|conf\.d/{name}",
        evidence=rf"100% +{root(plan)}|DEBUG queue|level = debug|LOG_LEVEL|cannot ship line",
    )


def reference(plan: Plan) -> list[str]:
    log, name = flooded(plan)
    config = f"/etc/{name}/{name}.conf"
    if plan.variant == "environment":
        config = f"/etc/supervisor/conf.d/{name}.conf"
    return [
        f"cp -p {config}.bak {config}",
        f"supervisorctl reread; supervisorctl update; supervisorctl restart {name}",
        f"truncate -s 0 {log}",
    ]


def wrong(plan: Plan) -> dict[str, list[str]]:
    log, name = flooded(plan)
    return {
        "the log is only emptied": [f"truncate -s 0 {log}"],
        "it is emptied and restarted": [f"truncate -s 0 {log}; supervisorctl restart {name}"],
        "the folder is emptied": [f"rm {folder(plan)}/*", *reference(plan)],
        "the log goes nowhere": [f"supervisorctl stop {name}", f"truncate -s 0 {log}"],
    }
