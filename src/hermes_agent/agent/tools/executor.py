"""Executes tool calls: authorize, journal, run, journal. The only place where a tool runs."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from hermes_agent.agent.budgets.reservations import SplitBudget
from hermes_agent.agent.conversation import ConversationState, PendingCall
from hermes_agent.agent.dependencies import TurnDependencies
from hermes_agent.agent.human_input import HumanInput, Write
from hermes_agent.agent.journal_redaction import redact_call
from hermes_agent.agent.tools.authorization import CallAuthorizer, CallDenied, relayed_permit
from hermes_agent.agent.tools.context import ToolContextFactory
from hermes_agent.agent.tools.invoke import crashed, invoke, writable
from hermes_agent.agent.tools.replay import DIVERGED, DIVERGED_NOTE, ReplayGuards
from hermes_agent.agent.tools.resolver import NOT_FOR_PROGRAMS, ToolResolver
from hermes_agent.agent.tools.result_overflow import ResultStore
from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, OutcomeUnknown, ToolError
from hermes_agent.core.messages import ToolCall
from hermes_agent.core.tool_results import ToolResult, failed, failure
from hermes_agent.core.tools import RecoveryResult, Tool, ToolContext
from hermes_agent.policy.redaction.redactor import Redactor
from hermes_agent.terminals.command_backend import TerminalUnreachable

log = logging.getLogger("hermes.calls")

ABANDON_SECONDS = 5.0
"""How long an abandoned turn tries to recover the outcome of a call."""
REPEATS = 3
"""How often the same call may fail in one turn."""
NESTED = 4
"""How deep programs may call programs."""
LOOK_SECONDS = (2.0, 60.0)
"""The first and the longest pause between looks for a call that is out of reach."""
DIED = "the runtime died while it ran, and it is unknown whether it took effect"


class ToolExecutor:
    """Runs the calls of one reply, and those made by programs among them."""

    def __init__(
        self,
        deps: TurnDependencies,
        conversation: ConversationState,
        human_input: HumanInput,
        write: Write,
        split: SplitBudget,
    ) -> None:
        self._deps = deps
        self._conversation = conversation
        self._human_input = human_input
        self._write = write
        self._resolver = ToolResolver(deps)
        self._authorizer = CallAuthorizer(deps, conversation, human_input, write)
        self._contexts = ToolContextFactory(
            deps, conversation, human_input, self._authorizer, self._resolver, split
        )
        self._results = ResultStore(deps.results, lambda: deps.settings.loop.result_chars)
        self._slots = asyncio.Semaphore(deps.settings.loop.parallel_calls)
        at_once = deps.settings.loop.parallel_calls
        self._replay_guards = ReplayGuards(
            conversation, self._is_repeatable, at_once, deps.program_seconds
        )
        self.unrecoverable: set[str] = set()
        """Running effects whose outcome could not be recovered after a crash."""
        self._left = frozenset(call.effect for call in conversation.unfinished)
        """Calls of an earlier runtime."""
        self._waits_for = ""
        self.closing = False
        """The process is about to end: start no more unrecoverable effects."""

    async def settle(self) -> None:
        """Finish every open call. Repeatable calls, and those that touch neither files nor
        processes, run in parallel; others run alone, in order."""
        for open_call in self._conversation.unfinished:
            with suppress(HermesError):  # reported when the call runs
                await self._resolver.load(open_call)
        for batch in self._batches(self._conversation.unfinished):
            async with asyncio.TaskGroup() as group:
                twins: dict[tuple[str, str], asyncio.Task[None]] = {}
                for open_call in batch:
                    same = (open_call.call.name, open_call.call.arguments)
                    first = twins.get(same)
                    task = group.create_task(self._settle_one(open_call, first))
                    if first is None and self._is_repeatable(open_call):
                        twins[same] = task

    async def abandon(self, why: str, *, park: bool) -> None:
        """Give every unfinished call a truthful result. With `park`, a person first decides on
        calls of unknown outcome."""
        # Inner calls before their callers.
        inner = [call for call in reversed(self._conversation.inner) if call.finished is None]
        for open_call in (*inner, *self._conversation.unfinished):
            await self._abandon_one(open_call, why, park=park)

    async def _abandon_one(self, open_call: PendingCall, why: str, *, park: bool) -> None:
        known = await self._recover_quickly(open_call) if open_call.intended else "not-run"
        if known is None and park:
            return await self._park(open_call, f"{why} while it ran")
        seconds = 0.0
        if isinstance(known, ToolResult):
            text, seconds = f"{why}\n{known.text}", known.data.get("seconds", 0.0)
        elif known == "again":
            text = f"{why} while it ran; what it did until then is not undone"
        elif known == "not-run":
            text = f"not run: {why}"
        else:
            text = f"{why} while it ran; it may or may not have taken effect"
        await self._finish(open_call, ToolResult(text, ok=False), seconds)
        if isinstance(known, ToolResult):
            await self._release(open_call, known)
        return None

    async def _recover_quickly(self, open_call: PendingCall) -> RecoveryResult:
        """Recover with a timeout. The first timeout stops what still runs; the second try sees the
        outcome."""
        for _ in range(2):
            try:
                async with asyncio.timeout(ABANDON_SECONDS):
                    return await self._recover(open_call)
            except TimeoutError:
                continue
        return None

    def _is_repeatable(self, open_call: PendingCall) -> bool:
        tool = self._resolver.known(open_call)
        return tool is not None and tool.repeatable

    def _batches(self, calls: Sequence[PendingCall]) -> list[list[PendingCall]]:
        batches: list[list[PendingCall]] = [[]]
        for open_call in calls:
            tool = self._resolver.known(open_call)
            alone = (
                tool is not None
                and not tool.repeatable
                and bool({"filesystem", "process"} & set(tool.capabilities))
            )
            if alone:
                batches += [[open_call], []]
            else:
                batches[-1].append(open_call)
        return [batch for batch in batches if batch]

    async def _settle_one(self, open_call: PendingCall, twin: asyncio.Task[None] | None) -> None:
        if twin is not None:
            await asyncio.wait([twin])
        async with self._slots:
            await self._advance(open_call, twin is not None)

    async def _advance(self, open_call: PendingCall, has_twin: bool) -> None:
        if open_call.intended is not None:
            return await self._resume_call(open_call)
        if has_twin and (result := await self._result_of_twin(open_call)):
            return await self._finish(open_call, result)
        return await self._begin(open_call)

    async def _begin(self, open_call: PendingCall) -> None:
        try:
            await self._resolver.load(open_call)
            tool = self._resolver.tool(open_call)
            arguments = self._resolver.given(open_call, tool)
            self._refuse_for_program(open_call, tool)
            self._refuse_repeated(open_call, tool)
            if tool.located and open_call.effect in self._left:
                await self._wait_for_terminal(open_call, tool)
            if open_call.decided is None:
                await self._authorizer.authorize(open_call, tool, arguments)
        except CallDenied as refused:
            return await self._finish(open_call, failure(str(refused), retry="changed"))
        except ConnectionError as error:
            return await self._finish(
                open_call, failure(f"the terminal cannot be reached: {error}", retry="same")
            )
        except HermesError as error:  # for example, an unavailable terminal
            return await self._finish(open_call, failed(error))
        except (OSError, ValueError, RecursionError) as error:  # for example, a path that is none
            return await self._finish(open_call, crashed(open_call.call.name, error))
        return await self._intend_and_run(open_call, tool)

    async def _wait_for_terminal(self, open_call: PendingCall, tool: Tool) -> None:
        """Wait for the terminal that a call had when its turn began, and lacks after a restart."""
        name = self._deps.terminal_name(tool.place(open_call.call.target()[1]))
        pause, longest = LOOK_SECONDS
        while True:
            try:
                await self._deps.terminals[name].where()
                return
            except (ConnectionError, TerminalUnreachable) as error:
                why, hint = getattr(error, "message", str(error)), getattr(error, "hint", "")
                trouble = HermesError(f"terminal {name}: {why}", hint)
            if trouble.message != self._waits_for:
                self._waits_for = trouble.message
                await self._write(waiting_notice(trouble))
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    @staticmethod
    def _refuse_for_program(open_call: PendingCall, tool: Tool) -> None:
        """Refuse what a program may not call, under any name."""
        if open_call.by and tool.origin == "builtin" and tool.name in NOT_FOR_PROGRAMS:
            raise ToolError(f"a program cannot call {tool.name}", "call it yourself", "never")
        if open_call.effect.count(".") > NESTED:
            raise ToolError(f"programs are nested more than {NESTED} deep", retry="never")

    def _refuse_repeated(self, open_call: PendingCall, tool: Tool) -> None:
        missing = [name for name in tool.after if name not in self._conversation.tools_used]
        if missing:
            raise ToolError(f"{tool.name} needs {missing[0]} first", f"call {missing[0]}")
        same, before = (open_call.call.name, open_call.call.arguments), self._conversation
        if before.failures[same] + before.failing[same] >= REPEATS and not open_call.by:
            raise ToolError(
                f"this exact call has failed {REPEATS} times in this turn; it was not made again",
                "try something else, wait for it within one call, or tell the user what is in the "
                "way",
                "never",
            )

    async def _result_of_twin(self, open_call: PendingCall) -> ToolResult | None:
        for other in self._conversation.calls:
            if other.finished and other is not open_call and other.finished.ok:
                same = (other.call.name, other.call.arguments)
                if same == (open_call.call.name, open_call.call.arguments):
                    twin = other.finished
                    whole = await self._results.whole(other.effect, twin.text)
                    return ToolResult(whole, twin.data, files=twin.files)
        return None

    # calls that programs make

    async def call(self, by: PendingCall, name: str, given: Mapping[str, Any]) -> ToolResult:
        """Make a call on behalf of a program. A program that runs again after a restart repeats
        its calls: those that had finished return their recorded results."""
        written = msgspec.json.encode(given, enc_hook=str).decode()
        kept = redact_call(ToolCall("", name, written), self._deps.redact)
        guard = self._replay_guards.of(by.effect)
        if not guard.accepts(len(written)):
            return failure("the arguments are too large", "write them to files in parts", "changed")
        made = guard.earlier_call(kept)
        if made is None:
            looks = self._is_repeatable(PendingCall(kept, ""))
            if not looks and not await guard.has_caught_up():
                return failure(DIVERGED, "check what was done, and continue from there", "never")
            call = ToolCall(guard.next_effect(), kept.name, kept.arguments)
            await self._write(ev.CallMade(call.id, by.effect, call))
            made = next(one for one in self._conversation.inner if one.effect == call.id)
        if made.finished is None:
            async with guard.slots:
                await self._advance(made, False)
        done = made.finished
        assert done is not None
        whole = await self._results.whole(made.effect, done.text)
        return ToolResult(whole, done.data, done.ok, done.files)

    # running

    async def _intend_and_run(self, open_call: PendingCall, tool: Tool) -> None:
        arguments = self._arguments(open_call, tool)
        if self.closing and tool.unrecoverable:
            await asyncio.Event().wait()  # the process ends; the next one runs it
        attempt = open_call.intended.attempt + 1 if open_call.intended else 1
        context = self._context(open_call)
        note: dict[str, Any] = {}
        if tool.prepare is not None:
            try:
                note = await tool.prepare(context, **arguments)
            except ToolError as error:
                return await self._finish(open_call, failed(error))
            except Exception as error:  # as in `invoke`: it may be anyone's code
                log.warning("%s failed", tool.name, exc_info=True)
                return await self._finish(open_call, crashed(tool.name, error))
        intent = ev.CallIntended(
            open_call.effect, open_call.call.id, tool.name, attempt, note, tool.unrecoverable
        )
        await self._write(intent)
        return await self._run(open_call, tool)

    def _arguments(self, open_call: PendingCall, tool: Tool) -> dict[str, Any]:
        return self._authorizer.arguments(open_call, tool, self._resolver.given(open_call, tool))

    async def _run(self, open_call: PendingCall, tool: Tool) -> None:
        started = time.perf_counter()
        given = self._resolver.given(open_call, tool)
        permit = self._authorizer.permit(open_call, tool, given)
        arguments = self._authorizer.arguments(open_call, tool, given)
        context = self._context(open_call)
        try:
            if tool.unrecoverable:
                self.unrecoverable.add(open_call.effect)
            result = await invoke(tool, permit, context, arguments)
            if self._replay_guards.end(open_call.effect):
                result = replace(result, text=f"{DIVERGED_NOTE}\n{result.text}", ok=False)
            await self._finish(
                open_call,
                result,
                time.perf_counter() - started,
                _inverse_of(open_call, tool, arguments, result),
            )
        except OutcomeUnknown as unknown:
            result, reason = None, unknown.message
        finally:
            self._replay_guards.end(open_call.effect)
            self.unrecoverable.discard(open_call.effect)
        if result is None:
            await self._park(open_call, reason)
        else:
            await self._release(open_call, result)

    async def _end_inner(self, open_call: PendingCall) -> None:
        """Abandon calls that a finished program did not wait for."""
        for inner in [one for one in self._conversation.inner if one.by == open_call.effect]:
            if inner.finished is None:
                await self._abandon_one(inner, "the program that made the call ended", park=True)

    async def _release(self, open_call: PendingCall, result: ToolResult) -> None:
        """Let the tool delete what it kept for recovery: the result is in the journal."""
        tool = self._resolver.known(open_call)
        if tool is None or tool.release is None:
            return
        try:
            await tool.release(self._context(open_call), result)
        except (HermesError, OSError) as error:
            log.warning("%s could not clean up: %s", tool.name, error)

    async def _resume_call(self, open_call: PendingCall) -> None:
        """Resume a call that was running when the last runtime ended. One that is out of reach is
        parked, and looked for until it is found or a person has decided."""
        troubles: list[str] = []
        parked = open_call.parked is not None
        known = None if parked else await self._recover(open_call, troubles.append)
        if known is None and not parked:
            await self._say_parked(open_call, ": ".join([DIED, *troubles]))
        if known is None and (parked or troubles) and open_call.decided is None:
            known = await self._look_until_decided(open_call)
        # What people have been asked for long they may have done by hand.
        unclear = known is None or (parked and not isinstance(known, ToolResult))
        if open_call.parked and (unclear or not self._human_input.settle(open_call.effect)):
            return await self._until_decided(open_call)
        if isinstance(known, ToolResult):
            await self._finish(open_call, known, known.data.get("seconds", 0.0))
            return await self._release(open_call, known)
        run = self._intend_and_run if open_call.parked else self._run
        return await run(open_call, self._resolver.tool(open_call))

    async def _look_until_decided(self, open_call: PendingCall) -> RecoveryResult:
        """What became of a parked call, once it is in reach; None if a person has to decide."""
        decided = asyncio.create_task(self._human_input.decision(open_call.effect))
        looking = asyncio.create_task(self._look(open_call))
        try:
            await asyncio.wait({decided, looking}, return_when=asyncio.FIRST_COMPLETED)
            return looking.result() if looking.done() else None
        finally:
            decided.cancel()
            looking.cancel()
            await asyncio.wait({decided, looking})

    async def _look(self, open_call: PendingCall) -> RecoveryResult:
        pause, longest = LOOK_SECONDS
        while True:
            troubles: list[str] = []
            known = await self._recover(open_call, troubles.append)
            if known is not None or not troubles:
                return known
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _say_parked(self, open_call: PendingCall, reason: str) -> None:
        name = self._name(open_call)
        await self._write(ev.CallParked(open_call.effect, open_call.call.id, name, reason))
        self._human_input.reopen(open_call.effect)

    async def _park(self, open_call: PendingCall, reason: str) -> None:
        await self._say_parked(open_call, reason)
        await self._until_decided(open_call)

    async def _until_decided(self, open_call: PendingCall) -> None:
        decision = await self._human_input.decision(open_call.effect)
        if decision == "retry":
            return await self._begin(open_call)
        texts = {
            "skip": "not run again: its outcome is unknown and the user chose to skip it",
            "it-happened": "the user says that it happened; its output is lost",
        }
        return await self._finish(
            open_call, ToolResult(texts[decision], ok=decision == "it-happened")
        )

    async def _recover(
        self, open_call: PendingCall, report: Callable[[str], None] = lambda _trouble: None
    ) -> RecoveryResult:
        try:
            await self._resolver.load(open_call)
            tool = self._resolver.tool(open_call)
            arguments = self._arguments(open_call, tool)
            if tool.recover is None or open_call.intended is None:
                return "not-run" if tool.repeatable else None
            return await tool.recover(
                self._context(open_call), open_call.intended.note, **arguments
            )
        except Exception as error:  # gone, changed or unreachable; or anyone's code
            log.warning("cannot recover the outcome of %s", open_call.effect, exc_info=True)
            report(error.message if isinstance(error, HermesError) else str(error))
            return None

    def _context(self, open_call: PendingCall) -> ToolContext:
        return self._contexts.context(open_call, self.call)

    def _name(self, open_call: PendingCall) -> str:
        """The name of the tool that a call runs."""
        tool = self._resolver.known(open_call)
        return tool.name if tool is not None else open_call.call.name

    async def _finish(
        self, open_call: PendingCall, result: ToolResult, seconds: float = 0.0, inverse: str = ""
    ) -> None:
        await self._end_inner(open_call)
        self._contexts.end(open_call.effect)
        result = writable(result, self._deps.redact)
        text = await self._results.shown(open_call.effect, result.text)
        judged = open_call.judged
        if judged is not None and judged.input is not None and open_call.intended is not None:
            changed = msgspec.json.encode(judged.input).decode()
            text = f"[a rule changed this call to {self._deps.redact(changed)}]\n{text}"
        await self._write(
            ev.CallFinished(
                effect=open_call.effect,
                call_id=open_call.call.id,
                tool=self._name(open_call),
                text=text,
                ok=result.ok,
                seconds=round(seconds, 6),
                data=result.data,
                files=result.files,
                inverse=self._deps.redact(inverse),
                usage=result.usage,
                cost=result.cost,
            )
        )


async def run_relayed(tool: Tool, effect: str, given: Mapping[str, Any]) -> ToolResult:
    """In a program: run a call that the runtime it is connected to has authorized and journaled."""
    try:
        arguments = tool.arguments(given)
    except ToolError as error:
        return failed(error)
    judged = {tool.command, *tool.paths, *tool.hosts} & arguments.keys()
    if any(arguments[name] != given.get(name) for name in judged):
        return failure(
            f"{tool.name} would read its arguments otherwise than the gate", "", "changed"
        )
    permit = relayed_permit(effect, tool, arguments)
    return writable(await invoke(tool, permit, cast(ToolContext, None), arguments), Redactor({}))


def waiting_notice(trouble: HermesError) -> ev.NoticeIssued:
    hint = f" ({trouble.hint})" if trouble.hint else ""
    return ev.NoticeIssued(f"waiting: {trouble.message}{hint}", "warning")


def _inverse_of(
    open_call: PendingCall, tool: Tool, arguments: dict[str, Any], result: ToolResult
) -> str:
    """The command that undoes a successful call."""
    if tool.inverse is None or not result.ok or open_call.intended is None:
        return ""
    return tool.inverse(open_call.intended.note, arguments, result)
