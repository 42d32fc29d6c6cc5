"""`/undo`, `/branch`, `/compact` and `/context` in a chat."""

from pathlib import Path

from hermes_agent.core import events as ev
from hermes_agent.core.gateway import Chat, InboundMessage, Person
from tests.support.fake_channel import room
from tests.support.runtime_fixture import script


async def test_a_chat_goes_back_and_branches_off_once_per_command(tmp_path: Path) -> None:
    call = {"tool": "write_file", "with": {"path": "made", "content": "x"}}
    model = script(tmp_path, "m", {"calls": [call]}, {"say": "Well"})
    async with room(tmp_path, model) as r:
        await r.know("ada")
        for text in ("first", "second"):
            await r.say(text)
            await r.rest()
        store = r.runtime.context.store
        (session,) = await store.sessions()
        undo = InboundMessage("u1", Chat("pad", "with-ada"), Person("ada", "Ada"), "/undo")
        entry, _ = await r.add_inbound(undo)
        assert "Not undone: wrote made" in await r.hears("Back to before: second")
        await r.router.handle(entry)  # as after a crash
        events = await r.fixture.journal(session)
        assert sum(isinstance(one, ev.Rewound) for one in events) == 1
        await r.say("/branch other")
        await r.hears("This chat continues in ")
        await r.say("third")
        await r.rest()
        (branch,) = [one for one in await store.sessions() if one.branch_of]
        assert (branch.branch_of, branch.name, branch.source) == (session.id, "other", "pad")
        said = [one.text for one in await r.fixture.journal(branch)
                if isinstance(one, ev.MessageTaken)]  # fmt: skip
        assert said == ["first", "second", "third"]
        assert (await store.session(session.id)).turns == 2
        await r.say("/context")
        await r.hears("tool results: ")
        await r.say("/compact")
        await r.hears("too short")
        assert r.texts().count("Well") == 3  # nothing that was delivered is delivered again
