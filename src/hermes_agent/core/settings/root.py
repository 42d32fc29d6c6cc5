"""All settings with their defaults. `config.yaml` in the home has this shape."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from hermes_agent.core.messages import Effort
from hermes_agent.core.settings.services import ServiceSettings, Url
from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.core.settings.terminals import LocalPlace, PlaceSettings, SandboxPlace

Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Dollars = Annotated[float, Meta(ge=0)]
ListenAddress = Annotated[str, Meta(
    pattern=r"^((localhost|[\d.]+|\[?[\da-fA-F:.]+\]?):\d{1,5})?$",
    description="an IP address and a port, such as 127.0.0.1:9911",
)]  # fmt: skip
BrowserAddress = Annotated[str, Meta(
    pattern=r"^((ws|http)s?://[^\s/]\S*)?$",
    description="an address that begins with ws:// or http://",
)]  # fmt: skip


class LoopSettings(Struct, frozen=True, forbid_unknown_fields=True):
    max_steps: Count = 500
    """Model replies in one turn before the agent pauses and asks."""
    max_dollars: Dollars | None = 10.0
    """Dollars one turn may cost, as far as prices are known, before the agent pauses and asks.
    Checked between steps; `budgets` has limits that no call exceeds."""
    max_seconds: Seconds | None = 14_400.0
    """Seconds one turn may work before the agent pauses and asks, not counting the time spent
    waiting for people."""
    compact_at: Annotated[float, Meta(gt=0, le=1)] = 0.8
    """Summarise the middle of the conversation when this share of the context window is used."""
    keep_first: Count = 2
    """Messages at the start of a conversation that are never summarised."""
    keep_last: Annotated[int, Meta(ge=0)] = 12
    """Messages at the end of a conversation that are never summarised."""
    parallel_calls: Count = 8
    """Tool calls of one reply that run at the same time."""
    result_chars: Count = 16_000
    """Characters of one tool result that the model sees; the rest is stored on disk."""


class BudgetSettings(Struct, frozen=True, forbid_unknown_fields=True):
    turn_tokens: Count | None = None
    """Input and output tokens that one turn may use."""
    turn_seconds: Seconds | None = None
    """Seconds that one turn may take, not counting the time spent waiting for people."""
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
    """How long a question stays open before it counts as refused."""


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    input: Dollars
    """Dollars per million input tokens."""
    output: Dollars
    """Dollars per million output tokens."""
    cached: Dollars | None = None
    """Dollars per million input tokens read from the provider's cache; defaults to `input`."""
    written: Dollars | None = None
    """Dollars per million input tokens written to the provider's cache; defaults to `input`."""


Names = tuple[str, ...]


class UseSettings(Struct, frozen=True, forbid_unknown_fields=True):
    cheap: Names = ()
    """Models for routine work, in order; empty means the main ones."""
    compaction: Names = ()
    """Models that summarise long conversations; empty means the session's own model, whose cache is
    warm."""
    review: Names = ()
    """Models that review finished work; empty means the cheap ones."""
    titles: Names = ()
    """Models that give sessions a title; empty uses the first line of the first message."""
    vision: Names = ()
    """Models that describe images to a model that cannot see them; empty only tells the model that
    there was an image."""
    image: Names = ()
    """The model that makes images, of a service with OpenAI's API, as `openai/gpt-image-1`."""
    judge: Names = ()
    """Models that judge results; empty means the main ones."""


class ModelSettings(Struct, frozen=True, forbid_unknown_fields=True):
    fallbacks: Names = ()
    """Models that take over, in order, when the requested one fails, as `service/name`."""
    uses: UseSettings = UseSettings()
    """Models for other purposes than the conversation."""
    reasoning_effort: Effort | None = None
    """Reasoning effort: low, medium, high, xhigh or max; defaults to the model's own."""
    keys: dict[str, Names] = {}
    """Where each service's keys come from, in order: `env:NAME`, `keyring:NAME`, `command:…` or
    `login`. Several keys form a pool."""
    services: dict[str, ServiceSettings] = {}
    """Additional services by name, or changes to built-in ones."""
    first_seconds: dict[str, Seconds] = {}
    """How long an answer may take to begin before the next model is asked, by model, service or
    kind: `ordinary`, `reasoning`, or `own` for servers of yours, which may have to load the model.
    By default half of `silence_seconds`, the whole, and two and a half times as much."""
    silence_seconds: Seconds = 120.0
    """Abort a model call when the service, amid its answer, sends nothing for this long."""
    patience_seconds: Seconds = 600.0
    """Abort a model call when no part of the answer arrives for this long, even though the service
    keeps the connection alive, as it may while a model thinks."""
    retries: Annotated[int, Meta(ge=0)] = 4
    """How often to retry a model call after a transient failure, if there is no other model."""
    retry_seconds: Annotated[float, Meta(ge=0)] = 1.0
    """The first pause between attempts; it doubles, with jitter, unless the service names one."""
    retry_most_seconds: Annotated[float, Meta(ge=0)] = 60.0
    """The longest pause between attempts; if a service asks for more, the call fails."""
    circuit_failures: Count = 3
    """Consecutive failures after which a model is skipped for a while."""
    circuit_seconds: Seconds = 30.0
    """How long it is skipped at first; doubles with each failure, up to ten minutes."""
    context_tokens: dict[str, Count] = {}
    """Context window by model name, if the catalogue is wrong or does not list the model."""
    prices: dict[str, Price] = {}
    """Prices by model name, if the catalogue is wrong or has none. Without a price the cost is
    unknown, and a turn with a dollar budget refuses to start."""


class TerminalSettings(Struct, frozen=True, forbid_unknown_fields=True):
    default: str = "local"
    """The terminal of new sessions, one of `terminals`; `HERMES_TERMINAL` overrides it."""
    timeout_seconds: Seconds = 120.0
    """How long a foreground command may run if the model sets no limit."""
    output_chars: Count = 30_000
    """Characters of a command's output that are read back; longer output stays in the home."""
    output_mb: Count = 256
    """Megabytes that one command may print before it is stopped."""
    idle_seconds: Seconds = 900.0
    """End a shell that has been idle for this long; its state is saved and restored."""
    keep_environment: tuple[str, ...] = ()
    """Environment variables passed to commands besides the basic ones (PATH, HOME, …)."""
    confine: Literal["required", "preferred"] = "required"
    """What happens to commands that should run confined where this machine cannot: `required`
    asks, `preferred` trusts the rules alone."""


class ToolSettings(Struct, frozen=True, forbid_unknown_fields=True):
    use: Names = ()
    """Tools and toolsets of new sessions; empty means all. `hermes tools list` shows them."""
    crashes: Count = 3
    """Consecutive failures after which a tool that the agent wrote is rolled back."""


class WebSettings(Struct, frozen=True, forbid_unknown_fields=True):
    search: Names = ()
    """Search services in order of preference; empty means those that have a key, then `searxng` if
    set, then duckduckgo and wikipedia, which need no key."""
    searxng: Url = ""
    """The address of a SearXNG instance."""
    timeout_seconds: Seconds = 30.0
    """How long to wait for a page."""
    fetch_mb: Count = 20
    """Megabytes of a page or document to read at most."""


class BrowserSettings(Struct, frozen=True, forbid_unknown_fields=True):
    program: str = ""
    """The Chromium to start; empty means the first one found."""
    address: BrowserAddress = ""
    """The DevTools address (ws:// or http://) of a running browser to use instead."""
    timeout_seconds: Seconds = 30.0
    """How long to wait for an action."""


class CodeSettings(Struct, frozen=True, forbid_unknown_fields=True):
    seconds: Seconds = 300.0
    """How long a program run by `execute_code` may take."""
    memory_mb: Annotated[int, Meta(ge=64)] = 512
    """Megabytes of memory it may use."""
    processes: Annotated[int, Meta(ge=8)] = 64
    """Processes and threads it may have."""
    calls: Count = 100
    """Tool calls it may make."""


class DelegationSettings(Struct, frozen=True, forbid_unknown_fields=True):
    depth: Annotated[int, Meta(ge=0, le=2)] = 2
    """How deeply subagents may be nested; 0 turns delegation off."""
    tasks: Count = 8
    """Subagents per call."""
    steps: Count = 30
    """Model replies before a subagent must stop."""


class McpServerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    command: Names = ()
    """The program of a local server, with its arguments."""
    url: Url = ""
    """The address of a remote server (streamable HTTP), instead of a command."""
    environment: dict[str, str] = {}
    """Environment variables for the program; `secret:NAME` is replaced by a secret."""
    headers: dict[str, str] = {}
    """HTTP headers for a remote server; `secret:NAME` anywhere in a value is replaced by a
    secret."""
    oauth: bool = False
    """Whether the server needs an OAuth login: `hermes mcp login NAME`."""
    include: Names = ()
    """Globs of the tools to offer; empty means all."""
    exclude: Names = ()
    """Globs of the tools to leave out."""
    workspace: bool = False
    """Whether to tell a local server that asks for roots the session's workspace; some then work
    there instead of in the folders they were started with."""
    timeout_seconds: Seconds = 60.0
    """How long a call may stay silent."""
    enabled: bool = True
    """False turns the server off."""


class MemorySettings(Struct, frozen=True, forbid_unknown_fields=True):
    memory_chars: Count = 2_200
    """Characters of MEMORY.md, which every new session is shown. What does not fit stays in the
    store and can be recalled."""
    user_chars: Count = 1_375
    """Characters of USER.md."""
    provider: Literal["", "mem0", "honcho"] = ""
    """A memory service to use besides the built-in memory: `mem0` or `honcho`."""
    address: Url = ""
    """The address of that service, if it is not the public one."""
    workspace: str = "hermes"
    """Whose memories they are: the user at Mem0, the workspace at Honcho."""
    timeout_seconds: Seconds = 5.0
    """How long to wait for the service before continuing without it."""


Consent = Literal["automatic", "ask", "off"]


class LearningSettings(Struct, frozen=True, forbid_unknown_fields=True):
    notes: Consent = "automatic"
    """What to do with notes that a review proposes: `automatic` saves them, `ask` puts them into
    `hermes proposals`, `off` drops them."""
    skills: Consent = "automatic"
    """What to do with skills that a review proposes. A saved skill is a candidate until it is
    proven."""
    calls: Count = 8
    """Review a turn that made at least this many tool calls."""
    every: Count = 15
    """Review all recent work every so many turns."""
    summary_turns: Count = 10
    """Summarise a session every so many turns."""
    summary_idle_seconds: Seconds = 900.0
    """Summarise a session that has been idle for this long."""
    day_tokens: Count = 500_000
    """Tokens that learning (reviews, summaries and evaluations) may use per day (UTC)."""
    day_dollars: Dollars = 1.0
    """Dollars that learning may cost per day (UTC), as far as prices are known."""
    proof_share: Annotated[float, Meta(gt=0, le=1)] = 0.25
    """The share of `day_tokens` and `day_dollars` that the proof of one skill may use per day; it
    continues the next day."""
    cases: Annotated[int, Meta(ge=6, le=40)] = 8
    """Test cases per candidate."""
    rounds: Count = 2
    """How often each case is played with the skill and without it."""
    recall: bool = True
    """Whether to offer matching skills and past sessions with each message."""
    semantic: bool = False
    """Whether recall also matches by meaning: `hermes add semantic` installs what it needs."""


NOBODY_NOTIFIED = (
    "nobody is told of incidents: watch.notify and watch.webhook are empty",
    "`hermes config set watch.notify '[all]'` tells the home chats of all channels",
)


class WatchSettings(Struct, frozen=True, forbid_unknown_fields=True):
    window: Seconds = 300.0
    """Signals from dependent services within this time belong to one incident."""
    parallel: Count = 3
    """Incidents handled at the same time."""
    policy: str = ""
    """The policy profile for incidents whose signal names none; empty means that of new
    sessions."""
    webhook: Url = ""
    """A URL that incident notices are posted to, as JSON with an `Idempotency-Key`."""
    notify: Names = ()
    """Chats that get incident notices, as `telegram:CHAT`, `matrix` or `all`."""
    listen: ListenAddress = ""
    """The address that accepts alerts from Alertmanager, Grafana and PagerDuty, as
    `127.0.0.1:9911`; empty means only the runtime's own socket."""
    token: str = ""
    """The name of the secret that senders of alerts must present."""

    @property
    def notifies(self) -> bool:
        return bool(self.notify or self.webhook)


class JobSettings(Struct, frozen=True, forbid_unknown_fields=True):
    zone: str = ""
    """The time zone of schedules that name none, as `Europe/Berlin`; empty means the machine's."""
    parallel: Count = 4
    """Job runs at the same time; others wait."""
    keep: Count = 500
    """Runs of each job to keep."""
    alert: Names = ()
    """Where to report late, missed and failed runs of jobs that name no place themselves, as
    `telegram:CHAT` or `all`. `hermes status` always shows them."""


class GatewaySettings(Struct, frozen=True, forbid_unknown_fields=True):
    listen: ListenAddress = ""
    """The address of the HTTP API and of channels that receive webhooks, as `127.0.0.1:9912`; empty
    means only the runtime's own socket."""
    token: str = ""
    """The name of the secret that clients of the HTTP API must present."""
    api_policy: str = ""
    """The policy profile of sessions opened by the HTTP API; empty means that of new sessions."""
    api_consent: bool = False
    """Whether clients of the HTTP API may approve what their own runs want to do, once or for the
    session. Otherwise they may only refuse, and somebody else approves: `hermes approvals`."""
    probe_seconds: Seconds = 60.0
    """How often to check that each channel still receives messages."""
    restarts: Count = 1
    """Restarts of a channel that fails this check before it is announced on another channel."""
    announce: Names = ()
    """Where to announce that a channel no longer receives messages, in order; empty means every
    other channel's home chat."""
    busy: Literal["queue", "interrupt", "steer"] = "queue"
    """What a message does while the agent is working: `queue` waits for the end of the turn,
    `interrupt` stops the turn, `steer` joins it at its next step."""
    stream: bool = True
    """Show answers while they are being written, on channels that can edit messages."""
    workspace: str = ""
    """The folder in which sessions of chats work; empty means one folder per chat in the home."""
    keep_days: Count = 30
    """How long to keep messages that were handled or sent."""
    voice: str = ""
    """What transcribes voice messages: `local/tiny` on this machine, or a model of a service with
    OpenAI's API, as `openai/whisper-1`; empty passes them to the agent as files."""
    speak: str = ""
    """What also speaks the answers to voice messages: `local/VOICE`, a voice of espeak-ng on this
    machine, as `local/en-us`, or a model of a service with OpenAI's API, as `openai/tts-1`; empty
    for none."""


class ChatSettings(Struct, frozen=True, forbid_unknown_fields=True):
    notify: Literal["desktop", "bell", "off"] = "desktop"
    """What `hermes chat` does when a question appears or a long turn ends: `desktop` rings the
    terminal's bell and shows a notice where the terminal supports it, `bell` only rings."""
    notify_after_seconds: Annotated[float, Meta(ge=0)] = 10.0
    """How long a turn must take for its end to be announced."""


class RuntimeSettings(Struct, frozen=True, forbid_unknown_fields=True):
    idle_seconds: Annotated[float, Meta(ge=0)] = 1800.0
    """Stop the runtime after it has been idle for this long; 0 means never."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The level of detail in `logs/runtime.log`."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    model: str = ""
    """The model to use, as `service/name`; `HERMES_MODEL` overrides it."""
    policy: str = "careful"
    """The policy profile for new sessions; `HERMES_POLICY` overrides it."""
    loop: LoopSettings = LoopSettings()
    """The agent loop."""
    budgets: BudgetSettings = BudgetSettings()
    """What the agent may spend before it pauses and asks."""
    approvals: ApprovalSettings = ApprovalSettings()
    """Questions to the user."""
    models: ModelSettings = ModelSettings()
    """How models are called and what they cost."""
    terminal: TerminalSettings = TerminalSettings()
    """How commands run."""
    terminals: dict[str, PlaceSettings] = {}
    """Where commands may run, by name. `local` and `sandbox` always exist."""
    tools: ToolSettings = ToolSettings()
    """Which tools the agent has."""
    web: WebSettings = WebSettings()
    """Searching and reading the web."""
    browser: BrowserSettings = BrowserSettings()
    """The browser that the agent drives."""
    code: CodeSettings = CodeSettings()
    """Programs that the agent runs in a sandbox, including the tools it wrote."""
    delegation: DelegationSettings = DelegationSettings()
    """Subagents."""
    mcp: dict[str, McpServerSettings] = {}
    """MCP servers, by name."""
    sources: dict[str, SourceSettings] = {}
    """What the agent can look at in production, by name: `hermes sources add`."""
    memory: MemorySettings = MemorySettings()
    """What the agent remembers about you and your systems."""
    learning: LearningSettings = LearningSettings()
    """Reviewing work, and learning from it."""
    watch: WatchSettings = WatchSettings()
    """Monitoring and incidents."""
    jobs: JobSettings = JobSettings()
    """Scheduled jobs."""
    gateway: GatewaySettings = GatewaySettings()
    """How people reach the agent by chat and HTTP."""
    channels: dict[str, dict[str, Any]] = {}
    """Channels by name, each with its own settings: `hermes gateway setup`."""
    chat: ChatSettings = ChatSettings()
    """The conversation in the terminal."""
    runtime: RuntimeSettings = RuntimeSettings()
    """The background process."""

    @property
    def places(self) -> dict[str, PlaceSettings]:
        """Every terminal by name."""
        return {"local": LocalPlace(), "sandbox": SandboxPlace(), **self.terminals}
