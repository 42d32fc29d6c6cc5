"""What a turn is handed. The runtime puts these together; tests hand in others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes_agent.core.events import Recorded
from hermes_agent.core.journal import Journal
from hermes_agent.core.protocols import Actor, Clock, Gate, Model, Terminal
from hermes_agent.core.settings import Settings
from hermes_agent.core.tools import Tool
from hermes_agent.policy.redact import Redactor


@dataclass(frozen=True)
class Parts:
    journal: Journal
    model: Model
    tools: Mapping[str, Tool]
    gate: Gate
    terminal: Terminal
    settings: Settings
    publish: Callable[[Recorded], None]
    """Tell every listener."""
    redact: Redactor
    """Take secrets out of a text before it is written down."""
    results: Path
    """Where results that are too large for the model are kept whole."""
    clock: Clock
    actor: Actor = Actor()
