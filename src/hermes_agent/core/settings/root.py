"""Every setting, with its default and a sentence. `config.yaml` in the home has this shape."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from hermes_agent.core.messages import Effort
from hermes_agent.core.settings.services import ServiceSettings
from hermes_agent.core.settings.terminals import LocalPlace, PlaceSettings, SandboxPlace

Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Dollars = Annotated[float, Meta(ge=0)]


class LoopSettings(Struct, frozen=True, forbid_unknown_fields=True):
    max_steps: Count = 50
    """Model replies in one turn before the agent pauses and asks."""
    compact_at: Annotated[float, Meta(gt=0, le=1)] = 0.8
    """Summarise the middle of the conversation when this share of the context window is used."""
    keep_first: Count = 2
    """Messages at the start of a conversation that are never summarised."""
    keep_last: Annotated[int, Meta(ge=0)] = 12
    """Messages at the end of a conversation that are never summarised."""
    parallel_calls: Count = 8
    """Tool calls of one reply that run at the same time."""
    result_chars: Count = 16_000
    """The most of one tool result the model is shown; the rest is kept on disk."""


class BudgetSettings(Struct, frozen=True, forbid_unknown_fields=True):
    turn_tokens: Count | None = None
    """Tokens (in and out) one turn may use."""
    turn_seconds: Seconds | None = None
    """Seconds one turn may take, waiting for people not counted."""
    turn_dollars: Dollars | None = None
    """Dollars one turn may cost."""
    session_tokens: Count | None = None
    """Tokens one session may use."""
    session_dollars: Dollars | None = None
    """Dollars one session may cost."""
    day_dollars: Dollars | None = None
    """Dollars all sessions together may cost in one day (UTC)."""


class ApprovalSettings(Struct, frozen=True, forbid_unknown_fields=True):
    timeout_seconds: Seconds = 600.0
    """How long a question to the user stays open; then it counts as refused."""


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    input: Dollars
    """Dollars per million input tokens."""
    output: Dollars
    """Dollars per million output tokens."""
    cached: Dollars | None = None
    """Dollars per million input tokens read from the provider's cache; `input` when absent."""
    written: Dollars | None = None
    """Dollars per million input tokens put into the provider's cache; `input` when absent."""


Names = tuple[str, ...]


class UseSettings(Struct, frozen=True, forbid_unknown_fields=True):
    cheap: Names = ()
    """Models for routine work, in order; empty means the main ones."""
    compaction: Names = ()
    """Models that summarise long conversations; empty means the session's own, whose cache is
    warm."""
    review: Names = ()
    """Models that look back on what was done; empty means the cheap ones."""
    titles: Names = ()
    """Models that give sessions a title; empty means that the first line is the title."""
    vision: Names = ()
    """Models that describe images to a model that cannot see; empty means that it is told that
    it cannot see them."""
    judge: Names = ()
    """Models that judge results; empty means the main ones."""


class ModelSettings(Struct, frozen=True, forbid_unknown_fields=True):
    fallbacks: Names = ()
    """Models that take over, in order, when the one that was asked fails, as `service/name`."""
    uses: UseSettings = UseSettings()
    """Other models for other work."""
    reasoning_effort: Effort | None = None
    """How hard models think: low, medium, high, xhigh or max; the model's own way when absent."""
    keys: dict[str, Names] = {}
    """Where a service's keys come from, by service, in order: `env:NAME`, `keyring:NAME`,
    `command:…` or `login`; several are a pool."""
    services: dict[str, ServiceSettings] = {}
    """More services, or other facts of those that are known, by name."""
    silence_seconds: Seconds = 120.0
    """Give a model call up when the service sends nothing for this long."""
    patience_seconds: Seconds = 600.0
    """Give a model call up when nothing of the answer arrives for this long, though the service
    keeps the line open, as it may while a model thinks."""
    retries: Annotated[int, Meta(ge=0)] = 4
    """Tries after the first when a model call fails in a way that may pass and there is no other
    model to go to."""
    retry_seconds: Annotated[float, Meta(ge=0)] = 1.0
    """The first pause between tries; it doubles, with jitter, unless the service names one."""
    retry_most_seconds: Annotated[float, Meta(ge=0)] = 60.0
    """The longest pause between tries; a service that asks for more is given up."""
    circuit_failures: Count = 3
    """Failures in a row after which a model is left alone for a while."""
    circuit_seconds: Seconds = 30.0
    """How long it is left alone at first; the time doubles, up to ten minutes, as long as it
    fails."""
    context_tokens: dict[str, Count] = {}
    """Context window by model name, where the catalogue is wrong or does not know it."""
    prices: dict[str, Price] = {}
    """Prices by model name, where the catalogue is wrong or has none; without one the cost is
    unknown and dollar budgets refuse to start."""


class TerminalSettings(Struct, frozen=True, forbid_unknown_fields=True):
    default: str = "local"
    """The terminal of new sessions, one of `terminals`; `HERMES_TERMINAL` overrides it."""
    timeout_seconds: Seconds = 120.0
    """How long a foreground command may run when the model names no limit."""
    output_chars: Count = 30_000
    """The most of a command's output that is read back; it lies whole in the home."""
    output_mb: Count = 256
    """Output of one command in megabytes; one that writes more is stopped."""
    idle_seconds: Seconds = 900.0
    """End a shell that has had nothing to do for this long; its state is kept and restored."""
    keep_environment: tuple[str, ...] = ()
    """Names of environment variables handed to commands beside the plain ones (PATH, HOME, …)."""


class ToolSettings(Struct, frozen=True, forbid_unknown_fields=True):
    use: Names = ()
    """Tools and toolsets of new sessions; empty means all. `hermes tools list` shows them."""
    crashes: Count = 3
    """Failures in a row after which a tool that the agent wrote is rolled back."""


class WebSettings(Struct, frozen=True, forbid_unknown_fields=True):
    search: Names = ()
    """Search services in the order they are asked; empty means those that have a key, then
    `searxng` where it is set, then duckduckgo and wikipedia, which need none."""
    searxng: str = ""
    """The address of a SearXNG to search with."""
    timeout_seconds: Seconds = 30.0
    """Give a page up that takes longer."""
    fetch_mb: Count = 20
    """The most of a page or document that is read, in megabytes."""


class BrowserSettings(Struct, frozen=True, forbid_unknown_fields=True):
    program: str = ""
    """The browser to start: a Chromium; else the first one that is found."""
    address: str = ""
    """A browser that runs elsewhere, by its DevTools address (ws:// or http://), instead."""
    timeout_seconds: Seconds = 30.0
    """Give an action up that takes longer."""


class CodeSettings(Struct, frozen=True, forbid_unknown_fields=True):
    seconds: Seconds = 300.0
    """How long a program of `execute_code` may run."""
    memory_mb: Annotated[int, Meta(ge=64)] = 512
    """Memory that it may use."""
    processes: Annotated[int, Meta(ge=8)] = 64
    """Processes and threads that it may have."""
    calls: Count = 100
    """Tools that it may call."""


class DelegationSettings(Struct, frozen=True, forbid_unknown_fields=True):
    depth: Annotated[int, Meta(ge=0, le=2)] = 2
    """How deep children may have children; 0 means that nothing is delegated."""
    tasks: Count = 8
    """Children of one call."""
    steps: Count = 30
    """Model replies of a child before it must stop."""


class McpServerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    command: Names = ()
    """The program of a local server, with its arguments."""
    url: str = ""
    """The address of a remote one (streamable HTTP), instead of a command."""
    environment: dict[str, str] = {}
    """Variables for the program; `secret:NAME` is the value of a secret."""
    headers: dict[str, str] = {}
    """HTTP headers for a remote one; `secret:NAME` anywhere in a value is that of a secret."""
    oauth: bool = False
    """Whether one logs in to it by OAuth: `hermes mcp login NAME`."""
    include: Names = ()
    """Globs for the tools that may be used; empty means all."""
    exclude: Names = ()
    """Globs for tools that may not."""
    workspace: bool = False
    """Whether a local server that asks for roots is told the workspace of the session; some then
    work there instead of in the folders that they were started with."""
    timeout_seconds: Seconds = 60.0
    """Give a call up when nothing is heard of it for so long."""
    enabled: bool = True
    """False leaves the server alone."""


class MemorySettings(Struct, frozen=True, forbid_unknown_fields=True):
    memory_chars: Count = 2_200
    """The most of MEMORY.md, which every new session is shown; what does not fit stays in the
    store and can be recalled."""
    user_chars: Count = 1_375
    """The most of USER.md."""
    provider: Literal["", "mem0", "honcho"] = ""
    """A service that remembers beside the built-in memory: `mem0` or `honcho`."""
    address: str = ""
    """Where that service is, when it is not the public one."""
    workspace: str = "hermes"
    """Whose memories they are, as the service names it: the user at Mem0, the workspace at
    Honcho."""
    timeout_seconds: Seconds = 5.0
    """Do without what the service remembers when it takes longer."""


Consent = Literal["automatic", "ask", "off"]


class LearningSettings(Struct, frozen=True, forbid_unknown_fields=True):
    notes: Consent = "automatic"
    """What becomes of notes that a review proposes: `automatic`, `ask` (`hermes proposals`) or
    `off`."""
    skills: Consent = "automatic"
    """What becomes of skills that a review proposes. One that is kept is a candidate until it is
    proven."""
    calls: Count = 8
    """Tool calls that make a turn worth looking back on."""
    every: Count = 15
    """Look back over all that was done each time so many turns have ended."""
    summary_turns: Count = 10
    """Summarise a session each time so many turns have ended."""
    summary_idle_seconds: Seconds = 900.0
    """Summarise a session that has rested for so long."""
    day_tokens: Count = 500_000
    """Tokens that learning may use in one day (UTC): reviews, summaries and proofs."""
    day_dollars: Dollars = 1.0
    """Dollars that learning may cost in one day (UTC), as far as prices are known."""
    cases: Annotated[int, Meta(ge=6, le=40)] = 8
    """Cases that a candidate is tried on."""
    rounds: Count = 2
    """How often each case is played with the skill and without."""
    recall: bool = True
    """Whether what fits a message, skills and past sessions, is offered with it."""
    semantic: bool = False
    """Whether meaning counts beside words: `pip install 'hermes-agent[semantic]'`."""


class WatchSettings(Struct, frozen=True, forbid_unknown_fields=True):
    window: Seconds = 300.0
    """Signals of services that need each other are one incident when they come within this time."""
    parallel: Count = 3
    """Incidents that are worked on at the same time."""
    policy: str = ""
    """The policy profile for incidents whose signal names none; empty: that of new sessions."""
    webhook: str = ""
    """An address that the team's notices are posted to, as JSON; each carries an
    `Idempotency-Key`."""
    notify: Names = ()
    """Where the team hears of incidents by the gateway, as `telegram:CHAT`, `matrix` or `all`."""
    listen: str = ""
    """Where alerts of Alertmanager, Grafana and PagerDuty are taken, as `127.0.0.1:9911`; empty
    means nowhere but the runtime's own socket."""
    token: str = ""
    """The name of the secret that whoever raises a signal there must know."""


class JobSettings(Struct, frozen=True, forbid_unknown_fields=True):
    zone: str = ""
    """The time zone of schedules that name none, as `Europe/Berlin`; empty: that of the machine."""
    parallel: Count = 4
    """Runs of jobs that are worked on at the same time; others wait."""
    keep: Count = 500
    """Runs of each job that are kept."""
    alert: Names = ()
    """Where late, missed and failing jobs are told that name no place of their own, as
    `telegram:CHAT` or `all`; beside `hermes status`."""


class GatewaySettings(Struct, frozen=True, forbid_unknown_fields=True):
    listen: str = ""
    """Where the HTTP API and channels that are called listen, as `127.0.0.1:9912`; empty means
    nowhere but the runtime's own socket."""
    token: str = ""
    """The name of the secret that clients of the HTTP API there must know."""
    api_policy: str = ""
    """The policy profile of what clients of the HTTP API ask; empty: that of new sessions."""
    api_consent: bool = False
    """Whether clients of the HTTP API may consent to what their own runs want to do, once or for
    the session. Otherwise they may only refuse, and somebody else consents: `hermes approvals`."""
    probe_seconds: Seconds = 60.0
    """How often each channel proves that it hears."""
    restarts: Count = 1
    """Restarts of a channel that does not, before it is announced on another."""
    announce: Names = ()
    """Where it is told that a channel is deaf, in this order; empty: every other channel's home."""
    busy: Literal["queue", "interrupt", "steer"] = "queue"
    """What a message does that comes while the agent works: it waits for the turn's end, stops the
    turn, or joins it at its next step."""
    stream: bool = True
    """Show answers while they are written, where messages can be edited."""
    workspace: str = ""
    """The folder where sessions of chats work; empty: one in the home for each chat."""
    keep_days: Count = 30
    """How long what was dealt with and sent is kept in the ledgers."""
    voice: str = ""
    """Who hears voice memos: `local/tiny` on this machine, or a model of a service with OpenAI's
    format, as `openai/whisper-1`; empty hands them to the agent as files."""


class RuntimeSettings(Struct, frozen=True, forbid_unknown_fields=True):
    idle_seconds: Annotated[float, Meta(ge=0)] = 1800.0
    """Go to sleep when nothing has needed the runtime for this long; 0 means never."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """How much goes to `logs/runtime.log`."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    model: str = ""
    """The model to use, as `service/name`; `HERMES_MODEL` overrides it."""
    policy: str = "careful"
    """The policy profile for new sessions; `HERMES_POLICY` overrides it."""
    loop: LoopSettings = LoopSettings()
    """How a turn goes."""
    budgets: BudgetSettings = BudgetSettings()
    """What may be spent before the agent pauses and asks."""
    approvals: ApprovalSettings = ApprovalSettings()
    """Questions to the user."""
    models: ModelSettings = ModelSettings()
    """How models are called and what they cost."""
    terminal: TerminalSettings = TerminalSettings()
    """How commands run."""
    terminals: dict[str, PlaceSettings] = {}
    """Where commands may run, by name. `local` and `sandbox` are always there."""
    tools: ToolSettings = ToolSettings()
    """Which tools the agent has."""
    web: WebSettings = WebSettings()
    """Searching and reading the web."""
    browser: BrowserSettings = BrowserSettings()
    """The browser that the agent drives."""
    code: CodeSettings = CodeSettings()
    """Programs that the agent runs in a sandbox, and tools that it wrote itself."""
    delegation: DelegationSettings = DelegationSettings()
    """Work that is handed to children."""
    mcp: dict[str, McpServerSettings] = {}
    """Servers of the Model Context Protocol, by name."""
    memory: MemorySettings = MemorySettings()
    """What it remembers of you and your systems."""
    learning: LearningSettings = LearningSettings()
    """Looking back on what was done, and what comes of it."""
    watch: WatchSettings = WatchSettings()
    """Watching systems, and what happens when something looks wrong."""
    jobs: JobSettings = JobSettings()
    """What is done later, or again and again."""
    gateway: GatewaySettings = GatewaySettings()
    """How people reach the agent by chat and HTTP."""
    channels: dict[str, dict[str, Any]] = {}
    """Channels by name, each with its own settings: `hermes gateway setup`."""
    runtime: RuntimeSettings = RuntimeSettings()
    """The background process."""

    @property
    def places(self) -> dict[str, PlaceSettings]:
        """Every terminal by name."""
        return {"local": LocalPlace(), "sandbox": SandboxPlace(), **self.terminals}
