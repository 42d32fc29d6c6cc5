"""Skills as values: what a procedure that was written down declares, and what of it is in force."""

from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

SkillState = Literal["given", "candidate", "proven", "demoted", "retired", "quarantined"]
"""`given` by a person or shipped: used until it is measured to do harm. `candidate`: learned, and a
hypothesis. `proven`: measured to help. `demoted`: measured to help no more; no longer offered.
`retired`: put away by a person or as a duplicate. `quarantined`: its text looks dangerous."""

OFFERED: frozenset[SkillState] = frozenset({"given", "candidate", "proven"})
"""States in which a skill is shown to the model."""


class SkillLimits(Struct, frozen=True, omit_defaults=True):
    """What may be done while a skill is active. What it does not declare is not bounded by it."""

    skill: str
    tools: tuple[str, ...] = ()
    """Names of tools, as globs; `terminal(git:*)` allows only commands of this program."""
    paths: tuple[str, ...] = ()
    """Globs of absolute paths, or of paths below the workspace."""
    hosts: tuple[str, ...] = ()
    """Hosts, as globs."""


class Expectation(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a command must come to."""

    exit: int | None = 0
    """Its exit code; None where any will do."""
    output: str = ""
    """A regular expression that its output must hold."""
    no_output: str = ""
    """One that it must not hold."""


class Check(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A command and what it must come to."""

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
    """It is for this case only if all of these hold."""
    verify: tuple[Check, ...] = ()
    """Must hold at the end, and not at the beginning: then there is nothing to do."""
    define: str = ""
    """Shell functions that stand before every command, where they are told apart: commands that are
    run have them."""

    def with_define(self) -> "Runbook":
        """Each command as it is run."""

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
    """Of the version that was opened."""
    bounds: SkillLimits | None = None
    arguments: str = ""
    runbook: Runbook | None = None
    """To be worked through without a model, where that was asked for."""
    text: str = ""
    """What the model reads of it, where a message opened it."""


class RecallResult(Struct, frozen=True, omit_defaults=True):
    """What was found to fit a message when it came in, and is shown to the model with it."""

    text: str = ""
    """As the model reads it."""
    skills: tuple[str, ...] = ()
    """Skills that it offers."""
    held_back: tuple[str, ...] = ()
    """Candidates that fit and were not offered, to see how it goes without them."""
    sessions: tuple[str, ...] = ()
    notes: tuple[int, ...] = ()
