"""Runbooks as real turns: a message opens a skill with one, and its commands run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.effects import Effect, Gate, Resolve, Verdict
from hermes_agent.core.messages import Reply, Request, ToolCall, ToolMessage, Usage
from hermes_agent.core.protocols import Model
from hermes_agent.core.records import SessionMessage
from hermes_agent.core.skills import ActivatedSkill, SkillLimits
from hermes_agent.learning.skills.runbook import load
from hermes_agent.models.runbook import OPENING
from hermes_agent.models.scripted import ScriptedModel
from tests.support.turns import Bench, bench

BOOK = """
when: [{run: test -e failed}]
steps:
  - {name: clear the mark, run: rm failed, verify: {run: test ! -e failed}}
  - {name: start it, run: "cp {{file}} state"}
verify: [{run: cat state, expect: {output: ^up$}}]
"""
ASLEEP = ScriptedModel()
"""A model that has nothing to say."""


@asynccontextmanager
async def desk(folder: Path, model: Model) -> AsyncIterator[Bench]:
    work = folder / "work"
    work.mkdir()
    (work / "failed").touch()
    (work / "new state").write_text("up\n")
    async with bench(folder, model) as opened:
        yield opened


async def run(
    b: Bench, file: str = "new state", bounds: SkillLimits | None = None
) -> ev.TurnFinished:
    await begin(b, file, bounds)
    end = await (await b.worker()).run()
    assert end is not None
    return end


async def begin(b: Bench, file: str = "new state", bounds: SkillLimits | None = None) -> None:
    b.sent += 1
    opened = ActivatedSkill("web", "digest", bounds, file, load(BOOK, {"file": file}))
    text = f"{OPENING}\n\nStart the server."
    await b.store.receive(
        b.session.id, SessionMessage(f"r{b.sent}", text, "test", skills=(opened,))
    )


def state(folder: Path) -> str:
    return (folder / "work" / "state").read_text()


async def test_a_runbook_runs_without_a_token_and_finds_nothing_to_do_the_second_time(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path, ASLEEP) as b:
        end = await run(b)
        assert end.text.splitlines() == [
            "done: web",
            "1. clear the mark: exit 0",
            "2. start it: exit 0",
            "verified: `cat state`: exit 0, up",
        ]
        assert (end.reason, end.steps, end.usage, end.cost) == ("done", 7, Usage(), 0.0)
        assert state(tmp_path) == "up\n"
        judged = await b.events(ev.CallJudged)
        assert len(judged) == 6
        again = await run(b)
        assert again.text == "nothing to do: all is as it should be\n`cat state`: exit 0, up"


async def test_a_step_that_fails_wakes_the_model_which_sees_it_all_and_goes_on(
    tmp_path: Path,
) -> None:
    requests: list[Request] = []

    def mend(request: Request) -> Reply:
        requests.append(request)
        call = ToolCall.of("m1", "terminal", command="cp 'new state' state")
        return Reply("the file has another name", (call,), stop="calls")

    model = ScriptedModel(*[mend] * 6, Reply("it is up now"))
    async with desk(tmp_path, model) as b:
        end = await run(b, "missing")
        assert (end.text, end.steps) == ("it is up now", 7)
        assert state(tmp_path) == "up\n"
        (request,) = requests
        replied = [one for one in await b.events(ev.Replied) if isinstance(one, ev.Replied)]
    opening, *others = request.messages
    assert opening.text.startswith("This runbook is being worked through automatically.")
    results = [one for one in others if isinstance(one, ToolMessage)]
    assert [one.ok for one in results] == [False, True, True, True, False]
    assert "missing" in results[-1].text
    assert others[-2].text == "step 2 of 2: start it\nexpected: exit 0"
    assert [one.model for one in replied] == ["runbook/web"] * 5 + ["scripted/test"] * 2


async def test_what_a_skill_does_not_allow_is_refused_to_its_runbook_too(tmp_path: Path) -> None:
    model = ScriptedModel(*[Reply("I may not do this")] * 9)
    allowed = SkillLimits("web", tools=("terminal(cat state)", "terminal(test:*)"))
    async with desk(tmp_path, model) as b:
        end = await run(b, bounds=allowed)
        *_, refused = await b.events(ev.CallJudged)
    assert isinstance(refused, ev.CallJudged)
    assert (refused.action, refused.rule) == ("deny", "skill/web")
    assert refused.facts.bounds == (allowed,)
    assert end.text == "I may not do this"
    assert (tmp_path / "work" / "failed").exists()


class Stays:
    """A gate that keeps the call with this number for ever."""

    def __init__(self, gate: Gate, number: int) -> None:
        self._gate = gate
        self._left = number
        self.reached = asyncio.Event()

    def outside(self) -> frozenset[str]:
        return self._gate.outside()

    async def judge(
        self, effect: Effect, resolve: Resolve, granted: frozenset[str] = frozenset()
    ) -> Verdict:
        if not self._left:
            self.reached.set()
            await asyncio.Event().wait()
        self._left -= 1
        return await self._gate.judge(effect, resolve, granted)


@pytest.mark.parametrize("number", range(6))
async def test_a_runbook_goes_on_where_a_runtime_left_it(tmp_path: Path, number: int) -> None:
    async with desk(tmp_path, ASLEEP) as b:
        gate, b.gate = b.gate, Stays(b.gate, number)
        await begin(b)
        first = asyncio.create_task((await b.worker()).run())
        await b.gate.reached.wait()
        first.cancel()
        await asyncio.wait({first})
        b.gate = gate
        (turn,) = await b.store.claim_unfinished()
        end = await (await b.worker(turn)).run()
        intended = await b.events(ev.CallIntended)
    assert end is not None
    assert end.text.startswith("done: web")
    assert len(intended) == 6
    assert end.steps == 7
