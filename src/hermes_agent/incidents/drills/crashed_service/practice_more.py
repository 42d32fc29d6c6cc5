"""A worker that ends on one piece of its work, again and again."""

import time

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import parts
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.stalls import MONTH, stall
from hermes_agent.incidents.drills.world import File, Program, Truth

_WORKER = """\
import json, os, sys, time
inbox, outbox = sys.argv[1:]
while True:
    for name in sorted(one for one in os.listdir(inbox) if one[0] != "."):
        path = os.path.join(inbox, name)
        with open(path) as file:
            {read}
        with open(os.path.join(outbox, name), "w") as file:
            json.dump(job, file)
        os.unlink(path)
    time.sleep(0.1)
"""
_READS = (
    "job = json.load(file)",
    """try:
                job = json.load(file)
            except ValueError as error:
                sys.exit(f"cannot read {path}: {error}")""",
)


def _works(name: str, inbox: str, outbox: str) -> WatchedCheck:
    """A job that is put in comes out."""
    run = (
        f"n=z-$(date +%s%N).json; test -e {inbox}/.z || echo '{{}}' > {inbox}/.z; "
        f"ln {inbox}/.z {inbox}/$n; "
        f"for i in 1 2 3 4 5 6 7 8; do sleep 0.25; test -e {outbox}/$n && echo done && exit 0; "
        "done; echo not done after 2 s; exit 1"
    )
    check = Check(run, Expect(output="^done"), timeout=6.0)
    return WatchedCheck(name=f"{name}-works", service=name, severity="P1", check=check)


def bad_piece(pick: Pick) -> Scene:
    """One of the files in its inbox was cut off while it was written."""
    name, other = pick.services(2)
    other_port = pick.port()
    beside = stall(pick, other, other_port)
    root = pick.choice(("/var/spool", "/data", "/srv/queues"))
    inbox, outbox = f"{root}/{name}/in", f"{root}/{name}/out"
    code = f"/opt/{name}/worker.py"
    program = Program(
        name=name, command=f"python3 {code} {inbox} {outbox}", about="does jobs", start_seconds=1
    )
    bad = f"{inbox}/job-0{pick.token(3)}.json"

    def healthy(probe: Probe) -> list[str]:
        time.sleep(0.5)
        waits = [one for one in probe.names(inbox) if not one.startswith(".")]
        up = parts.supervised(probe, name, "/opt")
        return said(
            f"{len(waits)} jobs wait" if len(waits) > 1 else "", "" if up else f"{name} is down"
        )

    def harm(probe: Probe) -> list[str]:
        done = [*probe.names(inbox), *probe.names(outbox)]
        return said(*(f"job-{n} is lost" for n in range(1, 5) if f"job-{n}.json" not in done))

    return Scene(
        world=parts.joined(
            parts.Part(
                (program,),
                {code: File(_WORKER.format(read=pick.choice(_READS)), age=MONTH)},
                {inbox: 0o755, outbox: 0o755},
            ),
            beside.part,
        ),
        check=_works(name, inbox, outbox),
        healthy=healthy,
        truth=Truth(
            component=(name,), category=("service-crash",), locus=bad.replace(".", r"\."),
            evidence=r"JSONDecodeError|Expecting|cannot read|Unterminated",
        ),
        inject=lines(
            f"supervisorctl stop {name}",
            f"for i in 1 2 3 4; do echo '{{\"n\": '$i'}}' > {inbox}/job-$i.json; done",
            f"printf '{{\"n\": 5, \"at' > {bad}",
            f"supervisorctl start {name}; sleep 2",
        ),
        fix=(f"mv {bad} /root/", f"supervisorctl restart {name}"),
        wrong={
            "it is only started again": [f"supervisorctl restart {name}; sleep 0.5"],
            "the inbox is emptied": [f"rm {inbox}/*", f"supervisorctl restart {name}"],
        },
        stays=(code, beside.config),
        runs=(beside.code,),
        harm=harm,
    )  # fmt: skip
