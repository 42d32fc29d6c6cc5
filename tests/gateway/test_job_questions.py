"""Jobs that must ask: the question goes to their people, and the run waits in sight. And titles of
sessions whose first message begins with words of ours."""

from pathlib import Path
from typing import Any

from hermes_agent.core.jobs import JobSpec, Run
from hermes_agent.core.settings.root import ApprovalSettings, LoopSettings
from hermes_agent.runtime.api.app import runtime_status
from tests.gateway.test_publisher import asking, rule
from tests.support.awake_loop import pass_time
from tests.support.fake_channel import HELD, Room, room
from tests.support.fake_time import MovedTime
from tests.support.runtime_fixture import script, until


async def begun(r: Room, *deliver: str, origin: str = "", **more: Any) -> Run:
    spec = JobSpec("make it", name="maker", deliver=deliver, policy="chats", **more)
    shown = await r.runtime.job_service.add(spec, "every 7d", "UTC", "test", origin)
    return await r.runtime.job_service.ask(shown.job.id)


async def in_state(r: Room, run: Run, state: str, error: str = "") -> Run:
    async def there() -> bool:
        now = await r.runtime.context.store.jobs.run(run.id)
        return now.state == state and error in now.error

    await until(there)
    return await r.runtime.context.store.jobs.run(run.id)


async def test_a_job_asks_its_owner_where_it_delivers_and_waits_in_sight(tmp_path: Path) -> None:
    rule(tmp_path, "ask")
    ticks = MovedTime()
    async with room(tmp_path, asking(tmp_path), channel={"home": "ops"}, ticks=ticks) as r:
        await r.know("ada", name="ada")
        await r.say("/queue", "ada")
        run = await begun(r, "pad:with-ada", timeout=3.0)
        asked = await r.hears("touch made", "with-ada")
        assert asked.startswith("`maker`, session `")
        assert "(job)" in asked
        waits = await in_state(r, run, "running", "it is waiting for an answer: terminal")
        assert "touch made" in waits.error
        (shown,) = (await runtime_status(r.runtime))["jobs"]["running"]
        assert shown["waits"] == waits.error
        assert not any("touch" in one for one in r.texts("ops"))
        ticks.now += 3.5  # as long as people take: that is not the job's time
        assert (await r.press("Yes", "ada")).state == "done"
        done = await in_state(r, run, "done")
        assert (done.error, done.output) == ("", "It is made")
        await r.hears("It is made", "with-ada")
        session = await r.runtime.context.store.session(done.session)
        assert session.title == "maker"


async def test_the_time_until_the_answer_is_none_of_the_work_after_it(tmp_path: Path) -> None:
    rule(tmp_path, "ask")
    ticks = MovedTime()
    model = asking(tmp_path, {"calls": [HELD]}, {"say": "It is made"})
    async with room(tmp_path, model, channel={"home": "ops"}, ticks=ticks) as r:
        await r.know("ada", name="ada")
        run = await begun(r, timeout=100.0)
        await r.hears("touch made", "ops")
        await in_state(r, run, "running", "it is waiting for an answer")
        ticks.now += 300.0
        await r.press("Yes", "ada", chat="ops")
        await r.is_held()
        ticks.now += 20.0

        async def counted() -> bool:
            now = await r.runtime.context.store.jobs.run(run.id)
            return (now.heartbeat or 0.0) - (now.began or 0.0) >= 20.0

        await until(counted)
        await r.let_go()
        assert (await in_state(r, run, "done")).output == "It is made"


async def test_a_place_where_nobody_may_answer_is_not_asked_but_the_home_is(
    tmp_path: Path,
) -> None:
    rule(tmp_path, "ask")
    async with room(tmp_path, asking(tmp_path), channel={"home": "ops"}) as r:
        await r.know("ada", name="ada")
        await r.know("bob", role="member")
        await r.say("/queue", "bob")
        run = await begun(r, "pad:with-bob")
        await r.hears("touch made", "ops")
        assert not any("touch" in one for one in r.texts("with-bob"))
        await r.press("No", "ada", chat="ops")
        await in_state(r, run, "done")


async def test_a_run_at_a_limit_of_the_loop_waits_and_continues(tmp_path: Path) -> None:
    rule(tmp_path, "allow")
    limit = LoopSettings(max_steps=1)
    async with room(tmp_path, asking(tmp_path), channel={"home": "ops"}, loop=limit) as r:
        await r.know("ada", name="ada")
        run = await begun(r)
        await r.hears("1 of 1 steps used", "ops")
        await in_state(r, run, "running", "it is waiting for an answer: limit for this turn")
        await r.press("Yes", "ada", chat="ops")
        assert (await in_state(r, run, "done")).output == "It is made"


async def test_a_group_in_which_an_owner_writes_is_asked(tmp_path: Path) -> None:
    rule(tmp_path, "ask")
    async with room(tmp_path, asking(tmp_path), channel={"home": "ops"}) as r:
        await r.know("ada", name="ada")
        await r.say("/queue", "ada", chat="team", group=True)
        run = await begun(r, origin="pad:team")
        await r.hears("touch made", "team")
        await r.press("Yes", "ada", chat="team", group=True)
        assert (await in_state(r, run, "done")).output == "It is made"
        assert not any("touch" in one for one in r.texts("ops"))


async def test_a_job_that_nobody_answers_goes_on_without_it(tmp_path: Path) -> None:
    rule(tmp_path, "ask")
    settings = ApprovalSettings(timeout_seconds=600.0)
    model = asking(tmp_path, {"say": "I did without"})
    async with room(tmp_path, model, channel={"home": "ops"}, approvals=settings) as r:
        run = await begun(r)
        await r.hears("touch made", "ops")
        await pass_time(600.0)
        assert (await in_state(r, run, "done")).output == "I did without"
        await r.hears("Nobody answered in time", "ops")


async def test_a_job_without_people_is_refused_at_once(tmp_path: Path) -> None:
    rule(tmp_path, "ask")
    model = asking(tmp_path, {"say": "I did without"})
    async with room(tmp_path, model) as r:
        run = await begun(r)
        assert (await in_state(r, run, "done")).output == "I did without"
        assert await r.runtime.context.store.gateway.deliveries() == []


async def test_a_question_in_words_is_answered_by_its_id(tmp_path: Path) -> None:
    rule(tmp_path, "ask")
    ask = {"tool": "ask_user", "with": {"question": "Which disk?"}}
    model = script(tmp_path, "m", {"calls": [ask]}, {"say": "Thank you"})
    async with room(tmp_path, model, channel={"home": "ops"}) as r:
        await r.know("ada", name="ada")
        run = await begun(r)
        asked = await r.hears("Which disk?", "ops")
        assert "next message" not in asked
        short = asked.rpartition("/answer ")[2].split()[0]
        await r.say(f"/answer {short} sda", "ada", chat="ops")
        done = await in_state(r, run, "done")
        events = await r.runtime.context.store.events(done.session)
        assert any("sda" in str(one.event) for one in events)


async def test_what_a_run_may_spend_is_nobody_asked_about(tmp_path: Path) -> None:
    async with room(tmp_path, asking(tmp_path), channel={"home": "ops"}) as r:
        rule(tmp_path, "allow")
        run = await begun(r, tokens=10)
        error = (await in_state(r, run, "failed")).error
        assert "limit for this turn: 0 of 10 tokens used" in error
        assert "`hermes task edit job-1 --tokens NUMBER`" in error
        assert await r.runtime.context.store.questions() == []


async def test_the_title_of_a_group_is_what_somebody_said(tmp_path: Path) -> None:
    async with room(tmp_path, script(tmp_path, "m", {"say": "Hello all"})) as r:
        await r.know("ada")
        await r.say("/new", "ada", chat="g", group=True)
        await r.say("who is on call?\nplease", "ada", chat="g", group=True)
        await r.rest()
        (session,) = await r.runtime.context.store.sessions()
        assert session.title == "who is on call?"
