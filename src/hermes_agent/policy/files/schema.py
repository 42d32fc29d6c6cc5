"""What a policy file says, as values. `files` reads and checks them; docs/reference/policies.md is
the page for those who write them."""

from typing import Any, Literal

from msgspec import Struct

from hermes_agent.core.effects import Action, Actor, ApprovalRequirement

Strings = tuple[str, ...]
RuleAction = Literal["allow", "ask", "deny", "audit", "rewrite"]


class Times(Struct, frozen=True):
    """When a rule holds. Spans of minutes of the day; one that ends before it begins goes over
    midnight."""

    hours: tuple[tuple[int, int], ...] = ()
    days: tuple[int, ...] = ()
    """0 is Monday."""
    zone: str = "UTC"


class RuleMatch(Struct, frozen=True):
    """What a rule is about. Every key that is given must hold; of several values, one."""

    tool: Strings | None = None
    input: dict[str, Strings] | None = None
    capability: Strings | None = None
    kind: Strings | None = None
    program: Strings | None = None
    verb: Strings | None = None
    flag: Strings | None = None
    no_flag: Strings | None = None
    option: Strings | None = None
    no_option: Strings | None = None
    argument: Strings | None = None
    text: Strings | None = None
    via: Strings | None = None
    no_via: Strings | None = None
    path: Strings | None = None
    holds: Strings | None = None
    access: Strings | None = None
    inside: str | None = None
    outside: str | None = None
    host: Strings | None = None
    terminal: Strings | None = None
    place: Strings | None = None
    confined: bool | None = None
    actor: Strings | None = None
    source: Strings | None = None
    session: Strings | None = None
    origin: Strings | None = None
    unknown: bool | None = None
    time: Times | None = None

    def names(self, *keys: str) -> bool:
        """Whether any of these keys is given."""
        return any(getattr(self, key) is not None for key in keys)


class Rewrite(Struct, frozen=True):
    add: Strings = ()
    """Words put at the end of the program's, before a `--`."""
    remove: Strings = ()
    """Globs for words that are taken out."""
    set: dict[str, Any] = {}
    """Arguments of the tool, by name."""


class PolicyRule(Struct, frozen=True):
    id: str
    file: str
    """The name of its file, without the ending."""
    path: str
    line: int
    action: RuleAction
    match: RuleMatch = RuleMatch()
    when: str = ""
    consent: ApprovalRequirement = ApprovalRequirement()
    rewrite: Rewrite = Rewrite()
    secrets: Strings = ()
    exact: bool = False
    """Consent for the session covers the very same words only."""
    reason: str = ""

    @property
    def name(self) -> str:
        return f"{self.file}/{self.id}"

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


class PolicyTest(Struct, frozen=True):
    """A test in a policy file: a command or a call, and what becomes of it."""

    line: int
    expect: Action
    run: str | None = None
    call: str = ""
    input: dict[str, Any] = {}
    rule: str = ""
    becomes: str = ""
    """The command after a rewrite."""
    profile: str = ""
    terminal: str = "local"
    place: str = "local"
    folder: str = ""
    actor: Actor = Actor()
    time: float = 0.0
    files: dict[str, str] = {}
    """Links and where they lead."""
    origin: str = ""
    """Where the tool comes from, when it is none of those that are known."""


class PolicyFile(Struct, frozen=True):
    name: str
    """Of the file, without the ending; rules are called `name/id`."""
    path: str
    title: str = ""
    description: str = ""
    profile: str = ""
    """The profile that its rules belong to; all when empty."""
    extends: str = ""
    otherwise: Literal["", "ask", "deny"] = ""
    """What becomes of acts that no rule covers; empty: as in the profile it extends."""
    rules: tuple[PolicyRule, ...] = ()
    tests: tuple[PolicyTest, ...] = ()
    extends_at: tuple[int, int] = (1, 1)
    """Line and column of what it extends, for whoever has to mend it."""


class PolicyProblem(Struct, frozen=True):
    """What is wrong in a policy file, and where."""

    path: str
    line: int
    column: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.message}"
