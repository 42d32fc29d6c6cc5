"""A tool is a typed function with a docstring; its signature is its schema. Tools of servers bring
a schema of their own."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, get_type_hints

import msgspec
from msgspec import Struct

from hermes_agent.core.effects import Access, Origin
from hermes_agent.core.errors import ToolError
from hermes_agent.core.knowledge import NoteEdit, View
from hermes_agent.core.messages import Media, ToolSpec, Usage
from hermes_agent.core.protocols import Terminal
from hermes_agent.core.settings.root import Settings
from hermes_agent.core.skills import ActivatedSkill, SkillLimits
from hermes_agent.core.tool_results import ToolResult

AT = "at"
"""The argument of every located tool that names a terminal."""

Capability = Literal["filesystem", "network", "process", "secrets", "messages"]


DELEGATE = "delegate"
"""The tool that hands work to children."""

Closable = TypeVar("Closable", bound="AsyncCloseable")

Call = Callable[[str, Mapping[str, Any]], Awaitable[ToolResult]]
"""Call another tool as a part of this one: judged and written down like any call."""

EgressCheck = Callable[[str, str, bool], bool]
"""Whether a call may connect to a host at an address. A public one it may unless a rule denies it;
another only where a rule allows it, or somebody has agreed to it. The last says which it is."""


class AsyncCloseable(Protocol):
    async def close(self) -> None: ...


class ResourceCache(Protocol):
    """What a session's tools hold open from one call to the next: a browser, a connection. Closed
    when nobody has used it for a while, when the session is deleted, and when the runtime ends."""

    async def get(self, name: str, make: Callable[[], Awaitable[Closable]]) -> Closable:
        """What was made under this name, or made now. Two who ask at once get the same."""
        ...

    async def drop(self, name: str) -> None:
        """Close it; the next `get` makes another."""
        ...


class SandboxLimits(Struct, frozen=True):
    """What a program in a sandbox may use."""

    seconds: float = 300.0
    memory_mb: int = 512
    processes: int = 64
    output_bytes: int = 1_000_000
    """What it may print; the rest is thrown away and said so."""
    calls: int = 100
    """Tools that it may call."""


class SandboxResult(Struct, frozen=True):
    """How a program in a sandbox ended."""

    output: str
    """What it printed, standard output and error together."""
    ok: bool
    value: Any = None
    """What the called function returned, as JSON, where one was called."""
    trouble: str = ""
    """Why it did not end well: its traceback, or the limit that it ran into."""
    limit: str = ""
    """The limit: `time`, `memory`, `processes`, `disk`, `output`, `calls`; or `died`: it was
    killed, or left without a word."""
    seconds: float = 0.0


class CodeSandbox(Protocol):
    """Runs Python that nobody trusts, each time in a new sandbox: no network, no secrets, nothing
    of the user's files, nothing left behind."""

    async def run(
        self,
        name: str,
        source: str,
        *,
        function: str = "",
        arguments: Mapping[str, Any] | None = None,
        tools: Sequence[str] = (),
        call: Call | None = None,
        limits: SandboxLimits | None = None,
        output: Callable[[str], None] | None = None,
    ) -> SandboxResult:
        """Run a program, or one function of it with these arguments. What is named in `tools` it
        can call by name; each call comes out through `call`. `name` is unique to this run."""
        ...


class SubagentTask(Struct, frozen=True):
    """What a child is to do."""

    key: str
    """Unique to the task and the same after a restart: the child is found by it again."""
    task: str
    tools: tuple[str, ...]
    """Tools that it has, of those that its parent has."""
    cheap: bool = False
    tokens: int | None = None
    """Tokens that it may use in all."""
    dollars: float | None = None
    steps: int | None = None
    interactive: bool = False
    """Somebody is there to answer its questions."""
    bounds: tuple[SkillLimits, ...] = ()
    """Of the skills that are active where it is begun."""


class SubagentResult(Struct, frozen=True):
    """How a child's turn ended."""

    session: str
    reason: str
    text: str
    error: str = ""
    usage: Usage = Usage()
    cost: float | None = 0.0
    """Of the whole session, its own children included."""


class SubagentRunner(Protocol):
    """Sessions that work for a turn. They are in the journal like any other: a runtime that dies
    takes them up again, and whoever asks for a key twice gets the same child."""

    async def begin(self, parent: str, task: SubagentTask) -> str:
        """The child's session, at work or done."""
        ...

    async def more(self, session: str, key: str, text: str, interactive: bool) -> None:
        """Send it another message, once for each key."""
        ...

    async def end(self, session: str, message: str, told: Callable[[str], None]) -> SubagentResult:
        """Wait until the turn that took the message is over; `told` hears what it does."""
        ...


class ToolListing(Struct, frozen=True):
    """A tool as a search shows it."""

    name: str
    about: str
    """Its first line."""
    trouble: bool = False
    """No tool, but something that could not be searched, and why."""


class ToolProvider(Protocol):
    """Tools that are not in the prompt: of servers, or written by the agent itself."""

    def about(self) -> str:
        """What the prompt says of them; empty when there are none. Reaches nobody."""
        ...

    async def search(self, query: str) -> Sequence[ToolListing]:
        """Those that fit all words of the query, or all there are when it is empty."""
        ...

    async def find(self, name: str) -> "Tool | None": ...


class ToolAuthoring(Protocol):
    """Tools that the agent writes itself."""

    async def make(self, name: str, code: str, call: Call | None, by: str = "") -> ToolResult:
        """Check a new tool or a new version in a sandbox; keep it when all is well. Raises
        `ToolError` with what is wrong. `by` is who made it, for the log."""
        ...

    async def holds(self, name: str, digest: str) -> bool:
        """Whether a tool is the code with this SHA-256 now."""
        ...


class Snippet(Struct, frozen=True):
    """A command in a skill's text whose output is to stand in its place."""

    start: int
    end: int
    command: str


class OpenedSkill(Struct, frozen=True):
    opened: ActivatedSkill
    text: str
    """What the model reads, its parameters filled in."""
    snippets: tuple[Snippet, ...] = ()


class KnowledgeService(Protocol):
    """What is remembered and known, as tools reach it. `by` says who writes: the session, the
    effect and the model."""

    async def note(self, edits: Sequence[NoteEdit], by: "Provenance") -> str:
        """Change what is remembered; what came of it, in words."""
        ...

    async def which(self, view: View, part: str) -> int:
        """The note of a view that holds this text; a `ToolError` names the near ones."""
        ...

    async def noted(self, by: "Provenance") -> bool:
        """Whether this effect's change was made."""
        ...

    async def open_skill(
        self,
        name: str,
        arguments: str,
        digest: str = "",
        facts: Mapping[str, str] | None = None,
    ) -> OpenedSkill:
        """As it is now, or as it was in the version with this digest. `facts`: of the service that
        it is opened for, during an incident."""
        ...

    async def read_skill(self, name: str, path: str) -> str: ...

    async def write_skill(
        self, name: str, files: Mapping[str, str], why: str, by: "Provenance"
    ) -> str:
        """Keep a new skill, or a new version of one, as a candidate."""
        ...

    async def recall(self, query: str, kinds: Sequence[str], limit: int, by: "Provenance") -> str:
        """What is found; the call that asks is not."""
        ...


class Provenance(Struct, frozen=True):
    session: str
    effect: str
    model: str = ""


class IncidentActions(Protocol):
    """The incident that a session works on, as its tool reaches it."""

    async def act(self, action: str, given: Mapping[str, Any], by: "Provenance") -> ToolResult:
        """What came of it; a `ToolError` says what was refused, and why. An action that was done
        before by the same effect is not done again."""
        ...

    async def facts(self, arguments: str) -> Mapping[str, str]:
        """What the placeholders of a skill that is opened with these arguments stand for: facts of
        the service that they name."""
        ...

    async def undo_script(self) -> str:
        """The command that puts back the copies that were kept; a `ToolError` where none are."""
        ...


class JobActions(Protocol):
    """Jobs, as the agent's tool reaches them."""

    async def act(self, action: str, given: Mapping[str, Any], by: "Provenance") -> ToolResult:
        """What came of it. A job that was added before by the same effect is not added again."""
        ...


class Messenger(Protocol):
    """Messages to people, as the agent's tool sends them."""

    async def send(self, key: str, target: str, text: str, files: Sequence[Media]) -> Sequence[str]:
        """Hand it in, once for each key; where it goes, in words."""
        ...


class Proxy(Protocol):
    """The only way to the network of a program that cannot be handed a guarded client. It looks
    names up itself and refuses what the client would refuse."""

    @property
    def address(self) -> str:
        """Host and port, on this machine."""
        ...

    @property
    def secret(self) -> str:
        """The password of the user `hermes`; without it nothing is let through."""
        ...

    @property
    def failed(self) -> Mapping[str, str]:
        """Hosts that were not reached at the last try, with the reason in a sentence."""
        ...

    async def close(self) -> None: ...


class BudgetShare(Struct, frozen=True):
    """A child's part of its parent's budget."""

    tokens: int | None = None
    dollars: float | None = None


@dataclass(frozen=True)
class ToolServices:
    keep: ResourceCache | None = None
    workers: CodeSandbox | None = None
    children: SubagentRunner | None = None
    sources: Sequence[ToolProvider] = ()
    written: ToolAuthoring | None = None
    learned: KnowledgeService | None = None
    commanded: IncidentActions | None = None
    tasks: JobActions | None = None
    messenger: Messenger | None = None
    bounds: tuple[SkillLimits, ...] = ()
    """Of the skills that are active."""
    model: str = ""
    """The model that the session has chosen."""
    tools: Sequence[str] = ()
    """The names of the session's own tools, in their order."""
    depth: int = 0
    """How many parents the session has."""
    interactive: bool = False
    """Somebody is there to answer questions."""
    proxy: Callable[[EgressCheck], Awaitable[Proxy]] | None = None
    """Opens a proxy that reaches what the function says."""
    split: Callable[[int], AbstractAsyncContextManager[BudgetShare]] | None = None
    """Set what is left of the turn's budget aside in equal parts for so many children, as long as
    they work."""


@dataclass(frozen=True)
class ToolContext:
    """What the runtime lends a tool for one call. A tool asks for it by a first parameter
    annotated `ToolContext`; the model never sees that parameter."""

    effect: str
    """Unique for this call and the same after a restart: the idempotency key."""
    session: str
    terminal: Terminal
    ask: Callable[[str, Sequence[str]], Awaitable[str | None]]
    """Ask the user; None when nobody can or did answer."""
    output: Callable[[str], None]
    """Show a piece of output to whoever is watching."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """The secrets that a rule grants this call, and no others."""
    http: Callable[..., Any] | None = None
    """Makes an `httpx.AsyncClient` that refuses private, loopback and metadata addresses unless a
    rule allows them, and whatever a rule denies; the only way to the network that is guarded. Takes
    httpx's own options."""
    reach: EgressCheck | None = None
    settings: Settings = Settings()
    workspace: str = ""
    """The session's folder on this machine, where a tool that is not `located` finds its paths."""
    results: Path | None = None
    """Where results of this session that were too large are kept whole: `EFFECT.txt`."""
    call: Call | None = None
    lent: ToolServices = ToolServices()
    note: Mapping[str, Any] = field(default_factory=dict)
    """What `prepare` returned for this call."""
    aside: bool = False
    """A program makes the call, and may make others at the same time."""


RecoveryResult = ToolResult | Literal["not-run", "again"] | None
"""What is known of a call that was under way when the runtime died: its result; that it never
ran, so that running it now is its first time; that running it again goes on where it was, and does
nothing twice; or nothing, and it is parked."""


class Permit:
    """Leave to run one call, once, with these arguments. The admission alone makes them."""

    def __init__(self, effect: str, tool: str, arguments: Mapping[str, Any]) -> None:
        self.effect = effect
        self._tool = tool
        self._arguments = dict(arguments)
        self._used = False

    def use(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Called by the tool itself when it runs."""
        if self._used or tool != self._tool or dict(arguments) != self._arguments:
            raise PermissionError(f"no leave to run {tool} with these arguments")
        self._used = True


@dataclass(frozen=True)
class Tool:
    name: str
    function: InitVar[Callable[..., Any]]
    """The typed function. It can be run by `run` alone, which wants a permit."""
    description: str = ""
    capabilities: Sequence[str] = ()
    """What the function touches: filesystem, network, process, secrets, messages."""
    repeatable: bool = False
    """Running it twice does no more than running it once (reading, searching)."""
    paths: Mapping[str, Access] = field(default_factory=dict)
    """Which arguments are paths, and what is done there; the gate judges them."""
    command: str = ""
    """Which argument is shell text; the gate judges what it would run."""
    hosts: Sequence[str] = ()
    """Which arguments are URLs or hosts; the gate judges them."""
    located: bool = False
    """It works on the session's terminal, or on another one that the model names with `at`."""
    prepare: Callable[..., Awaitable[dict[str, Any]]] | None = None
    """Called as the function is, before the intent is written; what it returns is kept with it."""
    recover: Callable[..., Awaitable[RecoveryResult]] | None = None
    """Called with the context, the note of `prepare` and the arguments after a restart."""
    release: Callable[[ToolContext, ToolResult], Awaitable[None]] | None = None
    """Called when the result is in the journal: what was kept to find it out again can go."""
    origin: Origin = "program"
    after: Sequence[str] = ()
    """Tools that must have worked in the session before."""
    inverse: Callable[[dict[str, Any], Mapping[str, Any], ToolResult], str] | None = None
    """How the effect is undone, in a sentence: from the note of `prepare`, the arguments and the
    result. Empty where it cannot be."""
    keys: Sequence[str] = ()
    """Secrets that a built-in tool uses where they are set; no rule need grant them."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the arguments, where the function takes them as one object."""

    def __post_init__(self, function: Callable[..., Any]) -> None:
        object.__setattr__(self, "_function", function)

    async def run(self, permit: Permit, context: ToolContext, arguments: Mapping[str, Any]) -> Any:
        """What the function returns. There is no other way to run it."""
        permit.use(self.name, arguments)
        function = self._bare
        if self.schema is not None:
            return await function(context, dict(arguments))
        lead = (context,) if self._wants_context else ()
        if inspect.iscoroutinefunction(function):
            return await function(*lead, **arguments)
        return await asyncio.to_thread(function, *lead, **arguments)

    @property
    def _bare(self) -> Callable[..., Any]:
        function: Callable[..., Any] = self.__dict__["_function"]
        return function

    @property
    def unrecoverable(self) -> bool:
        """Whether a call that is cut off leaves nobody who could tell if it took effect."""
        return self.recover is None and not self.repeatable

    @cached_property
    def _wants_context(self) -> bool:
        first = next(iter(inspect.signature(self._bare).parameters.values()), None)
        hints = get_type_hints(self._bare)
        return first is not None and hints.get(first.name) is ToolContext

    @cached_property
    def _arguments(self) -> type[Struct]:
        hints = get_type_hints(self._bare, include_extras=True)
        parameters = list(inspect.signature(self._bare).parameters.values())
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for parameter in parameters[1:] if self._wants_context else parameters:
            kind = hints.get(parameter.name, Any)
            if parameter.default is inspect.Parameter.empty:
                fields.append((parameter.name, kind))
            else:
                fields.append((parameter.name, kind, parameter.default))
        if self.located:
            fields.append((AT, str, ""))
        return msgspec.defstruct(self.name, fields, kw_only=True, forbid_unknown_fields=True)

    @cached_property
    def spec(self) -> ToolSpec:
        """How the model sees this tool; the same bytes every time."""
        if self.schema is not None:
            return ToolSpec(self.name, self.description, dict(self.schema))
        schema = msgspec.json.schema(self._arguments)
        definitions = schema.pop("$defs", {})
        parameters: dict[str, Any] = definitions.pop(self._arguments.__name__)
        parameters.pop("title", None)
        if definitions:
            parameters["$defs"] = definitions
        text = self.description or inspect.getdoc(self._bare) or self.name
        return ToolSpec(self.name, text, parameters)

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments checked and completed with defaults; a `ToolError` names what is wrong."""
        if self.schema is not None:
            return self._as_given(given, self.schema)
        try:
            checked = msgspec.convert(dict(given), self._arguments, strict=False)
        except msgspec.ValidationError as error:
            wanted = ", ".join(self._arguments.__struct_fields__)
            raise ToolError(
                f"bad arguments for {self.name}: {error}; it takes {wanted}", retry="changed"
            ) from None
        names = [name for name in checked.__struct_fields__ if not (self.located and name == AT)]
        return {name: getattr(checked, name) for name in names}

    def _as_given(self, given: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
        """Whoever made the schema checks the rest."""
        missing = [name for name in schema.get("required", ()) if name not in given]
        if missing:
            wanted = msgspec.json.encode(schema).decode()
            raise ToolError(
                f"{self.name} needs {', '.join(missing)}; it takes {wanted}", retry="changed"
            )
        return dict(given)

    def place(self, given: Mapping[str, Any]) -> str:
        """The name of the terminal that the model chose; empty for the session's first."""
        return str(given.get(AT) or "") if self.located else ""


def tool(
    *,
    capabilities: Sequence[str] = (),
    repeatable: bool = False,
    paths: Mapping[str, Access] | None = None,
    command: str = "",
    hosts: Sequence[str] = (),
    located: bool = False,
    after: Sequence[str] = (),
    keys: Sequence[str] = (),
    prepare: Callable[..., Awaitable[dict[str, Any]]] | None = None,
    recover: Callable[..., Awaitable[RecoveryResult]] | None = None,
    release: Callable[[ToolContext, ToolResult], Awaitable[None]] | None = None,
    inverse: Callable[[dict[str, Any], Mapping[str, Any], ToolResult], str] | None = None,
) -> Callable[[Callable[..., Any]], Tool]:
    """Make a built-in tool of a function; its name and docstring become the tool's."""

    def make(function: Callable[..., Any]) -> Tool:
        return Tool(
            name=function.__name__,
            function=function,
            description=inspect.getdoc(function) or "",
            capabilities=tuple(capabilities),
            repeatable=repeatable,
            paths=paths or {},
            command=command,
            hosts=tuple(hosts),
            located=located,
            after=tuple(after),
            keys=tuple(keys),
            prepare=prepare,
            recover=recover,
            release=release,
            inverse=inverse,
            origin="builtin",
        )

    return make
