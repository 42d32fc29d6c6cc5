"""A seed decides everything, and what is held out is never met in the split `first`."""

from hermes_drills.compose import compose, faults
from hermes_drills.errors import UsageError
from hermes_drills.faults import FAULTS
from hermes_drills.types import Fault, World
from hermes_drills.worlds.stacks import HELD

SEEDS = range(1, 4)
FIRST = faults("first")


def worlds(split: str) -> list[World]:
    found = []
    for fault in FIRST:
        for seed in SEEDS:
            try:
                found.append(compose(fault, seed, split).world)  # type: ignore[arg-type]
            except UsageError:
                continue
    return found


def layout(world: World) -> tuple[str, str, str]:
    return world.style.place, world.style.format, world.style.copies


def test_a_seed_says_everything() -> None:
    one, again, other = (compose(FIRST[0], seed).world for seed in (7, 7, 8))
    assert one.services == again.services
    assert one.services != other.services


def test_held_out_stacks_layouts_and_names_are_never_met_in_first() -> None:
    first, held = worlds("first"), worlds("held")
    assert not {world.stack for world in first} & HELD
    assert not {world.hostname for world in first} & {world.hostname for world in held}
    styles = {layout(world) for world in first}
    assert all(world.stack in HELD or layout(world) not in styles for world in held)
    assert "sysv" not in {world.style.init for world in first}


def test_foreign_mechanisms_are_never_met_in_first() -> None:
    foreign = {fault.name for fault in faults("foreign")}
    assert foreign
    assert not foreign & {fault.name for fault in FIRST}


def test_every_family_has_two_mechanisms_and_keeps_one_apart() -> None:
    families: dict[str, list[Fault]] = {}
    for fault in FAULTS:
        families.setdefault(fault.category, []).append(fault)
    families.pop("no-fault")
    assert len(families) >= 20
    short = {
        name: [fault.mechanism for fault in among]
        for name, among in families.items()
        if sum(not fault.foreign for fault in among) < 1 or not any(f.foreign for f in among)
    }
    assert short == {}


def test_an_init_system_and_a_stack_can_be_asked_for() -> None:
    case = compose(FIRST[0], 1, stack="web", init="sysv")
    assert (case.world.stack, case.world.style.init) == ("web", "sysv")
