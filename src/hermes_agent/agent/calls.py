"""Tool calls: judged, written down, run, written down again. The only place where a tool runs."""

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from hermes_agent.agent.admission import Admission, Refused
from hermes_agent.agent.fold import Conversation, OpenCall
from hermes_agent.agent.invoke import invoke, writable
from hermes_agent.agent.parts import Parts
from hermes_agent.agent.people import People, Write
from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, OutcomeUnknown, ToolError
from hermes_agent.core.tools import Recovered, Tool, ToolContext, ToolResult
from hermes_agent.policy.redact_stream import Stream

log = logging.getLogger("hermes.calls")

GIVE_UP_SECONDS = 5.0
"""How long a turn that is given up looks for what became of a call."""
DIED = "the runtime died while it ran, and nobody can tell whether it took effect"


class Calls:
    """Works off the calls of one reply."""

    def __init__(self, parts: Parts, talk: Conversation, people: People, write: Write) -> None:
        self._parts = parts
        self._talk = talk
        self._people = people
        self._write = write
        self._admission = Admission(parts, talk, people, write)
        self._slots = asyncio.Semaphore(parts.settings.loop.parallel_calls)
        self._output: dict[str, Stream] = {}
        """What calls print while they run, on its way to whoever watches."""
        self.traceless: set[str] = set()
        """Effects that run now and of which nothing could be found out after a sudden end."""
        self.closing = False
        """The process is about to end: no traceless effect is begun any more."""

    async def settle(self) -> None:
        """Bring every open call to its end. Calls that only look, or that touch neither files nor
        processes, run side by side; one that changes them waits for those before it."""
        for batch in self._batches(self._talk.unfinished):
            async with asyncio.TaskGroup() as group:
                twins: dict[tuple[str, str], asyncio.Task[None]] = {}
                for open_call in batch:
                    same = (open_call.call.name, open_call.call.arguments)
                    first = twins.get(same)
                    task = group.create_task(self._settle_one(open_call, first))
                    if first is None and self._is_repeatable(open_call):
                        twins[same] = task

    async def give_up(self, why: str, *, park: bool) -> None:
        """Give every call that has not ended an honest result. With `park`, a person first says
        what became of those that nobody can know about."""
        for open_call in self._talk.unfinished:
            known = await self._find_out_soon(open_call) if open_call.intended else "not-run"
            if known is None and park:
                await self._park(open_call, f"{why} while it ran")
                continue
            seconds = 0.0
            if isinstance(known, ToolResult):
                text, seconds = f"{why}\n{known.text}", known.data.get("seconds", 0.0)
            elif known == "not-run":
                text = f"not run: {why}"
            else:
                text = f"{why} while it ran; it may or may not have taken effect"
            await self._finish(open_call, ToolResult(text, ok=False), seconds)
            if isinstance(known, ToolResult):
                await self._release(open_call, known)

    async def _find_out_soon(self, open_call: OpenCall) -> Recovered:
        """Nobody wants to wait any more: what still runs is stopped by ending the wait for it, and
        looked at once more."""
        for _ in range(2):
            try:
                async with asyncio.timeout(GIVE_UP_SECONDS):
                    return await self._find_out(open_call)
            except TimeoutError:
                continue
        return None

    def _is_repeatable(self, open_call: OpenCall) -> bool:
        tool = self._parts.tools.get(open_call.call.name)
        return tool is not None and tool.repeatable

    def _batches(self, calls: Sequence[OpenCall]) -> list[list[OpenCall]]:
        batches: list[list[OpenCall]] = [[]]
        for open_call in calls:
            tool = self._parts.tools.get(open_call.call.name)
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

    async def _settle_one(self, open_call: OpenCall, twin: asyncio.Task[None] | None) -> None:
        if twin is not None:
            await asyncio.wait([twin])
        async with self._slots:
            await self._advance(open_call, twin is not None)

    async def _advance(self, open_call: OpenCall, has_twin: bool) -> None:
        if open_call.intended is not None:
            return await self._take_up(open_call)
        if has_twin and (result := self._result_of_twin(open_call)):
            return await self._finish(open_call, result)
        return await self._begin(open_call)

    async def _begin(self, open_call: OpenCall) -> None:
        try:
            tool, arguments = self._tool_and_arguments(open_call)
            if open_call.decided is None:
                await self._admission.admit(open_call, tool, arguments)
        except (ToolError, Refused) as error:
            return await self._finish(open_call, ToolResult(str(error), ok=False))
        except (HermesError, ConnectionError) as error:  # the terminal cannot be had
            return await self._finish(open_call, ToolResult(_said(error), ok=False))
        return await self._intend_and_run(open_call, tool)

    def _tool_and_arguments(self, open_call: OpenCall) -> tuple[Tool, dict[str, Any]]:
        tool = self._parts.tools.get(open_call.call.name)
        if tool is None:
            known = ", ".join(self._parts.tools)
            raise ToolError(f"no tool called {open_call.call.name!r}; there are: {known}")
        return tool, tool.arguments(open_call.call.input())

    def _result_of_twin(self, open_call: OpenCall) -> ToolResult | None:
        for other in self._talk.calls:
            if other.finished and other is not open_call and other.finished.ok:
                same = (other.call.name, other.call.arguments)
                if same == (open_call.call.name, open_call.call.arguments):
                    twin = other.finished
                    return ToolResult(twin.text, twin.data, files=twin.files)
        return None

    # running

    async def _intend_and_run(self, open_call: OpenCall, tool: Tool) -> None:
        arguments = self._arguments(open_call, tool)
        if self.closing and tool.traceless:
            await asyncio.Event().wait()  # the process ends; the next one begins it
        attempt = open_call.intended.attempt + 1 if open_call.intended else 1
        context = self._context(open_call)
        note: dict[str, Any] = {}
        if tool.prepare is not None:
            try:
                note = await tool.prepare(context, **arguments)
            except ToolError as error:
                return await self._finish(open_call, ToolResult(str(error), ok=False))
        intent = ev.CallIntended(
            open_call.effect, open_call.call.id, tool.name, attempt, note, tool.traceless
        )
        await self._write(intent)
        return await self._run(open_call, tool)

    def _arguments(self, open_call: OpenCall, tool: Tool) -> dict[str, Any]:
        given = tool.arguments(open_call.call.input())
        return self._admission.arguments(open_call, tool, given)

    async def _run(self, open_call: OpenCall, tool: Tool) -> None:
        started = time.perf_counter()
        given = tool.arguments(open_call.call.input())
        permit = self._admission.permit(open_call, tool, given)
        arguments = self._admission.arguments(open_call, tool, given)
        context = self._context(open_call)
        try:
            if tool.traceless:
                self.traceless.add(open_call.effect)
            result = await invoke(tool, permit, context, arguments)
            await self._finish(open_call, result, time.perf_counter() - started)
        except OutcomeUnknown as unknown:
            result, reason = None, unknown.message
        finally:
            self.traceless.discard(open_call.effect)
        if result is None:
            await self._park(open_call, reason)
        else:
            await self._release(open_call, result)

    async def _release(self, open_call: OpenCall, result: ToolResult) -> None:
        """The result is in the journal: what was kept to find it out again can go."""
        tool = self._parts.tools[open_call.call.name]
        if tool.release is None:
            return
        try:
            await tool.release(self._context(open_call), result)
        except (HermesError, OSError) as error:
            log.warning("%s could not tidy up: %s", tool.name, error)

    async def _take_up(self, open_call: OpenCall) -> None:
        """A call that was under way when the last runtime went."""
        if open_call.parked is not None:
            return await self._until_decided(open_call)
        known = await self._find_out(open_call)
        if isinstance(known, ToolResult):
            await self._finish(open_call, known, known.data.get("seconds", 0.0))
            return await self._release(open_call, known)
        if known == "not-run":
            return await self._run(open_call, self._tool_and_arguments(open_call)[0])
        return await self._park(open_call, DIED)

    async def _park(self, open_call: OpenCall, reason: str) -> None:
        call = open_call.call
        await self._write(ev.CallParked(open_call.effect, call.id, call.name, reason))
        await self._until_decided(open_call)

    async def _until_decided(self, open_call: OpenCall) -> None:
        decision = await self._people.decision(open_call.effect)
        if decision == "retry":
            return await self._begin(open_call)
        texts = {
            "skip": "not run again: its outcome is unknown and the user chose to skip it",
            "it-happened": "the user says that it did happen; its output is lost",
        }
        return await self._finish(
            open_call, ToolResult(texts[decision], ok=decision == "it-happened")
        )

    async def _find_out(self, open_call: OpenCall) -> Recovered:
        try:
            tool, _ = self._tool_and_arguments(open_call)
            arguments = self._arguments(open_call, tool)
            if tool.recover is None or open_call.intended is None:
                return "not-run" if tool.repeatable else None
            return await tool.recover(
                self._context(open_call), open_call.intended.note, **arguments
            )
        except (HermesError, ConnectionError) as error:  # gone, changed, out of reach
            log.warning("cannot find out about %s: %s", open_call.effect, error)
            return None

    def _context(self, open_call: OpenCall) -> ToolContext:
        parts, talk, effect = self._parts, self._talk, open_call.effect
        attempt = open_call.intended.attempt if open_call.intended else 1
        key = effect if attempt == 1 else f"{effect}.{attempt}"  # a retry is a new effect
        asked = 0

        async def ask(text: str, choices: Sequence[str]) -> str | None:
            nonlocal asked
            asked += 1
            if not talk.interactive:
                return None
            question = ev.Asked(
                id=f"{key}-q{asked}",
                purpose="question",
                text=parts.redact(text),
                effect=effect,
                choices=tuple(choices),
            )
            return await self._people.ask(question)

        def output(text: str) -> None:
            self._show(effect, self._output.setdefault(effect, parts.redact.stream()).feed(text))

        values = self._admission.secrets(open_call)
        tool = parts.tools.get(open_call.call.name)
        name = parts.terminal_name(tool.place(open_call.call.input()) if tool else "")
        terminal = parts.terminals[name]
        http = None
        if parts.http is not None and tool is not None:
            http = partial(parts.http, self._admission.reach(open_call, tool, name))
        return ToolContext(key, talk.session, terminal, ask, output, values, http)

    def _show(self, effect: str, text: str) -> None:
        if text:
            event = ev.OutputArrived(effect, text)
            self._parts.publish(ev.Recorded(self._talk.session, 0, self._parts.clock(), event))

    async def _finish(self, open_call: OpenCall, result: ToolResult, seconds: float = 0.0) -> None:
        if (output := self._output.pop(open_call.effect, None)) is not None:
            self._show(open_call.effect, output.end())
        result = writable(result, self._parts.redact)
        text = self._shown(open_call.effect, result.text)
        judged = open_call.judged
        if judged is not None and judged.input is not None and open_call.intended is not None:
            changed = msgspec.json.encode(judged.input).decode()
            text = f"[a rule changed this call to {self._parts.redact(changed)}]\n{text}"
        await self._write(
            ev.CallFinished(
                effect=open_call.effect,
                call_id=open_call.call.id,
                tool=open_call.call.name,
                text=text,
                ok=result.ok,
                seconds=round(seconds, 6),
                data=result.data,
                files=result.files,
            )
        )

    def _shown(self, effect: str, text: str) -> str:
        """What the model sees of a result: all of it, or its two ends and where the rest lies."""
        limit = self._parts.settings.loop.result_chars
        if len(text) <= limit:
            return text
        whole = self._parts.results / f"{effect}.txt"
        try:
            self._parts.results.mkdir(parents=True, exist_ok=True)
            whole.write_text(text, encoding="utf-8", errors="replace")
            kept = f"the whole result is in {whole}"
        except OSError as error:
            kept = f"they could not be kept: {error}"
        half = limit // 2
        left_out = len(text) - 2 * half
        return f"{text[:half]}\n[… {left_out} characters left out; {kept} …]\n{text[-half:]}"


def _said(error: HermesError | ConnectionError) -> str:
    if isinstance(error, HermesError):
        return f"{error.message} ({error.hint})" if error.hint else error.message
    return f"the terminal cannot be reached: {error}"
