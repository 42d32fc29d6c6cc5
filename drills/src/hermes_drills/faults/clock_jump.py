"""A service has another clock than the rest, and what is signed by the time is refused."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote

from msgspec.structs import replace

from hermes_drills.box.box import Box
from hermes_drills.faults.common import restart
from hermes_drills.needs import find
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits

PRELOAD = "/etc/ld.so.preload"
SHIFT = "/etc/faketimerc"


class _Shifted(Fault):
    category = "clock-jump"
    wants = "secret"
    stacks = frozenset({"web"})
    needs = ("faketime",)

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        paths = [PRELOAD, *(inits.entry_path(world.style.init, one.name) for one in world.services)]
        left = [f"{path} sets a clock" for path in paths
                if re.search("faketime", probe.text(path), re.IGNORECASE)]  # fmt: skip
        program = truth.notes["program"]
        running = [one for one in probe.processes() if program in one.command]
        return left + [f"{one.command} has a wrong clock" for one in running if _faked(one.pid)]

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        checking = next(n for n, own in world.settings.items() if own.get("signed") == "yes")
        config = quote(world.service(checking).config)
        pair = [inits.restart(world, one.name) for one in world.services if one.secret]
        return {
            "restart both": pair,
            "sign no more": [
                f"sed -i '/signed/Is/yes/no/' {config}", inits.restart(world, checking),
            ],
        }  # fmt: skip

    def _truth(self, world: World, at: Target, path: str, shift: str) -> Truth:
        return Truth(
            (at.service,), (self.category,), rf"{path}|{at.service}",
            rf"(?i)off the clock|faketime|{re.escape(shift)}",
            at=Target(at.kind, at.service, path),
            notes={"program": world.service(at.service).command.removeprefix("python3 ")},
        )  # fmt: skip


class _InEntry(_Shifted):
    """The environment in the entry of a service sets its clock, as a test once needed it."""

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        init, service = world.style.init, world.service(at.service)
        shift = _shift(pick)
        clock = {"LD_PRELOAD": find("faketime") or "", "FAKETIME": shift}
        path = inits.entry_path(init, at.service)
        environment = {**service.environment, **clock}
        box.write(path, inits.entry(init, replace(service, environment=environment)))
        box.run(inits.reload(world, at.service), check=False)
        return self._truth(world, at, path, shift)

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        path = quote(truth.at.path)
        return f"sed -i '/faketime/Id' {path}", inits.reload(world, truth.at.service)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        path, name = quote(truth.at.path), truth.at.service
        return {**super().wrong(world, truth),
                "without reading it anew": [f"sed -i '/faketime/Id' {path}"],
                "delete its entry": [f"rm {path}", inits.reload(world, name)]}  # fmt: skip


class Asker(_InEntry):
    """The service that signs has the wrong clock."""

    mechanism = "asker"

    def fits(self, world: World, at: Target) -> bool:
        return bool(world.service(at.service).needs)


class Checker(_InEntry):
    """The service that checks signatures has the wrong clock."""

    mechanism = "checker"

    def fits(self, world: World, at: Target) -> bool:
        return world.settings[at.service].get("signed") == "yes"


class MachinePreload(_Shifted):
    """Everything that starts on the machine gets a wrong clock; one of the two has restarted."""

    mechanism = "preload"
    foreign = True

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        shift = _shift(pick)
        box.write(SHIFT, f"{shift}\n")
        box.write(PRELOAD, f"{find('faketime')}\n")
        restart(box, world, at.service)
        return self._truth(world, at, PRELOAD, shift)

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        return f"cat {PRELOAD}; mv {PRELOAD} {PRELOAD}.off", inits.restart(world, truth.at.service)


def _shift(pick: Pick) -> str:
    return f"{pick.choice('+-')}{pick.size(2, 300)}{pick.choice('dh')}"


def _faked(pid: int) -> bool:
    try:
        return "libfaketime" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:  # it has just ended
        return False


FAULTS = (Asker(), Checker(), MachinePreload())
