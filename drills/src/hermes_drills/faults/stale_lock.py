"""A lock that outlived its owner and keeps a service from starting."""

from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import restart
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits


class _StaleLock(Fault):
    category = "stale-lock"
    wants = "lock"
    evidence = r"is held by process"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        self.leave(box, world, at, pick)
        restart(box, world, at.service)
        return Truth((at.service,), (self.category,), at.path, self.evidence, at=at)

    def leave(self, box: Box, world: World, at: Target, pick: Pick) -> None:
        """End the service so that a lock remains."""
        raise NotImplementedError

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        assert truth.at is not None
        config = world.service(truth.at.service).config
        owners = {str(one.inner) for one in probe.processes() if one.command.endswith(config)}
        held = probe.text(truth.at.path).strip()
        return [] if held in owners else [f"{truth.at.path} does not belong to {truth.at.service}"]

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        path = quote(truth.at.path)
        return (f"mv {path} {path}.stale", inits.restart(world, truth.at.service))

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        name, path = truth.at.service, quote(truth.at.path)
        config = quote(world.service(name).config)
        return {
            "restart": [inits.restart(world, name)],
            "kill the recorded process": [f"kill -9 $(cat {path})", inits.restart(world, name)],
            "remove the pid file": [f"rm -f /run/{name}.pid", inits.restart(world, name)],
            "do without a lock": [
                f"sed -i '/^[ \"]*lock\\b/Id' {config}", inits.restart(world, name),
            ],
        }  # fmt: skip


class DeadOwner(_StaleLock):
    """The service was killed and could not remove its lock."""

    mechanism = "dead-owner"

    def leave(self, box: Box, world: World, at: Target, pick: Pick) -> None:  # noqa: ARG002
        box.run(f"kill -9 $(cat {quote(at.path)})")


class ReusedPid(_StaleLock):
    """The number in the lock now belongs to another program, so its owner seems alive."""

    mechanism = "reused-pid"

    def leave(self, box: Box, world: World, at: Target, pick: Pick) -> None:
        others = [one for one in world.services if one.name != at.service and one.port]
        box.run(
            f"kill -9 $(cat {quote(at.path)}); "
            f"cat {quote(pick.choice(others).pid_file)} >{quote(at.path)}"
        )


class LockFolder(_StaleLock):
    """A folder in place of the lock file, left by a version that locked with mkdir."""

    mechanism = "folder"
    foreign = True
    evidence = r"Is a directory|drwx"

    def leave(self, box: Box, world: World, at: Target, pick: Pick) -> None:
        path = quote(at.path)
        box.run(inits.command(world, at.service, "stop"), check=False)
        box.run(f"rm -f {path}; mkdir {path}; echo {pick.size(20000, 30000)} >{path}/pid")

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        remove = [f"rm -f {quote(truth.at.path)}", inits.restart(world, truth.at.service)]
        empty = [f"rm -f {quote(truth.at.path)}/*", inits.restart(world, truth.at.service)]
        return {**super().wrong(world, truth), "remove it as a file": remove, "empty it": empty}


FAULTS = (DeadOwner(), ReusedPid(), LockFolder())
