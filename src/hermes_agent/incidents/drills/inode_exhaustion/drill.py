"""Small files that nobody clears away have taken all inodes."""

from msgspec import Struct

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import parts
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Mount, Truth, World

PLACES = {
    "sessions": ("sessions", "sess_{}"),
    "fragments": ("cache/fragments", "{}.frag"),
    "undelivered": ("spool/tmp", "tmp.{}.msg"),
}
"""For each variant the folder that fills up, and how its files are called."""


class Plan(Struct, frozen=True):
    variant: str
    service: str
    port: int
    other: str
    other_port: int
    root: str
    inodes: int
    salt: int


def plan(pick: Pick, variant: str) -> Plan:
    service, other = pick.services(2)
    port, other_port = pick.ports(2)
    root = pick.choice((f"/var/lib/{service}", f"/srv/data/{service}", f"/data/{service}"))
    return Plan(
        variant=variant,
        service=service,
        port=port,
        other=other,
        other_port=other_port,
        root=root,
        inodes=pick.size(900, 1600),
        salt=pick.size(1, 10**6),
    )


def place(plan: Plan) -> str:
    return f"{plan.root}/{PLACES[plan.variant][0]}"


def wanted(plan: Plan) -> dict[str, File]:
    """What people kept, and the small files of the last minutes, which are in use."""
    name = PLACES[plan.variant][1]
    return {
        **parts.items(plan.root, plan.salt, count=120),
        **{
            f"{place(plan)}/{name.format(f'now{number:05}')}": File(text=f"{number}\n", age=60.0)
            for number in range(9)
        },
    }


def world(plan: Plan) -> World:
    log = f"/var/log/{plan.service}/{plan.service}.log"
    files = {
        **wanted(plan),
        log: File(text=parts.old_log(plan.salt)),
        f"{plan.root}/catalogue.bin": File(size=3 << 20, age=9e6),
    }
    return parts.joined(
        parts.keeper(plan.service, plan.port, root=plan.root),
        parts.neighbour(plan.other, plan.other_port, plan.salt + 1),
        parts.Part((), files, {place(plan): 0o755}),
        mounts=(Mount(plan.root, mb=24, inodes=plan.inodes),),
    )


def inject(box: Box, plan: Plan) -> None:
    name = PLACES[plan.variant][1]
    box.run(
        f"""python3 - <<'END'
import os, time
number = 0
while True:
    path = {place(plan)!r} + "/" + {name!r}.format(f"{{number:07x}}{plan.salt:06}")
    try:
        with open(path, "x") as file:
            file.write(f"{{number}}\\n")
    except OSError:
        break
    then = time.time() - 86400 * 3 - number * 600
    os.utime(path, (then, then))
    number += 1
END"""
    )


def check(plan: Plan) -> WatchedCheck:
    return parts.saves(plan.service, plan.port)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    said = [probe.keeps(plan.port)]
    if parts.free_inodes(probe, plan.root) < 0.25:
        said.append(f"{plan.root} has hardly any room for more files")
    return [sentence for sentence in said if sentence]


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    kept = parts.digest(probe, f"{plan.root}/catalogue.bin", *wanted(plan))
    if plan.variant == "fragments":  # a cache is there to be emptied
        kept = {path: was for path, was in kept.items() if not path.startswith(place(plan))}
    return kept


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    return [*parts.changed(probe, before), *parts.stopped(probe, world(plan))]


def truth(plan: Plan) -> Truth:
    return Truth(
        component=(plan.service,),
        category=("inode-full",),
        locus=place(plan),
        evidence=f"100% +{plan.root}|{place(plan)}",
    )


def reference(plan: Plan) -> list[str]:
    return [f"find {place(plan)} -type f -mtime +1 -delete"]


def wrong(plan: Plan) -> dict[str, list[str]]:
    return {
        "the service is restarted": [f"supervisorctl restart {plan.service}"],
        "old items are removed": [f"find {plan.root}/items -type f -mtime +1 -delete"],
        "the biggest file is removed": [f"rm {plan.root}/catalogue.bin"],
    }
