"""A program with its words on the way from the table to acts."""

from collections.abc import Callable

from msgspec.structs import replace

from hermes_agent.core.effects import Access, PathAccess
from hermes_agent.policy.shell.interpreter.collector import places_of
from hermes_agent.policy.shell.interpreter.run import SimpleCommandRun
from hermes_agent.policy.shell.interpreter.state import ExpandedWord
from hermes_agent.policy.shell.programs.table import Reading

_USER_SHELL = frozenset({"su", "runuser", "script", "rsync", "gcloud", "tmux", "mosh"})
"""Whose commands are read by the user's shell, which is bash; others use sh."""


class ProgramCall:
    """A program with its words while its roles are worked out."""

    def __init__(
        self, run: SimpleCommandRun, name: str, fields: list[ExpandedWord], reading: Reading
    ) -> None:
        self.run = run
        self.name = name
        self.fields = fields
        self.reading = reading
        self.places: list[PathAccess] = []
        self.hosts: list[str] = []
        self.later: list[Callable[[], object]] = []
        """What it runs: followed when the program itself is noted."""

    def place(self, field: ExpandedWord, access: Access) -> None:
        self.places += places_of(field, access, self.run.state)

    def unknown(self, field: ExpandedWord, reason: str) -> None:
        text = field.text
        self.later.append(lambda: self.run.unknown(text, reason, self.name))

    def shell(self, text: ExpandedWord, *, far: bool = False) -> None:
        """Shell text that the program would run."""
        if text.dynamic or text.glob:
            self.unknown(text, f"what {self.name} runs is not known")
            return
        inside = self.inside(far=far)
        around = inside.around if self.name in _USER_SHELL else replace(inside.around, bash=False)
        self.later.append(lambda: inside.walk.text(text.text, inside.state, around))

    def inside(self, *, far: bool = False) -> SimpleCommandRun:
        """Where the commands run that the program starts."""
        state = self.run.state.copy()
        if far:
            state.variables = {}
            state.home = "~"
            state.folders = (None,)
        state.functions = {}
        state.positional = None
        return self.run.inside(self.name, state=state)

    def note(self) -> None:
        places, hosts = self.run.redirected.take()
        self.run.walk.note.program(
            self.name, self.fields, self.run.around, verb=self.reading.verb,
            flags=self.reading.flags, places=[*self.places, *places], hosts=[*self.hosts, *hosts],
            options=self.reading.given,
        )  # fmt: skip
