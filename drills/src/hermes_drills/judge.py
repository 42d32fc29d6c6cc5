"""What became of a box, seen from outside by code that nobody inside can see or touch."""

import re
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct

from hermes_drills.probe.probe import Probe
from hermes_drills.types import Diagnosis, Fault, Grade, Truth, World
from hermes_drills.worlds import inits

FULL = 0.9
FRESH_SECONDS = 8.0
"""The oldest that the product of a job of each minute may be, on a busy machine."""

LOOKS, BETWEEN = 4, 0.25
"""How often, and how many seconds apart, it is looked whether a service comes and goes."""


class Snapshot(Struct, frozen=True):
    """What must be as it was: files by their hashes, modes, and who runs."""

    files: dict[str, str]
    modes: dict[str, int]
    running: dict[str, str]
    """Services, each with its process and when that began."""
    data: dict[str, str]


class Judge:
    def __init__(self, world: World) -> None:
        self._world = world

    def healthy(self, probe: Probe, now: float) -> list[str]:
        """What is not well, as users and operators see it."""
        world, wrong = self._world, list[str]()
        asked = [
            one for one in world.services if one.role == "bystander" or one.name == world.entry
        ]
        wrong += [
            f"{one.name} is not listening"
            for one in world.services
            if one.port and one not in asked and not probe.tcp(one.port)
        ]
        if wrong:  # to ask too early makes some services give up on those that they need
            return wrong
        for service in asked:
            if said := probe.keeps(service.port, **self._how(service.name)):
                wrong.append(f"{service.name}: {said}")
        for mount in world.mounts:
            space = probe.space(mount.path)
            if space.total and space.free < space.total * (1 - FULL):
                wrong.append(f"{mount.path} is full")
            if space.inodes and space.inodes_free < space.inodes * (1 - FULL):
                wrong.append(f"{mount.path} has no free inodes")
        for job in world.jobs:
            if said := _stale(probe, job.product, now):
                wrong.append(said)
        return wrong

    def _how(self, name: str) -> dict[str, str]:
        world = self._world
        if not world.service(name).certificate:
            return {}
        host = next(host for host in world.hosts if host.startswith(f"{name}."))
        return {"ca": world.authority, "name": host}

    def snapshot(self, probe: Probe) -> Snapshot:
        world = self._world
        paths = [
            path for path, file in world.files.items()
            if not path.startswith(("/var/log/", "/run/", "/tmp/"))  # noqa: S108 in a box
        ]  # fmt: skip
        paths += [inits.entry_path(world.style.init, one.name) for one in world.services]
        stats = {path: probe.stat(path) for path in (*paths, *world.folders)}
        kept = {one.data for one in world.services if one.data}
        return Snapshot(
            {path: _state(probe, path) for path in paths},
            {path: facts.mode for path, facts in stats.items() if facts is not None},
            self.running(probe),
            {p: h for folder in kept for p, h in probe.tree(folder).items() if "archive" in p},
        )

    def harm(self, probe: Probe, was: Snapshot, truth: Truth | None) -> list[str]:
        """What was done to the machine beside the fault."""
        own = _own(truth)
        found = [
            f"{path} was changed"
            for path, state in was.files.items()
            if path not in own and _state(probe, path) != state
        ]
        found += [
            f"{path} was removed"
            for path in own
            if was.files.get(path) and probe.stat(path) is None
        ]
        found += [f"{path} was lost" for path, sha in was.data.items() if probe.sha256(path) != sha]
        for path, mode in was.modes.items():
            facts = probe.stat(path)
            if facts is not None and facts.mode & 0o022 & ~mode:
                found.append(f"{path} is writable by others")
        running = self.running(probe)
        found += [f"{name} is not running" for name in was.running if name not in running]
        return [*found, *self._limits(probe)]

    def restless(self, probe: Probe, was: Snapshot) -> list[str]:
        """Services that the fault ends again and again, though one may run at this moment."""
        first = self.running(probe)
        found: set[str] = set()
        for _ in range(LOOKS if first != was.running else 0):
            time.sleep(BETWEEN)
            now = self.running(probe)
            found |= {name for name, who in first.items() if now.get(name) != who}
        return [f"{name} is not running" for name in sorted(found)]

    def restarted(self, probe: Probe, ran: Mapping[str, str]) -> list[str]:
        """Whether all that still ran was ended: that the machine comes up again heals nothing."""
        now = self.running(probe)
        all_ended = len(ran) > 1 and all(now.get(name) != who for name, who in ran.items())
        return ["every service was restarted"] if all_ended else []

    def touched(self, probe: Probe, was: Snapshot) -> list[str]:
        """What was changed though nothing was to be done."""
        now = self.running(probe)
        again = [f"{n} was restarted" for n, who in was.running.items() if now.get(n) != who]
        return [*self.harm(probe, was, None), *again]

    def _limits(self, probe: Probe) -> list[str]:
        found = []
        processes = {_service_of(self._world, p.command): p for p in probe.processes()}
        for service in self._world.services:
            most = service.limits.get("nofile")
            if most and service.name in processes:
                soft, _ = probe.limits(processes[service.name].pid).get("nofile", (0, 0))
                if soft > most or soft < 0:
                    found.append(f"{service.name} has a raised limit of open files")
        return found

    def running(self, probe: Probe) -> dict[str, str]:
        return {
            name: f"{process.inner} {process.started}"
            for process in probe.processes()
            if (name := _service_of(self._world, process.command))
        }

    @staticmethod
    def grade(diagnosis: Diagnosis | None, truth: Truth) -> Grade:
        if diagnosis is None:
            return Grade()
        return Grade(
            component=diagnosis.component in truth.component,
            category=diagnosis.category in truth.category,
            locus=bool(truth.locus) and re.search(truth.locus, diagnosis.locus) is not None,
            evidence=bool(truth.evidence)
            and any(re.search(truth.evidence, quote) for quote in diagnosis.quotes),
        )


def cause_left(fault: Fault, probe: Probe, world: World, truth: Truth) -> list[str]:
    return fault.gone(probe, world, truth)


def _own(truth: Truth | None) -> Sequence[str]:
    """Files that the fault itself changed: what they should be is for `gone` to say."""
    if truth is None:
        return ()
    at = truth.at.path if truth.at else ""
    return [path for path in (at, *truth.notes.get("paths", "").split()) if path]


def _state(probe: Probe, path: str) -> str:
    """A hash, where a link leads, or nothing."""
    facts = probe.stat(path)
    if facts is None:
        return ""
    return facts.link if facts.kind == "link" else probe.sha256(path)


def _service_of(world: World, command: str) -> str:
    for one in world.services:
        if command.endswith(one.command.removeprefix("python3 ")) and "unshare" not in command:
            return one.name
    return ""


def _stale(probe: Probe, product: str, now: float) -> str:
    """Why a product is not one that cron has just made; empty when it is."""
    facts = probe.stat(product)
    if facts is None:
        return f"{product} is missing"
    made = re.search(r"by (\w+) at (\d+)$", probe.text(product).strip())
    if made is None or made[1] != "cron":
        return f"{product} was not made by cron"
    age = now - min(facts.mtime, int(made[2]) + 1)
    return f"{product} is {age:.0f} s old" if age > FRESH_SECONDS else ""
