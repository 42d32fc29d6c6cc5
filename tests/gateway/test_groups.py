"""What is asked in a group reaches somebody who may answer it, and is answered once."""

from pathlib import Path

from hermes_agent.core import events as ev
from hermes_agent.gateway.approvals.routing import ASKED, NOBODY
from tests.gateway.test_publisher import asking, rule
from tests.support.fake_channel import Room, room
from tests.support.runtime_fixture import until


async def asks_in_group(r: Room) -> str:
    await r.know("bob", role="member", name="bob")
    await r.say("make it", "bob", chat="g", group=True)
    return await r.hears("May I", "g")


async def test_where_nobody_of_a_group_may_answer_the_owners_are_asked_at_home(
    tmp_path: Path,
) -> None:
    rule(tmp_path, "ask")
    given = {"home": "ops"}
    async with room(tmp_path, asking(tmp_path), policy="chats", channel=given) as r:
        await r.know("ada", name="ada")
        assert ASKED in await asks_in_group(r)
        asked = await r.hears("touch made", "ops")
        assert "in `pad:g`" in asked
        assert ASKED not in asked
        assert (await r.press("Yes", "bob", chat="g", group=True)).why == "they may not answer it"
        assert (await r.press("Yes", "ada", chat="ops")).state == "done"
        await r.hears("It is made", "g")
        for chat in ("g", "ops"):
            await r.hears("yes: ada", chat)
        await r.rest()
        assert not any(one.buttons for one in r.pad.sent.values())
        (session,) = await r.runtime.context.store.sessions()
        answers = [
            one for one in await r.fixture.journal(session) if isinstance(one, ev.QuestionAnswered)
        ]
        assert len(answers) == 1


async def test_where_an_owner_is_in_the_group_nobody_else_is_asked(tmp_path: Path) -> None:
    rule(tmp_path, "ask")
    given = {"home": "ops"}
    async with room(tmp_path, asking(tmp_path), policy="chats", channel=given) as r:
        await r.know("ada", name="ada")
        await r.know("bob", role="member")
        await r.say("/queue", "bob", chat="g", group=True)
        await r.say("I only say this to bob", "ada", chat="g", group=True, addressed=False)
        assert ASKED not in await asks_in_group(r)
        assert (await r.press("Yes", "ada", chat="g", group=True)).state == "done"
        await r.hears("It is made", "g")
        await r.rest()
        assert r.texts("ops") == []


async def test_who_comes_later_is_asked_then(tmp_path: Path) -> None:
    rule(tmp_path, "ask")
    async with room(tmp_path, asking(tmp_path), policy="chats") as r:
        assert NOBODY in await asks_in_group(r)
        await r.know("ada", name="ada")
        await r.say("/queue")
        await r.say("who decides?", "bob", chat="g", group=True)
        r.runtime.context.bus.publish(
            ev.Recorded("nobody", 0, 0.0, ev.ApprovalGiven("nothing", "nobody"))
        )  # anything that is decided makes it look again
        await r.hears("touch made", "with-ada")
        assert (await r.press("Yes", "ada")).state == "done"
        await r.hears("It is made", "g")


async def test_a_question_for_several_is_asked_where_so_many_are(tmp_path: Path) -> None:
    rule(tmp_path, "{ask: {count: 2}}")
    given = {"home": "ops"}
    async with room(tmp_path, asking(tmp_path), policy="chats", channel=given) as r:
        await r.know("ada", name="ada")
        await r.know("carl", name="carl")
        await r.say("make it", "ada", chat="g", group=True)
        assert ASKED in await r.hears("May I", "g")
        await r.hears("touch made", "ops")

        async def agreed() -> bool:
            return any("Agreed so far: ada" in text for text in r.texts("g"))

        assert (await r.press("Yes", "ada", chat="g", group=True)).state == "done"
        await until(agreed)
        assert (await r.press("Yes", "carl", chat="ops")).state == "done"
        await r.hears("It is made", "g")
