"""A turn taken up by a new worker, from every point at which the last one may have stopped."""

import asyncio
from pathlib import Path

import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.errors import NotFound, ToolError, UsageError
from hermes_agent.core.messages import Reply, ToolCall
from hermes_agent.core.settings.root import TerminalSettings
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import RecoveryResult, Tool, ToolContext
from hermes_agent.models.scripted import ScriptedModel
from hermes_agent.terminals.command_backend import TerminalUnreachable
from hermes_agent.terminals.local.terminal import LocalTerminal
from tests.support.awake_loop import pass_time
from tests.support.turns import Bench, bench

ONE_CALL = Reply("", (ToolCall.of("1", "act", line="x"),), stop="calls")


def counting_tool(ran: list[str], **options) -> Tool:
    async def act(line: str) -> str:
        ran.append(line)
        return f"did {line}"

    return Tool("act", act, "Act", **options)


async def stop_before(b: Bench, stage: str) -> None:
    """Write the journal of a turn that died at a stage, as a runtime would have."""
    await b.receive("go")
    turn = await b.store.start_turn(b.session.id)
    assert turn is not None
    await b.store.append(turn, ev.ModelRequested(1, b.model.name, 1, await digest(b)))
    (replied,) = await b.store.append(turn, ev.Replied(1, "", ONE_CALL.calls, stop="calls"))
    effect = f"{b.session.id}-{replied.number}-0"
    if stage == "judging":
        return
    await b.store.append(turn, ev.CallJudged(effect, "act", "allow", "because"))
    if stage == "intending":
        return
    await b.store.append(turn, ev.CallIntended(effect, "1", "act"))
    if stage == "finishing":
        return
    await b.store.append(turn, ev.CallFinished(effect, "1", "act", "did x"))


async def digest(b: Bench) -> str:
    from hermes_agent.agent.conversation import ConversationState

    conversation = ConversationState(b.session.id, await b.store.prompt(b.session.prompt))
    return conversation.apply_all(await b.store.events(b.session.id)).digest


async def resume(b: Bench) -> asyncio.Task[ev.TurnFinished | None]:
    (turn,) = await b.store.claim_unfinished()
    worker = await b.worker(turn)
    return asyncio.create_task(worker.run())


@pytest.mark.parametrize(("stage", "runs"), [("judging", 1), ("intending", 1), ("asking again", 0)])
async def test_a_call_that_had_not_begun_is_run_and_a_finished_one_is_not(
    tmp_path: Path, stage: str, runs: int
) -> None:
    ran: list[str] = []
    async with bench(
        tmp_path, ScriptedModel(ONE_CALL, Reply("done")), tools=[counting_tool(ran)]
    ) as b:
        await stop_before(b, stage)
        end = await (await resume(b))
    assert end is not None
    assert end.text == "done"
    assert len(ran) == runs


class Away(LocalTerminal):
    """A terminal that cannot be reached at first."""

    there = False

    async def where(self) -> str:
        if not self.there:
            raise TerminalUnreachable("no route to far", "start it")
        return await super().where()


@pytest.mark.parametrize("stage", ["judging", "intending"])
async def test_a_call_that_had_not_begun_waits_for_its_terminal(tmp_path: Path, stage: str) -> None:
    ran: list[str] = []
    model = ScriptedModel(ONE_CALL, Reply("done"))
    async with bench(tmp_path, model, tools=[counting_tool(ran, located=True)]) as b:
        await stop_before(b, stage)
        away = Away(str(tmp_path / "work"), tmp_path / "spool", TerminalSettings())
        b.terminal = away
        running = await resume(b)
        while not running.done() and not await b.events(ev.NoticeIssued):
            await asyncio.sleep(0.005)
        await pass_time(60.0)
        away.there = True
        while not running.done():
            await pass_time(60.0)
            await asyncio.sleep(0.005)
        end = running.result()
        (said,) = await b.events(ev.NoticeIssued)
        (result,) = await b.events(ev.CallFinished)
    assert said.text == ("waiting: terminal local: no route to far (start it)")
    assert end is not None
    assert (end.text, ran, result.text) == ("done", ["x"], "did x")


async def test_a_call_whose_outcome_is_unknown_is_parked_and_not_run(tmp_path: Path) -> None:
    ran: list[str] = []
    async with bench(
        tmp_path, ScriptedModel(ONE_CALL, Reply("done")), tools=[counting_tool(ran)]
    ) as b:
        await stop_before(b, "finishing")
        running = await resume(b)
        (parked,) = await b.parked()
        assert (parked.tool, parked.session, ran) == ("act", b.session.id, [])
        assert '"line":"x"' in parked.input
        worker = b.latest
        assert worker is not None
        with pytest.raises(UsageError):
            await worker.human_input.decide(parked.effect, "shrug", "test")
        with pytest.raises(NotFound):
            await worker.human_input.decide("nothing", "skip", "test")
        await worker.human_input.decide(parked.effect, "skip", "test")
        end = await running
        assert await b.store.parked() == []
    assert end is not None
    assert end.reason == "done"
    assert ran == []


@pytest.mark.parametrize(
    ("decision", "runs", "told"),
    [
        ("retry", 1, "did x"),
        ("skip", 0, "chose to skip"),
        ("it-happened", 0, "that it happened"),
    ],
)
async def test_a_person_decides_what_becomes_of_a_parked_call(
    tmp_path: Path, decision: str, runs: int, told: str
) -> None:
    ran: list[str] = []
    async with bench(
        tmp_path, ScriptedModel(ONE_CALL, Reply("done")), tools=[counting_tool(ran)]
    ) as b:
        await stop_before(b, "finishing")
        running = await resume(b)
        (parked,) = await b.parked()
        worker = b.latest
        assert worker is not None
        await worker.human_input.decide(parked.effect, decision, "test")
        await running
        (result,) = await b.events(ev.CallFinished)
    assert len(ran) == runs
    assert told in result.text


async def test_a_repeatable_call_runs_again_by_itself(tmp_path: Path) -> None:
    ran: list[str] = []
    tools = [counting_tool(ran, repeatable=True)]
    async with bench(tmp_path, ScriptedModel(ONE_CALL, Reply("done")), tools=tools) as b:
        await stop_before(b, "finishing")
        end = await (await resume(b))
    assert end is not None
    assert (end.text, ran) == ("done", ["x"])


async def test_a_tool_that_can_tell_what_happened_is_asked(tmp_path: Path) -> None:
    ran: list[str] = []

    async def found(context: ToolContext, note: dict, line: str) -> ToolResult:
        return ToolResult(f"{line} was done before")

    tools = [counting_tool(ran, recover=found)]
    async with bench(tmp_path, ScriptedModel(ONE_CALL, Reply("done")), tools=tools) as b:
        await stop_before(b, "finishing")
        await (await resume(b))
        (result,) = await b.events(ev.CallFinished)
    assert (result.text, ran) == ("x was done before", [])


@pytest.mark.parametrize("found", ["result", "not-run", "a person"])
async def test_a_call_out_of_reach_is_parked_until_it_is_found(tmp_path: Path, found: str) -> None:
    ran: list[str] = []
    looks: list[str] = []

    async def look(context: ToolContext, note: dict, line: str) -> RecoveryResult:
        looks.append(line)
        if len(looks) < 3 or found == "a person":
            raise ToolError("no route to far")
        return ToolResult("found there") if found == "result" else "not-run"

    tools = [counting_tool(ran, recover=look)]
    async with bench(tmp_path, ScriptedModel(ONE_CALL, Reply("done")), tools=tools) as b:
        await stop_before(b, "finishing")
        running = await resume(b)
        (parked,) = await b.parked()
        assert parked.reason.endswith("no route to far")
        while len(looks) < 3:
            await pass_time(60.0)
            await asyncio.sleep(0.005)
        if found == "a person":
            assert b.latest is not None
            await b.latest.human_input.decide(parked.effect, "skip", "test")
        end = await running
        (result,) = await b.events(ev.CallFinished)
        assert await b.store.parked() == []
    assert end is not None
    assert end.text == "done"
    told = {"result": "found there", "not-run": "did x", "a person": "chose to skip"}
    assert told[found] in result.text
    assert len(ran) == (found == "not-run")


async def test_a_turn_parked_by_one_runtime_is_still_parked_in_the_next(tmp_path: Path) -> None:
    ran: list[str] = []
    async with bench(
        tmp_path, ScriptedModel(ONE_CALL, Reply("done")), tools=[counting_tool(ran)]
    ) as b:
        await stop_before(b, "finishing")
        first = await resume(b)
        await b.parked()
        first.cancel()
        second = await resume(b)
        (effect,) = await b.parked()
        worker = b.latest
        assert worker is not None
        await worker.human_input.decide(effect.effect, "retry", "test")
        end = await second
        parked = await b.events(ev.CallParked)
    assert end is not None
    assert len(parked) == 1
    assert ran == ["x"]


async def test_an_answer_given_before_the_runtime_died_is_not_asked_for_again(
    tmp_path: Path,
) -> None:
    call = Reply("", (ToolCall.of("1", "terminal", command="touch hi && echo hi"),), stop="calls")
    async with bench(tmp_path, ScriptedModel(call, Reply("done")), policy="careful") as b:
        await b.receive("go", interactive=True)
        first = await b.worker()
        running = asyncio.create_task(first.run())
        while not first.conversation.questions:
            await asyncio.sleep(0.005)
        running.cancel()
        await b.store.append(
            first.turn, ev.QuestionAnswered(next(iter(first.conversation.questions)), "yes", "test")
        )
        end = await (await resume(b))
        asked = await b.events(ev.QuestionAsked)
        (result,) = await b.events(ev.CallFinished)
    assert end is not None
    assert len(asked) == 1
    assert "hi" in result.text


async def test_a_worker_whose_turn_was_taken_writes_no_more(tmp_path: Path) -> None:
    begun, taken = asyncio.Event(), asyncio.Event()

    async def act(line: str) -> str:
        begun.set()
        await taken.wait()
        return "late"

    tools = [Tool("act", act, "Act", repeatable=True)]
    async with bench(tmp_path, ScriptedModel(ONE_CALL, Reply("done")), tools=tools) as b:
        await b.receive("go")
        old = asyncio.create_task((await b.worker()).run())
        await begun.wait()
        new = await resume(b)
        taken.set()
        assert await old is None
        end = await new
        finished = await b.events(ev.TurnFinished)
    assert end is not None
    assert len(finished) == 1


async def test_a_resumed_request_has_the_very_bytes_the_first_would_have_had(
    tmp_path: Path,
) -> None:
    """`digest` in the journal is over the bytes; the suite compares them after every test."""
    odd = '{"line" : "x",  "extra_space": 1e0}'.replace(', "extra_space": 1e0', "")
    call = Reply("", (ToolCall("1", "act", odd),), stop="calls")
    ran: list[str] = []
    async with bench(tmp_path, ScriptedModel(call, Reply("done")), tools=[counting_tool(ran)]) as b:
        await b.receive("go")
        worker = await b.worker()
        await worker.run()
        events = await b.store.events(b.session.id)
        from tests.support.prompt_prefix import check_session

        prompt = await b.store.prompt(b.session.prompt)
        assert check_session(b.session.id, prompt, events) == 2
        assert worker.conversation.messages[1].calls[0].arguments == odd


@pytest.mark.parametrize("change", ["gone", "other arguments"])
async def test_a_call_is_not_closed_because_its_tool_has_changed(
    tmp_path: Path, change: str
) -> None:
    """Whether it happened is as unknown as before."""

    async def act(amount: int) -> str:
        return "never"

    tools = [] if change == "gone" else [Tool("act", act, "Act")]
    async with bench(tmp_path, ScriptedModel(ONE_CALL, Reply("done")), tools=tools) as b:
        await stop_before(b, "finishing")
        running = await resume(b)
        (parked,) = await b.parked()
        worker = b.latest
        assert worker is not None
        await worker.human_input.decide(parked.effect, "retry", "test")
        end = await running
        (result,) = await b.events(ev.CallFinished)
    assert end is not None
    assert end.reason == "done"
    assert not result.ok


async def test_an_interrupt_that_was_asked_for_survives_the_runtime(tmp_path: Path) -> None:
    ran: list[str] = []
    async with bench(
        tmp_path, ScriptedModel(ONE_CALL, Reply("done")), tools=[counting_tool(ran)]
    ) as b:
        await stop_before(b, "judging")
        turn = await b.store.unfinished_turn(b.session.id)
        assert turn is not None
        await b.store.append(turn, ev.InterruptAsked(turn.id, "test"))
        end = await (await resume(b))
    assert end is not None
    assert (end.reason, ran) == ("interrupted", [])
