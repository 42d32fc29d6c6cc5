"""A process was killed and left its lock behind."""

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
    lock: str
    other_lock: str
    salt: int


def plan(pick: Pick, variant: str) -> Plan:
    service = pick.service()
    worker, batch = pick.words(2)
    folder = pick.choice((f"/run/{service}", "/run/lock", f"/var/lib/{service}/run"))
    ending = {"worker-lock": "lock", "socket": "sock"}.get(variant, "pid")
    return Plan(
        variant=variant,
        service=service,
        port=pick.port(),
        worker=f"{service}-{worker}",
        batch=f"{batch}-recalc",
        lock=f"{folder}/{service}.{ending}",
        other_lock=f"{folder}/{batch}-recalc.{ending if ending != 'sock' else 'lock'}",
        salt=pick.size(1, 10**6),
    )


def world(plan: Plan) -> World:
    log = f"/var/log/{plan.service}/{plan.service}.log"
    busy = parts.batch(plan.batch, share=0.1, lock=plan.other_lock)
    folders = {str(Path(plan.lock).parent): 0o755}
    if plan.variant == "worker-lock":
        main = parts.desk(plan.service, plan.port, plan.worker, lock=plan.lock)
        files: dict[str, File] = {}
    else:
        setting = "control" if plan.variant == "socket" else "pid"
        main = parts.keeper(
            plan.service, plan.port, code="alone.py", start_seconds=1,
            settings={setting: plan.lock},
        )  # fmt: skip
        files = parts.items(f"/var/lib/{plan.service}", plan.salt)
    files[log] = File(text=parts.old_log(plan.salt))
    return parts.joined(main, busy, parts.Part((), files, folders))


def inject(box: Box, plan: Plan) -> None:
    if plan.variant == "worker-lock":
        box.run(f"supervisorctl stop {plan.worker}")
        box.write(plan.lock, f"pid {plan.salt % 20000 + 9000} since 03:12:44\n")
        box.run(f"supervisorctl start {plan.worker}")
        return
    box.run(f"kill -9 $(supervisorctl pid {plan.service})")
    box.wait(f"down:{plan.port}")
    if plan.variant == "reused-pid":
        box.run(f"supervisorctl pid {plan.batch} > {plan.lock}")


def check(plan: Plan) -> WatchedCheck:
    if plan.variant == "worker-lock":
        return parts.does_jobs(plan.service, plan.port)
    return parts.saves(plan.service, plan.port)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    if plan.variant == "worker-lock":
        said = [parts.done(probe, plan.port, f"/var/spool/{plan.service}")]
    else:
        said = [probe.keeps(plan.port)]
        if not parts.supervised(probe, plan.service):
            said.append(f"{plan.service} is not under supervision")
        if plan.variant != "socket" and not own_pid(probe, plan):
            said.append(f"{plan.lock} does not hold the pid of {plan.service}")
    return [sentence for sentence in said if sentence]


def own_pid(probe: Probe, plan: Plan) -> bool:
    held = (probe.read(plan.lock) or b"").decode().strip()
    return any(
        str(process.inner) == held and f"/srv/{plan.service}/" in process.command
        for process in probe.processes()
    )


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    kept = parts.items(f"/var/lib/{plan.service}", plan.salt)
    return {
        **parts.digest(probe, plan.other_lock),
        **({} if plan.variant == "worker-lock" else parts.digest(probe, *kept)),
    }


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    return [*parts.changed(probe, before), *parts.stopped(probe, world(plan))]


def truth(plan: Plan) -> Truth:
    component: tuple[str, ...] = (plan.service,)
    if plan.variant == "worker-lock":
        component = (plan.worker, plan.service)
    return Truth(
        component=component,
        category=("stale-lock",),
        locus=plan.lock.replace(".", r"\."),
        evidence=rf"{plan.lock}|already running|waiting for the lock|control socket",
    )


def reference(plan: Plan) -> list[str]:
    if plan.variant == "worker-lock":
        return [f"rm {plan.lock}"]
    return [f"rm {plan.lock}", f"supervisorctl start {plan.service}"]


def wrong(plan: Plan) -> dict[str, list[str]]:
    name = plan.worker if plan.variant == "worker-lock" else plan.service
    folder = Path(plan.lock).parent
    return {
        "it is only restarted": [f"supervisorctl restart {name}"],
        "all locks are removed": [f"rm -f {folder}/*", f"supervisorctl restart {name}"],
        "the job at work is killed": [
            f"supervisorctl stop {plan.batch}",
            f"rm {plan.lock}",
            f"supervisorctl restart {name}",
        ],
    }
