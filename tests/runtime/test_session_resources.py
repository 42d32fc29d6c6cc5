"""What tools hold open from one call to the next, and when it is closed."""

import asyncio
from pathlib import Path

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.runtime.tools import session_resources as module
from hermes_agent.runtime.tools.session_resources import IDLE_SECONDS, SessionResources
from tests.support.runtime_fixture import open_runtime, script, until
from tests.support.subagents import answers, call, say


class Thing:
    """Something that is open until it is closed."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self.closed = 0
        self._stubborn = stubborn

    async def close(self) -> None:
        self.closed += 1
        if self._stubborn:
            raise OSError("it does not want to")


class Maker:
    def __init__(self, *, fails: int = 0, slow: asyncio.Event | None = None) -> None:
        self.made: list[Thing] = []
        self.tries = 0
        self._fails = fails
        self._slow = slow

    async def __call__(self) -> Thing:
        self.tries += 1
        if self._slow is not None:
            await self._slow.wait()
        if self.tries <= self._fails:
            raise ToolError("not now")
        self.made.append(Thing())
        return self.made[-1]


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keeps(clock: Clock) -> SessionResources:
    return SessionResources(clock)


async def test_what_was_made_is_given_again(keeps: SessionResources) -> None:
    make = Maker()
    first = await keeps.of("s").get("browser", make)
    assert await keeps.of("s").get("browser", make) is first
    assert make.tries == 1


async def test_sessions_and_names_have_things_of_their_own(keeps: SessionResources) -> None:
    make = Maker()
    made = [
        await keeps.of(session).get(name, make)
        for session, name in (("s", "a"), ("s", "b"), ("t", "a"))
    ]
    assert len({id(one) for one in made}) == 3


async def test_two_who_ask_at_once_get_the_same(keeps: SessionResources) -> None:
    begin = asyncio.Event()
    make = Maker(slow=begin)
    asking = [asyncio.create_task(keeps.of("s").get("a", make)) for _ in range(5)]
    await asyncio.sleep(0)
    begin.set()
    assert len(set(await asyncio.gather(*asking))) == 1
    assert make.tries == 1


async def test_whoever_is_cancelled_does_not_take_it_from_the_others(
    keeps: SessionResources,
) -> None:
    begin = asyncio.Event()
    make = Maker(slow=begin)
    first, second = [asyncio.create_task(keeps.of("s").get("a", make)) for _ in range(2)]
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    begin.set()
    assert await second is make.made[0]
    assert first.cancelled()
    assert make.tries == 1


async def test_what_is_made_as_its_waiter_is_cancelled_is_kept(keeps: SessionResources) -> None:
    begin = asyncio.Event()
    make = Maker(slow=begin)
    waiting = asyncio.create_task(keeps.of("s").get("a", make))
    await asyncio.sleep(0)
    begin.set()
    while not make.made:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert await keeps.of("s").get("a", make) is make.made[0]
    await keeps.close()
    assert [one.closed for one in make.made] == [1]


async def test_a_failure_that_nobody_waited_for_is_not_told_to_the_next(
    keeps: SessionResources,
) -> None:
    begin = asyncio.Event()
    make = Maker(fails=1, slow=begin)
    waiting = asyncio.create_task(keeps.of("s").get("a", make))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    begin.set()
    await asyncio.sleep(0)
    assert await keeps.of("s").get("a", make) is make.made[0]
    assert make.tries == 2


async def test_what_could_not_be_made_needs_no_closing(
    keeps: SessionResources, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ToolError, match="not now"):
        await keeps.of("s").get("a", Maker(fails=1))
    await keeps.close()
    assert caplog.text == ""


async def test_what_could_not_be_made_is_tried_again(keeps: SessionResources) -> None:
    make = Maker(fails=1)
    with pytest.raises(ToolError, match="not now"):
        await keeps.of("s").get("a", make)
    assert await keeps.of("s").get("a", make) is make.made[0]


async def test_what_is_dropped_is_closed_and_made_anew(keeps: SessionResources) -> None:
    make = Maker()
    keep = keeps.of("s")
    first = await keep.get("a", make)
    await keep.drop("a")
    second = await keep.get("a", make)
    assert (first.closed, second.closed) == (1, 0)
    assert second is not first


async def test_to_drop_what_is_not_there_is_nothing(keeps: SessionResources) -> None:
    make = Maker()
    await keeps.of("s").drop("a")
    kept = await keeps.of("s").get("a", make)
    assert kept.closed == 0


async def test_what_nobody_uses_is_closed_after_a_while(
    keeps: SessionResources, clock: Clock
) -> None:
    make = Maker()
    used = await keeps.of("used").get("a", make)
    left = await keeps.of("left").get("a", make)
    clock.now += IDLE_SECONDS - 1
    await keeps.of("used").get("a", make)
    await keeps.tidy(set)
    assert (used.closed, left.closed) == (0, 0)
    clock.now += 2
    await keeps.tidy(set)
    assert (used.closed, left.closed) == (0, 1)
    assert await keeps.of("left").get("a", make) is not left


async def test_a_session_at_work_keeps_what_it_has(keeps: SessionResources, clock: Clock) -> None:
    make = Maker()
    kept = await keeps.of("s").get("a", make)
    clock.now += 10 * IDLE_SECONDS
    await keeps.tidy(lambda: {"s"})
    clock.now += IDLE_SECONDS - 1
    await keeps.tidy(set)
    assert kept.closed == 0
    clock.now += 2
    await keeps.tidy(set)
    assert kept.closed == 1


async def test_a_session_that_begins_while_another_is_tidied_up_keeps_what_it_has(
    keeps: SessionResources, clock: Clock
) -> None:
    busy: set[str] = set()
    make = Maker()

    class Slow(Thing):
        async def close(self) -> None:
            await super().close()
            busy.add("works")
            assert await keeps.of("used").get("a", make) is used

    async def make_slow() -> Thing:
        return Slow()

    left = await keeps.of("left").get("a", make_slow)
    works = await keeps.of("works").get("a", make)
    used = await keeps.of("used").get("a", make)
    clock.now += IDLE_SECONDS + 1
    await keeps.tidy(lambda: busy)
    assert (left.closed, works.closed, used.closed) == (1, 0, 0)


async def test_whoever_asks_while_a_session_is_forgotten_gets_what_stays_open(
    keeps: SessionResources,
) -> None:
    make = Maker()
    await keeps.of("s").get("a", make)
    forgetting = asyncio.create_task(keeps.forget("s"))
    asking = asyncio.create_task(keeps.of("s").get("a", make))
    await forgetting
    assert (await asking).closed == 0
    assert [one.closed for one in make.made] == [1, 0]


async def test_a_session_that_is_forgotten_keeps_nothing(keeps: SessionResources) -> None:
    make = Maker()
    mine = [await keeps.of("s").get(name, make) for name in "ab"]
    other = await keeps.of("t").get("a", make)
    await keeps.forget("s")
    assert [one.closed for one in mine] == [1, 1]
    assert other.closed == 0
    await keeps.close()
    assert [one.closed for one in (*mine, other)] == [1, 1, 1]


async def test_something_that_cannot_be_closed_does_not_keep_the_rest_open(
    keeps: SessionResources, caplog: pytest.LogCaptureFixture
) -> None:
    stubborn, plain = Thing(stubborn=True), Thing()

    async def make_stubborn() -> Thing:
        return stubborn

    async def make_plain() -> Thing:
        return plain

    await keeps.of("s").get("a", make_stubborn)
    await keeps.of("s").get("b", make_plain)
    await keeps.close()
    assert (stubborn.closed, plain.closed) == (1, 1)
    assert "cannot close a a" in caplog.text
    assert module.log.name in {record.name for record in caplog.records}


async def test_a_runtime_closes_what_its_sessions_hold_open(tmp_path: Path) -> None:
    make = Maker()

    @tool(repeatable=True)
    async def look(context: ToolContext, at: int) -> str:
        """Look."""
        assert context.services.resources is not None
        thing = await context.services.resources.get("eye", make)
        return f"{at}: {make.made.index(thing)}"

    looks = [{"calls": [call("look", at=at)]} for at in (1, 2)]
    model = answers(tmp_path, go=[*looks, say("done")])
    async with open_runtime(tmp_path, tools=[look]) as h:
        first, second = await h.open(model), await h.open(model)
        await h.say(first, "go")
        await h.say(second, "go")
        assert [one.closed for one in make.made] == [0, 0]
        await h.runtime.sessions.delete_session(await h.now(first))
        assert [one.closed for one in make.made] == [1, 0]
    assert [one.closed for one in make.made] == [1, 1]


async def test_what_a_background_command_has_left_has_no_secrets_in_it(tmp_path: Path) -> None:
    """Nobody waits for the command or looks at it again."""
    call = {"tool": "terminal", "with": {"command": "cat pw; touch ended", "background": True}}
    model = script(tmp_path / "models", "one", {"calls": [call]}, {"say": "It runs."})
    async with open_runtime(tmp_path) as here:
        (here.work / "pw").write_text("DB_PASSWORD=hunter2-of-the-db\n")
        session = await here.open(model)
        await here.say(session, "go")
        spool = here.folder / "home" / "terminals" / session.id / "local"

        async def ended() -> bool:
            await here.runtime.tidy()
            return "redacted" in "".join(file.read_text() for file in spool.glob("*.o"))

        await until(ended)
        (output,) = spool.glob("*.o")
        assert output.read_text() == "DB_PASSWORD=[redacted:password]\n"
