"""The tool `send_message`: to the chat of the session, and elsewhere by leave of the gate."""

from pathlib import Path
from typing import Any

from hermes_agent.core import events as ev
from tests.support.fake_channel import room
from tests.support.runtime_fixture import script


def sending(folder: Path, *calls: dict[str, Any]) -> str:
    made = [{"tool": "send_message", "with": given} for given in calls]
    return script(folder, "m", {"calls": made}, {"say": "Sent"})


async def test_a_file_that_was_made_is_sent_here(tmp_path: Path) -> None:
    write = {"tool": "write_file", "with": {"path": "report.csv", "content": "a,b\n"}}
    send = {"tool": "send_message", "with": {"text": "The report", "files": ["report.csv"]}}
    missing = {"tool": "send_message", "with": {"files": ["none.csv"]}}
    model = script(
        tmp_path, "m", {"calls": [write]}, {"calls": [send]}, {"calls": [missing]}, {"say": "Done"}
    )
    async with room(tmp_path, model) as r:
        await r.know("ada")
        await r.say("make a report")
        await r.hears("Done")
        await r.rest()
        (sent,) = [one for one in r.pad.every if one.files]
        assert (sent.text, sent.files[0].name, sent.files[0].data) == (
            "The report", "report.csv", b"a,b\n",
        )  # fmt: skip
        assert sent.chat.chat == "with-ada"
        (session,) = await r.runtime.context.store.sessions()
        finished = [
            one for one in await r.fixture.journal(session) if isinstance(one, ev.CallFinished)
        ]
        assert "no file at " in finished[-1].text
        assert "none.csv'" in finished[-1].text


async def test_other_chats_ask_first_and_are_named_to_the_rules(tmp_path: Path) -> None:
    model = sending(tmp_path, {"text": "psst", "target": "pad:other"})
    async with room(tmp_path, model, policy="careful") as r:
        await r.know("ada")
        await r.say("tell them")
        assert "pad:other" in await r.hears("May I")
        await r.press("Yes")
        await r.hears("psst", "other")
        await r.hears("Sent", "with-ada")
        (session,) = await r.runtime.context.store.sessions()
        judged = [one for one in await r.fixture.journal(session) if isinstance(one, ev.CallJudged)]
        assert judged[0].facts.actor.source == "pad"


async def test_where_nothing_leads_is_said_to_the_model(tmp_path: Path) -> None:
    model = sending(
        tmp_path, {"text": "x", "target": "pigeon"}, {"text": "x", "target": "pad"}, {"text": " "}
    )
    async with room(tmp_path, model) as r:
        await r.know("ada")
        await r.say("go")
        await r.hears("Sent")
        (session,) = await r.runtime.context.store.sessions()
        told = [one for one in await r.fixture.journal(session) if isinstance(one, ev.CallFinished)]
        told.sort(key=lambda one: one.call_id)  # they are made side by side
        assert [one.ok for one in told] == [False, False, False]
        assert "no channel called 'pigeon'" in told[0].text
        assert "no home chat" in told[1].text
        assert "nothing to send" in told[2].text


async def test_a_session_of_no_chat_has_no_here(tmp_path: Path) -> None:
    async with room(tmp_path, sending(tmp_path, {"text": "x"})) as r:
        session = await r.fixture.open(r.runtime.context.settings.model)
        events = await r.fixture.say(session, "go")
        (told,) = [one for one in events if isinstance(one, ev.CallFinished)]
        assert "has no chat" in told.text
        assert not r.pad.every
