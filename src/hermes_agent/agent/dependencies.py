"""What a turn depends on. The runtime builds these; tests pass in others."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from hermes_agent.agent.budgets.reservations import BudgetReservations
from hermes_agent.core.effects import Actor, Gate
from hermes_agent.core.errors import HermesError, NotFound, ToolError
from hermes_agent.core.events import Recorded
from hermes_agent.core.protocols import Clock, Model, Terminal
from hermes_agent.core.records import ModelRole
from hermes_agent.core.settings.root import Settings
from hermes_agent.core.skills import SkillLimits
from hermes_agent.core.tools import Tool, ToolServices
from hermes_agent.policy.redaction.redactor import Redactor
from hermes_agent.store.journal.store import Journal


def no_secret(name: str) -> str:
    raise NotFound(f"no secret called {name!r}")


class TurnDependencies(Struct, frozen=True):
    journal: Journal
    route: Callable[[ModelRole, str], Model | None]
    """The model for a role, given the session's model; None when none is configured."""
    tools: Mapping[str, Tool]
    gate: Gate
    terminals: Mapping[str, Terminal]
    """By name; the first is the default."""
    settings: Settings
    publish: Callable[[Recorded], None]
    redact: Redactor
    results: Path
    """Stores results that are too large for the model."""
    clock: Clock
    ticks: Clock
    """Stops while the machine is suspended, and nobody sets it."""
    reservations: BudgetReservations
    """Shared by all sessions."""
    actor: Actor = Actor()
    workspace: str = ""
    """The session's folder on this machine, for tools without a terminal."""
    places: Mapping[str, str] = {}
    """The kind of each terminal that is not local."""
    secret: Callable[[str], str] = no_secret
    """Returns the value of a granted secret; raises `NotFound`."""
    http: Callable[..., Any] | None = None
    """Builds an HTTP client from an `EgressCheck` that every connection must pass."""

    services: ToolServices = ToolServices()
    program_seconds: float = 30.0
    """How long a restarted program may take to repeat the next call of its first run."""
    depth: int = 0
    """How many parents the session has."""
    bounds: tuple[SkillLimits, ...] = ()
    """Limits of the skills that were active in the parent session."""
    trouble: HermesError | None = None
    """What the user is told when a turn begins."""

    def terminal_name(self, name: str) -> str:
        chosen = name or next(iter(self.terminals))
        if chosen not in self.terminals:
            raise ToolError(
                f"this session has no terminal called {name!r}",
                f"it has: {', '.join(self.terminals)}",
            )
        return chosen
