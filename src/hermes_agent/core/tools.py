"""Tools: typed functions whose signature and docstring are their schema, or functions that bring
their own JSON Schema (MCP servers). Also the services that the runtime offers them."""

import asyncio
import inspect
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, get_type_hints

import msgspec
from msgspec import Struct

from hermes_agent.core.effects import (
    Access,
    Confinement,
    Origin,
    OutsideCalls,
    Permit,
    check_capabilities,
)
from hermes_agent.core.errors import ToolError
from hermes_agent.core.knowledge import NoteEdit, View
from hermes_agent.core.messages import Media, ToolSpec, Usage
from hermes_agent.core.protocols import Clock, MediaModels, Terminal
from hermes_agent.core.settings.root import Settings
from hermes_agent.core.settings.sources import SourceKind
from hermes_agent.core.skills import OpenedSkill, SkillLimits
from hermes_agent.core.tool_results import ToolResult

AT = "at"
"""The argument with which the model picks a terminal, on every `located` tool."""

DELEGATE = "delegate"
"""The tool that hands work to subagents."""

Closable = TypeVar("Closable", bound="AsyncCloseable")

Call = Callable[[str, Mapping[str, Any]], Awaitable[ToolResult]]
"""Calls another tool from within this one; judged and journaled like any call."""

EgressCheck = Callable[[str, str, bool], bool]
"""Whether a call may connect: host, address, and whether the address is public. A public address is
allowed unless a rule denies it; any other needs a rule or a person's approval."""


class AsyncCloseable(Protocol):
    async def close(self) -> None: ...


class ResourceCache(Protocol):
    """Resources that a session's tools hold open between calls: a browser, a connection. Closed
    when idle for a while, when the session is deleted, and when the runtime stops."""

    async def get(self, name: str, make: Callable[[], Awaitable[Closable]]) -> Closable:
        """The resource of this name, made now if needed. Concurrent callers get the same one."""
        ...

    async def drop(self, name: str) -> None:
        """Close it; the next `get` makes a new one."""
        ...


class SandboxLimits(Struct, frozen=True):
    """Limits of a program in a sandbox."""

    seconds: float = 300.0
    memory_mb: int = 512
    processes: int = 64
    output_bytes: int = 1_000_000
    """Output beyond this is dropped, with a note."""
    calls: int = 100
    """How many tool calls it may make."""


class SandboxResult(Struct, frozen=True):
    """How a program in a sandbox ended."""

    output: str
    """Standard output and error together."""
    ok: bool
    value: Any = None
    """What the called function returned, as JSON."""
    trouble: str = ""
    """Why it failed: its traceback, or the limit it hit."""
    limit: str = ""
    """`time`, `memory`, `processes`, `disk`, `output` or `calls`; `died` if it was killed or exited
    without a result."""
    seconds: float = 0.0


class CodeSandbox(Protocol):
    """Runs untrusted Python, each time in a new sandbox: no network, no secrets, none of the user's
    files, nothing left behind."""

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
        """Run a program, or one function of it with these arguments. It can call the tools named
        in `tools`; each call goes through `call`. `name` is unique to this run."""
        ...


class SubagentTask(Struct, frozen=True):
    """What a subagent is asked to do."""

    key: str
    """Unique to the task and stable over restarts, so that the same subagent is found again."""
    task: str
    tools: tuple[str, ...]
    """A subset of its parent's tools."""
    cheap: bool = False
    tokens: int | None = None
    """How many tokens it may use in all."""
    dollars: float | None = None
    steps: int | None = None
    interactive: bool = False
    """Somebody can answer its questions."""
    bounds: tuple[SkillLimits, ...] = ()
    """Limits of the skills that are active in its parent."""


class SubagentResult(Struct, frozen=True):
    """How a subagent's turn ended."""

    session: str
    reason: str
    text: str
    error: str = ""
    usage: Usage = Usage()
    cost: float | None = 0.0
    """Of the whole session, its own subagents included."""


class SubagentRunner(Protocol):
    """Runs sessions on behalf of a turn. They are journaled like any other: a restarted runtime
    resumes them, and the same key always gives the same subagent."""

    async def begin(self, parent: str, task: SubagentTask) -> str:
        """The subagent's session, running or done."""
        ...

    async def more(self, session: str, key: str, text: str, interactive: bool) -> None:
        """Send it another message, once for each key."""
        ...

    async def end(self, session: str, message: str, told: Callable[[str], None]) -> SubagentResult:
        """Wait for the end of the turn that took the message; progress goes to `told`."""
        ...


class ToolListing(Struct, frozen=True):
    """A tool in a search result."""

    name: str
    about: str
    """The first line of its description."""
    trouble: bool = False
    """Not a tool: a provider that could not be searched, and why."""


class ToolProvider(Protocol):
    """Tools that are not in the prompt: built-in ones that few sessions need, those of MCP servers,
    and those the agent wrote."""

    def about(self) -> str:
        """What the prompt says about them; empty when there are none. Does no I/O."""
        ...

    async def search(self, query: str) -> Sequence[ToolListing]:
        """Tools that match every word of the query, or all of them for an empty query."""
        ...

    async def find(self, name: str) -> "Tool | None": ...


class ToolAuthoring(Protocol):
    """Tools that the agent writes itself."""

    async def make(self, name: str, code: str, call: Call | None, by: str = "") -> ToolResult:
        """Check a new tool, or a new version, in a sandbox and save it if it passes; otherwise
        raise a `ToolError` that says what is wrong. `by` is its author, for the log."""
        ...

    async def holds(self, name: str, digest: str) -> bool:
        """Whether the tool's current code has this SHA-256."""
        ...


class KnowledgeService(Protocol):
    """Memory and skills, as tools use them. `by` is the session, effect and model that write."""

    async def note(self, edits: Sequence[NoteEdit], by: "Provenance") -> str:
        """Edit notes; returns the outcome in words."""
        ...

    async def which(self, view: View, part: str) -> int:
        """The note that contains this text; a `ToolError` lists close matches."""
        ...

    async def noted(self, by: "Provenance") -> bool:
        """Whether this effect's edit was already made."""
        ...

    async def open_skill(
        self,
        name: str,
        arguments: str,
        digest: str = "",
        facts: Mapping[str, str] | None = None,
    ) -> OpenedSkill:
        """The current version, or the one with this digest. `facts` describe the service that it
        is opened for, during an incident."""
        ...

    async def read_skill(self, name: str, path: str) -> str: ...

    async def write_skill(
        self, name: str, files: Mapping[str, str], why: str, by: "Provenance"
    ) -> str:
        """Save a new skill, or a new version of one, as a candidate."""
        ...

    async def recall(self, query: str, kinds: Sequence[str], limit: int, by: "Provenance") -> str:
        """The results, without the call that asks."""
        ...


class Provenance(Struct, frozen=True):
    session: str
    effect: str
    model: str = ""


class IncidentActions(Protocol):
    """Actions on the incident that a session works on."""

    async def act(self, action: str, given: Mapping[str, Any], by: "Provenance") -> ToolResult:
        """The outcome; a `ToolError` says what was refused and why. Idempotent per effect."""
        ...

    async def facts(self, arguments: str) -> Mapping[str, str]:
        """Values for the placeholders of a skill opened with these arguments: facts about the
        service that they name."""
        ...

    async def undo_script(self) -> str:
        """The command that restores the saved copies; a `ToolError` if there are none."""
        ...


class JobActions(Protocol):
    """Actions on jobs, for the agent's tool."""

    async def act(self, action: str, given: Mapping[str, Any], by: "Provenance") -> ToolResult:
        """The outcome. Idempotent per effect: the same effect never adds a job twice."""
        ...


class Messenger(Protocol):
    """Sends messages to people, for the agent's tool."""

    async def send(self, key: str, target: str, text: str, files: Sequence[Media]) -> Sequence[str]:
        """Queue it, once per key; returns where it goes, in words."""
        ...

    async def send_after(self, key: str, target: str, text: str, command: str) -> Sequence[str]:
        """The same, but only when a background command of the session ends, with its outcome."""
        ...


class Proxy(Protocol):
    """Network access for a program that cannot use the guarded client. Resolves names itself and
    refuses what the client would refuse."""

    @property
    def address(self) -> str:
        """Host and port, on this machine."""
        ...

    @property
    def secret(self) -> str:
        """The password of the user `hermes`; required."""
        ...

    @property
    def failed(self) -> Mapping[str, str]:
        """Hosts whose last attempt failed, and why."""
        ...

    async def close(self) -> None: ...


class BudgetShare(Struct, frozen=True):
    """A subagent's part of its parent's budget."""

    tokens: int | None = None
    dollars: float | None = None


class ToolServices(Struct, frozen=True):
    resources: ResourceCache | None = None
    sandbox: CodeSandbox | None = None
    subagents: SubagentRunner | None = None
    providers: Sequence[ToolProvider] = ()
    authoring: ToolAuthoring | None = None
    knowledge: KnowledgeService | None = None
    incident: IncidentActions | None = None
    jobs: JobActions | None = None
    messenger: Messenger | None = None
    media: MediaModels | None = None
    bounds: tuple[SkillLimits, ...] = ()
    """Limits of the active skills."""
    model: str = ""
    """The session's model."""
    tools: Sequence[str] = ()
    """Names of the session's own tools, in order."""
    depth: int = 0
    """How many ancestors the session has."""
    interactive: bool = False
    """Somebody can answer questions."""
    proxy: Callable[[EgressCheck], Awaitable[Proxy]] | None = None
    """Opens a proxy restricted by the check."""
    split: Callable[[int], AbstractAsyncContextManager[BudgetShare]] | None = None
    """Reserves the rest of the turn's budget, in equal shares, for this many subagents."""


class ToolContext(Struct, frozen=True):
    """What a tool gets for one call. A tool asks for it with a first parameter annotated
    `ToolContext`, which the model never sees."""

    effect: str
    """The idempotency key: unique to this call and stable over restarts."""
    session: str
    terminal: Terminal
    ask: Callable[[str, Sequence[str]], Awaitable[str | None]]
    """Ask the user; None if nobody can answer or did."""
    output: Callable[[str], None]
    """Stream a piece of output to whoever is watching."""
    secrets: Mapping[str, str] = {}
    """Only the secrets that a rule grants this call."""
    redact: Callable[[str], str] = str
    """Take secrets out of a text that stays on disk; results are redacted anyway."""
    http: Callable[..., Any] | None = None
    """Makes an `httpx.AsyncClient` that refuses private, loopback and metadata addresses unless a
    rule allows them, and whatever a rule denies. The only guarded way to the network. Takes httpx's
    own options."""
    reach: EgressCheck | None = None
    clock: Clock = time.time
    settings: Settings = Settings()
    place: str = ""
    """The name of the terminal."""
    workspace: str = ""
    """The session's folder on this machine; tools that are not `located` resolve paths in it."""
    results: Path | None = None
    """The folder with the session's oversized results in full: `EFFECT.txt`."""
    call: Call | None = None
    services: ToolServices = ToolServices()
    judged: tuple[str, ...] = ()
    """Where the call's paths led when it was judged; empty if nobody followed them."""
    note: Mapping[str, Any] = {}
    """What `prepare` returned for this call."""
    aside: bool = False
    """Called by a program, which may make other calls concurrently."""
    confinement: Confinement = "none"
    """What a command may change, by the gate's verdict."""
    outside: OutsideCalls | None = None
    """What a command may call outside of where it is confined."""

    async def resolve(self, path: str) -> str:
        """Where a path leads on the terminal: to the same place as when the call was judged."""
        real = await self.terminal.resolve(path)
        if self.judged and real not in self.judged:
            raise ToolError(
                f"{path!r} leads to {real}, and led elsewhere when this call was judged",
                f"call it with {real!r}",
                "changed",
            )
        try:
            real.encode()
        except UnicodeEncodeError:
            raise ToolError(f"{path!r} leads to {real!r}, which is not UTF-8") from None
        return real


RecoveryResult = ToolResult | Literal["not-run", "again"] | None
"""What is known of a call that was in flight when the runtime died: its result; `not-run`: it can
run now; `again`: running it again continues it and repeats nothing; None: unknown, so the call is
parked."""


@dataclass(frozen=True)
class Tool:
    name: str
    function: InitVar[Callable[..., Any]]
    """The typed function. Only `run` can call it, and that needs a permit."""
    description: str = ""
    capabilities: Sequence[str] = ()
    """What the function touches: filesystem, network, process, secrets, messages."""
    repeatable: bool = False
    """Running it twice does no more than running it once (reading, searching)."""
    paths: Mapping[str, Access] = field(default_factory=dict)
    """Which arguments are paths, and how they are accessed; the gate judges them."""
    command: str = ""
    """Which argument is shell text; the gate judges what it would run."""
    hosts: Sequence[str] = ()
    """Which arguments are URLs or hosts; the gate judges them."""
    located: bool = False
    """Works on the session's terminal, or on another one that the model names with `at`."""
    prepare: Callable[..., Awaitable[dict[str, Any]]] | None = None
    """Called like the function before the intent is journaled; its result is stored with it."""
    preview: Callable[..., Awaitable[str]] | None = None
    """Called with the terminal and the arguments before people are asked: what would happen to an
    existing file, as counts on the first line and a diff below. Changes nothing."""
    recover: Callable[..., Awaitable[RecoveryResult]] | None = None
    """Called after a restart with the context, what `prepare` returned, and the arguments."""
    release: Callable[[ToolContext, ToolResult], Awaitable[None]] | None = None
    """Called once the result is journaled, to drop what was stored for recovery."""
    origin: Origin = "program"
    after: Sequence[str] = ()
    """Tools that must have succeeded earlier in the session."""
    inverse: Callable[[dict[str, Any], Mapping[str, Any], ToolResult], str] | None = None
    """How to undo the effect, in a sentence, from what `prepare` returned, the arguments and the
    result. Empty if it cannot be undone."""
    keys: Sequence[str] = ()
    """Secrets that a built-in tool uses if they are set; needs no rule."""
    sources: Sequence[SourceKind] = ()
    """Kinds of sources of the settings that a built-in tool connects to, with their secrets; needs
    no rule."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the arguments, if the function takes them as one object."""

    def __post_init__(self, function: Callable[..., Any]) -> None:
        check_capabilities(self.capabilities, f"tool {self.name!r}")
        object.__setattr__(self, "_function", function)

    async def run(self, permit: Permit, context: ToolContext, arguments: Mapping[str, Any]) -> Any:
        """Run the function. There is no other way to run it."""
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
    def bound_by(self) -> str:
        """What ties it to the process of its runtime; empty if it can run in another."""
        if self._wants_context or self.schema is not None:
            return "ToolContext"
        bonds = (
            "located",
            "prepare",
            "preview",
            "recover",
            "release",
            "inverse",
            "keys",
            "sources",
        )
        return next((name for name in bonds if getattr(self, name)), "")

    @property
    def unrecoverable(self) -> bool:
        """Whether nobody could tell if an interrupted call took effect."""
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
        """What the model sees; always the same bytes."""
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
        """Validate the arguments and fill in defaults; a `ToolError` says what is wrong."""
        if self.schema is not None:
            return self._as_given(given, self.schema)
        try:
            checked = msgspec.convert(dict(given), self._arguments, strict=False)
        except msgspec.ValidationError as error:
            wanted = ", ".join(self._arguments.__struct_fields__)
            told = f"{error}{self._choices(str(error))}; it takes {wanted}"
            raise ToolError(f"bad arguments for {self.name}: {told}", retry="changed") from None
        names = [name for name in checked.__struct_fields__ if not (self.located and name == AT)]
        return {name: getattr(checked, name) for name in names}

    def _choices(self, error: str) -> str:
        """The values that the argument of an error may have."""
        if (found := re.search(r"^Invalid enum value .* - at `\$\.(\w+)`$", error)) is None:
            return ""
        values = self.spec.parameters["properties"][found[1]].get("enum")
        return f"; {found[1]} takes {', '.join(map(str, values))}" if values else ""

    def _as_given(self, given: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
        """Checks only that nothing is missing; the schema's owner validates the rest."""
        missing = [name for name in schema.get("required", ()) if name not in given]
        if missing:
            wanted = msgspec.json.encode(schema).decode()
            raise ToolError(
                f"{self.name} needs {', '.join(missing)}; it takes {wanted}", retry="changed"
            )
        return dict(given)

    def place(self, given: Mapping[str, Any]) -> str:
        """The terminal that the model picked; empty for the session's first."""
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
    sources: Sequence[SourceKind] = (),
    preview: Callable[..., Awaitable[str]] | None = None,
    prepare: Callable[..., Awaitable[dict[str, Any]]] | None = None,
    recover: Callable[..., Awaitable[RecoveryResult]] | None = None,
    release: Callable[[ToolContext, ToolResult], Awaitable[None]] | None = None,
    inverse: Callable[[dict[str, Any], Mapping[str, Any], ToolResult], str] | None = None,
) -> Callable[[Callable[..., Any]], Tool]:
    """Turn a function into a built-in tool; its name and docstring become the tool's."""

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
            sources=tuple(sources),
            preview=preview,
            prepare=prepare,
            recover=recover,
            release=release,
            inverse=inverse,
            origin="builtin",
        )

    return make
