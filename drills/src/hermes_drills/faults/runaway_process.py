"""A process that takes a whole processor for nothing."""

from collections.abc import Mapping, Sequence

from hermes_drills.box.box import Box
from hermes_drills.faults.common import Stray, end_process, put_back, restart, set_value
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits
from hermes_drills.worlds.formats import value_of

BUSY = 0.3
_EVIDENCE = r"at work all the time|\b([5-9]\d|1\d\d)(\.\d+)? ?%|R \(running\)"
_STUCK = """\
# Balances the weights until none changes.
weight = 1
while weight:
    weight = (weight * 31 + 7) % 65521 or 1
"""
_RESPAWNS = """\
#!/bin/sh
# Works through the list; a worker that takes too long is replaced.
[ "$1" = worker ] && while :; do :; done
while :; do timeout 5 sh "$0" worker; done
"""


class StuckBatch(Stray):
    """A batch job never ends."""

    category = "runaway-process"
    mechanism = "stuck-batch"
    scripts = ("rebalance.py", "reindex.py", "score.py", "recount.py")

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        return self.blamed(at, self.leave(box, world, at, pick, _STUCK), _EVIDENCE, "processor")


class Respawned(Stray):
    """A script replaces each busy child process that ends."""

    category = "runaway-process"
    mechanism = "respawned"
    scripts = ("refresh.sh", "workers.sh", "drain.sh", "crunch.sh")

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        script = self.leave(box, world, at, pick, _RESPAWNS, "sh")
        return self.blamed(at, script, _EVIDENCE, "processor")

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        child = end_process(f"{truth.notes['script']} worker")
        return {**super().wrong(world, truth), "kill the child": [child, "sleep 0.2"]}


class NoPause(Fault):
    """A service is configured to poll without a pause."""

    category = "runaway-process"
    mechanism = "no-pause"
    wants = "service"
    foreign = True

    def fits(self, world: World, at: Target) -> bool:
        return world.service(at.service).role != "worker"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        copy = set_value(box, world, at, "interval", "0")
        restart(box, world, at.service)
        return Truth((at.service,), (self.category, "bad-config"), f"{at.path}|{at.service}",
                     rf"(?i)interval|{_EVIDENCE}", "processor", at, {"copy": copy})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        assert truth.at is not None
        now = value_of(world.style.format, probe.text(truth.at.path), "interval")
        if now is not None and not now.strip("0."):
            return [f"{truth.at.path} sets interval to {now}"]
        busy = probe.cpu(0.2)
        return [f"the machine uses {busy:.0%} of a processor"] if busy > BUSY else []

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        return put_back(world, truth)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        name = truth.at.service
        return {
            "restart": [inits.restart(world, name)],
            "be nice": [f"renice -n 19 -p $(cat /run/{name}.pid)"],
            "kill it": [f"kill -9 $(cat /run/{name}.pid)"],
        }


FAULTS = (StuckBatch(), Respawned(), NoPause())
