"""`/retry` in a chat: the last turn again, and what is done stays done."""

import json
from pathlib import Path
from typing import Any

from hermes_agent.core import events as ev
from hermes_agent.core.gateway import Chat, InboundMessage, Person
from hermes_agent.gateway.inbound.commands import AGAIN
from tests.support.fake_channel import Room, room
from tests.support.runtime_fixture import script


def model(folder: Path, *turns: dict[str, Any]) -> str:
    path = folder / "m.json"
    path.write_text(json.dumps({"turns": list(turns)}))
    return f"scripted/{path}"


async def taken(r: Room) -> list[str]:
    (session,) = await r.runtime.context.store.sessions()
    events = await r.fixture.journal(session)
    return [one.text for one in events if isinstance(one, ev.MessageTaken)]


async def test_a_turn_that_failed_goes_on_and_does_nothing_twice(tmp_path: Path) -> None:
    made = {"tool": "terminal", "with": {"command": "echo once >> made"}}
    # The first turn does it and then has no reply left: it fails.
    failing = model(
        tmp_path,
        {"when": "make it", "replies": [{"calls": [made]}]},
        {"when": "do not do it again", "replies": [{"say": "It is made"}]},
    )
    async with room(tmp_path, failing) as r:
        await r.know("ada")
        await r.say("make it")
        await r.hears("That did not work")
        await r.say("/retry")
        await r.hears(AGAIN)
        await r.hears("It is made")
        await r.rest()
        first, second = await taken(r)
        assert first == "make it"
        assert second.startswith("(Your last turn did not come to its end (failed: ")
        (session,) = await r.runtime.context.store.sessions()
        assert (Path(session.workspace) / "made").read_text() == "once\n"


async def test_another_answer_may_be_wanted_and_with_words(tmp_path: Path) -> None:
    async with room(tmp_path, script(tmp_path, "m", {"say": "Well"})) as r:
        await r.know("ada")
        await r.say("/retry")
        await r.hears("this chat has no session yet")
        await r.say("how is it?", chat="g", group=True)
        await r.rest()
        await r.say("/retry in German", chat="g", group=True)
        await r.rest()
        (_, second) = await taken(r)
        assert second.startswith("Ada (")
        assert "I want another answer" in second
        assert "in German" in second


async def test_what_is_under_way_is_not_begun_again(tmp_path: Path) -> None:
    async with room(tmp_path, script(tmp_path, "m", {"say": "at last", "wait": 300})) as r:
        await r.know("ada")
        await r.say("how is it?")
        await r.say("/retry")
        await r.hears("I am still working on it")
        await r.say("/stop")
        await r.rest()
        assert len(await taken(r)) == 1


async def test_a_retry_that_is_handled_twice_is_one(tmp_path: Path) -> None:
    async with room(tmp_path, script(tmp_path, "m", {"say": "Well"})) as r:
        await r.know("ada")
        await r.say("how is it?")
        await r.rest()
        again = InboundMessage("again", Chat("pad", "with-ada"), Person("ada", "Ada"), "/retry")
        kept, _ = await r.add_inbound(again)
        await r.router.handle(kept)
        await r.rest()
        await r.router.handle(kept)
        await r.rest()
        assert len(await taken(r)) == 2
