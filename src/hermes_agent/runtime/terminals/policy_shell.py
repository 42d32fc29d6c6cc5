"""What the runtime runs for itself, where nobody talks: on terminals of its own, and only as far as
the gate allows it."""

from typing import TYPE_CHECKING

from hermes_agent.core.effects import Actor, Effect, Resolve, Verdict
from hermes_agent.core.errors import HermesError
from hermes_agent.core.messages import Usage
from hermes_agent.core.protocols import CommandState, ShellCommand
from hermes_agent.core.records import Session
from hermes_agent.terminals.registry import kind_of

if TYPE_CHECKING:
    from hermes_agent.runtime.runtime import Runtime


class NotAllowed(HermesError):
    """The gate refuses, or would ask somebody, and there is nobody."""

    def __init__(self, verdict: Verdict) -> None:
        asks = verdict.action == "ask"
        what = "the gate asks, and nobody can be asked" if asks else "the gate refuses"
        super().__init__(
            f"{what}: {verdict.reason} ({verdict.rule})",
            "a rule in policies/ may allow it, with match: {actor: job}",
        )
        self.reason = verdict.reason


def synthetic_session(id: str, source: str, folder: str, policy: str) -> Session:
    """What the gate and the terminals want to know of who asks. It is kept nowhere."""
    return Session(
        id, "", "", "", source, folder, policy, "", "", 0.0, 0.0, "idle", 0, 0, Usage(), None
    )


async def admit(runtime: "Runtime", session: Session, effect: Effect, trace: Resolve) -> Verdict:
    """The gate's word where it is yes; `NotAllowed` where it is not."""
    verdict = await runtime.gate(session).judge(effect, trace)
    if verdict.action != "allow":
        raise NotAllowed(verdict)
    return verdict


class PolicyShell:
    """A terminal beside all others; whoever makes one closes it."""

    def __init__(self, runtime: "Runtime", session: Session, name: str, by: Actor) -> None:
        self.name = name
        self.terminal = runtime.terminals.open_detached(session, name)
        self._runtime = runtime
        self._session = session
        self._by = by
        self._kind = kind_of(runtime.terminals.place(name)).name
        self._ran = 0

    async def run(self, command: str, seconds: float) -> CommandState:
        self._ran += 1
        terminal, session = self.terminal, self._session
        effect = Effect(
            f"{session.id}-{self._ran}", "terminal", {"command": command}, session.id,
            terminal.workspace, await terminal.where(), self.name, self._kind,
            ("process", "filesystem"), command, actor=self._by, time=self._runtime.clock(),
        )  # fmt: skip
        verdict = await admit(self._runtime, session, effect, terminal.trace)
        if verdict.input is not None:
            command = str(verdict.input["command"])
        return await terminal.run(ShellCommand(f"run-{self._ran}", command, seconds))

    async def close(self) -> None:
        await self.terminal.destroy()
