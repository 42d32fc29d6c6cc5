"""Children of a turn: side by side, with less than their parent has, and never without it."""

import asyncio
from pathlib import Path
from typing import TypeVar

import pytest

from hermes_agent import Agent, Tool
from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, NotFound, OutcomeUnknown
from hermes_agent.core.records import Session
from hermes_agent.core.settings.root import BudgetSettings, DelegationSettings, UseSettings
from hermes_agent.runtime.tools.builtin import load_tools
from hermes_agent.store.store import Store
from tests.support.patience import PATIENCE
from tests.support.runtime_fixture import RuntimeFixture, open_runtime, until
from tests.support.subagents import (
    answers,
    call,
    children,
    delegated,
    ends,
    outcome,
    say,
    shell,
    told,
)

pytestmark = pytest.mark.sample_file(30)

E = TypeVar("E", ev.QuestionAsked, ev.CallParked)

WAIT = shell("touch begun-$$; until [ -e go ]; do sleep 0.02; done")
"""Works until somebody makes the file `go`."""


async def begun(h: RuntimeFixture, count: int) -> None:
    async def met() -> bool:
        return len(list(h.work.glob("begun-*"))) == count

    await until(met)


def rows(done: ev.CallFinished) -> list[dict[str, object]]:
    listed = done.data["children"]
    assert isinstance(listed, list)
    return listed


# at work


async def test_children_work_side_by_side_each_in_a_shell_of_its_own(tmp_path: Path) -> None:
    """Each of them waits until all have begun."""
    names = ("one", "two", "three")
    everybody = " && ".join(f"[ -e {name} ]" for name in names)
    turns = {
        name: [
            shell(f"touch {name}; export WHO={name}; until {everybody}; do sleep 0.02; done"),
            shell(f"mkdir in-{name}; cd in-{name}; echo $WHO"),
            shell("pwd; echo $WHO"),
            say(f"{name} is done"),
        ]
        for name in names
    }
    model = answers(tmp_path, plan=[delegated(*names), say("all is done")], **turns)
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        events = await h.say(parent, "plan")
        done = await outcome(h, parent)
        family = await children(h, parent)
        for child, name in zip(family, names, strict=True):
            where = (await told(h, child))[-1].splitlines()
            assert where == [str(h.work / f"in-{name}"), name]
            assert (child.depth, child.parent, child.source) == (1, parent.id, "agent")
        top = await h.runtime.context.store.sessions(parent="")
    assert events[-1].text == "all is done"
    parts = [
        f"## child {at} ({child.id})\n{name} is done"
        for at, (child, name) in enumerate(zip(family, names, strict=True), 1)
    ]
    assert done.text == "\n\n".join(parts)
    assert [row["ok"] for row in rows(done)] == [True, True, True]
    assert [one.id for one in top] == [parent.id]


async def test_whoever_watches_the_parent_sees_what_its_children_do(tmp_path: Path) -> None:
    model = answers(
        tmp_path,
        plan=[delegated("one"), say("done")],
        one=[shell("touch a"), shell("rm -rf /"), say("it is made")],
    )
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        with h.runtime.context.bus.listen(parent.id) as listener:
            await h.say(parent, "plan")
            shown = ""
            while (live := await listener.next()) is not None:
                if isinstance(live.event, ev.OutputArrived):
                    shown += live.event.text
                if isinstance(live.event, ev.TurnFinished):
                    break
        (child,) = await children(h, parent)
    lines = shown.splitlines()
    assert lines[0] == f"[child 1] {child.id}: one"
    assert any("touch a" in line for line in lines)
    assert any("refused: terminal" in line for line in lines)
    assert lines[-1] == "[child 1] done: it is made"


async def test_routine_work_goes_to_the_cheap_model(tmp_path: Path) -> None:
    cheap = answers(tmp_path, "cheap", one=[say("cheaply")])
    task = {"task": "one", "cheap": True}
    model = answers(tmp_path, plan=[delegated(task, "two"), say("done")], two=[say("dearly")])
    async with open_runtime(tmp_path, uses=UseSettings(cheap=(cheap,))) as h:
        parent = await h.open(model)
        await h.say(parent, "plan")
        first, second = await children(h, parent)
        done = await outcome(h, parent)
    assert (first.model, second.model) == (cheap, model)
    assert "cheaply" in done.text
    assert "dearly" in done.text


async def test_more_tasks_than_the_settings_allow_are_refused(tmp_path: Path) -> None:
    model = answers(tmp_path, plan=[delegated("a", "b", "c"), say("done")])
    async with open_runtime(tmp_path, delegation=DelegationSettings(tasks=2)) as h:
        parent = await h.open(model)
        await h.say(parent, "plan")
        done = await outcome(h, parent)
        family = await children(h, parent)
    assert "3 tasks are too many; at most 2 at once" in done.text
    assert done.data["retry"] == "changed"
    assert family == []


# what they have


async def test_children_have_fewer_tools_the_deeper_they_are(tmp_path: Path) -> None:
    model = answers(
        tmp_path,
        plan=[delegated("one"), say("done")],
        one=[delegated("two"), say("done")],
        two=[delegated("three"), say("done")],
    )
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        await h.say(parent, "plan")
        (child,) = await children(h, parent)
        (grandchild,) = await children(h, child)
        all_, some, few = [
            [spec.name for spec in (await h.runtime.context.store.prompt(one.prompt)).tools]
            for one in (parent, child, grandchild)
        ]
        (refused,) = await told(h, grandchild)
        below = await children(h, grandchild)
    kept = {"ask_user", "make_tool", "memory", "write_skill"}
    assert {*kept, "delegate"} <= set(all_)
    assert some == [name for name in all_ if name not in kept]
    assert few == [name for name in some if name != "delegate"]
    assert "no tool called 'delegate'" in refused
    assert (grandchild.depth, below) == (2, [])


@pytest.mark.parametrize(("depth", "many"), [(0, 0), (1, 1)])
async def test_the_settings_say_how_deep_children_may_have_children(
    tmp_path: Path, depth: int, many: int
) -> None:
    model = answers(
        tmp_path,
        plan=[delegated("one"), say("done")],
        one=[delegated("two"), say("done")],
        two=[say("never")],
    )
    async with open_runtime(tmp_path, delegation=DelegationSettings(depth=depth)) as h:
        parent = await h.open(model)
        await h.say(parent, "plan")
        done = await outcome(h, parent)
        everybody = await h.runtime.context.store.sessions()
    assert len(everybody) == 1 + many
    assert done.ok == bool(depth)
    assert depth or "subagents cannot be nested deeper than 0" in done.text


async def test_a_child_has_the_tools_that_its_task_names_and_no_others(tmp_path: Path) -> None:
    task = {"task": "one", "tools": ["search_files", "browser", "read_file"]}
    model = answers(
        tmp_path,
        plan=[delegated(task), say("done")],
        one=[shell("touch made"), say("I could not")],
    )
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        await h.say(parent, "plan")
        (child,) = await children(h, parent)
        prompt = await h.runtime.context.store.prompt(child.prompt)
        (refused,) = await told(h, child)
    # `browser` is a toolset, too, and some of its tools change things.
    assert [spec.name for spec in prompt.tools] == ["read_file", "search_files", "browser"]
    assert "no tool called 'terminal'" in refused
    assert not (tmp_path / "work" / "made").exists()


@pytest.mark.parametrize("name", ["ask_user", "make_tool", "terminl", "files"])
async def test_a_tool_that_no_child_can_have_is_refused_before_any_begins(
    tmp_path: Path, name: str
) -> None:
    tasks = ["one", {"task": "two", "tools": ["read_file", name]}]
    model = answers(tmp_path, plan=[delegated(*tasks), say("done")])
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        await h.say(parent, "plan")
        done = await outcome(h, parent)
        family = await children(h, parent)
    assert f"a subagent cannot have the tool {name!r}" in done.text
    assert family == []


async def test_the_child_of_a_parent_that_can_only_delegate_has_nothing(tmp_path: Path) -> None:
    """Nothing left is not everything there is."""
    model = answers(
        tmp_path,
        plan=[delegated("one"), say("done")],
        one=[shell("touch made"), say("I could not")],
    )
    async with open_runtime(tmp_path, delegation=DelegationSettings(depth=1)) as h:
        parent = await h.open(model, use=["delegate"])
        await h.say(parent, "plan")
        (child,) = await children(h, parent)
        prompt = await h.runtime.context.store.prompt(child.prompt)
        (refused,) = await told(h, child)
    assert prompt.tools == ()
    assert "no tool called 'terminal'" in refused
    assert not (tmp_path / "work" / "made").exists()


async def test_a_child_cannot_call_what_only_its_parent_has(tmp_path: Path) -> None:
    """Also where the tools of all sessions are a program's own."""
    ran: list[str] = []

    async def act(line: str) -> str:
        ran.append(line)
        return line

    task = {"task": "one", "tools": ["todo"]}
    model = answers(
        tmp_path,
        plan=[delegated(task), say("done")],
        one=[{"calls": [call("act", line="x")]}, say("I could not")],
    )
    tools = [*load_tools(["delegate", "todo"]), Tool("act", act, "Act")]
    async with open_runtime(tmp_path, tools=tools) as h:
        parent = await h.open(model)
        await h.say(parent, "plan")
        (child,) = await children(h, parent)
        (refused,) = await told(h, child)
    assert "no tool called 'act'" in refused
    assert ran == []


# typed results

AGE = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}


@pytest.mark.parametrize("text", ['{"age": 7}', '```json\n{"age": 7}\n```', ' {"age":7}\n'])
async def test_an_answer_that_fits_the_schema_is_given_as_a_value(
    tmp_path: Path, text: str
) -> None:
    task = {"task": "one", "schema": AGE}
    model = answers(tmp_path, plan=[delegated(task), say("done")], one=[say(text)])
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        await h.say(parent, "plan")
        (row,) = rows(await outcome(h, parent))
        (child,) = await children(h, parent)
        asked = [one for one in await h.journal(child) if isinstance(one, ev.MessageTaken)]
    assert (row["ok"], row["value"]) == (True, {"age": 7})
    assert '"required":["age"]' in asked[0].text


@pytest.mark.parametrize("bad", ["seven", '{"age": "seven"}'])
async def test_an_answer_that_does_not_fit_is_corrected_once(tmp_path: Path, bad: str) -> None:
    task = {"task": "one", "schema": AGE}
    model = answers(
        tmp_path, plan=[delegated(task), say("done")], match=[say('{"age": 7}')], one=[say(bad)]
    )
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        await h.say(parent, "plan")
        done = await outcome(h, parent)
        (child,) = await children(h, parent)
        turns = await ends(h, child)
    (row,) = rows(done)
    assert (row["ok"], row["value"]) == (True, {"age": 7})
    assert len(turns) == 2
    assert done.usage.total == sum(one.usage.total for one in turns)


async def test_an_answer_that_does_not_fit_twice_is_a_failure(tmp_path: Path) -> None:
    task = {"task": "one", "schema": AGE}
    model = answers(
        tmp_path,
        plan=[delegated(task, "two"), say("done")],
        match=[say("still seven")],
        one=[say("seven")],
        two=[say("fine")],
    )
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        await h.say(parent, "plan")
        done = await outcome(h, parent)
        first, _ = await children(h, parent)
        turns = await ends(h, first)
    bad, good = rows(done)
    assert (bad["ok"], bad["value"], good["ok"]) == (False, None, True)
    assert "its answer does not match" in str(bad["trouble"])
    assert "FAILED: its answer does not match" in done.text
    assert "still seven" in done.text
    assert len(turns) == 2


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "numbr"},
        {"properties": 5},
        {"$ref": "#/nowhere"},
        {"$id": "netdoc:x", "$ref": "#/nowhere"},
    ],
)
async def test_a_schema_that_is_none_is_refused_before_any_begins(
    tmp_path: Path, schema: dict[str, object]
) -> None:
    await assert_refused_schema(tmp_path, schema, "not a valid JSON Schema")


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/schema"},
        {"$id": "http://127.0.0.1:9/", "items": {"$ref": "schema"}},
        {"$ref": "file:///etc/hostname"},
        {"items": [{"$ref": "netdoc:x"}]},
    ],
)
async def test_a_schema_that_lies_elsewhere_is_refused_before_any_begins(
    tmp_path: Path, schema: dict[str, object]
) -> None:
    await assert_refused_schema(tmp_path, schema, "which is outside it")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^(a+)+$"},
        {"properties": {"a": {"anyOf": [{"pattern": "a"}]}}},
        {"patternProperties": {"^(a+)+$": {"type": "string"}}},
    ],
)
async def test_a_schema_with_expressions_is_refused_before_any_begins(
    tmp_path: Path, schema: dict[str, object]
) -> None:
    await assert_refused_schema(tmp_path, schema, "say it in words")


async def test_a_schema_that_is_too_large_is_refused_before_any_begins(tmp_path: Path) -> None:
    await assert_refused_schema(tmp_path, {"description": "x" * 20_000}, "20000 at most")


TWICE = {"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}
"""Looks at each part of an answer twice as often as at what it is a part of."""


@pytest.mark.parametrize(
    ("schema", "answer", "trouble"),
    [
        ({"$ref": "#"}, "1", "never ends"),
        ({"type": "array"}, "[" * 5000 + "]" * 5000, "too deep"),
        ({"type": "string"}, f'"{"x" * 200_000}"', "200000 at most"),
        ({"multipleOf": 0}, "3", "zero"),
        (TWICE, "[" * 60 + "]" * 60, "takes too long"),
    ],
)
async def test_an_answer_that_cannot_be_checked_does_not_fit(
    tmp_path: Path, schema: dict[str, object], answer: str, trouble: str
) -> None:
    task = {"task": "one", "schema": schema}
    model = answers(
        tmp_path, plan=[delegated(task), say("done")], match=[say(answer)], one=[say(answer)]
    )
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        await h.say(parent, "plan")
        (row,) = rows(await outcome(h, parent))
    assert not row["ok"]
    assert str(row["trouble"]).startswith("its answer does not match: ")
    assert trouble in str(row["trouble"])


async def test_a_property_may_be_called_pattern_and_a_long_text_look_like_no_address(
    tmp_path: Path,
) -> None:
    """Formats are told to the child and not checked: their expressions take hours for this."""
    schema = {"properties": {"pattern": {"type": "string", "format": "email"}}}
    text = f'{{"pattern":"{"." * 100_000}"}}'
    task = {"task": "one", "schema": schema}
    model = answers(tmp_path, plan=[delegated(task), say("done")], one=[say(text)])
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        await h.say(parent, "plan")
        (row,) = rows(await outcome(h, parent))
    assert row["value"] == {"pattern": "." * 100_000}


async def assert_refused_schema(tmp_path: Path, schema: dict[str, object], words: str) -> None:
    model = answers(
        tmp_path, plan=[delegated("one", {"task": "two", "schema": schema}), say("done")]
    )
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        await h.say(parent, "plan")
        done = await outcome(h, parent)
        family = await children(h, parent)
    assert words in done.text
    assert done.data["retry"] == "changed"
    assert "refused" not in done.text.lower()
    assert family == []


# how they end


async def test_a_child_that_fails_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    model = answers(
        tmp_path, plan=[delegated("nobody", "two"), say("done")], two=[say("two is done")]
    )
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        events = await h.say(parent, "plan")
        done = await outcome(h, parent)
    bad, good = rows(done)
    assert (bad["ok"], bad["reason"], good["ok"]) == (False, "failed", True)
    assert "FAILED: the script of" in done.text
    assert "two is done" in done.text
    assert done.ok
    assert events[-1].text == "done"


async def test_when_no_child_is_done_the_call_has_failed(tmp_path: Path) -> None:
    model = answers(tmp_path, plan=[delegated("nobody", "nothing"), say("a pity")])
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        events = await h.say(parent, "plan")
        done = await outcome(h, parent)
    assert not done.ok
    assert done.data["error"].startswith("none of the subagents succeeded")
    assert [row["reason"] for row in rows(done)] == ["failed", "failed"]
    assert events[-1].text == "a pity"


async def test_a_child_that_runs_out_of_steps_ends_there(tmp_path: Path) -> None:
    model = answers(
        tmp_path,
        plan=[delegated("one"), say("done")],
        one=[*[shell("echo again")] * 9, say("never")],
    )
    async with open_runtime(tmp_path, delegation=DelegationSettings(steps=3)) as h:
        parent = await h.open(model)
        await h.say(parent, "plan")
        done = await outcome(h, parent)
        (child,) = await children(h, parent)
        (end,) = await ends(h, child)
    assert (end.reason, end.steps) == ("budget", 3)
    assert "limit for this turn: 3 of 3 steps used" in done.text
    assert not done.ok


async def test_a_child_is_refused_what_its_parent_would_be(tmp_path: Path) -> None:
    """It has its parent's policy, and nobody is there to be asked."""
    model = answers(
        tmp_path,
        plan=[delegated("one"), say("done")],
        one=[shell("touch made"), say("I may not")],
    )
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model, policy="careful")
        await h.say(parent, "plan")
        (child,) = await children(h, parent)
        (refused,) = await told(h, child)
        (judged,) = [one for one in await h.journal(child) if isinstance(one, ev.CallJudged)]
    assert child.policy == "careful"
    assert "nobody is available" in refused
    assert (judged.facts.actor.kind, judged.facts.actor.name) == ("agent", parent.id)
    assert not (tmp_path / "work" / "made").exists()


# budgets

PRICE = {"price": {"input": 10.0, "output": 10.0}}
SLACK = 1e-9


def spender(tmp_path: Path, tasks: int, steps: int = 40) -> str:
    """A parent whose children use all that they may."""
    work = [{"calls": [call("todo", items=[{"text": f"step {at}"}])]} for at in range(steps)]
    names = [f"task{at}" for at in range(tasks)]
    return answers(
        tmp_path,
        plan=[delegated(*names), say("done")],
        facts=PRICE,
        **{name: [*work, say("enough")] for name in names},
    )


@pytest.mark.parametrize("scope", ["turn", "session"])
async def test_a_parent_and_its_children_stay_within_its_dollars(
    tmp_path: Path, scope: str
) -> None:
    limit = 3.0
    budgets = BudgetSettings(**{f"{scope}_dollars": limit})
    async with open_runtime(tmp_path, budgets=budgets) as h:
        parent = await h.open(spender(tmp_path, 3))
        await h.say(parent, "plan")
        spent = await h.runtime.context.store.spent(0.0)
        family = await children(h, parent)
        (end,) = await ends(h, parent)
        last = [(await ends(h, child))[-1].reason for child in family]
        costs = await h.runtime.context.store.costs("session")
    assert spent <= limit + SLACK
    assert spent > limit / 3, "what is there can be used"
    assert last == ["budget"] * 3
    shares = [child.share.dollars or 0.0 for child in family]
    assert len(set(shares)) == 1
    assert 0.0 < sum(shares) < limit
    for child in family:
        own = next(one.cost for one in costs if one.name == child.id)
        assert own <= shares[0] + SLACK
    # The parent counts what its children used, and the books count it once.
    assert end.cost == pytest.approx(spent)
    assert sum(one.cost for one in costs) == pytest.approx(spent)
    assert end.usage.total == sum(one.usage.total for one in costs)


async def test_a_parent_and_its_children_stay_within_its_tokens(tmp_path: Path) -> None:
    limit = 200_000
    async with open_runtime(tmp_path, budgets=BudgetSettings(turn_tokens=limit)) as h:
        parent = await h.open(spender(tmp_path, 2))
        await h.say(parent, "plan")
        costs = await h.runtime.context.store.costs("session")
        family = await children(h, parent)
        (end,) = await ends(h, parent)
        last = [(await ends(h, child))[-1].reason for child in family]
    used = sum(one.usage.total for one in costs)
    assert used <= limit
    assert end.usage.total == used
    assert last == ["budget", "budget"]
    assert sum(child.share.tokens or 0 for child in family) < limit


async def test_several_calls_at_once_share_what_is_there(tmp_path: Path) -> None:
    work = [{"calls": [call("todo", items=[{"text": f"step {at}"}])]} for at in range(28)]
    both = [call("delegate", tasks=[{"task": name}]) for name in ("one", "two")]
    model = answers(
        tmp_path,
        plan=[{"calls": both}, say("done")],
        one=[*work, say("enough")],
        two=[*work, say("enough")],
        facts=PRICE,
    )
    async with open_runtime(tmp_path, budgets=BudgetSettings(turn_dollars=0.8)) as h:
        parent = await h.open(model)
        await h.say(parent, "plan")
        spent = await h.runtime.context.store.spent(0.0)
        family = await children(h, parent)
        (end,) = await ends(h, parent)
    assert spent <= 0.8 + SLACK
    assert end.cost == pytest.approx(spent)
    assert sum(one.share.dollars or 0.0 for one in family) < 0.8


async def test_grandchildren_share_what_their_parent_was_given(tmp_path: Path) -> None:
    work = [{"calls": [call("todo", items=[{"text": f"step {at}"}])]} for at in range(60)]
    model = answers(
        tmp_path,
        plan=[delegated("one", "two"), say("done")],
        one=[delegated("three", "four"), say("done")],
        two=[*work, say("enough")],
        three=[*work, say("enough")],
        four=[*work, say("enough")],
        facts=PRICE,
    )
    async with open_runtime(tmp_path, budgets=BudgetSettings(turn_dollars=5.0)) as h:
        parent = await h.open(model)
        await h.say(parent, "plan")
        spent = await h.runtime.context.store.spent(0.0)
        first, _ = await children(h, parent)
        below = await children(h, first)
        (end,) = await ends(h, parent)
    assert spent <= 5.0 + SLACK
    assert end.cost == pytest.approx(spent)
    assert len(below) == 2
    assert sum(one.share.dollars or 0.0 for one in below) < (first.share.dollars or 0.0)


async def test_what_interrupted_children_used_counts_for_the_session(tmp_path: Path) -> None:
    work = [{"calls": [call("todo", items=[{"text": f"step {at}"}])]} for at in range(28)]
    model = answers(
        tmp_path,
        plan=[delegated("one"), say("done")],
        one=[*work, WAIT, say("never")],
        more=[delegated("two"), say("done")],
        two=[say("two is done")],
        facts=PRICE,
    )
    async with open_runtime(tmp_path, budgets=BudgetSettings(session_dollars=3.0)) as h:
        parent = await h.open(model)
        await h.send(parent, "plan")
        await begun(h, 1)
        await h.runtime.sessions.interrupt(parent.id)
        await h.idle(parent)
        (first,) = await children(h, parent)
        await h.idle(first)
        used = await h.runtime.context.store.spent(0.0)
        await h.say(parent, "more")
        (second,) = [one for one in await children(h, parent) if one.id != first.id]
    assert used > 0.5
    assert (second.share.dollars or 0.0) <= 3.0 - used


# interrupts


async def test_an_interrupt_of_the_parent_ends_all_below_it(tmp_path: Path) -> None:
    model = answers(
        tmp_path,
        plan=[delegated("one", "two"), say("done")],
        one=[delegated("three"), say("done")],
        two=[WAIT, say("never")],
        three=[WAIT, say("never")],
    )
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        await h.send(parent, "plan")
        await begun(h, 2)
        assert await h.runtime.sessions.interrupt(parent.id, "test")
        everybody = await h.runtime.context.store.sessions()
        for session in everybody:
            await h.idle(session)
        reasons = {(await ends(h, session))[-1].reason for session in everybody}
        done = await outcome(h, parent)
        parked = await h.runtime.context.store.parked()
    assert len(everybody) == 4
    assert reasons == {"interrupted"}
    assert done.text == "the user interrupted while it ran; what it did until then is not undone"
    assert parked == []
    assert not (tmp_path / "work" / "go").exists()


async def test_a_child_that_somebody_interrupts_ends_and_the_parent_goes_on(
    tmp_path: Path,
) -> None:
    model = answers(
        tmp_path,
        plan=[delegated("one", "two"), say("done")],
        one=[WAIT, say("never")],
        two=[say("two is done")],
    )
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        await h.send(parent, "plan")
        await begun(h, 1)
        first, _ = await children(h, parent)
        await h.runtime.sessions.interrupt(first.id, "test")
        events = await h.idle(parent)
        done = await outcome(h, parent)
    assert "FAILED: it ended early: interrupted" in done.text
    assert "two is done" in done.text
    assert events[-1].text == "done"


@pytest.mark.parametrize("written", ["asked", "ended"])
async def test_children_end_with_a_parent_whose_runtime_died_while_it_was_interrupted(
    tmp_path: Path, written: str
) -> None:
    model = answers(
        tmp_path,
        plan=[delegated("one", "two"), say("done")],
        one=[WAIT, say("never")],
        two=[WAIT, say("never")],
    )
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        await h.send(parent, "plan")
        await begun(h, 2)
    store = await Store.open(tmp_path / "home")
    (turn,) = [one for one in await store.claim_unfinished() if one.session == parent.id]
    await store.append(turn, ev.InterruptAsked(turn.id, "test"))
    if written == "ended":
        done = [
            ev.CallFinished(one.event.effect, one.event.call_id, "delegate", "given up", ok=False)
            for one in await store.events(parent.id)
            if isinstance(one.event, ev.CallIntended)
        ]
        await store.append(turn, *done, ev.TurnFinished(turn.id, "interrupted"))
    await store.close()
    async with open_runtime(tmp_path) as h:
        family = await children(h, parent)
        for session in (parent, *family):
            await h.idle(session)
        reasons = [(await ends(h, session))[-1].reason for session in (parent, *family)]
    assert reasons == ["interrupted"] * 3


# after a restart


async def test_a_parent_that_is_taken_up_finds_the_children_it_has(tmp_path: Path) -> None:
    work = [shell("echo $$ >> effects; touch begun-$$; until [ -e go ]; do sleep 0.02; done")]
    model = answers(
        tmp_path,
        plan=[delegated("one", "two", "three"), say("done")],
        one=[say("one is done")],
        two=[*work, say("two is done")],
        three=[*work, say("three is done")],
    )
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        await h.send(parent, "plan")
        await begun(h, 2)
        before = await children(h, parent)
    async with open_runtime(tmp_path) as h:
        (h.work / "go").touch()
        events = await h.idle(parent)
        after = await children(h, parent)
        done = await outcome(h, parent)
        turns = [len(await ends(h, child)) for child in after]
        taken = [
            sum(isinstance(one, ev.MessageTaken) for one in await h.journal(child))
            for child in after
        ]
    assert [one.id for one in after] == [one.id for one in before]
    assert (turns, taken) == ([1, 1, 1], [1, 1, 1])
    assert len((tmp_path / "work" / "effects").read_text().splitlines()) == 2
    assert [row["ok"] for row in rows(done)] == [True, True, True]
    assert events[-1].text == "done"


# sessions


async def test_deleting_a_parent_deletes_all_below_it(tmp_path: Path) -> None:
    model = answers(
        tmp_path,
        plan=[delegated("one"), say("done")],
        one=[delegated("two"), say("done")],
        two=[shell("seq 10000"), say("done")],
    )
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        beside = await h.open(model)
        await h.say(parent, "plan")
        everybody = await h.runtime.context.store.sessions()
        kept = list((tmp_path / "home").rglob("*.txt"))
        left = await h.runtime.sessions.delete_session(await h.now(parent))
        after = await h.runtime.context.store.sessions()
        spent = await h.runtime.context.store.costs("session")
        for session in everybody:
            if session.id != beside.id:
                with pytest.raises(NotFound):
                    await h.runtime.context.store.session(session.id)
    assert (len(everybody), left) == (4, [])
    assert [one.id for one in after] == [beside.id]
    assert len(spent) == 3, "what was spent stays in the books"
    assert kept
    assert not any(path.exists() for path in kept)


async def test_a_parent_with_a_child_at_work_is_not_deleted(tmp_path: Path) -> None:
    model = answers(tmp_path, plan=[delegated("one"), say("done")], one=[WAIT, say("one is done")])
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model)
        await h.send(parent, "plan")
        await begun(h, 1)
        with pytest.raises(HermesError, match="is busy"):
            await h.runtime.sessions.delete_session(await h.now(parent))
        (h.work / "go").touch()
        events = await h.idle(parent)
    assert events[-1].text == "done"


# questions


async def heard(h: RuntimeFixture, session: Session, kind: type[E]) -> E:
    """The next event of a kind that those hear who listen to a session."""
    async with asyncio.timeout(PATIENCE):
        async for recorded in h.runtime.sessions.events(session.id):
            if isinstance(recorded.event, kind):
                return recorded.event
    raise AssertionError("it ended before")


@pytest.mark.parametrize("deep", [False, True])
async def test_questions_from_below_reach_whoever_listens_to_the_top(
    tmp_path: Path, deep: bool
) -> None:
    write = {"calls": [call("write_file", path="made", content="x")]}
    model = answers(
        tmp_path,
        plan=[delegated("middle" if deep else "worker"), say("done")],
        middle=[delegated("worker"), say("done")],
        worker=[write, say("it is made")],
    )
    async with open_runtime(tmp_path) as h:
        parent = await h.open(model, policy="careful")
        listening = asyncio.create_task(heard(h, parent, ev.QuestionAsked))
        await h.send(parent, "plan", interactive=True)
        asked = await listening
        (open_one,) = await h.runtime.context.store.questions()
        assert (open_one.id, asked.purpose) == (asked.id, "approval")
        assert "made" in asked.text
        await h.runtime.sessions.answer(asked.id, "yes", "test")
        events = await h.idle(parent)
    assert (tmp_path / "work" / "made").read_text() == "x"
    assert events[-1].text == "done"
    assert not any(isinstance(one, ev.QuestionAsked) for one in events), (
        "it is in the child's journal"
    )


async def test_whoever_watches_the_parent_hears_of_an_outcome_that_nobody_knows(
    tmp_path: Path,
) -> None:
    async def act() -> str:
        raise OutcomeUnknown("it went away")

    model = answers(
        tmp_path,
        plan=[delegated("one"), say("done")],
        one=[{"calls": [call("act")]}, say("one is done")],
    )
    tools = [*load_tools(["delegate"]), Tool("act", act, "Act")]
    async with open_runtime(tmp_path, tools=tools) as h:
        parent = await h.open(model)
        listening = asyncio.create_task(heard(h, parent, ev.CallParked))
        await h.send(parent, "plan")
        parked = await listening
        (child,) = await children(h, parent)
        assert child.state == "parked"
        await h.runtime.sessions.decide(parked.effect, "skip", "test")
        events = await h.idle(parent)
    assert events[-1].text == "done"


# children of a program


def fetching(folder: Path, ran: list[str], **options: object) -> Agent:
    def fetch_url(url: str) -> str:
        """Fetch."""
        ran.append(url)
        return f"page of {url}"

    model = answers(
        folder,
        plan=[delegated({"task": "one", "tools": ["fetch_url"]}), say("done")],
        one=[{"calls": [call("fetch_url", url="http://a.example")]}, say("looked")],
    )
    agent = Agent("researcher", model=model, home=folder / "home", workspace=folder, **options)
    agent.register_tool(Tool("fetch_url", fetch_url, "Fetch", capabilities=["network"]))
    return agent


async def journal_of_child(home: Path) -> list[object]:
    store = await Store.open(home, readonly=True)
    try:
        (child,) = [one for one in await store.sessions() if one.parent]
        return [recorded.event for recorded in await store.events(child.id)]
    finally:
        await store.close()


async def test_the_children_of_a_program_have_its_tools(tmp_path: Path) -> None:
    ran: list[str] = []
    with fetching(tmp_path, ran) as agent:
        result = await agent.arun("plan")
    events = await journal_of_child(tmp_path / "home")
    (done,) = [one for one in events if isinstance(one, ev.CallFinished)]
    assert result.text == "done"
    assert (done.text, ran) == ("page of http://a.example", ["http://a.example"])


async def test_the_children_of_a_program_lack_what_it_was_not_granted(tmp_path: Path) -> None:
    ran: list[str] = []
    with fetching(tmp_path, ran, capabilities=["filesystem"]) as agent:
        result = await agent.arun("plan")
    events = await journal_of_child(tmp_path / "home")
    (done,) = [one for one in events if isinstance(one, ev.CallFinished)]
    assert result.text == "done"
    assert "the agent lacks the capability network" in done.text
    assert ran == []


async def test_a_program_hears_of_an_outcome_below_it_that_nobody_knows(tmp_path: Path) -> None:
    async def act() -> str:
        raise OutcomeUnknown("it went away")

    model = answers(
        tmp_path,
        plan=[delegated("one"), say("done")],
        one=[{"calls": [call("act")]}, say("one is done")],
        then=[say("and then")],
    )
    with Agent("actor", model=model, home=tmp_path / "home", workspace=tmp_path) as agent:
        agent.register_tool(Tool("act", act, "Act"))
        with pytest.raises(HermesError, match="the outcome of act"):
            await agent.arun("plan")
        (parked,) = await asyncio.to_thread(agent.parked)
        await asyncio.to_thread(agent.decide, parked.effect, "it-happened")
        result = await agent.arun("then")
    assert result.reason == "done"
    assert parked.tool == "act"
