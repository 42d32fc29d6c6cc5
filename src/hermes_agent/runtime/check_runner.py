"""Running a health check: a fresh shell on its terminal, judged by the gate like everything else.
Whatever goes wrong is said in what it comes to."""

import asyncio
import shutil
import time
import uuid
from typing import TYPE_CHECKING

from hermes_agent.core.effects import Actor, Effect
from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.messages import Usage
from hermes_agent.core.protocols import Command, CommandState
from hermes_agent.core.records import Session
from hermes_agent.core.skills import Check
from hermes_agent.incidents.checks import TIMEOUT
from hermes_agent.incidents.watching import Outcome
from hermes_agent.learning.patterns import matches
from hermes_agent.terminals.kinds import kind_of

if TYPE_CHECKING:
    from hermes_agent.runtime.runtime import Runtime

ENTER_SECONDS = 20.0
"""How long a terminal may take to be entered and left, beside the command itself."""
SHOWN = 2_000
LEFT = "check-*"


class CheckRunner:
    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self._mine: set[str] = set()

    async def run(
        self, watched: WatchedCheck, policy: str = "", actor: Actor | None = None
    ) -> Outcome:
        """Run a check under a policy profile, that of new sessions where none is named. `actor`:
        whose it is, where no person has written it down."""
        check = watched.check
        timeout = check.timeout or TIMEOUT
        began = time.monotonic()
        try:
            async with asyncio.timeout(timeout + ENTER_SECONDS):
                by = actor or Actor("job", watched.name, "watch")
                outcome = await self._apart(watched, policy, timeout, by)
        except TimeoutError:
            place = watched.terminal or self._runtime.settings.terminal.default
            what = f"the terminal {place!r} did not answer within {timeout + ENTER_SECONDS:g} s"
            outcome = Outcome(False, what, refused=True)
        except HermesError as error:
            hint = f" ({error.hint})" if error.hint else ""
            outcome = Outcome(False, f"it cannot be run: {error.message}{hint}", refused=True)
        except OSError as error:
            outcome = Outcome(False, f"it cannot be run: {error}", refused=True)
        spent = round(time.monotonic() - began, 3)
        return Outcome(
            outcome.ok, outcome.detail, outcome.code, outcome.output, spent, outcome.refused
        )

    async def _apart(
        self, watched: WatchedCheck, policy: str, seconds: float, by: Actor
    ) -> Outcome:
        """In a folder of its own, which goes again."""
        policy = policy or self._runtime.settings.policy
        id = f"check-{uuid.uuid4().hex[:12]}"
        folder = self._runtime.home.terminals / id
        self._mine.add(id)
        try:
            work = folder / "work"
            await asyncio.to_thread(work.mkdir, mode=0o700, parents=True)
            return await self._run_in(_stand_in(id, str(work), policy), watched, seconds, by)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            self._mine.discard(id)

    async def _run_in(
        self, session: Session, watched: WatchedCheck, seconds: float, by: Actor
    ) -> Outcome:
        runtime = self._runtime
        name = watched.terminal or runtime.settings.terminal.default
        terminal = runtime.terminal_beside(session, name)
        try:
            command = watched.check.run
            effect = Effect(
                session.id, "terminal", {"command": command}, session.id, terminal.workspace,
                await terminal.where(), name, kind_of(runtime.shelf.place(name)).name,
                ("process", "filesystem"), command,
                actor=by, time=runtime.clock(),
            )  # fmt: skip
            verdict = await runtime.gate(session).judge(effect, terminal.trace)
            if verdict.action != "allow":
                why = _refusal(verdict.action, verdict.reason, verdict.rule)
                return Outcome(False, why, refused=True)
            if verdict.input is not None:
                command = str(verdict.input["command"])
            done = await terminal.run(Command("check", command, seconds))
            return judged(watched.check, done, seconds)
        finally:
            await terminal.destroy()

    async def clear(self) -> None:
        """Remove what a runtime that was killed has left behind."""
        for folder in await asyncio.to_thread(lambda: [*self._runtime.home.terminals.glob(LEFT)]):
            if folder.name not in self._mine:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _stand_in(id: str, folder: str, policy: str) -> Session:
    """Nobody talks here: a check has no session, and its terminal is kept for nobody."""
    return Session(
        id, "", "", "", "watch", folder, policy, "", "", 0.0, 0.0, "idle", 0, 0, Usage(), None
    )


def _refusal(action: str, reason: str, rule: str) -> str:
    asks = "the gate asks, and nobody can be asked" if action == "ask" else "the gate refuses"
    return (
        f"it cannot be run: {asks}: {reason} ({rule}); a rule in policies/ may allow it, with "
        "match: {actor: job}"
    )


def judged(check: Check, done: CommandState, timeout: float) -> Outcome:
    """What a command that has ended came to."""
    output = done.stdout + (f"\n{done.stderr}" if done.stderr else "")
    shown = output.strip()
    if len(shown) > SHOWN:
        shown = f"{shown[: SHOWN // 2]}\n[…]\n{shown[-SHOWN // 2 :]}"

    def failed(why: str) -> Outcome:
        return Outcome(False, f"{why}\n{shown}".strip(), done.code, output)

    if done.state == "timeout":
        return failed(f"it took longer than {timeout:g} s")
    if done.state != "exited":
        return failed(f"it did not end by itself: {done.state}")
    expect = check.expect
    if expect.exit is not None and done.code != expect.exit:
        return failed(f"exit code {done.code}, not {expect.exit}")
    if expect.output and not matches(expect.output, output):
        return failed(f"its output does not hold {expect.output!r}")
    if expect.no_output and matches(expect.no_output, output):
        return failed(f"its output holds {expect.no_output!r}")
    return Outcome(True, "", done.code, output)
