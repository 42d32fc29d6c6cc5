"""Runs the runtime's own commands under policy."""

from msgspec.structs import replace

from hermes_agent.core.effects import (
    UNPROBED,
    Actor,
    Effect,
    Gate,
    OutsideCalls,
    Resolve,
    Verdict,
    outside_calls,
)
from hermes_agent.core.errors import HermesError
from hermes_agent.core.messages import Usage
from hermes_agent.core.protocols import Clock, CommandState, ShellCommand
from hermes_agent.core.records import Session
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.policy_gates import GateFactory
from hermes_agent.host.terminal_pool import TerminalPool
from hermes_agent.terminals.registry import kind_of


class NotAllowed(HermesError):
    """The gate denies, or would ask and there is nobody to ask."""

    def __init__(self, verdict: Verdict) -> None:
        asks = verdict.action == "ask"
        what = "needs approval, which is not possible here" if asks else "denied by policy"
        super().__init__(
            f"{what}: {verdict.reason} ({verdict.rule})",
            "add a rule to policies/ that allows it, with match: {actor: job}",
        )
        self.reason = verdict.reason


def synthetic_session(id: str, source: str, folder: str, policy: str) -> Session:
    """A session that exists only for the gate and the terminals; it is not stored."""
    return Session(
        id, "", "", "", source, folder, policy, "", "", 0.0, 0.0, "idle", 0, 0, Usage(), None
    )


class PolicyShells:
    """Opens shells for the runtime's own commands, under policy."""

    def __init__(self, context: RuntimeContext, gates: GateFactory, pool: TerminalPool) -> None:
        self._context = context
        self._gates = gates
        self.terminals = pool

    def gate(self, session: Session) -> Gate:
        return self._gates.gate(session.policy)

    async def require_allowed(self, session: Session, effect: Effect, trace: Resolve) -> Verdict:
        """Raises `NotAllowed` unless the gate allows the effect."""
        verdict = await self.gate(session).judge(effect, trace)
        if verdict.action != "allow":
            raise NotAllowed(verdict)
        return verdict

    def open(self, session: Session, name: str, by: Actor) -> "PolicyShell":
        """A shell on its own terminal; the caller closes it."""
        return PolicyShell(self, session, name, by, self._context.clock)


def as_allowed(command: ShellCommand, verdict: Verdict, outside: OutsideCalls) -> ShellCommand:
    """As a rule rewrote it, and held to what the verdict lets it change."""
    text = command.text if verdict.input is None else str(verdict.input["command"])
    return replace(command, text=text, confinement=verdict.confinement, outside=outside)


class PolicyShell:
    def __init__(
        self, shells: PolicyShells, session: Session, name: str, by: Actor, clock: Clock
    ) -> None:
        self.name = name
        self.terminal = shells.terminals.open_detached(session, name)
        self._shells = shells
        self._session = session
        self._by = by
        self._clock = clock
        self._kind = kind_of(shells.terminals.place(name)).name
        self._ran = 0

    async def run(self, command: str, seconds: float) -> CommandState:
        effect = await self._effect(command)
        terminal, gate = self.terminal, self._shells.gate(self._session)
        verdict = await self._shells.require_allowed(self._session, effect, terminal.trace)
        given = ShellCommand(f"run-{self._ran}", command, seconds)
        outside = outside_calls(gate, effect, terminal.trace)
        return await terminal.run(as_allowed(given, verdict, outside))

    async def judge(self, command: str) -> Verdict:
        """What the gate says of a command; it is not run."""
        effect = await self._effect(command)
        return await self._shells.gate(self._session).judge(effect, self.terminal.trace)

    async def _effect(self, command: str) -> Effect:
        self._ran += 1
        terminal, session = self.terminal, self._session
        far = self._kind != "local"
        return Effect(
            f"{session.id}-{self._ran}", "terminal", {"command": command}, session.id,
            terminal.workspace, await terminal.where(), self.name, self._kind,
            ("process", "filesystem"), command, actor=self._by, time=self._clock(), strict=True,
            unconfined=await terminal.unconfined() if far else UNPROBED,
            unconfined_workspace=await terminal.unconfined("workspace") if far else UNPROBED,
        )  # fmt: skip

    async def close(self) -> None:
        await self.terminal.destroy()
