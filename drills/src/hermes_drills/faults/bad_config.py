"""A configuration that was edited for the worse; the copy before the edit is there."""

import re
from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import put_back, restart, rewrite, set_value, value_left
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits
from hermes_drills.worlds.formats import line, rendered, value_of


class _Edited(Fault):
    category = "bad-config"
    wants = "config"

    def _truth(self, at: Target, copy: str, evidence: str) -> Truth:
        return Truth((at.service,), (self.category,), at.path, evidence, at=at,
                     notes={"copy": copy})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        assert truth.at is not None
        return value_left(probe, world, truth.at, truth.at.key, truth.at.value)

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        return put_back(world, truth)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        path, name = quote(truth.at.path), truth.at.service
        return {
            "restart": [inits.restart(world, name)],
            "delete": [f"rm {path}", inits.restart(world, name)],
            "empty": [f": > {path}", inits.restart(world, name)],
        }


class SyntaxErrorInConfig(_Edited):
    """A line that no longer parses."""

    mechanism = "syntax"

    def fits(self, world: World, at: Target) -> bool:  # noqa: ARG002
        return at.key == "workers"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        text = box.read(at.path)
        good = line(world.style.format, at.key, at.value)
        bad = pick.choice((f"{at.key} {at.value}", f"{at.key} => ", f"<<<<<<< {at.key}"))
        copy = rewrite(box, world, at, text.replace(good, bad))
        restart(box, world, at.service)
        return self._truth(at, copy, r"syntax error|not valid JSON|" + at.key)


class WrongValue(_Edited):
    """An impossible value: an invalid port, or a word in place of a number."""

    mechanism = "value"

    def fits(self, world: World, at: Target) -> bool:  # noqa: ARG002
        return at.key in ("workers", "upstream", "history_limit", "port") and bool(at.port)

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        bad = {"upstream": at.value.rpartition(":")[0] + ":" + str(pick.size(2000, 2900))}
        word = pick.choice(("auto", "8x", "ten"))
        copy = set_value(box, world, at, at.key, bad.get(at.key, word))
        restart(box, world, at.service)
        return self._truth(at, copy, r"not a number|refused|upstream")


class Override(_Edited):
    """A leftover override file for this machine points it at another port."""

    mechanism = "override"
    foreign = True

    def fits(self, world: World, at: Target) -> bool:  # noqa: ARG002
        return at.key == "port" and bool(at.port)

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        taken = {one.port for one in world.services}
        port = pick.choice([one for one in range(at.port + 1, at.port + 40) if one not in taken])
        local = f"{at.path}.local"
        box.write(local, rendered(world.style.format, {at.key: str(port)}))
        restart(box, world, at.service)
        return Truth((at.service,), (self.category,), re.escape(local), rf"\.local|:{port}\b",
                     at=at, notes={"local": local})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        assert truth.at is not None
        local = truth.notes["local"]
        now = value_of(world.style.format, probe.text(local), truth.at.key)
        return [] if now in (None, truth.at.value) else [f"{local} says {truth.at.key} {now}"]

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        local = quote(truth.notes["local"])
        return (f"mv {local} {local}.off", inits.restart(world, truth.at.service))


FAULTS = (SyntaxErrorInConfig(), WrongValue(), Override())
