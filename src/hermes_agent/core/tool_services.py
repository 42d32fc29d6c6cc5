"""What the runtime lends to tools that need more than a terminal. Each is a seam: the tool knows
the protocol, the runtime has the part, tests hand in another."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct

from hermes_agent.core.knowledge import NoteEdit, View
from hermes_agent.core.messages import Media, Usage
from hermes_agent.core.skills import ActivatedSkill, SkillLimits

if TYPE_CHECKING:
    from hermes_agent.core.tools import Tool, ToolResult

DELEGATE = "delegate"
"""The tool that hands work to children."""

Closable = TypeVar("Closable", bound="AsyncCloseable")

Call = Callable[[str, Mapping[str, Any]], Awaitable["ToolResult"]]
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

    async def make(self, name: str, code: str, call: Call | None, by: str = "") -> "ToolResult":
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

    async def act(self, action: str, given: Mapping[str, Any], by: "Provenance") -> "ToolResult":
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

    async def act(self, action: str, given: Mapping[str, Any], by: "Provenance") -> "ToolResult":
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
