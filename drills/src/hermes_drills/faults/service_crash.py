"""A service that ended and does not come back by itself."""

from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import end_process, process_of
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits

DOWN = r"STOPPED|EXITED|inactive|stopped|not running|refused|waiting"
_DRAIN = """\
#!/bin/sh
# Keeps {name} down while its data are moved. Ask {who} before you end it.
while :; do
    kill "$(cat /run/{name}.pid)" 2>/dev/null
    sleep 0.2
done
"""


class _Ended(Fault):
    category = "service-crash"
    wants = "service"

    def _truth(self, at: Target, evidence: str = DOWN) -> Truth:
        return Truth((at.service,), (self.category,), at.service, evidence, at=at)

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        return (inits.command(world, truth.at.service, "start"),)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        others = [one for one in world.services if one.name != truth.at.service]
        service = world.service(truth.at.service)
        return {
            "restart another": [inits.restart(world, others[0].name)],
            "fake the port": [
                f"setsid python3 -m http.server {service.port or 1} </dev/null >/dev/null 2>&1 &"
            ],
            "wipe its data": [f"rm -rf {quote(service.data or '/var/lib/none')}"],
        }


class Stopped(_Ended):
    """Somebody stopped it and never started it again."""

    mechanism = "stopped"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        box.run(inits.command(world, at.service, "stop"), check=False)
        return self._truth(at)


class Killed(_Ended):
    """Somebody killed its process; it exited with 0, so the init system does not restart it."""

    mechanism = "killed"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        pid_file = quote(world.service(at.service).pid_file)
        box.run(f"p=$(cat {pid_file}); kill $p; while [ -e /proc/$p ]; do sleep 0.02; done")
        return self._truth(at)


class KeptDown(_Ended):
    """A script left from old maintenance work kills it whenever it starts."""

    mechanism = "kept-down"
    foreign = True

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        script = f"/root/{pick.choice(('drain', 'hold', 'maintenance'))}-{at.service}.sh"
        who = pick.choice(("Ines", "Tomas", "Priya"))
        box.write(script, _DRAIN.format(name=at.service, who=who), 0o755)
        box.spawn(f"exec {script}")
        return Truth((at.service,), (self.category,), f"{at.service}|{script}", f"{script}|{DOWN}",
                     at=at, notes={"script": script})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        script = truth.notes["script"]
        return [f"{script} still runs"] if process_of(probe, script) else []

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        return (end_process(truth.notes["script"]), *super().expert(world, truth))

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        return {
            "start": [inits.command(world, truth.at.service, "start")],
            "restart": [inits.restart(world, truth.at.service)],
            "delete the script": [f"rm {truth.notes['script']}", *super().expert(world, truth)],
        }


FAULTS = (Stopped(), Killed(), KeptDown())
