"""The content of a policy file, as values. See docs/reference/policies.md."""

from typing import Any, Literal

from msgspec import Struct

from hermes_agent.core.effects import Action, Actor, ApprovalRequirement

Strings = tuple[str, ...]
RuleAction = Literal["allow", "ask", "deny", "audit", "confine", "rewrite"]
RuleConfinement = Literal["none", "alone", "workspace", "around", "required", "read-only"]
"""`around`: the program runs outside, judged once more by the words it is really given, and all
that is around it may only look. `alone`: it runs as it is if the command is nothing else.
`required`: the rule is in force only where the whole command is held to read-only."""


class Times(Struct, frozen=True):
    """When a rule applies. Spans are in minutes of the day; one that ends before it begins crosses
    midnight."""

    hours: tuple[tuple[int, int], ...] = ()
    days: tuple[int, ...] = ()
    """0 is Monday."""
    zone: str = "UTC"


class RuleMatch(Struct, frozen=True):
    """What a rule matches. Every given key must match; of several values, one."""

    tool: Strings | None = None
    input: dict[str, Strings] | None = None
    """By argument; nothing means that it is not given."""
    capability: Strings | None = None
    kind: Strings | None = None
    program: Strings | None = None
    no_program: Strings | None = None
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
    computed: bool | None = None
    time: Times | None = None

    def names(self, *keys: str) -> bool:
        """Whether any of these keys is given."""
        return any(getattr(self, key) is not None for key in keys)


class Rewrite(Struct, frozen=True):
    add: Strings = ()
    """Arguments added at the end, before a `--`."""
    remove: Strings = ()
    """Globs for arguments to remove."""
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
    """Consent for the session covers only exactly the same text."""
    reason: str = ""
    confine: RuleConfinement = "none"
    """What the kernel lets commands change that it allows."""

    @property
    def name(self) -> str:
        return f"{self.file}/{self.id}"

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


class PolicyTest(Struct, frozen=True):
    """A test in a policy file: a command or call, and the expected verdict."""

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
    """Symbolic links and their targets."""
    origin: str = ""
    """Where an unknown tool comes from."""


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
    """What happens to operations that no rule covers; empty: as in the profile it extends."""
    rules: tuple[PolicyRule, ...] = ()
    tests: tuple[PolicyTest, ...] = ()
    extends_at: tuple[int, int] = (1, 1)
    """Line and column of `extends`."""


class PolicyProblem(Struct, frozen=True):
    """A problem in a policy file, and where."""

    path: str
    line: int
    column: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.message}"
