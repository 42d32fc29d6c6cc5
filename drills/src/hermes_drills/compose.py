"""Cases: a fault, a stack and a style put together by a seed, in one of the splits."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from hermes_drills.errors import UsageError
from hermes_drills.faults import FAULTS
from hermes_drills.needs import lacking
from hermes_drills.pick import Pick
from hermes_drills.types import Boot, Fault, Init, Split, Style, Target, World
from hermes_drills.worlds.booted import booted
from hermes_drills.worlds.stacks import HELD, PARTICULAR, STACKS
from hermes_drills.worlds.styles import first_style, held_style

TRIES = 24
"""How many worlds are made before a fault must have found a target."""


class Case(Struct, frozen=True):
    """A world, what will be broken in it, and the seed that they came from."""

    fault: Fault
    world: World
    target: Target
    pick: Pick
    split: Split
    seed: int

    @property
    def name(self) -> str:
        return f"{self.fault.name} on {self.world.stack}/{self.world.boot} seed {self.seed}"


def faults(split: Split) -> list[Fault]:
    """Those of a split, in a fixed order."""
    if split == "no-fault":
        return [one for one in FAULTS if one.category == "no-fault"]
    real = [one for one in FAULTS if one.category != "no-fault"]
    if split == "first":  # where the only stacks of a fault are held out, so is the fault
        real = [one for one in real if not one.stacks or set(one.stacks) - set(HELD)]
    return [one for one in real if one.foreign == (split == "foreign")]


def compose(
    fault: Fault, seed: int, split: Split = "first", style: Style | None = None, *,
    stack: str = "", init: Boot | None = None,
) -> Case:  # fmt: skip
    """The case of a seed; the same one each time. `style`, `stack` and `init` overrule its picks."""
    if stack and fault.stacks and stack not in fault.stacks:
        raise UsageError(f"{fault.name} does not fit the stack {stack!r}")
    for attempt in range(TRIES):
        pick = Pick(f"{fault.name}/{split}/{seed}/{attempt}", held=split == "held")
        name, chosen = _where(fault, split, pick)
        laid_out = style or chosen
        by: Init = "systemd" if init == "booted" else init or laid_out.init
        world = STACKS[stack or name](pick, replace(laid_out, init=by))
        world = booted(world) if init == "booted" else world
        fitting = [one for one in world.targets(fault.wants) if fault.fits(world, one)]
        if fitting:
            return Case(fault, world, pick.choice(fitting), pick, split, seed)
    raise UsageError(f"{fault.name} fits no machine of the split {split!r}")


def _where(fault: Fault, split: Split, pick: Pick) -> tuple[str, Style]:
    """A stack and a style. What is held out has a stack or a style that the first split has not."""
    among = sorted(fault.stacks or set(STACKS) - PARTICULAR)
    unseen = [name for name in among if name in HELD]
    seen = [name for name in among if name not in HELD]
    if split != "held" and not seen:
        raise UsageError(f"{fault.name} has no stack in the split {split!r}")
    if split != "held":
        return pick.choice(seen), first_style(pick)
    if not seen or (unseen and pick.chance(0.3)):
        return pick.choice(unseen), held_style(pick) if pick.chance(0.5) else first_style(pick)
    return pick.choice(seen), held_style(pick)


def missing(case: Case) -> list[str]:
    """Programs of this machine that a case needs and that are not here."""
    return lacking((*case.fault.needs, *case.world.needs))


def cases(split: Split, seeds: range, category: str = "") -> Iterator[Case]:
    """Every fault of a split with every seed, those left out that cannot run here."""
    for fault in faults(split):
        if category and fault.category != category:
            continue
        for seed in seeds:
            try:
                case = compose(fault, seed, split)
            except UsageError:
                continue
            if not missing(case):
                yield case
