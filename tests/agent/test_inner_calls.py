"""Calls that a program makes: judged, written down, taken up and given up like those of a model."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_agent.agent.tools.executor import NESTED
from hermes_agent.core import events as ev
from hermes_agent.core.errors import ToolError
from hermes_agent.core.messages import Reply, ToolCall
from hermes_agent.core.settings.root import LoopSettings, Settings
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import RecoveryResult, Tool, ToolContext, tool
from hermes_agent.models.scripted import ScriptedModel
from hermes_agent.runtime.tools.builtin import load_tools
from tests.support.awake_loop import stand_still
from tests.support.patience import PATIENCE
from tests.support.turns import Bench, bench

Step = tuple[str, dict[str, Any]]
Plan = Sequence[Sequence[Step]]
"""Rounds of calls: those of a round are made at once."""


async def _again(_context: ToolContext, _note: dict[str, Any], **_given: Any) -> RecoveryResult:
    return "again"


@tool(recover=_again)
async def program(context: ToolContext, plan: list[list[Step]]) -> ToolResult:
    """Make calls."""
    return await follow(context, plan)


async def follow(context: ToolContext, plan: Plan) -> ToolResult:
    assert context.call is not None
    said: list[ToolResult] = []
    for steps in plan:
        said += await asyncio.gather(*(context.call(name, given) for name, given in steps))
    return ToolResult("\n".join(one.text for one in said), {"ok": [one.ok for one in said]})


def acting(ran: list[str], **options: Any) -> Tool:
    async def act(line: str) -> str:
        ran.append(line)
        return f"did {line}"

    return Tool("act", act, "Act", **options)


def asks_for(plan: Plan) -> ToolCall:
    return ToolCall.of("1", "program", plan=[[list(step) for step in steps] for steps in plan])


def scripted(plan: Plan) -> ScriptedModel:
    return ScriptedModel(Reply("", (asks_for(plan),), stop="calls"), Reply("done"))


def act(line: str) -> Step:
    return "act", {"line": line}


def outer(b: Bench, finished: Sequence[Any]) -> ev.CallFinished:
    """The result of the program itself."""
    (found,) = [one for one in finished if one.tool == "program" and "." not in one.effect]
    assert isinstance(found, ev.CallFinished)
    assert found.effect.startswith(b.session.id)
    return found


async def until(met: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not met():
            await asyncio.sleep(0.002)


# the way of a call


async def test_a_call_of_a_program_is_judged_and_written_down_like_any_other(
    tmp_path: Path,
) -> None:
    ran: list[str] = []
    plan = [[act("a")], [act("b")]]
    async with bench(tmp_path, scripted(plan), tools=[program, acting(ran)]) as b:
        await b.say("go")
        events = await b.events()
    effects = [one.effect for one in events if isinstance(one, ev.CallMade)]
    for effect in effects:
        way = [ev.kind_of(one) for one in events if getattr(one, "effect", "") == effect]
        assert way == ["call_made", "call_judged", "call_intended", "call_finished"]
    done = outer(b, [one for one in events if isinstance(one, ev.CallFinished)])
    assert ran == ["a", "b"]
    assert done.text == "did a\ndid b"
    assert effects == [f"{done.effect}.1", f"{done.effect}.2"]
    assert {one.by for one in events if isinstance(one, ev.CallMade)} == {done.effect}


async def test_only_what_the_program_says_reaches_the_model(tmp_path: Path) -> None:
    ran: list[str] = []
    async with bench(tmp_path, scripted([[act("a")]]), tools=[program, acting(ran)]) as b:
        worker = await b.worker_for("go")
        await worker.run()
    results = [one for one in worker.conversation.messages if one.text == "did a"]
    assert len(results) == 1
    assert worker.conversation.inner == []


async def test_fifty_calls_at_once_have_ids_of_their_own(tmp_path: Path) -> None:
    ran: list[str] = []
    plan = [[act(str(number)) for number in range(50)]]
    async with bench(tmp_path, scripted(plan), tools=[program, acting(ran)]) as b:
        await b.say("go")
        made = await b.events(ev.CallMade)
        finished = await b.events(ev.CallFinished)
    assert len({one.effect for one in made}) == len({one.call.id for one in made}) == 50
    assert len({one.effect for one in finished}) == len(finished) == 51
    assert sorted(ran, key=int) == [str(number) for number in range(50)]
    assert outer(b, finished).text == "\n".join(f"did {number}" for number in range(50))


async def test_as_many_calls_run_at_once_as_the_settings_say(tmp_path: Path) -> None:
    now, most = 0, 0
    both = asyncio.Event()

    async def act(line: str) -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 2:
            both.set()
        async with asyncio.timeout(PATIENCE):
            await both.wait()
        now -= 1
        return line

    plan = [[("act", {"line": str(number)}) for number in range(6)]]
    settings = Settings(loop=LoopSettings(parallel_calls=2))
    tools = [program, Tool("act", act, "Act")]
    async with bench(tmp_path, scripted(plan), tools=tools, settings=settings) as b:
        end = await b.say("go")
    assert end.reason == "done"
    assert most == 2


async def test_programs_that_programs_run_do_not_wait_for_each_other_for_ever(
    tmp_path: Path,
) -> None:
    """Each of them holds a place while it waits for calls of its own."""
    ran: list[str] = []
    inside = [[list(act("x")), list(act("y"))]]
    plan = [[("program", {"plan": inside}) for _ in range(5)]]
    settings = Settings(loop=LoopSettings(parallel_calls=2))
    tools = [program, acting(ran)]
    async with bench(tmp_path, scripted(plan), tools=tools, settings=settings) as b:
        async with asyncio.timeout(PATIENCE):
            end = await b.say("go")
        made = await b.events(ev.CallMade)
    assert end.reason == "done"
    assert len(ran) == 10
    assert len({one.effect for one in made}) == 15


async def test_a_call_that_is_refused_is_told_to_the_program_which_goes_on(
    tmp_path: Path,
) -> None:
    ran: list[str] = []
    plan = [[("terminal", {"command": "rm -rf /"})], [act("a")]]
    tools = [program, acting(ran), *load_tools(["terminal"])]
    async with bench(tmp_path, scripted(plan), tools=tools) as b:
        await b.say("go")
        (denied,) = [one for one in await b.events(ev.CallJudged) if one.action == "deny"]
        done = outer(b, await b.events(ev.CallFinished))
        intended = {one.effect for one in await b.events(ev.CallIntended)}
    assert done.data["ok"] == [False, True]
    assert "refused by policy" in done.text
    assert denied.effect not in intended
    assert ran == ["a"]


@pytest.mark.parametrize(("answer", "made"), [("yes", True), ("no", False)])
async def test_people_are_asked_about_a_call_of_a_program(
    tmp_path: Path, answer: str, made: bool
) -> None:
    plan = [[("write_file", {"path": "a.txt", "content": "x"})]]
    rule = "version: 1\nrules:\n  - {id: programs, match: {tool: program}, then: allow}\n"
    tools = [program, *load_tools(["write_file"])]
    (tmp_path / "home" / "policies").mkdir(parents=True)
    (tmp_path / "home" / "policies" / "mine.yaml").write_text(rule)
    async with bench(tmp_path, scripted(plan), tools=tools, policy="careful") as b:
        worker = await b.worker_for("go", interactive=True)
        running = asyncio.create_task(worker.run())
        await until(lambda: worker.conversation.questions)
        (question,) = await b.store.questions()
        assert "a.txt" in question.text
        assert question.effect.endswith(".1")
        await worker.human_input.answer(question.id, answer, "test")
        await running
        done = outer(b, await b.events(ev.CallFinished))
    assert done.data["ok"] == [made]
    assert (tmp_path / "work" / "a.txt").exists() == made


async def test_a_call_of_no_tool_and_one_with_bad_arguments_are_told(tmp_path: Path) -> None:
    ran: list[str] = []
    plan = [[("axt", {}), ("act", {"lime": "x"})]]
    async with bench(tmp_path, scripted(plan), tools=[program, acting(ran)]) as b:
        await b.say("go")
        done = outer(b, await b.events(ev.CallFinished))
    assert done.data["ok"] == [False, False]
    assert "no tool called 'axt'" in done.text
    assert "bad arguments for act" in done.text
    assert ran == []


async def test_a_program_gets_results_whole_that_the_journal_keeps_in_part(tmp_path: Path) -> None:
    whole = "\n".join(f"line {number}" for number in range(1_000))
    seen: list[str] = []

    async def report() -> str:
        return whole

    @tool()
    async def counting(context: ToolContext) -> str:
        """Count."""
        assert context.call is not None
        result = await context.call("report", {})
        seen.append(result.text)
        return f"{len(result.text.splitlines())} lines"

    model = ScriptedModel(Reply("", (ToolCall.of("1", "counting"),), stop="calls"), Reply("done"))
    settings = Settings(loop=LoopSettings(result_chars=200))
    tools = [counting, Tool("report", report, "Report", repeatable=True)]
    async with bench(tmp_path, model, tools=tools, settings=settings) as b:
        await b.say("go")
        inner, done = await b.events(ev.CallFinished)
    assert seen == [whole]
    assert done.text == "1000 lines"
    assert "characters left out" in inner.text
    assert len(inner.text) < 500


async def test_a_program_may_look_for_something_until_it_is_there(tmp_path: Path) -> None:
    """Only a model that makes the same call in vain again and again is stopped."""
    looked = 0

    async def look() -> str:
        nonlocal looked
        looked += 1
        if looked < 9:
            raise ToolError("it is not there", retry="changed")
        return "there it is"

    plan = [[("look", {})] for _ in range(9)]
    tools = [program, Tool("look", look, "Look")]
    async with bench(tmp_path, scripted(plan), tools=tools) as b:
        end = await b.say("go")
        done = outer(b, await b.events(ev.CallFinished))
    assert end.reason == "done"
    assert done.data["ok"] == [False] * 8 + [True]


async def test_commands_of_a_program_run_beside_each_other_and_leave_the_shell_alone(
    tmp_path: Path,
) -> None:
    """Each of them waits until the other has begun."""

    def meet(mine: str, other: str) -> Step:
        line = f"touch {mine}; until [ -e {other} ]; do sleep 0.02; done; cd /; echo {mine} met"
        return "terminal", {"command": line}

    plan = [[meet("a", "b"), meet("b", "a")]]
    where = Reply("", (ToolCall.of("2", "terminal", command="pwd"),), stop="calls")
    model = ScriptedModel(Reply("", (asks_for(plan),), stop="calls"), where, Reply("done"))
    async with bench(tmp_path, model, tools=[program, *load_tools(["terminal"])]) as b:
        await b.say("go")
        finished = await b.events(ev.CallFinished)
    assert outer(b, finished).text == "a met\nb met"
    assert finished[-1].text == str((tmp_path / "work").resolve())


async def test_a_program_that_breaks_ends_what_it_had_begun(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def wait() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    async def break_off() -> str:
        await begun.wait()
        return "off"

    @tool()
    async def breaking(context: ToolContext) -> str:
        """Break."""
        assert context.call is not None
        waiting = asyncio.ensure_future(context.call("wait", {}))
        await context.call("break_off", {})
        waiting.cancel()
        await asyncio.wait([waiting])
        raise ValueError("broken")

    model = ScriptedModel(Reply("", (ToolCall.of("1", "breaking"),), stop="calls"), Reply("done"))
    tools = [
        breaking,
        Tool("wait", wait, "Wait", repeatable=True),
        Tool("break_off", break_off, "Break off"),
    ]
    async with bench(tmp_path, model, tools=tools) as b:
        end = await b.say("go")
        finished = {one.tool: one for one in await b.events(ev.CallFinished)}
        made = await b.events(ev.CallMade)
    assert end.reason == "done"
    assert len(made) == 2
    assert "the program that made the call ended" in finished["wait"].text
    assert "ValueError: broken" in finished["breaking"].text


@pytest.mark.parametrize("name", ["execute_code", "delegate", "make_tool"])
async def test_what_starts_work_of_its_own_cannot_be_called_by_a_program(
    tmp_path: Path, name: str
) -> None:
    """Nor by the tool that stands for others."""
    given = {
        "execute_code": {"code": "print(1)"},
        "delegate": {"tasks": [{"task": "x"}]},
        "make_tool": {"name": "x", "code": "x"},
    }[name]
    plan = [[(name, given)], [("use_tool", {"name": name, "arguments": given})]]
    tools = [program, *load_tools([name, "use_tool"])]
    async with bench(tmp_path, scripted(plan), tools=tools) as b:
        await b.say("go")
        done = outer(b, await b.events(ev.CallFinished))
        intended = await b.events(ev.CallIntended)
    assert done.data["ok"] == [False, False]
    assert done.text.count(f"a program cannot call {name}") == 2
    assert [one.tool for one in intended] == ["program"]


async def test_programs_that_call_themselves_without_end_are_stopped(tmp_path: Path) -> None:
    depth = 0

    @tool()
    async def deeper(context: ToolContext) -> str:
        """Go deeper."""
        nonlocal depth
        depth += 1
        assert context.call is not None
        return (await context.call("deeper", {})).text

    model = ScriptedModel(Reply("", (ToolCall.of("1", "deeper"),), stop="calls"), Reply("done"))
    async with bench(tmp_path, model, tools=[deeper]) as b:
        end = await b.say("go")
        finished = await b.events(ev.CallFinished)
    assert end.reason == "done"
    assert depth == NESTED + 1
    assert len(finished) == NESTED + 2
    assert f"more than {NESTED} deep" in finished[-1].text


# interrupts


async def test_an_interrupt_ends_a_program_and_all_that_it_has_begun(tmp_path: Path) -> None:
    begun: list[str] = []

    async def act(line: str) -> str:
        begun.append(line)
        await asyncio.Event().wait()
        return line

    inside = [[["act", {"line": "deep"}]]]
    plan = [[("act", {"line": "a"}), ("act", {"line": "b"}), ("program", {"plan": inside})]]
    tools = [program, Tool("act", act, "Act")]
    async with bench(tmp_path, scripted(plan), tools=tools) as b:
        worker = await b.worker_for("go")
        running = asyncio.create_task(worker.run())
        await until(lambda: len(begun) == 3)
        await worker.interrupt("test")
        async with asyncio.timeout(PATIENCE):
            end = await running
        made = {one.effect for one in await b.events(ev.CallMade)}
        finished = await b.events(ev.CallFinished)
        parked = await b.store.parked()
    assert end is not None
    assert end.reason == "interrupted"
    assert {one.effect for one in finished} == made | {outer(b, finished).effect}
    assert len(finished) == 5
    assert all(one.text.startswith("the user interrupted while it ran") for one in finished)
    assert parked == []


# after a death


class Died:
    """The journal of a turn whose runtime died while a program ran."""

    def __init__(self, b: Bench, plan: Plan) -> None:
        self.b = b
        self._plan = plan

    async def write(self, *calls: tuple[Step, str]) -> str:
        """Write it, each call of the program up to a stage; the program's effect."""
        b = self.b
        await b.receive("go")
        turn = await b.store.start_turn(b.session.id)
        assert turn is not None
        call = asks_for(self._plan)
        (replied,) = await b.store.append(turn, ev.Replied(1, "", (call,), stop="calls"))
        effect = f"{b.session.id}-{replied.number}-0"
        await b.store.append(
            turn,
            ev.CallJudged(effect, "program", "allow", "because"),
            ev.CallIntended(effect, "1", "program"),
        )
        for at, ((name, given), stage) in enumerate(calls, 1):
            inner = f"{effect}.{at}"
            events: list[ev.Event] = [
                ev.CallMade(
                    inner, effect, ToolCall(inner, name, msgspec.json.encode(given).decode())
                ),
                ev.CallJudged(inner, name, "allow", "because"),
                ev.CallIntended(inner, inner, name),
                ev.CallFinished(inner, inner, name, f"it gave {given['line']}"),
            ]
            await b.store.append(turn, *events[: STAGES[stage]])
        return effect


STAGES = {"made": 1, "judged": 2, "under way": 3, "ended": 4}


async def resume(b: Bench) -> asyncio.Task[ev.TurnFinished | None]:
    (turn,) = await b.store.claim_unfinished()
    worker = await b.worker(turn)
    return asyncio.create_task(worker.run())


async def test_calls_that_had_ended_are_not_run_again_and_give_what_they_gave(
    tmp_path: Path,
) -> None:
    ran: list[str] = []
    plan = [[act("a"), act("b"), act("c"), act("d")]]
    async with bench(tmp_path, scripted(plan), tools=[program, acting(ran)]) as b:
        await Died(b, plan).write(
            (act("a"), "ended"), (act("b"), "judged"), (act("c"), "ended"), (act("d"), "made")
        )
        await (await resume(b))
        done = outer(b, await b.events(ev.CallFinished))
        made = await b.events(ev.CallMade)
    assert ran == ["b", "d"]
    assert done.text == "it gave a\ndid b\nit gave c\ndid d"
    assert len(made) == 4


async def test_the_very_same_call_made_twice_is_taken_up_once_for_each(tmp_path: Path) -> None:
    ran: list[str] = []
    plan = [[act("a")], [act("a")], [act("a")]]
    async with bench(tmp_path, scripted(plan), tools=[program, acting(ran)]) as b:
        await Died(b, plan).write((act("a"), "ended"), (act("a"), "judged"))
        await (await resume(b))
        done = outer(b, await b.events(ev.CallFinished))
        made = await b.events(ev.CallMade)
    assert ran == ["a", "a"]
    assert done.text == "it gave a\ndid a\ndid a"
    assert len({one.effect for one in made}) == 3


async def test_a_whole_result_is_given_again_after_a_death(tmp_path: Path) -> None:
    plan = [[act("a")]]
    async with bench(tmp_path, scripted(plan), tools=[program, acting([])]) as b:
        effect = await Died(b, plan).write((act("a"), "ended"))
        (tmp_path / "results").mkdir()
        (tmp_path / "results" / f"{effect}.1.txt").write_text("the whole of it")
        await (await resume(b))
        done = outer(b, await b.events(ev.CallFinished))
    assert done.text == "the whole of it"


@pytest.mark.parametrize("how", ["repeatable", "not run", "found"])
async def test_a_call_under_way_of_which_something_is_known_is_taken_up(
    tmp_path: Path, how: str
) -> None:
    ran: list[str] = []

    async def look(_context: ToolContext, _note: dict[str, Any], line: str) -> RecoveryResult:
        return ToolResult(f"{line} was done before") if how == "found" else "not-run"

    options = {"repeatable": True} if how == "repeatable" else {"recover": look}
    plan = [[act("a")]]
    async with bench(tmp_path, scripted(plan), tools=[program, acting(ran, **options)]) as b:
        await Died(b, plan).write((act("a"), "under way"))
        await (await resume(b))
        done = outer(b, await b.events(ev.CallFinished))
        parked = await b.events(ev.CallParked)
    assert ran == ([] if how == "found" else ["a"])
    assert done.text == ("a was done before" if how == "found" else "did a")
    assert parked == []


@pytest.mark.parametrize(
    ("decision", "runs", "told"),
    [
        ("retry", ["a"], "did a"),
        ("skip", [], "chose to skip"),
        ("it-happened", [], "that it happened"),
    ],
)
async def test_a_call_of_a_program_that_nobody_knows_of_is_parked_and_decided(
    tmp_path: Path, decision: str, runs: list[str], told: str
) -> None:
    ran: list[str] = []
    plan = [[act("a")], [act("b")]]
    async with bench(tmp_path, scripted(plan), tools=[program, acting(ran)]) as b:
        effect = await Died(b, plan).write((act("a"), "under way"))
        running = await resume(b)
        (parked,) = await b.parked()
        assert (parked.effect, parked.tool, ran) == (f"{effect}.1", "act", [])
        assert msgspec.json.decode(parked.input) == {"line": "a"}
        assert b.latest is not None
        await b.latest.human_input.decide(parked.effect, decision, "test")
        end = await running
        done = outer(b, await b.events(ev.CallFinished))
        assert await b.store.parked() == []
    assert end is not None
    assert end.reason == "done"
    assert ran == [*runs, "b"]
    assert told in done.text
    assert done.text.endswith("did b")


async def test_a_program_that_takes_another_way_does_nothing_more(tmp_path: Path) -> None:
    """Whatever it would do now, in other words, it may have done before."""
    ran: list[str] = []

    async def look(line: str) -> str:
        ran.append(line)
        return line

    plan = [[act("b")]]
    tools = [program, acting(ran), Tool("look", look, "Look", repeatable=True)]
    async with bench(tmp_path, scripted(plan), tools=tools) as b:
        effect = await Died(b, plan).write(
            (act("a"), "ended"), (act("c"), "judged"), (("look", {"line": "d"}), "under way")
        )
        end = await (await resume(b))
        finished = {one.effect: one for one in await b.events(ev.CallFinished)}
        parked = await b.events(ev.CallParked)
    assert end is not None
    assert end.reason == "done"
    assert ran == []
    for number in (2, 3):
        given_up = finished[f"{effect}.{number}"]
        assert not given_up.ok
        assert given_up.text == "not run: the program that made the call ended"
    assert not finished[effect].ok
    assert finished[effect].text.startswith("[the runtime died while this program ran")
    assert f"{effect}.4" not in finished
    assert parked == []


async def test_a_program_is_not_astray_because_all_of_us_stood_still(tmp_path: Path) -> None:
    ran: list[str] = []

    async def threads(context: ToolContext, plan: list[list[Step]]) -> ToolResult:
        assert context.call is not None
        second = asyncio.ensure_future(context.call("act", plan[0][1][1]))
        await asyncio.sleep(0)
        stand_still(60.0)
        for _ in range(5):
            await asyncio.sleep(0)
        first = await context.call("act", plan[0][0][1])
        return ToolResult(f"{first.text}\n{(await second).text}")

    plan = [[act("a"), act("b")]]
    twin = Tool("program", threads, "Two at once", recover=_again, origin="builtin")
    async with bench(tmp_path, scripted(plan), tools=[twin, acting(ran)]) as b:
        await Died(b, plan).write((act("a"), "ended"))
        await (await resume(b))
        done = outer(b, await b.events(ev.CallFinished))
    assert done.text == "it gave a\ndid b"
    assert ran == ["b"]


async def test_a_program_that_takes_another_way_may_still_look(tmp_path: Path) -> None:
    ran: list[str] = []

    async def look(line: str) -> str:
        ran.append(line)
        return f"saw {line}"

    plan = [[("look", {"line": "new"})], [act("a")], [act("b")]]
    tools = [program, acting(ran), Tool("look", look, "Look", repeatable=True)]
    async with bench(tmp_path, scripted(plan), tools=tools) as b:
        effect = await Died(b, plan).write((act("a"), "ended"))
        await (await resume(b))
        finished = {one.effect: one for one in await b.events(ev.CallFinished)}
    assert ran == ["new", "b"]
    assert finished[effect].ok


@pytest.mark.parametrize(
    "lines", [["x" * 1_100_000], pytest.param(["x" * 900_000] * 20, marks=pytest.mark.slow)]
)
async def test_arguments_of_a_program_are_bounded(tmp_path: Path, lines: list[str]) -> None:
    ran: list[str] = []
    plan = [[act(line)] for line in lines]
    async with bench(tmp_path, scripted(plan), tools=[program, acting(ran)]) as b:
        await b.say("go")
        (done,) = [one for one in await b.events(ev.CallFinished) if "." not in one.effect]
    assert len(ran) < len(lines)
    assert "the arguments are too large" in done.text


async def test_what_nobody_knows_of_is_decided_before_a_program_ends_another_way(
    tmp_path: Path,
) -> None:
    ran: list[str] = []
    plan = [[act("b")]]
    async with bench(tmp_path, scripted(plan), tools=[program, acting(ran)]) as b:
        effect = await Died(b, plan).write((act("a"), "under way"))
        running = await resume(b)
        await b.parked()
        assert b.latest is not None
        await b.latest.human_input.decide(f"{effect}.1", "it-happened", "test")
        end = await running
        finished = {one.effect: one for one in await b.events(ev.CallFinished)}
    assert end is not None
    assert end.reason == "done"
    assert ran == []
    assert "that it happened" in finished[f"{effect}.1"].text


async def test_a_program_that_is_not_run_again_still_ends_its_calls(tmp_path: Path) -> None:
    """Nobody knows whether it took effect, and the user skips it."""
    ran: list[str] = []

    async def once(context: ToolContext, plan: list[list[Step]]) -> ToolResult:
        return await follow(context, plan)

    plan = [[act("a")]]
    tools = [Tool("program", once, "Once", origin="builtin"), acting(ran, repeatable=True)]
    async with bench(tmp_path, scripted(plan), tools=tools) as b:
        effect = await Died(b, plan).write((act("a"), "under way"))
        running = await resume(b)
        await b.parked()
        assert b.latest is not None
        await b.latest.human_input.decide(effect, "skip", "test")
        end = await running
        finished = {one.effect: one for one in await b.events(ev.CallFinished)}
    assert end is not None
    assert end.reason == "done"
    assert set(finished) == {effect, f"{effect}.1"}
    assert ran == []


@pytest.mark.parametrize("dies_in", range(0, 12, 3))
async def test_a_program_whose_runtime_dies_makes_each_call_once(
    tmp_path: Path, dies_in: int
) -> None:
    """The worker is dropped while a call runs, as often as there are rounds left."""
    ran: list[str] = []
    dying = asyncio.Event()

    async def act(line: str) -> str:
        ran.append(line)
        if line == str(dies_in) and not dying.is_set():
            dying.set()
            await asyncio.Event().wait()
        return f"did {line}"

    async def look(_context: ToolContext, _note: dict[str, Any], line: str) -> RecoveryResult:
        return ToolResult(f"did {line}") if line in ran else "not-run"

    plan = [[("act", {"line": str(4 * at + place)}) for place in range(4)] for at in range(3)]
    tools = [program, Tool("act", act, "Act", recover=look)]
    async with bench(tmp_path, scripted(plan), tools=tools) as b:
        worker = await b.worker_for("go")
        first = asyncio.create_task(worker.run())
        await dying.wait()
        first.cancel()
        await asyncio.wait([first])
        end = await (await resume(b))
        made = await b.events(ev.CallMade)
        finished = await b.events(ev.CallFinished)
    assert end is not None
    assert end.text == "done"
    assert sorted(ran, key=int) == [str(number) for number in range(12)]
    assert outer(b, finished).text.splitlines() == [f"did {number}" for number in range(12)]
    assert len(made) == 12
    assert len({one.effect for one in finished}) == len(finished) == 13


# what is known of them afterwards


async def test_judgements_show_the_arguments_of_the_calls_of_programs(tmp_path: Path) -> None:
    inside = [[list(act("deep"))]]
    plan = [[act("a"), ("terminal", {"command": "rm -rf /"}), ("program", {"plan": inside})]]
    tools = [program, acting([]), *load_tools(["terminal"])]
    async with bench(tmp_path, scripted(plan), tools=tools) as b:
        await b.say("go")
        found = await b.store.judgements()
    known = {
        (one.judged.tool, one.judged.action, one.input) for one in found if one.judged.tool != "act"
    }
    acts = sorted(one.input for one in found if one.judged.tool == "act")
    assert acts == ['{"line":"a"}', '{"line":"deep"}']
    assert ("terminal", "deny", '{"command":"rm -rf /"}') in known
    assert len(found) == 5
