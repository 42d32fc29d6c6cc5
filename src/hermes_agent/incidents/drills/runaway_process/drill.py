"""A process turns in a circle, and holds what others need."""

import time
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
    worker: str
    batch: str
    script: str
    token: str
    salt: int


def plan(pick: Pick, variant: str) -> Plan:
    service = pick.service()
    worker, batch, script, person = pick.words(4)
    return Plan(
        variant=variant,
        service=service,
        port=pick.port(),
        worker=f"{service}-{worker}",
        batch=f"{batch}-recalc",
        script=f"/home/{person}/{script}-{pick.token()}.py",
        token=pick.token(),
        salt=pick.size(1, 10**6),
    )


def spool(plan: Plan) -> str:
    return f"/var/spool/{plan.service}"


def lock(plan: Plan) -> str:
    return f"/var/lib/{plan.service}/write.lock"


def world(plan: Plan) -> World:
    log = f"/var/log/{plan.service}/{plan.service}.log"
    busy = parts.batch(plan.batch, share=0.45)
    files = {log: File(text=parts.old_log(plan.salt))}
    if plan.variant == "stuck-worker":
        main = parts.desk(plan.service, plan.port, plan.worker)
        return parts.joined(main, busy, parts.Part((), files))
    main = parts.keeper(plan.service, plan.port, code="orderly.py", settings={"lock": lock(plan)})
    files = {
        **files,
        **parts.items(f"/var/lib/{plan.service}", plan.salt),
        plan.script: parts.source("reindex.py"),
    }
    return parts.joined(main, busy, parts.Part((), files))


def inject(box: Box, plan: Plan) -> None:
    if plan.variant == "stuck-worker":
        job = f'{{"text": "{plan.token} " , "width": 4, "step": 0}}'
        for number in range(3):
            path = f"{spool(plan)}/in/{plan.token}-{number}.json"
            box.write(f"{path}.new", job if not number else parts.job(f"{plan.token}-{number}"))
            box.run(f"mv {path}.new {path}")
        box.wait(f"file:{spool(plan)}/work/{plan.token}-0.json")
        return
    run = f"nice -n 19 python3 {plan.script} {lock(plan)} /var/lib/{plan.service}/items"
    if plan.variant == "started-again":
        again = Path(plan.script).with_suffix(".sh")
        box.write(str(again), f"while true; do\n  {run}\n  sleep 0.05\ndone\n")
        box.spawn(f"exec bash {again}")
    else:
        box.spawn(f"exec {run}")
    box.run(
        f"for i in $(seq 100); do flock -n {lock(plan)} true || exit 0; sleep 0.05; done; exit 1"
    )


def check(plan: Plan) -> WatchedCheck:
    if plan.variant == "stuck-worker":
        return parts.does_jobs(plan.service, plan.port)
    return parts.saves(plan.service, plan.port)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    if plan.variant == "stuck-worker":
        said = [parts.done(probe, plan.port, spool(plan))]
        waiting = [name for name in probe.names(f"{spool(plan)}/in") if plan.token in name]
        said += [f"job {name} still waits" for name in waiting]
    else:
        said = [probe.keeps(plan.port)]
    was = {process.pid: process.cpu_seconds for process in probe.processes()}
    time.sleep(0.4)
    for process in probe.processes():
        used = process.cpu_seconds - was.get(process.pid, process.cpu_seconds)
        if plan.batch not in process.command and used > 0.25:
            said.append(f"{process.name} ({process.inner}) eats the processor")
        if plan.script in process.command:
            said.append(f"{plan.script} runs")
    return [sentence for sentence in said if sentence]


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    kept = (
        {} if plan.variant == "stuck-worker" else parts.items(f"/var/lib/{plan.service}", plan.salt)
    )
    return {**parts.digest(probe, *kept), "batch": batch(probe, plan)}


def batch(probe: Probe, plan: Plan) -> str:
    """Which process does the long job: it must be the same afterwards."""
    return " ".join(str(p.inner) for p in probe.processes() if "/batch.py" in p.command)


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    said = [
        *parts.changed(probe, {path: was for path, was in before.items() if path != "batch"}),
        *parts.stopped(probe, world(plan)),
    ]
    if batch(probe, plan) != before["batch"]:
        said.append(f"{plan.batch} was interrupted")
    if plan.variant == "stuck-worker":
        for number in (1, 2):
            name = f"{plan.token}-{number}.json"
            if not any(probe.stat(f"{spool(plan)}/{place}/{name}") for place in ("in", "done")):
                said.append(f"job {name} is lost")
    return said


def truth(plan: Plan) -> Truth:
    if plan.variant == "stuck-worker":
        component: tuple[str, ...] = (plan.worker, plan.service)
        locus = f"{plan.worker}|{plan.token}-0"
        evidence = rf"job {plan.token}-0|\b\d\d+\.\d\b.*/srv/{plan.worker}/"
    else:
        name = Path(plan.script)
        component = (name.name, f"{name.stem}.sh", name.stem, plan.script, plan.service)
        locus = evidence = name.stem
    return Truth(
        component=component,
        category=("runaway-process",),
        locus=locus,
        evidence=evidence,
    )


def reference(plan: Plan) -> list[str]:
    if plan.variant == "stuck-worker":
        return [f"supervisorctl restart {plan.worker}"]
    name = Path(plan.script).name
    if plan.variant == "started-again":
        return [f"kill $(pgrep -f '[/]{Path(name).stem}.sh'); kill $(pgrep -f '[/]{name}')"]
    return [f"kill $(pgrep -f '[/]{name}')"]


def wrong(plan: Plan) -> dict[str, list[str]]:
    found = {
        "the one that complains is restarted": [f"supervisorctl restart {plan.service}"],
        "the other busy one is stopped": [f"supervisorctl stop {plan.batch}"],
    }
    name = Path(plan.script).name
    if plan.variant == "started-again":
        found["only the child is killed"] = [f"kill $(pgrep -f '[/]{name}'); sleep 0.5"]
    if plan.variant == "stuck-worker":
        found["the queue is thrown away"] = [
            f"rm -f {spool(plan)}/in/*",
            f"supervisorctl restart {plan.worker}",
        ]
    return found
