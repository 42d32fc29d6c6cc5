"""What people and the agent can say to one another, on every channel."""

import pytest

from hermes_agent.core.gateway import Button
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import SendError
from hermes_agent.gateway.delivery.splitting import split_for
from tests.support.platforms import Where
from tests.support.platforms.world import World, until

PICTURE = Media("image/png", b"\x89PNG\r\n\x1a\n" + bytes(64), "chart.png")
PAPER = Media("application/pdf", b"%PDF-1.7 " + bytes(100), "report.pdf")
MEMO = Media("audio/ogg", b"OggS" + bytes(50), "voice.ogg")
MARKDOWN = (
    "# Disk\n\nIt is **90 %** full on `db-1`: *see* <below> & [more](https://example.org/?a=1&b=2)."
)
BUTTONS = ((Button("Yes", "q1:yes"), Button("No", "q1:no")),)


async def test_what_a_person_writes_arrives_as_it_was_written(here: World) -> None:
    id = await here.platform.say("Grüße 👋 <b> & *stars*\nline two")
    (arrived,) = await here.heard()
    assert arrived.text == "Grüße 👋 <b> & *stars*\nline two"
    assert (arrived.id, arrived.chat) == (id, here.platform.chat())
    assert (arrived.person.id, arrived.kind) == (here.platform.person, "message")
    assert arrived.addressed


async def test_messages_arrive_in_the_order_they_were_written(here: World) -> None:
    said = [f"number {number}" for number in range(12)]
    for text in said:
        await here.platform.say(text)
    assert [arrived.text for arrived in await here.heard(12)] == said


async def test_what_the_agent_says_is_shown_with_its_markup_rendered(here: World) -> None:
    receipt = await here.send(MARKDOWN)
    shown = here.shown()
    assert shown.id == receipt
    assert shown.chat == here.platform.chat()
    for words in ("Disk", "90 %", "db-1", "<below> &", "more"):
        assert words in shown.text


async def test_code_is_shown_to_the_letter(here: World) -> None:
    code = 'if a < b && c > d:\n    print("*x* _y_ `z`")'
    await here.send(f"Try:\n\n```python\n{code}\n```")
    assert code in here.shown().text


async def test_a_message_as_long_as_the_manifest_allows_is_taken(here: World) -> None:
    text = ("many words, " * 2000)[: here.manifest.longest - 1] + "."
    await here.send(text)
    assert here.shown().text.replace("\n", " ") == text


async def test_wide_characters_are_not_lost_in_long_messages(here: World) -> None:
    text = "👋" * here.manifest.longest
    parts = split_for(here.manifest, text)
    for part in parts:
        await here.send(part)
    shown = "".join(shown.text for shown in here.platform.sent())
    assert shown.count("👋") == here.manifest.longest
    assert len(here.platform.sent()) == len(parts)


async def test_a_message_can_be_edited_where_the_manifest_says_so(here: World) -> None:
    receipt = await here.send("thinking …")
    if here.manifest.edits:
        assert await here.send("The **answer**", edit=receipt)
        assert "answer" in here.shown().text
        assert here.shown().edited
        await here.send("The **answer**", edit=receipt)
    else:
        with pytest.raises(SendError) as refused:
            await here.send("The answer", edit=receipt)
        assert not refused.value.again
    assert len(here.platform.sent()) == 1


async def test_an_edit_of_what_is_not_there_is_refused_for_good(here: World) -> None:
    with pytest.raises(SendError) as refused:
        await here.send("The answer", edit="12/34567")
    assert not refused.value.again


async def test_files_and_pictures_are_sent(here: World) -> None:
    await here.send("Here they are", files=(PICTURE, PAPER))
    sent = [file for shown in here.platform.sent() for file in shown.files]
    assert any("Here they are" in shown.text for shown in here.platform.sent())
    if here.manifest.files:
        assert [file.data for file in sent] == [PICTURE.data, PAPER.data]
        assert {file.name for file in sent} == {PICTURE.name, PAPER.name}
    else:
        assert sent == []


async def test_files_and_pictures_arrive(here: World) -> None:
    if here.manifest.files:
        await here.platform.say("look", files=(PICTURE,))
        await here.platform.say("read", files=(PAPER,))
        picture, paper = await here.heard(2)
        assert [file.data for file in picture.files] == [PICTURE.data]
        assert picture.files[0].is_image
        assert [(file.data, file.type, file.name) for file in paper.files] == [
            (PAPER.data, PAPER.type, PAPER.name)
        ]
        assert (picture.text, paper.text) == ("look", "read")
    else:
        await here.platform.say("look", files=(PICTURE,))
        (arrived,) = await here.heard()
        assert arrived.files == ()


async def test_voice_memos_arrive_as_such(here: World) -> None:
    await here.platform.say("", voice=MEMO)
    if here.manifest.voice:
        (arrived,) = await here.heard()
        assert [memo.data for memo in arrived.voice] == [MEMO.data]
        assert arrived.voice[0].type.startswith("audio/")
    else:
        await here.platform.say("after")
        assert [memo for arrived in await here.heard(1) for memo in arrived.voice] == []


async def test_a_pressed_button_comes_back_with_its_data(here: World) -> None:
    receipt = await here.send("Shall I?", buttons=BUTTONS)
    shown = here.shown()
    if here.manifest.buttons:
        assert shown.buttons == (("Yes", "No"),)
        await here.platform.press(shown, "Yes")
        (pressed,) = await here.heard()
        assert (pressed.kind, pressed.text) == ("press", "q1:yes")
        assert pressed.person.id == here.platform.person
        assert pressed.chat == here.platform.chat()
        assert pressed.reply_to in {receipt, ""}
    else:
        assert shown.buttons == ()


async def test_buttons_go_when_the_message_is_edited_without_them(here: World) -> None:
    receipt = await here.send("Shall I?", buttons=BUTTONS)
    if here.manifest.buttons and here.manifest.edits:
        await here.send("You said yes", edit=receipt)
        assert here.platform.sent()[-1].buttons == ()
    else:
        assert bool(here.shown().buttons) == here.manifest.buttons


@pytest.mark.parametrize("addressed", [True, False])
async def test_in_a_group_it_is_known_whether_the_agent_is_meant(
    here: World, addressed: bool
) -> None:
    if not here.manifest.groups:
        assert here.platform.chat("group") == here.platform.chat()
        return
    await here.platform.say("how are you?", where="group", addressed=addressed)
    (arrived,) = await here.heard()
    assert arrived.group
    assert arrived.chat == here.platform.chat("group")
    assert arrived.addressed == addressed
    assert arrived.text == "how are you?"


async def test_an_answer_to_the_agent_in_a_group_is_meant_for_it(here: World) -> None:
    if not here.manifest.groups:
        assert here.platform.chat("group") == here.platform.chat()
        return
    receipt = await here.send("Shall I go on?", chat=here.platform.chat("group"))
    await here.platform.say("yes", where="group", reply_to=receipt)
    (arrived,) = await here.heard()
    assert arrived.addressed
    assert arrived.reply_to == receipt


@pytest.mark.parametrize("where", ["private", "group", "thread"])
async def test_an_answer_goes_to_the_place_that_was_written_from(here: World, where: Where) -> None:
    await here.platform.say("hello", where=where, addressed=where != "private")
    (arrived,) = await here.heard()
    if where == "thread":
        assert bool(arrived.chat.thread) == here.manifest.threads
    assert arrived.chat == here.platform.chat(where)
    await here.send("hello to you", chat=arrived.chat, reply_to=arrived.id)
    assert here.shown().chat == arrived.chat


async def test_an_answer_shows_what_it_answers(here: World) -> None:
    id = await here.platform.say("which one?")
    await here.send("the first", reply_to=id)
    assert here.shown().reply_to in {id, ""}
    await here.send("of two", reply_to="unknown/999999")
    assert len(here.platform.sent()) == 2


async def test_what_a_person_changes_arrives_as_a_change(here: World) -> None:
    id = await here.platform.say("delete all")
    await here.heard()
    if here.manifest.edits:
        await here.platform.change(id, "delete none")
        first, changed = await here.heard(2)
        assert (changed.kind, changed.text, changed.reply_to) == ("edited", "delete none", id)
        assert changed.id != first.id


async def test_it_is_shown_that_an_answer_is_being_written(here: World) -> None:
    await here.channel.typing(here.platform.chat())
    if here.manifest.typing:
        await until(lambda: here.platform.chat() in here.platform.seen_typing())
    else:
        assert list(here.platform.seen_typing()) == []
