"""What many faults do: change a setting as a careless colleague would, and put it back."""

import re
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Service, Target, Truth, World
from hermes_drills.worlds import inits
from hermes_drills.worlds.formats import changed, value_of
from hermes_drills.worlds.styles import copy_path


def rewrite(box: Box, world: World, at: Target, text: str) -> str:
    """Replace a file, and leave the one before where this house keeps copies; says where."""
    copy = copy_path(world.style, at.path, at.service)
    box.run(f"mkdir -p {quote(copy.rpartition('/')[0])}; cp -p {quote(at.path)} {quote(copy)}")
    box.write(at.path, text)
    return copy


def set_value(box: Box, world: World, at: Target, key: str, value: str | None) -> str:
    """Change one setting of a service, with a copy of the file before; says where that is."""
    return rewrite(box, world, at, changed(world.style.format, box.read(at.path), key, value))


def restart(box: Box, world: World, name: str) -> None:
    """As an operator would; it may fail to come up, which is what some faults are about."""
    box.run(inits.restart(world, name), check=False)


def put_back(world: World, truth: Truth) -> tuple[str, ...]:
    """What an expert types where a file was changed and a copy was left."""
    at = truth.at
    assert at is not None
    return (f"cp -p {quote(truth.notes['copy'])} {quote(at.path)}", inits.restart(world, at.service))


def value_left(probe: Probe, world: World, at: Target, key: str, good: str) -> list[str]:
    """Whether the file says again what it should."""
    now = value_of(world.style.format, probe.text(at.path), key)
    return [] if now == good else [f"{at.path} says {key} {now}"]


def process_of(probe: Probe, pattern: str) -> list[int]:
    """Processes, as this machine counts them, whose command line matches."""
    return [one.pid for one in probe.processes() if re.search(pattern, one.command)]


def upstream_of(world: World, name: str) -> Service | None:
    """The service that another needs first."""
    needs = world.service(name).needs
    return world.service(needs[0]) if needs else None


def users_of(world: World, name: str) -> list[Service]:
    return [one for one in world.services if name in one.needs]
