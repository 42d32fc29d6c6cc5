"""What a turn is handed. The runtime puts these together; tests hand in others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_agent.agent.budgets.reservations import BudgetReservations
from hermes_agent.core.effects import Actor, Gate
from hermes_agent.core.errors import NotFound, ToolError
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


@dataclass(frozen=True)
class TurnDependencies:
    journal: Journal
    route: Callable[[ModelRole, str], Model | None]
    """The model for a use, in a session that has chosen this one; None where none was named."""
    tools: Mapping[str, Tool]
    gate: Gate
    terminals: Mapping[str, Terminal]
    """By name; a call that names none uses the first."""
    settings: Settings
    publish: Callable[[Recorded], None]
    """Tell every listener."""
    redact: Redactor
    """Take secrets out of a text before it is written down."""
    results: Path
    """Where results that are too large for the model are kept whole."""
    clock: Clock
    reservations: BudgetReservations
    """What calls under way may still cost, of all sessions together."""
    actor: Actor = Actor()
    workspace: str = ""
    """The session's folder on this machine: what tools that use no terminal work in."""
    places: Mapping[str, str] = field(default_factory=dict)
    """The kind of each terminal, where it is not local."""
    secret: Callable[[str], str] = no_secret
    """The value of a secret that a rule has granted; `NotFound` when there is none."""
    http: Callable[..., Any] | None = None
    """Makes the client that tools reach the network with, from a `Reach`: it asks that before it
    connects."""

    lent: ToolServices = ToolServices()
    """What tools may need beside a terminal."""
    program_seconds: float = 30.0
    """How long a program that is begun again may take to ask for the next call of before."""
    depth: int = 0
    """How many parents the session has."""
    bounds: tuple[SkillLimits, ...] = ()
    """What bounds the session as a whole: the skills that were active where it was begun."""

    def terminal_name(self, name: str) -> str:
        """The terminal of a call that names this one, or none."""
        chosen = name or next(iter(self.terminals))
        if chosen not in self.terminals:
            raise ToolError(
                f"this session has no terminal called {name!r}",
                f"it has: {', '.join(self.terminals)}",
            )
        return chosen
