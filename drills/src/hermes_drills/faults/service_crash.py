"""A service that ended and does not come back by itself."""

from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.pick import Pick
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits


class _Ended(Fault):
    category = "service-crash"
    wants = "service"

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
    """Somebody stopped it and forgot it."""

    mechanism = "stopped"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        box.run(inits.command(world, at.service, "stop"), check=False)
        return Truth((at.service,), (self.category,), at.service, r"STOPPED|inactive|refused|stopped|waiting", at=at)


FAULTS = (Stopped(),)
