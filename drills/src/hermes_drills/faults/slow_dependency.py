"""A service answers late because one that it needs does."""

from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import (
    end_process,
    process_of,
    put_back,
    restart,
    set_value,
    users_of,
)
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits
from hermes_drills.worlds.formats import value_of

LATE = r"timed out|was not taken"
_THROTTLE = '''\
"""Limits how much of a processor a program gets. usage: {name}.py PIDFILE"""

import os, signal, sys, time

while True:
    try:
        with open(sys.argv[1]) as file:
            pid = int(file.read())
        os.kill(pid, signal.SIGSTOP)
        time.sleep(2.5)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.01)
    except (OSError, ValueError):
        time.sleep(0.1)
'''


class _Slow(Fault):
    category = "slow-dependency"

    def fits(self, world: World, at: Target) -> bool:
        return bool(users_of(world, at.service))

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        user = users_of(world, truth.at.service)[0]
        again = inits.restart(world, user.name)
        longer = f"sed -i 's/\\(\\blevel\\b\\)/timeout=9\\n\\1/I' {quote(user.config)}"
        return {
            "restart who waits": [again],
            "wait longer": [longer, again],
            "kill it": [f"kill -9 $(cat {quote(world.service(truth.at.service).pid_file)})"],
        }


class Delay(_Slow):
    """A test delay was left in its configuration."""

    mechanism = "delay"
    wants = "config"

    def fits(self, world: World, at: Target) -> bool:
        return at.key == "workers" and super().fits(world, at)

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        copy = set_value(box, world, at, "delay", str(pick.choice((3, 4.5, 6))))
        restart(box, world, at.service)
        return Truth((at.service,), (self.category,), at.path, LATE + r"|delay", at=at,
                     notes={"copy": copy})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        assert truth.at is not None
        now = value_of(world.style.format, probe.text(truth.at.path), "delay")
        return [] if now in (None, "0") else [f"{truth.at.path} sets delay to {now}"]

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        return put_back(world, truth)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        again = inits.restart(world, truth.at.service)
        return {**super().wrong(world, truth), "restart it": [again]}


class Stopped(_Slow):
    """Its process was stopped (SIGSTOP), as by a debugger: it listens but does not respond."""

    mechanism = "stopped"
    wants = "service"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        box.run(f"kill -STOP $(cat {quote(world.service(at.service).pid_file)})")
        return Truth((at.service,), (self.category,), at.service, LATE + r"|T \(stopped\)", at=at)

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        assert truth.at is not None
        config = world.service(truth.at.service).config
        stopped = [p for p in probe.processes() if p.command.endswith(config) and p.state == "T"]
        return [f"{truth.at.service} is stopped"] if stopped else []

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        return (f"kill -CONT $(cat {quote(world.service(truth.at.service).pid_file)})",)


class Throttled(Stopped):
    """A script that limits its CPU time keeps it stopped most of the time."""

    mechanism = "throttled"
    foreign = True

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        name = f"{pick.choice(('limit', 'throttle', 'tame'))}-{pick.token(3)}"
        script = f"/opt/{name}/{name}.py"
        box.write(script, _THROTTLE.format(name=name))
        box.spawn(f"exec python3 -IS {script} {world.service(at.service).pid_file}")
        return Truth((at.service,), (self.category,), f"{at.service}|{script}",
                     rf"{LATE}|T \(stopped\)|{name}", at=at, notes={"script": script})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        script = truth.notes["script"]
        left = [f"{script} still runs"] if process_of(probe, f"{script} ") else []
        return left or super().gone(probe, world, truth)

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        return (end_process(truth.notes["script"]), *super().expert(world, truth))

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        return {**super().wrong(world, truth), "let it go on": super().expert(world, truth)}


FAULTS = (Delay(), Stopped(), Throttled())
