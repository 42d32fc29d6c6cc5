"""What a drift audit finds, as values."""

from typing import Literal, Protocol

from msgspec import Struct

Scope = Literal["files", "units", "compose", "packages", "kubernetes"]
SCOPES: tuple[Scope, ...] = ("files", "units", "compose", "packages", "kubernetes")

Weight = Literal["harmless", "look", "dangerous"]
"""`harmless`: known to be so. `look`: somebody should. `dangerous`: at once."""
WEIGHTS: tuple[Weight, ...] = ("harmless", "look", "dangerous")


class Who(Struct, frozen=True, omit_defaults=True):
    """Who made live what it is, as far as can be told."""

    kind: Literal["person", "controller", "package", "unknown"] = "unknown"
    """A controller is any program that changes things by itself, without being asked each time."""
    name: str = ""
    sure: Literal["certain", "likely", "guess", ""] = ""
    at: float | None = None
    evidence: str = ""
    """Where this is known from."""


class Advice(Struct, frozen=True, omit_defaults=True):
    """What to do. Both ways are given where both are possible."""

    do: Literal["revert", "adopt", "leave", "decide"] = "decide"
    why: str = ""
    revert: str = ""
    """The command that makes live what is declared."""
    adopt: str = ""
    """The command that makes declared what is live."""
    patch: str = ""
    """The same as a diff that `git apply` takes."""


class DriftFinding(Struct, frozen=True, omit_defaults=True):
    """One thing that is not as declared."""

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
    who: Who = Who()
    weight: Weight = "look"
    why: str = ""
    """Of its weight."""
    pattern: str = ""
    """The pattern that decided, by its name."""
    skill: str = ""
    advice: Advice = Advice()
    history: tuple[str, ...] = ()
    id: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The same drift in another audit has the same key, whatever its values are."""
        return (self.terminal, self.scope, self.object, self.field)


class ScopeResult(Struct, frozen=True, omit_defaults=True):
    """What came of one scope, or of one entry of it."""

    scope: Scope
    checked: int = 0
    """Things that were compared."""
    findings: tuple[DriftFinding, ...] = ()
    troubles: tuple[str, ...] = ()
    """What could not be looked at, and why: never silently left out."""
    notes: tuple[str, ...] = ()
    """What is not looked at, and need not be."""


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
        return tuple(one for looked in self.scopes for one in looked.findings)

    def count(self, weight: Weight) -> int:
        return sum(one.weight == weight for one in self.findings)

    @property
    def troubles(self) -> tuple[str, ...]:
        return tuple(one for looked in self.scopes for one in looked.troubles)

    @property
    def well(self) -> bool:
        """Everything was looked at, and nothing needs a look."""
        return not self.troubles and all(one.weight == "harmless" for one in self.findings)


class CommandAnswer(Struct, frozen=True):
    """What a command said; `refused` says why it was not run."""

    code: int | None
    out: str = ""
    error: str = ""
    refused: str = ""

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def trouble(self) -> str:
        """Why it did not go well, in one line."""
        lines = self.error.strip().splitlines()
        return self.refused or (lines[-1] if lines else f"exit code {self.code}")


class LiveState(Protocol):
    """Where live state is read: one terminal, under the gate."""

    @property
    def name(self) -> str: ...

    async def ask(self, command: str) -> CommandAnswer: ...


class SecretFilter(Protocol):
    """Takes secrets out of a text."""

    def __call__(self, text: str) -> str: ...
