"""Something else listens where a service should, so that the service cannot start."""

import re
from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import (
    await_port,
    end_process,
    process_of,
    put_back,
    restart,
    set_value,
    value_left,
)
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits
from hermes_drills.worlds.formats import changed

IN_USE = r"Address already in use|cannot listen on"


class _PortTaken(Fault):
    category = "port-conflict"
    wants = "port"

    def _take(self, box: Box, world: World, at: Target, command: str, words: str) -> Truth:
        """Have a process at the port, of which the init system knows nothing."""
        box.run(inits.command(world, at.service, "stop"), check=False)
        box.spawn(f"cd /srv && exec {command}")
        await_port(box, at.port)
        restart(box, world, at.service)
        return Truth((at.service,), (self.category,), rf"\b{at.port}\b|{re.escape(words)}", IN_USE,
                     at=at, notes={"words": words})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        words = truth.notes["words"]
        return [f"{words} still runs"] if process_of(probe, re.escape(words)) else []

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        again = inits.restart(world, truth.at.service)
        return (end_process(truth.notes["words"]), "sleep 0.2", again)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        service, at = world.service(truth.at.service), truth.at
        others = [one for one in world.services if one.name != service.name]
        again = inits.restart(world, service.name)
        return {
            "restart": [again],
            "restart another": [inits.restart(world, others[0].name)],
            "move the port": [f"sed -i s/{at.port}/{at.port + 1}/ {quote(service.config)}", again],
        }


class Stray(_PortTaken):
    """Somebody started a web server to browse files."""

    mechanism = "stray"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        words = f"-m http.server {at.port}"
        return self._take(box, world, at, f"python3 {words}", words)


class OldInstance(_PortTaken):
    """Somebody started an instance by hand, with other settings, and left it running."""

    mechanism = "old-instance"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        service, style = world.service(at.service), world.style
        own = f"/root/{pick.choice(('test', 'old', 'try'))}-{service.config.rpartition('/')[2]}"
        text = box.read(service.config)
        values = {"name": f"{service.name}-by-hand", "lock": None, "log": None,
                  "data": "/mnt/scratch", "database": None, "queue": None,
                  "upstream": None}  # fmt: skip
        for key, value in values.items():
            text = changed(style.format, text, key, value)
        box.write(own, text)
        return self._take(box, world, at, f"python3 -IS {service.directory}/app.py {own}", own)


class Neighbour(_PortTaken):
    """Another service was given the same port."""

    mechanism = "neighbour"
    foreign = True

    def fits(self, world: World, at: Target) -> bool:
        return at.service != world.entry

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        other = next(one for one in world.services if one.role == "bystander")
        config = Target("config", other.name, other.config, "port", str(other.port), at.port)
        box.run(inits.command(world, at.service, "stop"), check=False)
        copy = set_value(box, world, config, "port", str(at.port))
        restart(box, world, other.name)
        await_port(box, at.port)
        restart(box, world, at.service)
        return Truth(
            (other.name, at.service), (self.category, "bad-config"),
            rf"\b{at.port}\b|{re.escape(other.config)}", rf"{IN_USE}|listens on \S+:{at.port}\b",
            at=config,
            notes={"copy": copy, "paths": copy, "taken": at.service},
        )  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        assert truth.at is not None
        return value_left(probe, world, truth.at, "port", truth.at.value)

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        return (*put_back(world, truth), inits.restart(world, truth.notes["taken"]))

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        stop = inits.command(world, truth.at.service, "stop")
        again = inits.restart(world, truth.notes["taken"])
        return {
            "restart": [again],
            "stop the neighbour": [stop, again],
            "restart the neighbour": [inits.restart(world, truth.at.service), again],
        }


FAULTS = (Stray(), OldInstance(), Neighbour())
