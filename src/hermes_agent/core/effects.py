"""The gate's input and output. An effect is a tool call; its operations are the single things it
would do, each judged by the rules; a verdict is the decision on the whole."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, get_args

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.errors import UsageError
from hermes_agent.core.skills import SkillLimits

Access = Literal["read", "write", "delete"]
Action = Literal["allow", "ask", "deny"]
Origin = Literal["builtin", "program", "mcp", "written"]
"""Where a tool comes from: Hermes, a program that embeds it, an MCP server, or the agent."""
Confinement = Literal["none", "workspace", "read-only"]
"""What the kernel lets a command change: whatever the user may, the workspace, or nothing."""
Front = Literal["engine", "kubernetes", "unprivileged", "network", "unheld", "none"]
"""What holds a program that runs outside of the view for looking, besides the rules. `engine`
and `kubernetes`: it reaches the service through a filter of requests, and nothing else.
`unprivileged`: it runs as nobody, if Hermes runs as root. `network`: it can write no file.
`unheld`: nothing can hold it, and it is not called for a look."""
Unconfined = Callable[[], str | None]
"""Why what would be confined must ask on this machine; empty: it cannot be confined, but the rules
are trusted alone; None: it can be."""
UNPROBED = "whether the kernel there can confine commands is unknown"

DEFAULT = "default"
"""Stands in for the rule when none matched."""


class Actor(Struct, frozen=True, omit_defaults=True):
    """Who asked for an effect, and by which route."""

    kind: Literal["user", "program", "job", "agent"] = "user"
    name: str = ""
    source: str = "cli"


class PathAccess(Struct, frozen=True):
    """A path that an effect touches."""

    access: Access
    given: str
    """As the model wrote it."""
    named: str = ""
    """Absolute, with `..` and `~` resolved but not links; empty if unknown. May contain glob
    characters if `glob` is set."""
    real: tuple[str, ...] = ()
    """Absolute, with globs expanded and links followed; empty until resolved on the terminal."""
    glob: bool = False


class Operation(Struct, frozen=True):
    """One thing that an effect would do. A `program` operation lists all its paths and hosts; each
    of them is also an operation of its own, with the program that touches it."""

    kind: Literal["call", "program", "path", "host", "unknown"]
    text: str = ""
    """As people read it: the program with its arguments, the path, the host."""
    program: str = ""
    """The name of the program without its folder."""
    arguments: tuple[str, ...] = ()
    """All words after the program, as the program gets them."""
    verb: str = ""
    """The subcommand: `push`, `rollout restart`."""
    flags: tuple[str, ...] = ()
    """Options, one each, without values: `-r`, `-f`, `--force`."""
    places: tuple[PathAccess, ...] = ()
    hosts: tuple[str, ...] = ()
    via: tuple[str, ...] = ()
    """The wrappers it runs through, outermost first: `sudo`, `xargs`, `ssh`."""
    reason: str = ""
    """What could not be understood, for an `unknown` operation."""
    span: tuple[int, int] | None = None
    """Where the program and its words are in the command, in characters, if they appear there
    literally (not inside a string or a file)."""
    options: tuple[tuple[str, str | None], ...] = ()
    """Options with their values, under each of their names: empty for no value, None if unknown. An
    empty name may be any option."""
    computed: bool = False
    """Whether it gets words that are known only when it runs, other than numbers and times."""


def paths_in(given: object) -> tuple[str, ...]:
    """The paths in an argument that holds one or several."""
    if isinstance(given, list | tuple):
        return tuple(str(one) for one in given)
    return (str(given) if given else "",)


Capability = Literal["filesystem", "network", "process", "secrets", "messages"]


def check_capabilities(names: Iterable[str], whose: str) -> None:
    """Raises for a name that is no capability: no rule would ever match it."""
    known: tuple[str, ...] = get_args(Capability)
    for name in names:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, 1)
            meant = f"did you mean {near[0]!r}? " if near else ""
            raise UsageError(
                f"{whose}: there is no capability {name!r}", f"{meant}one of {', '.join(known)}"
            )


class Effect(Struct, frozen=True):
    """A tool call, as the gate gets it."""

    id: str
    tool: str
    input: dict[str, Any]
    session: str
    workspace: str
    folder: str = ""
    """The shell's current directory; empty means the workspace."""
    terminal: str = "local"
    """The name of the terminal it would run on."""
    terminal_kind: str = "local"
    capabilities: tuple[str, ...] = ()
    command: str | None = None
    """Shell text that the call would run, if any."""
    paths: tuple[tuple[Access, str], ...] = ()
    hosts: tuple[str, ...] = ()
    origin: Origin = "builtin"
    actor: Actor = Actor()
    time: float = 0.0
    bounds: tuple[SkillLimits, ...] = ()
    """Limits of the active skills; all of them apply."""
    strict: bool = False
    """What cannot be understood is not allowed for being confined: it runs outside of the view, or
    unattended."""
    unconfined: str = UNPROBED
    """Why a terminal elsewhere cannot hold commands to looking; empty if it can."""
    unconfined_workspace: str = UNPROBED
    """Why it cannot hold them to the workspace."""
    parameters: tuple[str, ...] = ()
    """All parameters of the tool, given or not."""


class ApprovalRequirement(Struct, frozen=True, omit_defaults=True):
    """Who must approve an effect."""

    by: tuple[str, ...] = ()
    """Names or channels of those who may; empty means anybody who is attached."""
    count: int = 1
    """How many different people."""
    seconds: float | None = None
    """How long the question stays open; None means the settings' default."""


class Risk(Struct, frozen=True, omit_defaults=True):
    """Something dangerous in an effect, in words for the people who are asked."""

    what: str
    """`deletes files`."""
    argument: str = ""
    """The argument in which it is."""
    text: str = ""
    """The program with its words, or the path."""
    line: int = 0
    """Its line in that argument, from 1; 0 if unknown."""


class JudgementInputs(Struct, frozen=True, omit_defaults=True):
    """What the gate knew about a call besides its arguments: enough to judge it again."""

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
    """Paths as named, and where they led."""
    granted: tuple[str, ...] = ()
    """What people had already allowed for the session."""
    bounds: tuple[SkillLimits, ...] = ()
    """Limits of the active skills."""
    unconfined: str = UNPROBED
    unconfined_workspace: str = UNPROBED


class Verdict(Struct, frozen=True):
    """The gate's decision on an effect."""

    action: Action
    reason: str
    rule: str = ""
    """The rule that decided, as `file/rule`."""
    consent: ApprovalRequirement = ApprovalRequirement()
    input: dict[str, Any] | None = None
    """The arguments to run with instead, if a rule rewrote them."""
    audits: tuple[str, ...] = ()
    """Rules that ask for this effect to be audited."""
    secrets: tuple[str, ...] = ()
    """Names of the secrets that a rule grants this effect."""
    grants: tuple[str, ...] = ()
    """What "yes, for this session" allows: one key for each operation that asks."""
    proposal: str = ""
    """The rule, as YAML, that would allow this from now on."""
    seen: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Paths as named, and where they led at the time; replayed when it is judged again."""
    confinement: Confinement = "none"
    """Where a command runs that is allowed because of what it seems to do."""
    risks: tuple[Risk, ...] = ()
    """What is dangerous in it, if it asks."""
    understood: bool = True
    """False: parts of it are allowed only because the kernel lets them change nothing."""
    outside: frozenset[str] = frozenset()
    """The programs that it names and that run outside of its view; with all their words where no
    front leads them to a service of this machine or its cluster."""


Resolve = Callable[[Sequence[str]], Awaitable[Sequence[tuple[str, ...]]]]
"""Resolves absolute paths and globs on the effect's terminal: globs expanded, links followed. A
missing path resolves to itself below its existing parent; a glob without matches to itself."""


class OutsideCall(Struct, frozen=True):
    """The decision on a call out of a view."""

    refusal: str = ""
    """Why it may not run; empty if it may."""
    looks: bool = True
    """It is allowed because it only looks, and is held to that; else its effect was agreed to."""


class OutsideCalls(Struct, frozen=True):
    """The programs that a command in a view of the machine calls outside of it."""

    programs: frozenset[str]
    judge: Callable[[str, str], Awaitable[OutsideCall]]
    """Decides on a call, as a command, in a folder."""
    made: list[tuple[str, str, Front]] = []
    """The calls so far, each with why it was refused, if it was, and what held it."""


class Gate(Protocol):
    def outside(self) -> frozenset[str]:
        """Programs that run outside of the view in which the rest of a command only looks."""
        ...

    async def judge(
        self, effect: Effect, resolve: Resolve, granted: frozenset[str] = frozenset()
    ) -> Verdict:
        """Decide one effect. `granted` are the keys already allowed for this session. Never raises
        for a strange effect: what is not understood asks, and a failure denies."""
        ...


def outside_calls(
    gate: Gate, effect: Effect, resolve: Resolve, granted: frozenset[str] = frozenset()
) -> OutsideCalls:
    """For the parts of an allowed command: each is judged again as it is really called."""
    whole: list[Verdict] = []

    async def judge(command: str, folder: str) -> OutsideCall:
        if not whole:
            whole.append(await gate.judge(effect, resolve, granted))
        given = {**effect.input, "command": command}
        call = replace(effect, command=command, folder=folder, input=given, strict=True)
        verdict = await gate.judge(call, resolve, granted)
        if verdict.confinement == "workspace":
            return OutsideCall("it may only run confined to the workspace")
        if not whole[0].understood and not verdict.outside <= whole[0].outside:
            return OutsideCall(
                "what is not understood may only call programs that the command names, and those"
                " that may send something with the same words"
            )
        allowed = verdict.action == "allow" and verdict.input is None
        return OutsideCall("" if allowed else verdict.reason, verdict.confinement != "none")

    return OutsideCalls(gate.outside(), judge)


_FRONTS: dict[Front, str] = {
    "engine": "docker docker-compose podman podman-compose",
    "kubernetes": "kubectl oc k helm",
    "unprivileged": (
        "systemctl loginctl hostnamectl timedatectl localectl networkctl resolvectl machinectl"
        " systemd-analyze coredumpctl"
    ),
    "unheld": "nerdctl crictl ctr",
    "network": (
        "curl wget dig drill host kdig nslookup nc ncat netcat openssl ssh-keyscan rpcinfo"
        " showmount psql pgcli pg_isready mysql mariadb mysqladmin redis-cli valkey-cli cqlsh"
        " clickhouse-client etcdctl consul nomad promtool amtool logcli ntpq kubeconform kubeval"
    ),
}
FRONTS: dict[str, Front] = {
    name: front for front, names in _FRONTS.items() for name in names.split()
}
HOLDING = frozenset({"engine", "kubernetes", "unprivileged"})
"""The fronts behind which what a program says stays with its service."""
RELEASES = frozenset({"list", "ls", "status", "get", "history", "hist"})
"""The verbs of `helm` that ask the cluster; the others need the network instead."""


def front_of(program: str, words: tuple[str, ...]) -> Front:
    if program == "helm" and RELEASES.isdisjoint(words):
        return "network"
    return FRONTS.get(program, "none")


class Permit:
    """Permission to run one call, once, with these arguments. Only authorization creates them."""

    def __init__(self, effect: str, tool: str, arguments: Mapping[str, Any]) -> None:
        self.effect = effect
        self._tool = tool
        self._arguments = dict(arguments)
        self._used = False

    def use(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Called by the tool when it runs."""
        if self._used or tool != self._tool or dict(arguments) != self._arguments:
            raise PermissionError(f"no permit to run {tool} with these arguments")
        self._used = True
