"""Bounds in real turns: from the message that opens a skill to the end of the turn."""

from pathlib import Path
from typing import Any

from hermes_agent.cli.decide.policy import effect_of as past_effect
from hermes_agent.core import events as ev
from hermes_agent.core.effects import Verdict
from hermes_agent.core.messages import Reply, ToolCall
from hermes_agent.core.records import Judgement, SessionMessage
from hermes_agent.core.skills import ActivatedSkill, SkillLimits
from hermes_agent.core.tools import Tool, ToolContext
from hermes_agent.models.scripted import ScriptedModel
from hermes_agent.policy.files.loader import Policies
from tests.support.gates import Says
from tests.support.turns import Bench, bench


def calling(tool: str, **arguments: Any) -> ScriptedModel:
    """A model that makes this call once in each turn."""
    first = Reply("", (ToolCall.of("1", tool, **arguments),), stop="calls")
    again = Reply("", (ToolCall.of("2", tool, **arguments),), stop="calls")
    return ScriptedModel(first, Reply("ok"), again, Reply("ok"))


async def say(b: Bench, *bounds: SkillLimits) -> None:
    opened = tuple(ActivatedSkill(one.skill, "digest", one) for one in bounds)
    b.sent += 1
    await b.store.receive(b.session.id, SessionMessage(f"s{b.sent}", "go", "test", skills=opened))
    await (await b.worker()).run()


async def judged(b: Bench) -> list[ev.CallJudged]:
    return [one for one in await b.events(ev.CallJudged) if isinstance(one, ev.CallJudged)]


async def test_a_skill_bounds_the_turn_in_which_it_is_active_and_no_other(tmp_path: Path) -> None:
    docs = SkillLimits("docs", paths=("docs/**",))
    async with bench(tmp_path, calling("terminal", command="echo x > y")) as b:
        await say(b, docs)
        await say(b)
        first, second = await judged(b)
        (refused, done) = await b.events(ev.CallFinished)
    assert (first.action, first.rule) == ("deny", "skill/docs")
    assert isinstance(refused, ev.CallFinished)
    assert refused.text.startswith("refused by policy: the skill docs does not allow writing 'y'")
    assert (second.action, second.facts.bounds) == ("allow", ())
    assert isinstance(done, ev.CallFinished)
    assert done.ok


async def test_a_past_judgement_is_made_again_within_the_bounds_of_then(tmp_path: Path) -> None:
    docs = SkillLimits("docs", tools=("terminal(ls:*)",))
    async with bench(tmp_path, calling("terminal", command="cat x")) as b:
        await say(b, docs)
        (first,) = await judged(b)
    past = Judgement(b.session.id, "sandbox", 0.0, '{"command": "cat x"}', first)
    again = past_effect(past)
    assert again.bounds == (docs,)
    gate = Policies.of_home(tmp_path / "home", Path.home()).gate("sandbox")

    async def nowhere(paths: Any) -> list[tuple[str, ...]]:
        return [(path,) for path in paths]

    assert (await gate.judge(again, nowhere)).rule == "skill/docs"


async def test_connections_are_bounded_by_the_name_of_the_host(tmp_path: Path) -> None:
    addresses = {"good.test": "8.8.8.8", "sub.good.test": "8.8.4.4", "evil.test": "9.9.9.9"}

    async def fetch(context: ToolContext) -> str:
        reach = context.reach
        assert reach is not None
        return " ".join(host for host, at in addresses.items() if reach(host, at, True))

    tool = Tool("fetch", fetch, "Fetch.")
    async with bench(tmp_path, calling("fetch"), tools=[tool]) as b:
        policies = tmp_path / "home" / "policies"
        policies.mkdir()
        (policies / "mine.yaml").write_text(
            "version: 1\nname: mine\nprofile: mine\nrules:\n"
            "  - {id: all, match: {kind: [call, host]}, then: allow}\n"
        )
        b.gate = Policies.of_home(tmp_path / "home", Path.home()).gate("mine")
        await say(b, SkillLimits("web", tools=("fetch",), hosts=("good.test", "*.good.test")))
        (finished,) = await b.events(ev.CallFinished)
    assert isinstance(finished, ev.CallFinished)
    assert finished.text.split() == ["good.test", "sub.good.test"]


async def test_the_gate_is_handed_the_bounds_of_every_skill_that_is_active(tmp_path: Path) -> None:
    one, two = SkillLimits("one", tools=("a",)), SkillLimits("two", hosts=("b",))
    async with bench(tmp_path, calling("todo", items=[{"text": "look"}])) as b:
        b.gate = Says(Verdict("allow", "ok"))
        await say(b, one, two)
        assert [effect.bounds for effect in b.gate.seen] == [(one, two)]
