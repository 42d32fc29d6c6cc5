"""A fault written as one value: what the machine looks like, how it is broken, what shows that it
is well, and the truth. What is held out is written so, and what is practised in another house than
the first: a function for each variant."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import parts
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import Truth, World

Look = Callable[[Probe], list[str]]


class Scene(Struct, frozen=True, kw_only=True):
    world: World
    check: WatchedCheck
    healthy: Look
    """What is not well."""
    truth: Truth
    inject: Callable[[Box], None] = lambda _: None
    fix: tuple[str, ...] = ()
    """What an expert would type."""
    wrong: Mapping[str, list[str]]
    stays: tuple[str, ...] = ()
    """Files and folders that must be as they were, whatever is added to the folders."""
    runs: tuple[str, ...] = ()
    """Found in the command lines of processes that must not be gone, as regular expressions."""
    harm: Look = lambda _: []
    signal: str = ""


def world(plan: Scene) -> World:
    return plan.world


def check(plan: Scene) -> WatchedCheck:
    return plan.check


def truth(plan: Scene) -> Truth:
    return plan.truth


def reference(plan: Scene) -> list[str]:
    return list(plan.fix)


def wrong(plan: Scene) -> dict[str, list[str]]:
    return dict(plan.wrong)


def signal(plan: Scene) -> str:
    return plan.signal


def inject(box: Box, plan: Scene) -> None:
    plan.inject(box)


def healthy(probe: Probe, plan: Scene) -> list[str]:
    return plan.healthy(probe)


def before(probe: Probe, plan: Scene) -> dict[str, str]:
    return parts.digest(probe, *plan.stays)


def harm(probe: Probe, plan: Scene, before: dict[str, str]) -> list[str]:
    commands = [process.command for process in probe.processes()]
    gone = [
        f"nobody runs {pattern}"
        for pattern in plan.runs
        if not any(re.search(pattern, command) for command in commands)
    ]
    return [*parts.changed(probe, before), *gone, *plan.harm(probe)]


def said(*sentences: str) -> list[str]:
    """Those that are not empty."""
    return [sentence for sentence in sentences if sentence]


def lines(*commands: str) -> Callable[[Box], None]:
    """Broken by commands, one after the other; they may fail."""

    def inject(box: Box) -> None:
        for command in commands:
            box.run(command, check=False)

    return inject


def scene_of(module: Any, variant: str) -> Callable[..., Scene] | None:
    """The function of a variant, which is called as the variant is, where the module has it."""
    found: Callable[..., Scene] | None = getattr(module, variant.replace("-", "_"), None)
    return found
