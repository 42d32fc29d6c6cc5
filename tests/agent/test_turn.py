"""A turn from message to answer, with a real store and a scripted model."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.effects import Verdict
from hermes_agent.core.messages import (
    Reply,
    Request,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from hermes_agent.core.settings.root import LoopSettings, Settings
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import Tool
from hermes_agent.models.scripted import ScriptedModel
from hermes_agent.policy.redaction.redactor import Redactor
from tests.support.awake_loop import pass_time
from tests.support.fake_time import MovedTime
from tests.support.gates import Says
from tests.support.turns import bench


def calls(*wanted: ToolCall) -> Reply:
    return Reply("", tuple(wanted), stop="calls")


def program(function, name="act", **options) -> Tool:
    return Tool(name=name, function=function, description=name, **options)


async def test_an_answer_without_tools_ends_the_turn(tmp_path: Path) -> None:
    async with bench(tmp_path, ScriptedModel(Reply("hello there"))) as b:
        end = await b.say("hi")
    assert (end.reason, end.text, end.steps) == ("done", "hello there", 1)
    assert (
        "".join(one.event.text for one in b.published if isinstance(one.event, ev.TextArrived))
        == "hello there"
    )


async def test_tool_results_reach_the_model_in_the_order_of_its_calls(tmp_path: Path) -> None:
    first_may_end = asyncio.Event()

    async def slow(name: str) -> str:
        await first_may_end.wait()
        return f"slow {name}"

    async def quick(name: str) -> str:
        first_may_end.set()
        return f"quick {name}"

    seen: list[Request] = []

    def last(request: Request) -> Reply:
        seen.append(request)
        return Reply("done")

    model = ScriptedModel(
        calls(ToolCall.of("1", "slow", name="a"), ToolCall.of("2", "quick", name="b")), last
    )
    tools = [program(slow, "slow"), program(quick, "quick")]
    async with bench(tmp_path, model, tools=tools) as b:
        await b.say("go")
        finished = [event.tool for event in await b.events(ev.CallFinished)]
    assert finished == ["quick", "slow"]
    assert [m.text for m in seen[0].messages if isinstance(m, ToolMessage)] == ["slow a", "quick b"]


async def test_an_intent_is_in_the_journal_before_the_effect_runs(tmp_path: Path) -> None:
    states: list[list[str]] = []

    async def act() -> str:
        states.append([ev.kind_of(event) for event in await b.events()])
        return "acted"

    model = ScriptedModel(calls(ToolCall.of("1", "act")), Reply("ok"))
    async with bench(tmp_path, model, tools=[program(act)]) as b:
        await b.say("go")
    assert states[0][-1] == "call_intended"


async def test_a_message_to_a_busy_session_is_seen_at_the_next_step(tmp_path: Path) -> None:
    seen: list[Request] = []

    async def act() -> str:
        await b.receive("also do this")
        return "acted"

    def last(request: Request) -> Reply:
        seen.append(request)
        return Reply("both done")

    model = ScriptedModel(calls(ToolCall.of("1", "act")), last)
    async with bench(tmp_path, model, tools=[program(act)]) as b:
        await b.say("do that")
    assert seen[0].messages[-1] == UserMessage("also do this")


async def test_an_interrupt_keeps_the_text_so_far_and_ends_the_turn(tmp_path: Path) -> None:
    model = ScriptedModel(Reply("one two three four five six seven " * 40), delay=0.01)
    async with bench(tmp_path, model) as b:
        await b.receive("count")
        worker = await b.worker()
        running = asyncio.create_task(worker.run())
        while not b.published or not isinstance(b.published[-1].event, ev.TextArrived):
            await asyncio.sleep(0.005)
        await worker.interrupt()
        end = await running
        replies = await b.events(ev.Replied)
    assert end is not None
    assert end.reason == "interrupted"
    assert replies[0].text.startswith("one two")
    assert replies[0].stop == "interrupted"


async def test_an_interrupt_stops_a_command_and_keeps_its_output(tmp_path: Path) -> None:
    command = "echo begun; sleep 60; echo never"
    model = ScriptedModel(calls(ToolCall.of("1", "terminal", command=command)), Reply("what now?"))
    async with bench(tmp_path, model) as b:
        await b.receive("run it")
        worker = await b.worker()
        running = asyncio.create_task(worker.run())
        while not any(isinstance(one.event, ev.OutputArrived) for one in b.published):
            await asyncio.sleep(0.01)
        await worker.interrupt()
        end = await running
        result = (await b.events(ev.CallFinished))[0]
        again = await b.say("go on")
    assert end is not None
    assert end.reason == "interrupted"
    assert "begun" in result.text
    assert "interrupted" in result.text
    assert again.text == "what now?"


async def test_an_unknown_tool_and_bad_arguments_are_told_to_the_model(tmp_path: Path) -> None:
    model = ScriptedModel(
        calls(ToolCall.of("1", "fly"), ToolCall("2", "read_file", "{not json")), Reply("sorry")
    )
    async with bench(tmp_path, model) as b:
        end = await b.say("go")
        first, second = await b.events(ev.CallFinished)
    assert end.reason == "done"
    assert "no tool called 'fly'" in first.text
    assert "JSON" in second.text


async def test_where_nobody_can_answer_what_asks_is_refused(tmp_path: Path) -> None:
    model = ScriptedModel(
        calls(ToolCall.of("1", "terminal", command="touch made")), Reply("I may not")
    )
    async with bench(tmp_path, model, policy="careful") as b:
        await b.say("make it")
        result = (await b.events(ev.CallFinished))[0]
    assert "nobody is available" in result.text
    assert not (tmp_path / "work" / "made").exists()


async def answered(b, worker, answer: str) -> ev.TurnFinished:
    running = asyncio.create_task(worker.run())
    while not worker.conversation.questions:
        await asyncio.sleep(0.005)
    await worker.human_input.answer(next(iter(worker.conversation.questions)), answer, "test")
    end = await running
    assert end is not None
    return end


async def test_consent_lets_a_command_run_and_refusal_does_not(tmp_path: Path) -> None:
    for answer, made in (("no", False), ("yes", True)):
        model = ScriptedModel(
            calls(ToolCall.of("1", "terminal", command="touch made")), Reply("so be it")
        )
        folder = tmp_path / answer
        folder.mkdir()
        async with bench(folder, model, policy="careful") as b:
            await b.receive("make it", interactive=True)
            await answered(b, await b.worker(), answer)
        assert (folder / "work" / "made").exists() is made


async def test_a_question_that_nobody_answers_in_time_counts_as_no(tmp_path: Path) -> None:
    from hermes_agent.core.settings.root import ApprovalSettings

    model = ScriptedModel(calls(ToolCall.of("1", "terminal", command="touch made")), Reply("I see"))
    settings = Settings(approvals=ApprovalSettings(timeout_seconds=0.05))
    async with bench(tmp_path, model, policy="careful", settings=settings) as b:
        await b.say("go", interactive=True)
        result = (await b.events(ev.CallFinished))[0]
        asked = await b.store.questions()
    assert "nobody answered in time" in result.text
    assert asked == []


def endless(request: Request) -> Reply:
    n = len(request.messages)
    return Reply("", (ToolCall.of(f"c{n}", "look", what=str(n)),), Usage(100, 10), cost=0.01)


async def look(what: str) -> str:
    return what


@pytest.mark.parametrize(
    ("limits", "what", "steps"),
    [
        ({"max_steps": 5}, "steps of this turn", 5),
        ({"max_dollars": 0.025}, "cost of this turn", 3),
        ({"max_seconds": 25.0}, "time of this turn", 3),
    ],
)
async def test_an_unattended_turn_pauses_at_a_limit_and_the_next_message_continues(
    tmp_path: Path, limits: dict[str, Any], what: str, steps: int
) -> None:
    now = [1_000.0]

    def slow(request: Request) -> Reply:
        now[0] += 10.0
        return endless(request)

    model = ScriptedModel(*[slow] * steps, Reply("done"))
    settings = Settings(loop=LoopSettings(**limits))
    looker = program(look, "look")
    async with bench(tmp_path, model, tools=[looker], settings=settings, clock=lambda: now[0]) as b:
        end = await b.say("go")
        assert (end.reason, end.steps) == ("budget", steps)
        assert "hermes sessions resume" in end.hint
        assert (await b.store.session(b.session.id)).state == "paused"
        reached = await b.events(ev.BudgetReached)
        assert reached[0].what == what
        assert (await b.say("go on")).reason == "done"
        assert (await b.store.session(b.session.id)).state == "idle"


async def test_a_clock_set_forward_and_a_machine_that_slept_use_no_time(tmp_path: Path) -> None:
    now = [1_000.0]

    def set_forward(request: Request) -> Reply:
        now[0] += 86_400.0
        return endless(request)

    model = ScriptedModel(set_forward, set_forward, Reply("done"))
    settings = Settings(loop=LoopSettings(max_seconds=60))
    async with bench(
        tmp_path, model, tools=[program(look, "look")], settings=settings,
        clock=lambda: now[0], ticks=lambda: 0.0,
    ) as b:  # fmt: skip
        end = await b.say("go")
        assert (end.reason, end.seconds) == ("done", 0.0)


async def test_the_question_at_a_limit_waits_for_ever_and_outlives_a_restart(
    tmp_path: Path,
) -> None:
    now = [1_000.0]
    model = ScriptedModel(*[endless] * 3, Reply("done"))
    settings = Settings(loop=LoopSettings(max_steps=3))
    looker = program(look, "look")
    async with bench(tmp_path, model, tools=[looker], settings=settings, clock=lambda: now[0]) as b:
        await b.receive("go", interactive=True)
        first = await b.worker()
        running = asyncio.create_task(first.run())
        while not first.conversation.questions:
            await asyncio.sleep(0.005)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        (asked,) = await b.store.questions()
        assert asked.expires == 0.0
        assert asked.text.endswith("Continue with another 3 steps?")
        now[0] += 1_000_000.0
        (turn,) = await b.store.claim_unfinished()
        second = await b.worker(turn)
        running = asyncio.create_task(second.run())
        await second.human_input.answer(asked.id, "yes", "test")
        end = await running
    assert end is not None
    assert (end.reason, end.steps) == ("done", 4)


async def test_a_budget_is_extended_by_as_much_again_when_the_user_says_so(tmp_path: Path) -> None:
    model = ScriptedModel(*[endless] * 20)
    settings = Settings(loop=LoopSettings(max_steps=3))
    async with bench(tmp_path, model, tools=[program(look, "look")], settings=settings) as b:
        await b.receive("go", interactive=True)
        worker = await b.worker()
        running = asyncio.create_task(worker.run())
        for answer in ("yes", "no"):
            while not worker.conversation.questions:
                await asyncio.sleep(0.005)
            await worker.human_input.answer(
                next(iter(worker.conversation.questions)), answer, "test"
            )
        end = await running
    assert end is not None
    assert (end.reason, end.steps) == ("budget", 6)


async def test_a_model_that_fails_for_good_fails_the_turn_and_the_session_goes_on(
    tmp_path: Path,
) -> None:
    from hermes_agent.core.errors import ModelError

    def fail(request: Request) -> Reply:
        raise ModelError("auth", "the key is wrong", "set OPENAI_API_KEY")

    def after(request: Request) -> Reply:
        return fail(request) if len(request.messages) == 1 else Reply("better")

    async with bench(tmp_path, ScriptedModel(after)) as b:
        first = await b.say("hi")
        second = await b.say("again")
    assert (first.reason, first.error, first.hint) == (
        "failed",
        "the key is wrong",
        "set OPENAI_API_KEY",
    )
    assert second.text == "better"


@pytest.mark.parametrize(("decision", "runs"), [("it-happened", 1), ("retry", 2)])
async def test_a_command_whose_shell_goes_away_is_parked_not_guessed(
    tmp_path: Path, decision: str, runs: int
) -> None:
    """The command ends its own shell and the daemon that would have told how it ended."""
    end_all = "for p in $PPID $$; do kill -9 $p; done; sleep 60"
    command = f"echo once >> ran; (( $(wc -l < ran) > 1 )) || {{ {end_all}; }}"
    model = ScriptedModel(calls(ToolCall.of("1", "terminal", command=command)), Reply("I see"))
    async with bench(tmp_path, model) as b:
        await b.receive("go")
        worker = await b.worker()
        running = asyncio.create_task(worker.run())
        (parked,) = await b.parked()
        await worker.human_input.decide(parked.effect, decision, "test")
        end = await running
    assert end is not None
    assert end.reason == "done"
    assert (tmp_path / "work" / "ran").read_text() == "once\n" * runs


async def test_what_was_shown_whole_is_not_kept_twice_and_the_rest_is(tmp_path: Path) -> None:
    small, large = "echo hi", "seq 20000"
    model = ScriptedModel(
        calls(ToolCall.of("1", "terminal", command=small)),
        calls(ToolCall.of("2", "terminal", command=large)),
        Reply("ok"),
    )
    async with bench(tmp_path, model) as b:
        await b.say("go")
        first, second = await b.events(ev.CallFinished)
        kept = {path.name for path in (tmp_path / "spool").glob("*.o")}
    assert kept == {f"{second.effect}.o"}
    assert first.text == "hi"


async def test_output_that_stays_on_disk_has_no_secrets_in_it(tmp_path: Path) -> None:
    token = "ghp_" + "a1" * 18
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes").write_text(f"{token}\n")
    long = "cat notes notes >&2; seq 9000; cat notes"
    model = ScriptedModel(
        calls(ToolCall.of("1", "terminal", command=long)),
        calls(ToolCall.of("2", "terminal", command="cat notes", background=True)),
        lambda request: calls(
            ToolCall.of("3", "process", action="follow", wait=60, id=_id_in(request))
        ),
        Reply("ok"),
    )
    async with bench(tmp_path, model) as b:
        await b.say("go")
        first, second, _ = await b.events(ev.CallFinished)
        spool = tmp_path / "spool"
        kept = {path.name: path.read_text() for path in [*spool.glob("*.o"), *spool.glob("*.e")]}
        assert kept[f"{first.effect}.e"] == "[redacted:github-token]\n" * 2
        assert kept[f"{first.effect}.o"].endswith("\n9000\n[redacted:github-token]\n")
        assert kept[f"{second.effect}.o"] == "[redacted:github-token]\n"
    found = [path for path in spool.rglob("*") if path.is_file() and token in path.read_text()]
    assert found == []


def _id_in(request: Request) -> str:
    return request.messages[-1].text.rpartition("id ")[2].rstrip("]")


class InterruptedWrites:
    """A store during whose n-th write the user interrupts."""

    def __init__(self, store, at: int) -> None:
        self._store = store
        self._at = at
        self.worker = None
        self.asking = None

    def __getattr__(self, name: str):
        return getattr(self._store, name)

    async def append(self, turn, *events):
        self._at -= 1
        if self._at == 0:
            self.asking = asyncio.create_task(self.worker.interrupt())
        return await self._store.append(turn, *events)


async def test_an_interrupt_during_any_write_leaves_a_journal_that_can_be_folded(
    tmp_path: Path,
) -> None:
    from hermes_agent.agent.conversation import ConversationState

    def answer(request: Request) -> Reply:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return Reply("done")
        n = len(request.messages)
        return Reply("", tuple(ToolCall.of(f"c{n}{x}", "look", what=x) for x in "ab"))

    model = ScriptedModel(*[answer] * 500)
    async with bench(tmp_path, model, tools=[program(look, "look")]) as b:
        store, reasons = b.store, []
        for at in range(1, 15):
            await b.receive(f"go {at}")
            b.store = InterruptedWrites(store, at)
            worker = b.store.worker = await b.worker()
            end = await worker.run()
            assert end is not None
            if b.store.asking is not None:
                await b.store.asking
            reasons.append(end.reason)
            b.store = store
            ended = [event.effect for event in await b.events(ev.CallFinished)]
            assert len(ended) == len(set(ended)), "a call ended twice"
            folded = ConversationState(b.session.id, worker.conversation.prompt)
            folded.apply_all(await store.events(b.session.id))
            assert folded.messages == worker.conversation.messages
            assert not folded.calls
    assert reasons[-1] == "done"
    assert reasons.count("interrupted") >= 8


async def test_a_bug_in_hermes_ends_the_turn_and_is_called_one(tmp_path: Path) -> None:
    class Broken:
        async def judge(self, effect, resolve, granted):
            raise RuntimeError("the gate fell off")

    model = ScriptedModel(calls(ToolCall.of("1", "look", what="x")), Reply("better"))
    async with bench(tmp_path, model, tools=[program(look, "look")]) as b:
        b.gate, good = Broken(), b.gate
        end = await b.say("go")
        b.gate = good
        result = (await b.events(ev.CallFinished))[0]
        after = await b.say("again")
    assert end.reason == "failed"
    assert "the gate fell off" in end.error
    assert "hermes logs" in end.hint
    assert "not run" in result.text
    assert after.text == "better"


async def test_whatever_a_tool_does_becomes_a_result(tmp_path: Path) -> None:
    def leave() -> str:
        raise SystemExit(3)

    async def give_up() -> str:
        raise asyncio.CancelledError

    def odd() -> object:
        return {"when": object, "set": {1}}

    def broken_text() -> ToolResult:
        return ToolResult("caf\udce9", {"name": "caf\udce9", "n": float("nan"), "o": object()})

    made = [program(f, f.__name__) for f in (leave, give_up, odd, broken_text)]
    model = ScriptedModel(
        calls(*(ToolCall.of(str(n), tool.name) for n, tool in enumerate(made))), Reply("ok")
    )
    async with bench(tmp_path, model, tools=made) as b:
        end = await b.say("go")
        results = {event.tool: event for event in await b.events(ev.CallFinished)}
    assert end.reason == "done"
    assert "SystemExit" in results["leave"].text
    assert "it was cancelled" in results["give_up"].text
    assert results["broken_text"].text == "caf?"


async def test_a_large_result_that_cannot_be_kept_is_said_and_does_not_end_the_turn(
    tmp_path: Path,
) -> None:
    (tmp_path / "results").write_text("in the way")

    def much() -> str:
        return "x" * 50_000

    model = ScriptedModel(calls(ToolCall.of("1", "much")), Reply("ok"))
    settings = Settings(loop=LoopSettings(result_chars=1000))
    async with bench(tmp_path, model, tools=[program(much, "much")], settings=settings) as b:
        end = await b.say("go")
        result = (await b.events(ev.CallFinished))[0]
    assert end.reason == "done"
    assert "could not be saved" in result.text


async def test_two_answers_at_once_count_as_one(tmp_path: Path) -> None:
    model = ScriptedModel(calls(ToolCall.of("1", "terminal", command="touch made")), Reply("ok"))
    async with bench(tmp_path, model, policy="careful") as b:
        await b.receive("go", interactive=True)
        worker = await b.worker()
        running = asyncio.create_task(worker.run())
        while not worker.conversation.questions:
            await asyncio.sleep(0.005)
        (question,) = worker.conversation.questions
        told = await asyncio.gather(
            worker.human_input.answer(question, "no", "alice"),
            worker.human_input.answer(question, "yes", "bob"),
            return_exceptions=True,
        )
        await running
        answers = await b.events(ev.QuestionAnswered)
    assert [type(one).__name__ for one in told] == ["NoneType", "NotFound"]
    assert [answer.answer for answer in answers] == ["no"]
    assert not (tmp_path / "work" / "made").exists()


async def test_the_time_of_a_second_question_begins_when_it_is_put(tmp_path: Path) -> None:
    from hermes_agent.core.settings.root import ApprovalSettings

    def pay(amount: int) -> str:
        return "paid"

    wanted = (ToolCall.of("1", "pay", amount=1), ToolCall.of("2", "pay", amount=2))
    settings = Settings(approvals=ApprovalSettings(timeout_seconds=600.0))
    tools = [program(pay, "pay")]
    model = ScriptedModel(calls(*wanted), Reply("ok"))
    clock = MovedTime()
    async with bench(tmp_path, model, tools=tools, settings=settings, clock=clock) as b:
        b.gate = Says(Verdict("ask", "it costs money"))
        worker = await b.worker_for("go", interactive=True)
        running = asyncio.create_task(worker.run())
        for number in (1, 2):
            while len(await b.events(ev.QuestionAsked)) < number:
                await asyncio.sleep(0.005)
            clock.now += 600.0
            await pass_time(600.0)
        await running
        recorded = await b.store.events(b.session.id)
    asked = [
        (one.event.expires - one.time)
        for one in recorded
        if isinstance(one.event, ev.QuestionAsked)
    ]
    assert asked == [600.0, 600.0]


async def test_secrets_stay_out_of_data_and_questions_too(tmp_path: Path) -> None:
    secret = "hunter2-very-secret-value"
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "app.conf").write_text(f"password = {secret}\nlevel = 1\n")
    patch = ToolCall.of("1", "patch", path="app.conf", old="level = 1", new="level = 2")
    async with bench(tmp_path, ScriptedModel(calls(patch), Reply("ok"))) as b:
        b.redact = Redactor({"DB_PASSWORD": secret})
        await b.say("go")
        whole = str(await b.events(ev.CallFinished))
    assert "level = 2" in whole
    assert secret not in whole
