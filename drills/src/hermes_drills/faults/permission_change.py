"""Modes that were changed, so that a service no longer gets at what is its own."""

from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import restart
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits

DENIED = r"[Pp]ermission denied|unable to open database|readonly database"
LISTED = r"[d-]([r-][w-][x-]){3}\S? .*"


class _ModeChanged(Fault):
    category = "permission-change"

    def _change(self, box: Box, world: World, at: Target, path: str, mode: str) -> Truth:
        """Take rights away, and start the service without them."""
        good = box.run(f"stat -c %a {quote(path)}").stdout.strip()
        box.run(f"chmod {mode} {quote(path)}")
        restart(box, world, at.service)
        return Truth(
            (at.service,), (self.category,), path, f"{DENIED}|{LISTED}{path.rpartition('/')[2]}",
            at=Target(at.kind, at.service, path, port=at.port), notes={"mode": good},
        )  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        """Its owner has the rights back, and others have no more than before."""
        assert truth.at is not None
        facts, good = probe.stat(truth.at.path), int(truth.notes["mode"], 8)
        if facts is None:
            return [f"{truth.at.path} is missing"]
        lost, more = good & 0o700 & ~facts.mode, facts.mode & 0o077 & ~good
        return [f"{truth.at.path} has mode {facts.mode:o}"] if lost or more else []

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        path, mode = quote(truth.at.path), truth.notes["mode"]
        return (f"chmod {mode} {path}", inits.restart(world, truth.at.service))

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        path, again = quote(truth.at.path), inits.restart(world, truth.at.service)
        return {
            "restart": [again],
            "open it to all": [f"chmod 777 {path}", again],
            "move it away": [f"mv {path} {path}.old || rm -rf {path}/*", again],
        }


class DataMode(_ModeChanged):
    """The folder of its data, or its database, can no longer be read or written."""

    mechanism = "data"
    wants = "data"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        database = world.settings[at.service].get("database", "")
        path = pick.choice((at.path, database)) if database else at.path
        return self._change(box, world, at, path, pick.choice(("000", "400", "a-w")))


class ConfigMode(_ModeChanged):
    """Its configuration, or its secret, can no longer be read after an edit."""

    mechanism = "config"
    wants = "service"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        service = world.service(at.service)
        path = pick.choice([one for one in (service.config, service.secret) if one])
        return self._change(box, world, at, path, pick.choice(("000", "200", "a-r")))


class CodeMode(_ModeChanged):
    """Its code folder can no longer be entered, though every file in it is readable."""

    mechanism = "code"
    wants = "service"
    foreign = True

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        directory = world.service(at.service).directory
        path = box.run(f"readlink -f {quote(directory)}").stdout.strip()
        return self._change(box, world, at, path, pick.choice(("a-x", "600", "644")))


FAULTS = (DataMode(), ConfigMode(), CodeMode())
