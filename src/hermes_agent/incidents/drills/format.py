"""A drill's folder: what it says of itself in drill.yaml, and what its drill.py does."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

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


class Variants(Struct, frozen=True, forbid_unknown_fields=True):
    train: tuple[str, ...]
    held: tuple[str, ...] = ()
    """Kept apart: what is measured with them was never practised."""


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
        return (*self.about.variants.train, *self.about.variants.held)

    def is_held(self, variant: str) -> bool:
        return variant in self.about.variants.held

    def choose(self, seed: int, variant: str = "", *, held: bool = False) -> str:
        """The variant of a run: the one that is named, or one by the seed."""
        among = self.about.variants.held if held else self.about.variants.train
        if variant and variant not in self.variants:
            raise UsageError(
                f"the drill {self.name!r} has no variant {variant!r}",
                f"there are: {', '.join(self.variants)}",
            )
        if not variant and not among:
            raise UsageError(f"nothing of the drill {self.name!r} is held out")
        return variant or among[seed % len(among)]

    def case(self, seed: int, variant: str) -> "Case":
        held = self.is_held(variant)
        pick = Pick(Random(f"{self.name}/{variant}/{seed}"), held=held)
        home = f"hermes_agent.incidents.drills.{self.name}"
        for path in sorted(self._folder.glob("held.py" if held else "practice*.py")):
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
