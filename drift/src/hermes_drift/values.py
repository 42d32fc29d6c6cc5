"""The values of a drift audit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

Scope = Literal["files", "units", "compose", "packages", "kubernetes"]
SCOPES: tuple[Scope, ...] = ("files", "units", "compose", "packages", "kubernetes")

Weight = Literal["harmless", "look", "dangerous"]
"""`look`: somebody should look at it. `dangerous`: they should at once."""
WEIGHTS: tuple[Weight, ...] = ("harmless", "look", "dangerous")

CALLED: Mapping[str, str] = {"harmless": "harmless", "look": "notable", "dangerous": "dangerous"}
DO = {
    "revert": "revert to declared", "adopt": "adopt into Git", "leave": "leave it",
    "decide": "decide",
}  # fmt: skip

SecretFilter = Callable[[str], str]
"""Takes secrets out of a text."""


def place_of(scope: str, namespace: str) -> str:
    """The part of a report that a finding belongs to."""
    if scope != "kubernetes":
        return scope
    return f"namespace {namespace}" if namespace else "cluster-scoped"


def fingerprint_of(repository: str, terminal: str, object: str) -> str:
    """Of the signal that dangerous drift of an object raises."""
    return f"drift {repository} {terminal} {object}"


def mark(weights: Sequence[str]) -> str:
    """`dangerous (1 dangerous, 2 notable)`: the worst, then how many there are of each."""
    counts = [(weights.count(one), CALLED[one]) for one in reversed(WEIGHTS)]
    given = [(count, word) for count, word in counts if count]
    return f"{given[0][1]} ({', '.join(f'{count} {word}' for count, word in given)})"


class Who(Struct, frozen=True, omit_defaults=True):
    """Who changed the live state, as far as can be told."""

    kind: Literal["person", "controller", "package", "unknown"] = "unknown"
    """A controller is any program that changes things on its own."""
    name: str = ""
    sure: Literal["certain", "likely", "guess", ""] = ""
    at: float | None = None
    evidence: str = ""


class Advice(Struct, frozen=True, omit_defaults=True):
    """What to do, with the commands for both ways where both are possible."""

    do: Literal["revert", "adopt", "leave", "decide"] = "decide"
    why: str = ""
    revert: str = ""
    """The command that makes live state as declared."""
    adopt: str = ""
    """The command that declares the live state."""
    patch: str = ""
    """The same as a diff for `git apply`."""


class DriftFinding(Struct, frozen=True, omit_defaults=True):
    """One difference between declared and live."""

    scope: Scope
    object: str
    """A path, a unit, `service web`, `Deployment shop/web`, a package."""
    field: str
    """What of it: `content`, `mode`, `missing`, `Service.ExecStart`, `spec.replicas`, …"""
    declared: str = ""
    live: str = ""
    diff: str = ""
    source: str = ""
    """The file of the repository that declares it."""
    terminal: str = ""
    namespace: str = ""
    """Of a Kubernetes object; empty for one of the whole cluster."""
    group: str = ""
    """The API group of a Kubernetes object."""
    who: Who = Who()
    weight: Weight = "look"
    why: str = ""
    """The reason for its weight."""
    pattern: str = ""
    """The name of the pattern that decided."""
    skill: str = ""
    advice: Advice = Advice()
    history: tuple[str, ...] = ()
    edits: int = 0
    """How often people have changed the object lately, this time included; 0 if nobody is known to
    have."""
    id: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The same for the same drift in another audit, whatever the values."""
        return (self.terminal, self.scope, self.object, self.field)

    @property
    def place(self) -> str:
        return place_of(self.scope, self.namespace)


class ScopeResult(Struct, frozen=True, omit_defaults=True):
    """The result of one scope, or of one entry of it."""

    scope: Scope
    checked: int = 0
    """How many things were compared."""
    findings: tuple[DriftFinding, ...] = ()
    troubles: tuple[str, ...] = ()
    """What could not be checked, and why: never left out silently."""
    notes: tuple[str, ...] = ()
    """What was not checked and need not be."""


class Audit(Struct, frozen=True, omit_defaults=True):
    id: str
    at: float
    repository: str
    commit: str
    subject: str = ""
    """The first line of that commit."""
    scopes: tuple[ScopeResult, ...] = ()

    @property
    def findings(self) -> tuple[DriftFinding, ...]:
        return tuple(one for scope in self.scopes for one in scope.findings)

    def count(self, weight: Weight) -> int:
        return sum(one.weight == weight for one in self.findings)

    @property
    def troubles(self) -> tuple[str, ...]:
        return tuple(one for scope in self.scopes for one in scope.troubles)

    @property
    def well(self) -> bool:
        """Everything could be checked, and nothing needs a look."""
        return not self.troubles and all(one.weight == "harmless" for one in self.findings)


class CommandAnswer(Struct, frozen=True):
    """A command's output; `refused` says why it was not run."""

    code: int | None
    out: str = ""
    error: str = ""
    refused: str = ""

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def trouble(self) -> str:
        """Why it failed, in one line."""
        lines = self.error.strip().splitlines()
        return self.refused or (lines[-1] if lines else f"exit code {self.code}")


class LiveState(Protocol):
    """A terminal on which live state is read, under policy."""

    @property
    def name(self) -> str: ...

    async def ask(self, command: str) -> CommandAnswer: ...
