"""A drill's folder: what it says of itself in drill.yaml, and what its drill.py does."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from math import gcd
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

import msgspec
import yaml
from msgspec import Struct

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.incidents import CATEGORIES, Service, Severity, WatchedCheck
from hermes_agent.incidents.drills import needs, scene
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import Truth, World

HERE = Path(__file__).parent
Tier = Literal["practised", "held", "foreign"]
TIERS: tuple[Tier, ...] = get_args(Tier)
FILES: dict[Tier, str] = {"practised": "practice*.py", "held": "held.py", "foreign": "foreign.py"}
"""Where the scenes of each are."""
TOLD: dict[Tier, str] = {"practised": "practised", "held": "held out", "foreign": "foreign"}


class Variants(Struct, frozen=True, forbid_unknown_fields=True):
    practised: tuple[str, ...]
    held: tuple[str, ...] = ()
    """Kept apart: what is measured with them was never practised. Each fault comes about as one
    that is practised does, on a machine and in words that nobody had in mind."""
    foreign: tuple[str, ...] = ()
    """Kept apart, too; these come about in a way that is not practised, where it may well be right
    to hand over."""


class About(Struct, frozen=True, forbid_unknown_fields=True):
    """drill.yaml."""

    title: str
    description: str
    category: str
    variants: Variants
    severity: Severity = "P2"
    needs: tuple[str, ...] = ()
    """Programs of this machine."""
    needs_of: dict[str, tuple[str, ...]] = {}
    """Further ones, by variant."""
    minutes: float = 6.0
    """The longest that a run may take."""
    settle: float = 10.0
    """Seconds that health may take to come back once all is done."""
    fault: bool = True
    """False: nothing is wrong, and nothing is to be done."""


class Drill:
    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self._folder = folder
        try:
            text = (folder / "drill.yaml").read_text()
            self.about = msgspec.convert(yaml.safe_load(text), About)
        except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
            raise HermesError(f"the drill {folder.name!r} cannot be read: {error}") from None
        if self.about.category not in CATEGORIES:
            raise HermesError(f"drill {self.name!r}: no category {self.about.category!r}")

    def lacking(self, variant: str = "") -> list[str]:
        """Programs that it needs, or a variant of it, and this machine does not have."""
        return needs.lacking((*self.about.needs, *self.about.needs_of.get(variant, ())))

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(variant for tier in TIERS for variant in self.among(tier))

    def tier(self, variant: str) -> Tier:
        return next((tier for tier in TIERS if variant in self.among(tier)), "practised")

    def among(self, tier: Tier) -> tuple[str, ...]:
        """The variants of a tier."""
        variants: tuple[str, ...] = getattr(self.about.variants, tier)
        return variants

    def choose(self, seed: int, variant: str = "", tier: Tier = "practised") -> str:
        """The variant of a run: the one that is named, or one by the seed."""
        among = self.among(tier)
        if variant and variant not in self.variants:
            raise UsageError(
                f"the drill {self.name!r} has no variant {variant!r}",
                f"there are: {', '.join(self.variants)}",
            )
        if variant and tier != "practised" and variant not in among:
            raise UsageError(
                f"the variant {variant!r} of {self.name!r} is not {TOLD[tier]}",
                f"`hermes drill show {self.name}` says which are; without the flag it runs",
            )
        if not variant and not among:
            raise UsageError(
                f"the drill {self.name!r} has no variant that is {TOLD[tier]}",
                f"`hermes drill show {self.name}` names those that it has",
            )
        return variant or among[seed * _stride(len(among)) % len(among)]

    def case(self, seed: int, variant: str) -> "Case":
        tier = self.tier(variant)
        pick = Pick(Random(f"{self.name}/{variant}/{seed}"), held=tier != "practised")
        home = f"hermes_agent.incidents.drills.{self.name}"
        for path in sorted(self._folder.glob(FILES[tier])):
            made = scene.scene_of(import_module(f"{home}.{path.stem}"), variant)
            if made is not None:
                return Case(self, scene, made(pick), seed, variant)
        module = import_module(f"{home}.drill")
        return Case(self, module, module.plan(pick, variant), seed, variant)


class Case:
    """A drill with its parameters."""

    def __init__(self, drill: Drill, module: Any, plan: Any, seed: int, variant: str) -> None:
        self.drill, self.plan, self.seed, self.variant = drill, plan, seed, variant
        self._module = module

    @property
    def world(self) -> World:
        return self._call("world")  # type: ignore[no-any-return]  # of a module found by name

    @property
    def check(self) -> WatchedCheck:
        return self._call("check")  # type: ignore[no-any-return]  # likewise

    @property
    def truth(self) -> Truth:
        return self._call("truth")  # type: ignore[no-any-return]  # likewise

    @property
    def reference(self) -> list[str]:
        return list(self._call("reference"))

    @property
    def wrong(self) -> dict[str, list[str]]:
        """Plausible fixes that are none."""
        return dict(self._optional("wrong", dict)(self.plan))

    @property
    def signal(self) -> str:
        """What is said where nothing is wrong."""
        return str(self._optional("signal", lambda _: "")(self.plan))

    @property
    def services(self) -> list[Service]:
        """The topology as people would have written it down."""
        return list(self._optional("services", self._from_world)(self.plan))

    def inject(self, box: Box) -> None:
        self._module.inject(box, self.plan)

    def healthy(self, probe: Probe) -> list[str]:
        """What is not well."""
        return list(self._module.healthy(probe, self.plan))

    def before(self, probe: Probe) -> dict[str, str]:
        return dict(self._optional("before", lambda *_: {})(probe, self.plan))

    def harm(self, probe: Probe, before: dict[str, str]) -> list[str]:
        return list(self._module.harm(probe, self.plan, before))

    def _call(self, name: str) -> Any:
        return getattr(self._module, name)(self.plan)

    def _optional(self, name: str, default: Callable[..., Any]) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(self._module, name, default)
        return found

    def _from_world(self, _: Any) -> list[Service]:
        return [
            Service(name=program.name, needs=program.needs, about=program.about)
            for program in self.world.programs
        ]


def _stride(count: int) -> int:
    """How far apart the variants of two seeds are: a few seeds are spread over all of them, and so
    many seeds as there are variants meet each of them once."""
    return next(far for far in range(round(count * 0.618), 2 * count + 1) if gcd(far, count) == 1)


@cache
def drills() -> dict[str, Drill]:
    """All drills by name."""
    return {path.parent.name: Drill(path.parent) for path in sorted(HERE.glob("*/drill.yaml"))}


def find(name: str) -> Drill:
    """By its name, with underscores or hyphens."""
    found = drills().get(name.replace("-", "_"))
    if found is None:
        raise UsageError(f"no drill called {name!r}", "`hermes drill list` shows all")
    return found
