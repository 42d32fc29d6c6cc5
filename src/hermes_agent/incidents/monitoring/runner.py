"""Runs a health check in a new shell on its terminal, through the gate. Whatever goes wrong is part
of the outcome."""

import asyncio
import shutil
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec.structs import replace

from hermes_agent.core.effects import Actor, Effect, Verdict
from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.protocols import CommandState
from hermes_agent.core.skills import Check
from hermes_agent.core.text.patterns import matches
from hermes_agent.core.timeouts import awake
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.policy_shell import PolicyShell, PolicyShells, synthetic_session
from hermes_agent.incidents.monitoring.config import TIMEOUT, LogPattern
from hermes_agent.incidents.monitoring.scheduler import CheckOutcome
from hermes_agent.policy.path_resolvers import on_disk

ENTER_SECONDS = 20.0
"""How long opening and closing a terminal may take, besides the command."""
SHOWN = 2_000
LEFT = "check-*"

T = TypeVar("T")


class CheckRunner:
    def __init__(self, context: RuntimeContext, shells: PolicyShells) -> None:
        self._context = context
        self._shells = shells
        self._mine: set[str] = set()

    async def run(
        self, watched: WatchedCheck, policy: str = "", actor: Actor | None = None
    ) -> CheckOutcome:
        """Run a check under a policy profile (default: that of new sessions). `actor`: who asks,
        where no person wrote the check."""
        check = watched.check
        timeout = check.timeout or TIMEOUT
        limit = timeout + ENTER_SECONDS
        began = time.monotonic()
        try:
            async with awake(limit):
                by = actor or Actor("job", watched.name, "watch")

                async def run_it(shell: PolicyShell) -> CheckOutcome:
                    return judged(check, await shell.run(check.run, timeout), timeout)

                outcome = await self._apart(watched, policy, by, run_it)
        except TimeoutError:
            place = watched.terminal or self._context.settings.terminal.default
            what = f"the terminal {place!r} did not answer within {limit:g} s"
            outcome = CheckOutcome(False, what, refused=True)
        except HermesError as error:
            hint = f" ({error.hint})" if error.hint else ""
            outcome = CheckOutcome(False, f"it cannot be run: {error.message}{hint}", refused=True)
        except OSError as error:
            outcome = CheckOutcome(False, f"it cannot be run: {error}", refused=True)
        return replace(outcome, seconds=round(time.monotonic() - began, 3))

    async def judge(self, watched: WatchedCheck, policy: str) -> Verdict:
        """What the gate says of a check's command under a policy profile; it is not run."""

        async def judged(shell: PolicyShell) -> Verdict:
            return await shell.judge(watched.check.run)

        async with awake(ENTER_SECONDS):
            return await self._apart(watched, policy, Actor("job", watched.name, "watch"), judged)

    async def _apart(
        self,
        watched: WatchedCheck,
        policy: str,
        by: Actor,
        use: Callable[[PolicyShell], Awaitable[T]],
    ) -> T:
        """Use a shell of its own, in a temporary folder."""
        policy = policy or self._context.settings.policy
        id = f"check-{uuid.uuid4().hex[:12]}"
        folder = self._context.home.terminals / id
        self._mine.add(id)
        try:
            work = folder / "work"
            await asyncio.to_thread(work.mkdir, mode=0o700, parents=True)
            session = synthetic_session(id, "watch", str(work), policy)
            name = watched.terminal or self._context.settings.terminal.default
            shell = self._shells.open(session, name, by)
            try:
                return await use(shell)
            finally:
                await shell.close()
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            self._mine.discard(id)

    async def refusal(self, pattern: LogPattern) -> str:
        """Why the gate denies reading a pattern's log; empty where it does not."""
        context = self._context
        workspace = str(context.home.terminals / "logs")
        session = synthetic_session(
            f"log-{pattern.name}", "watch", workspace, context.settings.policy
        )
        effect = Effect(
            session.id, "read_file", {"path": pattern.path}, session.id, workspace,
            capabilities=("filesystem",), paths=(("read", pattern.path),),
            actor=Actor("job", pattern.name, "watch"), time=context.clock(),
        )  # fmt: skip
        try:
            await self._shells.require_allowed(session, effect, on_disk)
        except HermesError as error:
            return f"it cannot be read: {error.message} ({error.hint})"
        return ""

    async def clear(self) -> None:
        """Remove folders that a killed runtime left behind."""
        for folder in await asyncio.to_thread(lambda: [*self._context.home.terminals.glob(LEFT)]):
            if folder.name not in self._mine:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def judged(check: Check, done: CommandState, timeout: float) -> CheckOutcome:
    """The outcome of a command that has ended."""
    output = done.stdout + (f"\n{done.stderr}" if done.stderr else "")
    shown = output.strip()
    if len(shown) > SHOWN:
        shown = f"{shown[: SHOWN // 2]}\n[…]\n{shown[-SHOWN // 2 :]}"

    def failed(why: str) -> CheckOutcome:
        return CheckOutcome(False, f"{why}\n{shown}".strip(), done.code, output)

    if done.state == "timeout":
        return failed(f"it took longer than {timeout:g} s")
    if done.state == "lost":
        return failed("how it ended is lost, as when its shell is killed or the disk is full")
    if done.state != "exited":
        return failed(f"it did not finish: {done.state}")
    expect = check.expect
    if expect.exit is not None and done.code != expect.exit:
        return failed(f"exit code {done.code}, not {expect.exit}")
    if expect.output and not matches(expect.output, output):
        return failed(f"its output does not contain {expect.output!r}")
    if expect.no_output and matches(expect.no_output, output):
        return failed(f"its output contains {expect.no_output!r}")
    return CheckOutcome(True, "", done.code, output)
