"""What the gate sees and says. An effect is a tool call; acts are the single things it would do,
each of which the rules judge; a verdict is the gate's word on the whole."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from hermes_agent.core.skills import SkillLimits

Access = Literal["read", "write", "delete"]
Action = Literal["allow", "ask", "deny"]
Origin = Literal["builtin", "program", "mcp", "written"]
"""Where a tool comes from: Hermes, a program that uses the library, a server, or the agent."""


DEFAULT = "default"
"""Stands for a rule where none decided."""


class Actor(Struct, frozen=True, omit_defaults=True):
    """Who asked for an effect, by what way."""

    kind: Literal["user", "program", "job", "agent"] = "user"
    name: str = ""
    source: str = "cli"


class PathAccess(Struct, frozen=True):
    """A path that an effect touches."""

    access: Access
    given: str
    """As the model wrote it."""
    named: str = ""
    """Absolute, with `..` and `~` worked out and links as they are; empty when nobody can tell.
    May hold glob signs when `glob` is set."""
    real: tuple[str, ...] = ()
    """Absolute, with globs and links followed; empty until somebody who can see the files has
    looked."""
    glob: bool = False


class Operation(Struct, frozen=True):
    """One thing that an effect would do. A `program` act has all its places and hosts; each of
    them is an act of its own besides, with the program that touches it."""

    kind: Literal["call", "program", "path", "host", "unknown"]
    text: str = ""
    """As people read it: the program with its arguments, the path, the host."""
    program: str = ""
    """The name of the program without its folder."""
    arguments: tuple[str, ...] = ()
    """All words after the program, as the program gets them."""
    verb: str = ""
    """What a program with subcommands is told to do: `push`, `rollout restart`."""
    flags: tuple[str, ...] = ()
    """Options, one each and without their values: `-r`, `-f`, `--force`."""
    places: tuple[PathAccess, ...] = ()
    hosts: tuple[str, ...] = ()
    via: tuple[str, ...] = ()
    """The wrappers it runs through, outermost first: `sudo`, `xargs`, `ssh`."""
    reason: str = ""
    """Of an unknown act: what could not be understood."""
    span: tuple[int, int] | None = None
    """Where the program and its words stand in the command, in characters, when they stand there
    as they are (and not within a string or a file)."""
    options: tuple[tuple[str, str | None], ...] = ()
    """Options with their values, under each of their names: empty where there is none, None where
    nobody can tell. A name that is empty may be any option."""


def paths_in(given: object) -> tuple[str, ...]:
    """The paths of an argument that is one, or several."""
    if isinstance(given, list | tuple):
        return tuple(str(one) for one in given)
    return (str(given) if given else "",)


class Effect(Struct, frozen=True):
    """A tool call as the gate gets it."""

    id: str
    tool: str
    input: dict[str, Any]
    session: str
    workspace: str
    folder: str = ""
    """Where the shell stands; the workspace when empty."""
    terminal: str = "local"
    """The name of the terminal that it would run on."""
    terminal_kind: str = "local"
    capabilities: tuple[str, ...] = ()
    command: str | None = None
    """Shell text that the call would run, when it is one that runs any."""
    paths: tuple[tuple[Access, str], ...] = ()
    hosts: tuple[str, ...] = ()
    origin: Origin = "builtin"
    actor: Actor = Actor()
    time: float = 0.0
    bounds: tuple[SkillLimits, ...] = ()
    """What the active skills allow; each of them counts."""


class ApprovalRequirement(Struct, frozen=True, omit_defaults=True):
    """Who must agree to an effect that asks."""

    by: tuple[str, ...] = ()
    """Names or channels of those who may; empty means anybody who is attached."""
    count: int = 1
    """How many different people."""
    seconds: float | None = None
    """How long the question stays open; the settings' default when None."""


class JudgementInputs(Struct, frozen=True, omit_defaults=True):
    """What the gate knew of a call besides its arguments: enough to judge it again."""

    folder: str = ""
    terminal: str = "local"
    place: str = "local"
    """The terminal's kind."""
    workspace: str = ""
    runs: str = ""
    """The argument that is a command."""
    capabilities: tuple[str, ...] = ()
    paths: tuple[tuple[Access, str], ...] = ()
    hosts: tuple[str, ...] = ()
    origin: Origin = "builtin"
    actor: Actor = Actor()
    seen: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Paths as named and where they led."""
    granted: tuple[str, ...] = ()
    """What people had allowed for the session before."""
    bounds: tuple[SkillLimits, ...] = ()
    """What the active skills allowed."""


class Verdict(Struct, frozen=True):
    """The gate's word on an effect."""

    action: Action
    reason: str
    rule: str = ""
    """The rule that decided, as `file/rule`."""
    consent: ApprovalRequirement = ApprovalRequirement()
    input: dict[str, Any] | None = None
    """The arguments to run with instead, when a rule rewrote them."""
    audits: tuple[str, ...] = ()
    """Rules that want this effect to be noted."""
    secrets: tuple[str, ...] = ()
    """Secrets that a rule grants this effect, by name."""
    grants: tuple[str, ...] = ()
    """What "yes, for this session" would cover: one key for each act that asks."""
    proposal: str = ""
    """The rule, as YAML, that would allow this from now on."""
    seen: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Paths as named, and where they led when this was judged; a later reading replays them."""


Resolve = Callable[[Sequence[str]], Awaitable[Sequence[tuple[str, ...]]]]
"""Where absolute paths and globs lead on the effect's terminal: globs matched, links followed. A
path that is not there leads to itself, below what is; a glob that fits nothing, to itself."""


class Gate(Protocol):
    async def judge(
        self, effect: Effect, resolve: Resolve, granted: frozenset[str] = frozenset()
    ) -> Verdict:
        """Decide one effect. `granted` are the keys that were allowed for this session. Never
        raises for a strange effect: what is not understood asks, what fails denies."""
        ...
