"""In another house: a job that turns in a circle each time it is taken up, and a loop of the shell
that packs the same files for ever."""

import time

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import parts, tiers, yard
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Program, Truth

RENDER = """import re
import sys
import time
from pathlib import Path

queue, done = Path(sys.argv[1]), Path(sys.argv[2])
print("renderer looks at", queue, flush=True)
while True:
    for job in sorted(queue.glob("*.txt")):
        print("rendering", job.name, flush=True)
        text = job.read_text()
        found = re.match(r"^(([a-z])+.)+[A-Z]([a-z])+$", text)
        (done / job.name).write_text(f"{len(text)} letters, {bool(found)}")
        job.unlink()
    time.sleep(0.1)
"""
PACKING = """#!/bin/bash
# Packs what is old, one at a time.
exec 9>>{lock}
flock 9
left=1
while [ $left -gt 0 ]; do
  for file in {store}/*; do
    gzip -9 -c "$file" >/dev/null
  done
  left=$(ls {store} | wc -l)
done
"""


def _busy(probe: Probe, but: str) -> list[str]:
    was = {process.pid: process.cpu_seconds for process in probe.processes()}
    time.sleep(0.5)
    return [
        f"{process.name} ({process.inner}) eats the processor"
        for process in probe.processes()
        if but not in process.command
        and process.cpu_seconds - was.get(process.pid, process.cpu_seconds) > 0.3
    ]


def _batch(name: str) -> tiers.Part:
    """A job that is busy and supposed to be."""
    made = parts.batch(name, share=0.4)
    return tiers.Part(made.programs[0], made.files, made.folders)


def _renderer(name: str, queue: str, done: str) -> tiers.Part:
    code = f"/opt/{name}/bin/render.py"
    return tiers.Part(
        Program(
            name=name,
            command=f"nice -n 5 python3 {code} {queue} {done}",
            about=f"renders what is in {queue}, in the order of names; results in {done}",
        ),
        {code: File(RENDER, age=tiers.MONTH)},
        {queue: 0o755, done: 0o755},
    )


def _renders(service: str, queue: str, done: str) -> WatchedCheck:
    run = (
        f"n=95-$(date +%s%N).txt; echo 'a Word' > {queue}/$n; "
        f"for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; test -e {done}/$n && "
        "echo rendered && exit 0; done; echo not rendered after 2 s; exit 1"
    )
    check = Check(run, Expect(output="^rendered"), timeout=8.0)
    return WatchedCheck(f"{service} renders", check, service, severity="P1")


def poison(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    render, batch = f"{main}-render", f"{pick.word()}-totals"
    spool, token = f"/var/spool/{main}", pick.token(5)
    queue, done = f"{spool}/queue", f"{spool}/done"
    bad, good = f"10-{token}.txt", (f"20-{token}.txt", f"30-{token}.txt")
    kept = yard.notes(main, pick)
    world = tiers.joined(
        [
            yard.depot(main, port),
            yard.depot(other, other_port),
            _renderer(render, queue, done),
            _batch(batch),
        ],
        files={**kept, **yard.days_ago(other, pick)},
        hostname=pick.host(),
    )

    def inject(box: Box) -> None:
        box.write(f"{spool}/{bad}", "a" * 60 + "!")
        box.run(f"mv {spool}/{bad} {queue}/{bad}")
        taken = f"tail -n 1 /var/log/supervisor/{render}.log | grep -q {bad}"
        box.run(f"until {taken}; do sleep 0.1; done", seconds=15)
        for name in good:
            box.write(f"{queue}/{name}", "plain Words")

    def healthy(probe: Probe) -> list[str]:
        waiting = [name for name in probe.names(queue) if name in (bad, *good)]
        return said(*_busy(probe, "/batch.py"), *(f"{name} waits" for name in waiting))

    def harm(probe: Probe) -> list[str]:
        there = {*probe.names(queue), *probe.names(done)}
        lost = [f"{name} is lost" for name in good if name not in there]
        return said(yard.stores(probe, port, other_port), *lost)

    return Scene(
        world=world,
        check=_renders(main, queue, done),
        healthy=healthy,
        truth=Truth(
            (render, main), ("runaway-process",), rf"{render}|{bad}",
            rf"rendering {bad}|\b\d\d+\.\d\b.*/opt/{render}/|{bad}",
        ),
        inject=inject,
        fix=(f"mv {queue}/{bad} {spool}/{bad}.aside", f"supervisorctl restart {render}"),
        wrong={
            "it is only restarted": [f"supervisorctl restart {render}; sleep 0.4"],
            "the other busy one is stopped": [f"supervisorctl stop {batch}"],
            "all is thrown away": [f"rm -f {queue}/*", f"supervisorctl restart {render}"],
        },
        stays=(*kept, yard.settings_of(main), f"/opt/{render}/bin/render.py"),
        runs=(r"/batch\.py", rf"/opt/{render}/bin/render\.py"),
        harm=harm,
    )  # fmt: skip


LOCKED = '''
import fcntl


class Locked(Depot):
    """One who writes at a time, over all programs."""

    def put(self, key: str, body: bytes) -> None:
        with open(self.settings["write_lock"], "a") as lock:
            for _ in range(30):
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.02)
            else:
                raise Failure(f"{self.settings['write_lock']} is taken by somebody else")
            super().put(key, body)


if __name__ == "__main__":
    run(Locked)
'''


def packing(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    batch, person = f"{pick.word()}-totals", pick.word()
    script = f"/home/{person}/pack-{pick.token(4)}.sh"
    name = script.rpartition("/")[2]
    lock = f"/var/opt/{main}/write"
    kept = yard.notes(main, pick)
    text = PACKING.format(lock=lock, store=yard.store_of(main))
    world = tiers.joined(
        [yard.depot(main, port, {"write_lock": lock}, code=yard.program(LOCKED)),
         yard.depot(other, other_port), _batch(batch)],
        files={**kept, **yard.days_ago(other, pick), script: File(text, mode=0o755, age=3000.0)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.spawn(f"exec bash {script}")
        box.run(f"while flock -n {lock} true; do sleep 0.05; done", seconds=10)

    def healthy(probe: Probe) -> list[str]:
        packs = any(script in process.command for process in probe.processes())
        return said(
            yard.stores(probe, port), f"{script} still packs" if packs else "",
            *_busy(probe, "/batch.py"),
        )  # fmt: skip

    return Scene(
        world=world,
        check=yard.passes(main, port),
        healthy=healthy,
        truth=Truth(
            (name, script, main), ("runaway-process",), rf"{name}",
            rf"{name}",
        ),
        inject=inject,
        fix=(f"pkill -f '[/]{name}'",),
        wrong={
            "the one that complains is restarted": [f"supervisorctl restart {main}"],
            "the other busy one is stopped": [f"supervisorctl stop {batch}"],
            "the lock is removed": [f"rm {lock}"],
        },
        stays=(*kept, yard.settings_of(main)),
        runs=(r"/batch\.py",),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip
