"""Skills as values: what a skill declares, and what is active in a turn."""

from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

SkillState = Literal["given", "candidate", "proven", "demoted", "retired", "quarantined"]
"""`given`: by a person or shipped; used until it is measured to do harm. `candidate`: learned, but
not yet proven. `proven`: measured to help. `demoted`: measured not to help any more; not offered.
`retired`: by a person or as a duplicate. `quarantined`: its text looks dangerous."""

OFFERED: frozenset[SkillState] = frozenset({"given", "candidate", "proven"})
"""States in which a skill is shown to the model."""


class SkillLimits(Struct, frozen=True, omit_defaults=True):
    """What a session may do while a skill is active. What is not declared is not limited."""

    skill: str
    tools: tuple[str, ...] = ()
    """Tool names, as globs; `terminal(git:*)` allows only commands of this program."""
    paths: tuple[str, ...] = ()
    """Globs of absolute paths, or of paths below the workspace."""
    hosts: tuple[str, ...] = ()
    """Hosts, as globs."""


class Expectation(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The expected result of a command."""

    exit: int | None = 0
    """Its exit code; None allows any."""
    output: str = ""
    """A regular expression that its output must match."""
    no_output: str = ""
    """One that its output must not match."""


class Check(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A command and its expected result."""

    run: str
    expect: Expectation = Expectation()
    timeout: float | None = None


class RunStep(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    run: str
    expect: Expectation = Expectation()
    timeout: float | None = None
    verify: Check | None = None
    """Must hold afterwards."""
    name: str = ""


_Command = TypeVar("_Command", Check, RunStep)


class Runbook(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A procedure that needs no model: `runbook.yaml` of a skill, its parameters filled in."""

    steps: tuple[RunStep, ...]
    when: tuple[Check, ...] = ()
    """The runbook applies only if all of these hold."""
    verify: tuple[Check, ...] = ()
    """Must hold at the end. If they hold at the beginning, there is nothing to do."""
    define: str = ""
    """Shell functions to put before every command."""

    def with_define(self) -> "Runbook":
        """The runbook with the functions put before each command."""

        def whole(one: _Command) -> _Command:
            return replace(one, run=self.define + one.run)

        return Runbook(
            tuple(
                replace(whole(step), verify=whole(step.verify) if step.verify else None)
                for step in self.steps
            ),
            tuple(map(whole, self.when)),
            tuple(map(whole, self.verify)),
        )


class ActivatedSkill(Struct, frozen=True, omit_defaults=True):
    """A skill that became active in a turn."""

    skill: str
    digest: str
    """Of the opened version."""
    bounds: SkillLimits | None = None
    arguments: str = ""
    runbook: Runbook | None = None
    """To run without a model, if that was requested."""
    text: str = ""
    """What the model reads, if a message opened it."""


class RecallResult(Struct, frozen=True, omit_defaults=True):
    """What recall found for a message; shown to the model with it."""

    text: str = ""
    """As the model reads it."""
    skills: tuple[str, ...] = ()
    """Offered skills."""
    held_back: tuple[str, ...] = ()
    """Matching candidates that were not offered, to measure how it goes without them."""
    sessions: tuple[str, ...] = ()
    notes: tuple[int, ...] = ()


class Snippet(Struct, frozen=True):
    """A command in a skill's text that is replaced by its output."""

    start: int
    end: int
    command: str


class OpenedSkill(Struct, frozen=True):
    opened: ActivatedSkill
    text: str
    """What the model reads, with parameters filled in."""
    snippets: tuple[Snippet, ...] = ()
