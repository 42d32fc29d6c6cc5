"""Another model for a session that goes on: when it answers, what it costs, what is refused."""

import asyncio
import json
import time
from pathlib import Path

import httpx
import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.settings.root import BudgetSettings, UseSettings
from hermes_agent.runtime.api.app import build_app
from hermes_agent.runtime.model_selection import WARM_SECONDS
from tests.faults.harness import Case, wait_until
from tests.support.runtime_fixture import RuntimeFixture, open_runtime, script, until

WAIT = {
    "tool": "terminal",
    "with": {"command": "touch begun; until [ -e go ]; do sleep 0.02; done"},
}
PRICE = {"input": 10.0, "output": 1.0, "cached": 1.0}
LONG = "a long story " * 800


def models_of(events: list[ev.Event]) -> list[str]:
    return [Path(one.model).stem for one in events if isinstance(one, ev.Replied)]


async def test_an_idle_session_is_answered_by_the_model_that_was_chosen(tmp_path: Path) -> None:
    one, two = script(tmp_path, "one", {"say": "one"}), script(tmp_path, "two", {"say": "two"})
    async with open_runtime(tmp_path) as h:
        session = await h.open(one)
        await h.say(session, "hello")
        choice = await h.runtime.model_selection.choose(session, two, "high", "alice", anyway=False)
        assert (choice.model, choice.effort, choice.switched, choice.warning) == (
            two, "high", True, "",
        )  # fmt: skip
        now = await h.now(session)
        assert (now.model, now.effort, now.state) == (two, "high", "idle")
        events = await h.say(session, "and now?")
        assert ev.ModelChosen(two, "high", "alice") in events
    assert models_of(events) == ["one", "two"]


async def test_a_turn_at_work_goes_on_with_the_model_that_was_chosen(tmp_path: Path) -> None:
    one = script(tmp_path, "one", {"calls": [WAIT]}, {"say": "one"})
    two = script(tmp_path, "two", {"say": "never"}, {"say": "two goes on"})
    async with open_runtime(tmp_path) as h:
        session = await h.open(one)
        await h.send(session, "work")
        while not (h.work / "begun").exists():
            await asyncio.sleep(0.01)
        await h.runtime.model_selection.choose(session, two, "", "cli", anyway=False)
        assert (await h.now(session)).model == two
        (h.work / "go").touch()
        events = await h.idle(session)
    assert models_of(events) == ["one", "two"]
    end = events[-1]
    assert isinstance(end, ev.TurnFinished)
    assert end.text == "two goes on"


def test_the_choice_outlives_a_runtime_that_is_killed(one: Case, tmp_path: Path) -> None:
    one.script.write_text(json.dumps({"turns": [{"replies": [{"calls": [WAIT]}, {"say": "one"}]}]}))
    two = script(tmp_path, "two", {"say": "never"}, {"say": "two"})
    one.start()
    assert one.send("m1")
    wait_until((one.work / "begun").exists, "the command to begin")
    chosen = one.api.post(f"/v1/sessions/{one.session}/model", {"model": two, "effort": "low"})
    assert chosen["switched"]
    one.kill()
    one.start()
    (one.work / "go").touch()
    one.finish()
    now = one.api.get(f"/v1/sessions/{one.session}")
    assert (now["model"], now["effort"]) == (two, "low")
    replied = [e["event"] for e in one.journal() if e["event"]["kind"] == "replied"]
    assert [event["text"] for event in replied] == ["", "two"]
    assert replied[-1]["model"] == two


async def a_long_talk(h: RuntimeFixture, **price: object) -> tuple[str, str]:
    """A session with much in its model's cache, and another model."""
    one = script(h.folder, "one", {"say": "I see"}, **price)
    two = script(h.folder, "two", {"say": "two"}, price={"input": 30.0, "output": 1.0})
    return one, two


async def test_a_warm_cache_is_not_thrown_away_without_a_word(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as h:
        one, two = await a_long_talk(h, price=PRICE)
        session = await h.open(one)
        events = await h.say(session, LONG)
        reply = next(event for event in events if isinstance(event, ev.Replied))
        choice = await h.runtime.model_selection.choose(session, two, "", "cli", anyway=False)
        assert not choice.switched
        tokens = reply.usage.total
        assert f"{tokens:,} tokens" in choice.warning
        assert f"${tokens * 30 / 1e6:.3g} instead of ${tokens * 1 / 1e6:.3g}" in choice.warning
        assert (await h.now(session)).model == one
        assert await h.journal(session) == events, "nothing was written"
        choice = await h.runtime.model_selection.choose(session, two, "", "cli", anyway=True)
        assert (choice.switched, choice.warning) == (True, "")
        assert models_of(await h.say(session, "go on")) == ["one", "two"]


@pytest.mark.parametrize("why", ["cold", "tiny", "no cache"])
async def test_where_no_cache_is_lost_nothing_is_said(tmp_path: Path, why: str) -> None:
    now = [time.time()]
    async with open_runtime(tmp_path, clock=lambda: now[0]) as h:
        price = {"input": 10.0, "output": 1.0} if why == "no cache" else PRICE
        one, two = await a_long_talk(h, price=price)
        session = await h.open(one, use=("terminal",))
        await h.say(session, "hi" if why == "tiny" else LONG)
        if why == "cold":
            now[0] += WARM_SECONDS + 1
        choice = await h.runtime.model_selection.choose(session, two, "", "cli", anyway=False)
    assert (choice.switched, choice.warning) == (True, "")


async def test_a_model_that_is_gone_does_not_keep_a_session_to_itself(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as h:
        one, two = await a_long_talk(h, price=PRICE)
        session = await h.open(one)
        await h.say(session, LONG)
        (tmp_path / "one.json").unlink()
        settings = h.runtime.models.settings
        h.runtime.models.renew(settings, {"SOMETHING": "else"})
        choice = await h.runtime.model_selection.choose(session, two, "", "cli", anyway=False)
        assert choice.switched
        assert models_of(await h.say(session, "still there?")) == ["one", "two"]


async def test_effort_alone_is_chosen_for_the_same_model(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as h:
        one, _ = await a_long_talk(h, price=PRICE)
        session = await h.open(one)
        before = await h.say(session, LONG)
        choice = await h.runtime.model_selection.choose(session, "", "max", "cli", anyway=False)
        assert (choice.model, choice.effort, choice.switched) == (one, "max", True)
        assert (await h.now(session)).effort == "max"
        again = await h.now(session)
        await h.runtime.model_selection.choose(again, one, "max", "cli", anyway=False)
        assert len(await h.journal(session)) == len(before) + 1, "the same again is no event"


async def test_what_is_not_known_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    one = script(tmp_path, "one", {"say": "one"})
    async with open_runtime(tmp_path) as h:
        session = await h.open(one)
        before = await h.say(session, "hello")
        for model, effort in (("nobody/knows", ""), ("scripted/nothing", ""), ("", "extreme")):
            with pytest.raises(HermesError):
                await h.runtime.model_selection.choose(session, model, effort, "cli", anyway=True)
        with pytest.raises(HermesError, match="needs a key"):
            await h.runtime.model_selection.choose(session, "openai/gpt-5", "", "cli", anyway=True)
        assert await h.journal(session) == before
        assert (await h.now(session)).model == one
        with pytest.raises(UsageError, match="effort"):
            await h.open(one, effort="extreme")


async def test_the_api_chooses_tests_and_says_what_is_wrong(tmp_path: Path) -> None:
    one = script(tmp_path, "one", {"say": "one"}, price=PRICE)
    two = script(tmp_path, "two", {"say": "OK"}, price=PRICE)
    async with open_runtime(tmp_path) as h:
        session = await h.open(one)
        transport = httpx.ASGITransport(build_app(h.runtime, lambda: None))
        async with httpx.AsyncClient(transport=transport, base_url="http://hermes") as api:
            url = f"/v1/sessions/{session.id}/model"
            said = (await api.post(url, json={"model": two, "by": "alice"})).json()
            assert (said["switched"], said["model"]) == (True, two)
            wrong = await api.post(url, json={"effort": "extreme"})
            assert (wrong.status_code, "reasoning effort" in wrong.json()["error"]) == (400, True)
            tried = (await api.post("/v1/models/test", json={"model": two})).json()
            assert (tried["ok"], tried["text"]) == (True, "OK")
            costs = (await api.get("/v1/costs", params={"by": "use"})).json()
    assert [(row["name"], row["calls"]) for row in costs["costs"]] == [("test", 1)]
    assert costs["today"] == pytest.approx(tried["cost"])


async def test_a_try_needs_room_in_the_day_and_a_price(tmp_path: Path) -> None:
    dear = script(tmp_path, "dear", {"say": "OK"}, price={"input": 1_000.0, "output": 1_000.0})
    free = script(tmp_path, "free", {"say": "OK"}, price={"input": 0.0, "output": 0.0})
    unknown = script(tmp_path, "unknown", {"say": "OK"})
    async with open_runtime(tmp_path, budgets=BudgetSettings(day_dollars=0.2)) as h:
        test = h.runtime.model_selection.test
        with pytest.raises(HermesError, match=r"dollars of this day: 0 used of 0\.2") as caught:
            await test(dear)
        assert "budgets.day_dollars" in caught.value.hint
        assert (await test(free)).ok
        refused = await test(unknown)
        assert (refused.ok, "no price is known" in refused.error) == (False, True)
        assert await h.runtime.context.store.spent(0.0) == 0.0


async def test_tries_titles_and_turns_at_once_share_the_day(tmp_path: Path) -> None:
    """Each may take a good part of it."""
    price = {"input": 40.0, "output": 60.0}
    main = script(tmp_path, "main", {"say": "word " * 200, "wait": 0.02}, price=price)
    title = script(tmp_path, "title", {"say": "A title", "wait": 0.02}, price=price)
    budgets = BudgetSettings(day_dollars=1.0)
    async with open_runtime(tmp_path, uses=UseSettings(titles=(title,)), budgets=budgets) as h:
        sessions = [await h.open(main) for _ in range(8)]

        async def attempt() -> None:
            try:
                await h.runtime.model_selection.test(main)
            except HermesError:
                return

        await asyncio.gather(
            *(h.say(one, "go") for one in sessions), *[attempt() for _ in range(9)]
        )

        async def no_more() -> bool:
            return not h.runtime._turns._follow_ups

        await until(no_more)
        spent = await h.runtime.context.store.spent(0.0)
        uses = {cost.name for cost in await h.runtime.context.store.costs("use")}
    assert 0.5 < spent <= 1.0
    assert uses >= {"main", "test"}


async def test_a_try_is_paid_in_advance_so_that_a_death_in_the_middle_is_counted(
    tmp_path: Path,
) -> None:
    slow = script(tmp_path, "slow", {"say": "OK", "wait": 600}, price=PRICE)
    quick = script(tmp_path, "quick", {"say": "OK"}, price=PRICE)
    async with open_runtime(tmp_path, budgets=BudgetSettings(day_dollars=1.0)) as h:
        trying = asyncio.create_task(h.runtime.model_selection.test(slow))

        async def paid() -> bool:
            return await h.runtime.completions.spent_today() > 0

        await until(paid)
        trying.cancel()
        await asyncio.wait({trying})
        advance = await h.runtime.completions.spent_today()
        trial = await h.runtime.model_selection.test(quick)
        spent = await h.runtime.completions.spent_today()
    assert advance > 0, "nobody knows what it cost: the most stays counted"
    assert trial.cost
    assert spent == pytest.approx(advance + trial.cost), "the advance of a whole try is taken back"


async def test_a_try_tells_no_secret_that_the_model_repeats(tmp_path: Path) -> None:
    secret = "orange-Penguin-77-xyz"
    echo = script(tmp_path, "echo", {"say": f"it is {secret}"})
    async with open_runtime(tmp_path) as h:
        h.runtime.context.redact.learn("OUR_KEY", secret)
        trial = await h.runtime.model_selection.test(echo)
    assert trial.ok
    assert secret not in trial.text
