"""Nothing is wrong, though somebody was called: whatever is done is too much."""

from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import process_of, upstream_of
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import checks, inits

_BATCH = """\
# Recomputes what the month came to; runs for hours, at the lowest priority.
import hashlib, time
while True:
    end = time.process_time() + 0.02
    while time.process_time() < end:
        hashlib.sha256(bytes(4096)).digest()
    time.sleep(0.06)
"""


class _Nothing(Fault):
    category = "no-fault"
    wants = "service"

    def fits(self, world: World, at: Target) -> bool:
        return at.service == world.entry

    def _truth(self, at: Target, **notes: str) -> Truth:
        return Truth((at.service, ""), (self.category,), at=at, notes=notes)

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        config = quote(world.service(truth.at.service).config)
        return {
            "restart to be sure": [inits.restart(world, truth.at.service)],
            "more workers": [f"sed -i '/workers/Is/[0-9][0-9]*/64/' {config}"],
        }


class Quiet(_Nothing):
    """The alert was a false alarm."""

    mechanism = "quiet"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        return self._truth(at)


class Busy(_Nothing):
    """A long job runs at low priority, and there are large files, all as intended."""

    mechanism = "busy"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        name = pick.choice(("recalc", "month-end", "reindex", "transcode"))
        script, export = f"/opt/{name}/{name}.py", f"/var/lib/{name}/{pick.token()}.dump"
        box.write(script, _BATCH)
        box.run(f"mkdir -p /var/lib/{name}; head -c {pick.size(8, 24)}M /dev/zero > {export}")
        box.spawn(f"exec nice -n 19 python3 -IS {script}")
        return self._truth(at, script=script, export=export)

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        script, export = truth.notes["script"], truth.notes["export"]
        ended = [] if process_of(probe, rf"^\S*python\S* -IS {script}") else [f"{script} was ended"]
        return ended if probe.stat(export) else [*ended, f"{export} was removed"]

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        script, export = truth.notes["script"], truth.notes["export"]
        end = (f"for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/cmdline | grep -qx {script} && "
               "kill ${p#/proc/}; done")  # fmt: skip
        return {**super().wrong(world, truth), "end the job": [end], "make room": [f"rm {export}"]}


class Flap(_Nothing):
    """The check failed once, during a planned restart of a service, and has passed since."""

    mechanism = "flap"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        needed = upstream_of(world, at.service)
        name = needed.name if needed else at.service
        box.run(inits.command(world, name, "stop"), check=False)
        box.run(checks.answers(world).run, check=False)
        box.run(inits.command(world, name, "start"), check=False)
        return self._truth(at)


FAULTS = (Quiet(), Busy(), Flap())
