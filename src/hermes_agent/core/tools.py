"""A tool is a typed function with a docstring; its signature is its schema. Tools of servers bring
a schema of their own."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_type_hints

import msgspec
from msgspec import Struct

from hermes_agent.core.effects import Access, Origin
from hermes_agent.core.errors import HermesError, Retry, ToolError
from hermes_agent.core.messages import Media, ToolSpec, Usage
from hermes_agent.core.protocols import Terminal
from hermes_agent.core.settings.root import Settings
from hermes_agent.core.tool_services import Call, EgressCheck, ToolServices

AT = "at"
"""The argument of every located tool that names a terminal."""

Capability = Literal["filesystem", "network", "process", "secrets", "messages"]


class ToolResult(Struct, frozen=True):
    """Text for the model, data for people and programs."""

    text: str
    data: dict[str, Any] = {}
    ok: bool = True
    files: tuple[Media, ...] = ()
    """Images for the model to look at."""
    usage: Usage = Usage()
    """What models used to come to it: those of children."""
    cost: float | None = 0.0
    """Dollars of that; None where a price is not known."""


ADVICE: Mapping[Retry, str] = {
    "": "",
    "same": "the same call may work if you make it again",
    "changed": "the same call will fail again: change it",
    "never": "no such call will work now: do without it",
}


def failure(message: str, hint: str = "", retry: Retry = "") -> ToolResult:
    """The one shape of a call that failed: what is wrong, a way out, and whether to try again."""
    lines = [message, *([f"hint: {hint}"] if hint else [])]
    lines += [f"retry: {ADVICE[retry]}"] if retry else []
    return ToolResult("\n".join(lines), {"error": message, "hint": hint, "retry": retry}, ok=False)


def failed(error: HermesError) -> ToolResult:
    return failure(error.message, error.hint, getattr(error, "retry", ""))


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
