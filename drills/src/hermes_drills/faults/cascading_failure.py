"""The last of a chain failed for a while, and the first gave up on it until it is restarted."""

from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import end_process, process_of
from hermes_drills.faults.pool_exhausted import hold_connections
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Service, Target, Truth, World
from hermes_drills.worlds import inits
from hermes_drills.worlds.formats import line


class _Cascade(Fault):
    category = "cascading-failure"
    wants = "upstream"
    stacks = frozenset({"chain"})

    def fits(self, world: World, at: Target) -> bool:
        return "give_up_after" in world.settings[at.service]

    def _truth(self, at: Target, *component: str, evidence: str = "", **notes: str) -> Truth:
        return Truth(component, (self.category,), "|".join(component), rf"gave up on{evidence}",
                     at=Target("service", at.service, port=at.port), notes=notes)  # fmt: skip

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        first = world.service(truth.at.service)
        last = last_of(world, first.name)
        never = line(world.style.format, "give_up_after", "0").strip().replace("/", "\\/")
        return {
            "restart the last": [inits.restart(world, last.name)],
            "restart the one between": [inits.restart(world, first.needs[0])],
            "never give up": [
                f"sed -i 's/^.*give_up_after.*$/{never.rstrip(',')}/I' {quote(first.config)}",
                inits.restart(world, last.name), inits.restart(world, first.name),
            ],
        }  # fmt: skip


class GaveUp(_Cascade):
    """The last service is back, but the first one no longer calls it."""

    mechanism = "gave-up"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        last = last_of(world, at.service)
        box.run(inits.command(world, last.name, "stop"), check=False)
        _ask(box, world, at)
        box.run(inits.command(world, last.name, "start"), check=False)
        return self._truth(at, at.service, last.name)

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        return (inits.restart(world, truth.at.service),)


class StillDown(_Cascade):
    """The last service is still down."""

    mechanism = "still-down"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        last = last_of(world, at.service)
        box.run(inits.command(world, last.name, "stop"), check=False)
        _ask(box, world, at)
        return self._truth(at, last.name, at.service, evidence=r"|refused|STOPPED|inactive|stopped")

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        last = last_of(world, truth.at.service)
        return (inits.command(world, last.name, "start"), inits.restart(world, truth.at.service))

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        first = [inits.restart(world, truth.at.service)]
        return {**super().wrong(world, truth), "restart the first alone": first}


class Overload(_Cascade):
    """A client takes all workers of the last service, which rejects the one before it."""

    mechanism = "overload"
    foreign = True

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        last = last_of(world, at.service)
        workers = int(world.settings[last.name]["workers"])
        script = hold_connections(box, last.port, workers + 2, pick)
        _ask(box, world, at)
        return self._truth(at, last.name, at.service, evidence=r"|workers are busy", script=script)

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        script = truth.notes["script"]
        return [f"{script} still runs"] if process_of(probe, f"{script} ") else []

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        return (end_process(truth.notes["script"]), inits.restart(world, truth.at.service))

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        first = [inits.restart(world, truth.at.service)]
        alone = [end_process(truth.notes["script"])]
        return {**super().wrong(world, truth), "restart the first": first, "end the client": alone}


def last_of(world: World, name: str) -> Service:
    """The end of the chain that begins with a service."""
    service = world.service(name)
    return last_of(world, service.needs[0]) if service.needs else service


def _ask(box: Box, world: World, at: Target) -> None:
    """Ask the first as its users do, until it gives up."""
    times = int(world.settings[at.service]["give_up_after"]) + 1
    box.run(
        f"for n in $(seq {times * 10}); do fetch -m 3 http://127.0.0.1:{at.port}/ready 2>&1 | "
        "grep -q 'gave up' && break; done; true"
    )


FAULTS = (GaveUp(), StillDown(), Overload())
