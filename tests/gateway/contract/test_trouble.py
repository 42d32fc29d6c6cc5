"""What a channel does when its platform makes trouble."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_agent.core.errors import HermesError
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import CredentialsRejected, SendError
from tests.support.patience import PATIENCE
from tests.support.platforms import having
from tests.support.platforms.world import World, until, world

PAPER = Media("application/pdf", b"%PDF-1.7 " + bytes(100), "report.pdf")
PAPERS = (PAPER, Media("text/plain", b"more", "more.txt"))


async def test_the_platform_is_told_only_when_a_message_is_kept(here: World) -> None:
    here.keeps.clear()
    id = await here.platform.say("important")
    await asyncio.sleep(0.1)
    assert here.platform.acknowledged(id) is not True
    here.keeps.set()
    assert [arrived.text for arrived in await here.heard()] == ["important"]
    await until(lambda: here.platform.acknowledged(id) is not False)


async def test_what_was_not_kept_when_we_died_comes_again(here: World) -> None:
    here.keeps.clear()
    await here.platform.say("important")
    await asyncio.sleep(0.05)
    await here.disconnect()
    here.keeps.set()
    here.channel = here.made()
    await here.connect()
    assert [arrived.text for arrived in await here.heard()] == ["important"]


async def test_what_was_said_while_we_were_away_arrives_once(here: World) -> None:
    await here.platform.say("before")
    await here.heard()
    await here.disconnect()
    await here.platform.say("meanwhile")
    await here.platform.say("also meanwhile", where="group", addressed=True)
    here.channel = here.made()
    await here.connect()
    await here.platform.say("after")
    texts = {arrived.text for arrived in await here.heard(4)}
    assert texts == {"before", "meanwhile", "also meanwhile", "after"}


@pytest.mark.parametrize("name", having("cut"))
async def test_a_cut_connection_is_made_again_and_nothing_is_lost(here: World) -> None:
    await here.platform.say("before")
    await here.heard()
    await here.platform.cut()
    await here.platform.say("after")
    assert [arrived.text for arrived in await here.heard(2)] == ["before", "after"]
    await here.proven()
    await here.send("still here")
    assert here.shown().text == "still here"


@pytest.mark.parametrize("name", having("twice"))
async def test_what_is_delivered_twice_arrives_once(here: World) -> None:
    await here.platform.say("once")
    await here.heard()
    await here.platform.again()
    await here.platform.say("and on")
    assert [arrived.text for arrived in await here.heard(2)] == ["once", "and on"]


@pytest.mark.parametrize("name", having("limited"))
async def test_a_rate_limit_says_how_long_to_wait(here: World) -> None:
    here.platform.trouble.limited = 1
    with pytest.raises(SendError) as refused:
        await here.send("too much", key="same")
    assert refused.value.again
    assert refused.value.after == here.platform.trouble.after
    assert not refused.value.doubtful
    await here.send("too much", key="same")
    assert here.shown().text == "too much"


@pytest.mark.parametrize("name", having("limited"))
async def test_a_message_of_several_parts_goes_on_where_it_stopped(here: World) -> None:
    await here.send("warm up")
    if not here.manifest.files:
        assert len(here.platform.sent()) == 1
        return
    here.platform.trouble.limited = 1
    with pytest.raises(SendError):
        await here.send("papers", files=PAPERS, key="same")
    await here.send("papers", files=PAPERS, key="same")
    sent = here.platform.sent()[1:]
    assert [file.data for shown in sent for file in shown.files] == [p.data for p in PAPERS]
    assert sum("papers" in shown.text for shown in sent) == 1


@pytest.mark.parametrize("name", having("broken"))
async def test_an_error_of_the_platform_is_worth_another_try(here: World) -> None:
    here.platform.trouble.broken = 1
    with pytest.raises(SendError) as refused:
        await here.send("hello", key="same")
    assert refused.value.again
    await here.send("hello", key="same")
    assert here.shown().text == "hello"


async def test_a_message_sent_again_under_its_key_is_shown_once_where_that_is_known(
    here: World,
) -> None:
    first = await here.send("once", key="same")
    second = await here.send("once", key="same")
    assert first == second or not here.manifest.knows_twice
    assert len(here.platform.sent()) == (1 if here.manifest.knows_twice else 2)


@pytest.mark.parametrize("name", having("forgets-chat"))
async def test_a_chat_that_is_gone_is_not_tried_again(here: World) -> None:
    here.platform.trouble.forgets_chat = True
    with pytest.raises(SendError) as refused:
        await here.send("anybody there?")
    assert not refused.value.again
    assert not refused.value.channel


@pytest.mark.parametrize("name", having("refuses-markup"))
async def test_text_goes_plain_when_its_markup_is_refused(here: World) -> None:
    here.platform.trouble.refuses_markup = True
    await here.send("It is **bold**")
    assert here.shown().text == "It is **bold**"


@pytest.mark.parametrize("name", having("loses-files"))
async def test_a_file_that_cannot_be_fetched_does_not_keep_its_message_back(here: World) -> None:
    here.platform.trouble.loses_files = True
    await here.platform.say("read this", files=(PAPER,))
    (arrived,) = await here.heard()
    assert arrived.text.startswith("read this")
    assert "could not be fetched" in arrived.text
    assert arrived.files == ()


@pytest.mark.parametrize("name", having("expired"))
async def test_an_expired_token_is_refused_and_no_restart_is_tried(here: World) -> None:
    here.platform.trouble.expired = True
    with pytest.raises(SendError) as refused:
        await here.send("hello")
    assert refused.value.channel
    with pytest.raises(HermesError):
        await here.channel.probe()
    await here.platform.cut()
    await until(lambda: any(isinstance(end, CredentialsRejected) for end in here.ends))
    said = [str(refused.value), *(str(end) for end in here.ends)]
    assert not [one for one in said for secret in here.platform.secrets().values() if secret in one]


@pytest.mark.parametrize("name", having("deaf"))
async def test_a_channel_that_is_connected_but_deaf_is_found_out(here: World) -> None:
    await here.platform.say("hello")
    await here.heard()
    await here.proven()
    here.platform.trouble.deaf = True
    await here.platform.say("hello?")
    with pytest.raises(HermesError) as deaf:
        await here.channel.probe()
    assert not isinstance(deaf.value, CredentialsRejected)
    here.platform.trouble.deaf = False
    await here.reconnect()
    assert [arrived.text for arrived in await here.heard(2)] == ["hello", "hello?"]


@pytest.mark.parametrize("name", having("malformed"))
async def test_what_is_malformed_is_passed_over_and_noted(
    here: World, caplog: pytest.LogCaptureFixture
) -> None:
    rubbish: list[Any] = [{}, [], "text", {"from": 3}, {"text": ["x"]}, None, {"chat": {"id": "x"}}]
    for one in rubbish:
        await here.platform.bring(one)
    await here.platform.say("fine")
    assert [arrived.text for arrived in await here.heard()] == ["fine"]
    assert any("malformed" in record.message for record in caplog.records)
    assert here.ends == []


LETTERS = st.text(st.characters(), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | LETTERS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(LETTERS, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def damaged(draw: st.DrawFn, sound: Any) -> Any:
    """Something sound of which one part is anything."""
    if not isinstance(sound, dict | list) or not sound or draw(st.integers(0, 3)) == 0:
        return draw(JSON)
    places = sorted(sound) if isinstance(sound, dict) else range(len(sound))
    place = draw(st.sampled_from(list(places)))
    copy: Any = json.loads(json.dumps(sound))
    copy[place] = draw(damaged(sound[place]))
    return copy


@pytest.mark.parametrize("name", having("malformed"))
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_is_brought_the_channel_goes_on(
    name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp(name)
    asyncio.run(check_it_goes_on(name, folder, data))


async def check_it_goes_on(name: str, folder: Path, data: st.DataObject) -> None:
    async with world(name, folder) as here:
        for _ in range(40):
            await here.platform.bring(data.draw(damaged(here.platform.sound())))
        id = await here.platform.say("fine")
        async with asyncio.timeout(PATIENCE):
            while id not in {row.arrived.id for row in await here.store.gateway.new(1000)}:
                await asyncio.sleep(0.01)
        assert here.ends == []
