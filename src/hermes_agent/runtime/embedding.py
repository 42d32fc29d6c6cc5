"""The library: an agent in your own program, with the runtime's journal, gate and loop."""

import asyncio
import atexit
import os
import threading
import time
import uuid
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from hermes_agent.core import events as ev
from hermes_agent.core.effects import check_capabilities
from hermes_agent.core.errors import HermesError, HomeLocked, UsageError
from hermes_agent.core.messages import Usage
from hermes_agent.core.records import Parked, SessionMessage
from hermes_agent.core.tools import Tool
from hermes_agent.host.config import load_settings
from hermes_agent.host.inspect import is_runtime, lock_owner
from hermes_agent.host.paths import find_home, socket_paths
from hermes_agent.runtime.runtime import Runtime
from hermes_agent.runtime.tools import builtin
from hermes_agent.runtime.tools.programs import NewProgram
from hermes_agent.runtime.tools.selection import EmbeddedTools

if TYPE_CHECKING:
    from hermes_agent.runtime.remote import RemoteRuntime

T = TypeVar("T")

START_SECONDS = 120.0
"""How long to wait for a runtime that starts or stops."""


@dataclass(frozen=True)
class RunResult:
    """The outcome of a turn; `str()` gives the answer."""

    text: str
    session: str
    reason: str
    steps: int
    usage: Usage
    cost: float | None

    def __str__(self) -> str:
        return self.text


@dataclass
class AgentState:
    session: str = ""
    tool_history: list[dict[str, Any]] = field(default_factory=list)
    """One entry per finished call: tool, input, output, duration (seconds)."""


class Agent:
    """An agent with your own tools. Its conversation continues from one `run` to the next and is
    stored in the home. If a runtime runs on the home, it works there, and calls to your tools come
    back to this process; otherwise this process owns the home until `close` or its end.

    Registering a tool grants its capabilities, unless you name the `capabilities` of the agent; a
    call to a tool that needs others is then refused. The policy profile decides what the built-in
    tools may do, and nobody can be asked.
    """

    def __init__(
        self,
        name: str = "agent",
        *,
        model: str = "",
        policy: str = "",
        capabilities: Iterable[str] | None = None,
        builtin_tools: bool = True,
        home: str | Path | None = None,
        workspace: str | Path | None = None,
        terminals: Sequence[str] = (),
        session: str = "",
    ) -> None:
        check_capabilities(capabilities or (), f"agent {name!r}")
        self.name = name
        self.state = AgentState(session)
        self._model = model
        self._policy = policy
        self._capabilities = None if capabilities is None else frozenset(capabilities)
        self._builtin = builtin_tools
        self._tools: dict[str, Tool] = {}
        chosen = {"HERMES_HOME": str(home)} if home else os.environ
        self._home = Path(find_home(chosen)).resolve()
        self._workspace = str(Path(workspace or ".").resolve())
        self._terminals = tuple(terminals)
        self._shared: _SharedRuntime | None = None

    def register_tool(self, tool: Tool) -> None:
        if self._shared is not None:
            raise UsageError(
                f"tool {tool.name!r} was registered too late: the agent is already running",
                "register all tools before the first run, so that the prompt stays the same",
            )
        if tool.name in self._tools or (self._builtin and tool.name in builtin.TABLE):
            raise UsageError(f"a tool called {tool.name!r} already exists", "rename yours")
        self._tools[tool.name] = tool

    def run(self, text: str) -> RunResult:
        """Run a turn. Raises `HermesError` when it fails."""
        return self._enter().call(self._run(text)).result()

    async def arun(self, text: str) -> RunResult:
        return await asyncio.wrap_future(self._enter().call(self._run(text)))

    async def stream(self, text: str) -> AsyncIterator[ev.Event | ev.TransientEvent]:
        """The turn's events as they happen; the last is a `TurnFinished`."""
        arrived: asyncio.Queue[ev.Event | ev.TransientEvent | BaseException] = asyncio.Queue()
        here = asyncio.get_running_loop()

        async def pump() -> None:
            try:
                async for event in self._events(text):
                    here.call_soon_threadsafe(arrived.put_nowait, event)
            except HermesError as error:
                here.call_soon_threadsafe(arrived.put_nowait, error)

        pumping = self._enter().call(pump())
        try:
            while True:
                event = await arrived.get()
                if isinstance(event, BaseException):
                    raise event
                yield event
                if isinstance(event, ev.TurnFinished):
                    return
        finally:
            pumping.cancel()

    def parked(self) -> Sequence[Parked]:
        """Effects of unknown outcome: the program died while they ran."""
        return self._enter().call(self._parked()).result()

    def decide(self, effect: str, decision: Literal["retry", "skip", "it-happened"]) -> None:
        """Decide on a parked effect; its turn then continues."""
        self._enter().call(self._decide(effect, decision)).result()

    def close(self) -> None:
        """Release the home, or disconnect from its runtime."""
        if self._shared is not None:
            self._shared.leave(self.state.session, self._tools)
            self._shared = None

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _enter(self) -> "_SharedRuntime":
        if self._shared is None:
            self._shared = _SharedRuntime.enter(self._home)
        return self._shared

    async def _parked(self) -> Sequence[Parked]:
        host = await self._enter().host()
        return [one for one in await host.parked() if await self._owns_session(host, one.session)]

    async def _owns_session(self, host: "_Host", session: str) -> bool:
        """Whether a session is this agent's or one of its subagents'."""
        while session and session != self.state.session:
            session = (await host.session(session)).parent
        return bool(session)

    async def _decide(self, effect: str, decision: str) -> None:
        host = await (self._open() if self.state.session else self._enter().host())
        await host.decide(effect, decision, f"library:{self.name}")

    async def _run(self, text: str) -> RunResult:
        for parked in await self._parked():
            raise _is_parked(parked.effect, parked.tool)
        async for event in self._events(text):
            if isinstance(event, ev.CallParked):
                raise _is_parked(event.effect, event.tool)
            if isinstance(event, ev.TurnFinished):
                if event.reason == "failed":
                    raise HermesError(event.error, event.hint)
                return RunResult(
                    event.text,
                    self.state.session,
                    event.reason,
                    event.steps,
                    event.usage,
                    event.cost,
                )
        raise AssertionError("events end with the turn")

    async def _events(self, text: str) -> AsyncIterator[ev.Event | ev.TransientEvent]:
        host = await self._open()
        message = SessionMessage(uuid.uuid4().hex, text, "library")
        calls: dict[str, dict[str, Any]] = {}
        event: ev.Event | ev.TransientEvent | None = None
        async for recorded in host.ask(self.state.session, message):
            event = recorded.event
            match event:
                case ev.Replied():
                    calls |= {call.id: _input(call) for call in event.calls}
                case ev.CallMade():
                    calls[event.call.id] = _input(event.call)
                case ev.CallFinished():
                    self._remember(event, calls.get(event.call_id, {}))
            yield event
        if not isinstance(event, ev.TurnFinished):
            raise HermesError("the runtime stopped during the turn", "the turn is in the journal")

    async def _open(self) -> "_Host":
        """Open or continue this agent's session."""
        host = await self._enter().host()
        usual = os.environ.get("HERMES_TERMINAL", "")  # a running runtime has another environment
        program = NewProgram(
            self.name,
            self._workspace,
            self._granted(),
            builtin=self._builtin,
            session=self.state.session,
            model=self._model or os.environ.get("HERMES_MODEL", ""),
            policy=self._policy or os.environ.get("HERMES_POLICY", ""),
            terminals=self._terminals or ((usual,) if usual else ()),
        )
        self.state.session = await host.open(program, self._tools)
        return host

    def _granted(self) -> frozenset[str]:
        if self._capabilities is not None:
            return self._capabilities
        touched = [tool.capabilities for tool in self._tools.values()]
        if self._builtin:
            touched += [one.capabilities for one in builtin.facts()]
        return frozenset(capability for each in touched for capability in each)

    def _remember(self, event: ev.CallFinished, given: dict[str, Any]) -> None:
        self.state.tool_history.append(
            {
                "tool": event.tool,
                "input": given,
                "output": event.text,
                "duration": round(event.seconds, 3),
            }
        )


def _is_parked(effect: str, tool: str) -> HermesError:
    return HermesError(
        f"the outcome of {tool} (effect {effect}) is unknown: the program died while it ran",
        "check, then call agent.decide(effect, 'retry' | 'skip' | 'it-happened') and run again",
    )


def _input(call: Any) -> dict[str, Any]:
    try:
        given: dict[str, Any] = call.input()
    except HermesError:
        return {"arguments": call.arguments}
    return given


class _LocalRuntime:
    """A runtime in this process."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._store = runtime.context.store
        self.session, self.parked = self._store.session, self._store.parked
        self.decide, self.stop = runtime.sessions.decide, runtime.stop

    async def is_up(self) -> bool:
        return True

    async def disconnect(self, session: str, tools: Mapping[str, Tool]) -> None:
        """Its tools stay until another agent has the session."""

    async def open(self, program: NewProgram, tools: Mapping[str, Tool]) -> str:
        embedded = EmbeddedTools(tools, program.granted, program.builtin)
        session = await self.runtime.embed(program, embedded)
        await self.runtime.resume(session)
        return session.id

    async def ask(self, session: str, message: SessionMessage) -> AsyncIterator[ev.Recorded]:
        sessions, after = self.runtime.sessions, await self._store.last_number(session)
        await sessions.submit(await self._store.session(session), message)
        async for recorded, _taken in sessions.follow(session, message.key, after):
            if isinstance(recorded.event, ev.TurnFinished):
                # The program may end right after it.
                await sessions.wait_idle(session)
                await sessions.settle()
            yield recorded


_Host: TypeAlias = "_LocalRuntime | RemoteRuntime"


class _SharedRuntime:
    """A runtime on its own thread, or the one that runs on the home: shared by all agents in this
    process with the same home."""

    _open: dict[Path, "_SharedRuntime"] = {}
    _opening = threading.Lock()

    def __init__(self, home: Path) -> None:
        self._home = home
        self._users = 0
        self._host: _Host | None = None
        self._starting = asyncio.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"hermes {home}", daemon=True
        )
        self._thread.start()

    @classmethod
    def enter(cls, home: Path) -> "_SharedRuntime":
        with cls._opening:
            shared = cls._open.get(home)
            if shared is None:
                load_settings(home / "config.yaml", os.environ)  # bad settings fail in the caller
                shared = cls._open[home] = cls(home)
            shared._users += 1
            return shared

    def leave(self, session: str, tools: Mapping[str, Tool]) -> None:
        with self._opening:
            self._users -= 1
            if not self._users:
                self._open.pop(self._home, None)
        if self._users:
            if self._host is not None:
                self.call(self._host.disconnect(session, tools)).result(timeout=30)
            return
        self.call(self._stop()).result(timeout=30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def host(self) -> _Host:
        async with self._starting:
            if self._host is None or not await self._host.is_up():
                await self._stop()
                self._host = await self._find()
            return self._host

    async def _find(self) -> _Host:
        """Use the runtime that owns the home, or own it. One that starts or stops is waited for."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            if any(map(os.path.exists, socket_paths(str(self._home)))):
                from hermes_agent.runtime.remote import RemoteRuntime

                if (remote := await RemoteRuntime.find(self._home)) is not None:
                    return remote
            runtime = Runtime(self._home, os.environ)
            try:
                await runtime.start()
                return _LocalRuntime(runtime)
            except HomeLocked:
                owner = lock_owner(str(self._home))
                program = owner is not None and not is_runtime(owner)
                if program or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.05)

    async def end_idle_shells(self) -> None:
        if isinstance(self._host, _LocalRuntime):
            await self._host.runtime.end_idle_shells()

    async def _stop(self) -> None:
        if self._host is not None:
            await self._host.stop()
            self._host = None


def _at_exit() -> None:
    """End idle shells, which would outlive the process. The rest is on disk, and the interpreter
    starts no more threads for a full stop."""
    for shared in list(_SharedRuntime._open.values()):
        shared.call(shared.end_idle_shells()).result(timeout=5)


atexit.register(_at_exit)
