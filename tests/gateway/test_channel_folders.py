"""What only one channel has, and what all folders promise."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from hermes_agent.core.errors import HermesError
from hermes_agent.gateway.channels.matrix.rooms import Rooms
from hermes_agent.gateway.channels.matrix.wire import MatrixClient, MatrixError
from hermes_agent.gateway.channels.shared import MultipartSend, ReadCursors
from tests.support.platforms import platform
from tests.support.platforms.discord import DiscordPlatform
from tests.support.platforms.slack import SlackPlatform
from tests.support.platforms.world import until, world, world_of


@pytest.mark.parametrize("name", ["discord", "slack"])
async def test_without_a_chat_for_probes_what_the_platform_says_is_compared(
    name: str, tmp_path: Path
) -> None:
    there = platform(name)
    assert isinstance(there, DiscordPlatform | SlackPlatform)
    there.probe_chat = ""
    async with world_of(there, tmp_path) as here:
        await there.say("hello")
        await here.heard()
        await here.send("and to you")
        await here.channel.probe()
        there.trouble.deaf = True
        await there.say("still there?")
        with pytest.raises(HermesError, match="did not arrive here"):
            await here.channel.probe()


async def test_slack_is_followed_to_a_new_connection_when_it_asks(tmp_path: Path) -> None:
    there = SlackPlatform()
    async with world_of(there, tmp_path) as here:
        first = there.sockets[0]
        await there.refresh()
        await until(lambda: bool(there.sockets) and there.sockets[0] is not first)
        await there.say("on the new one")
        assert [arrived.text for arrived in await here.heard()] == ["on the new one"]
        assert here.ends == []


async def test_answers_in_threads_of_slack_are_not_missed_while_away(tmp_path: Path) -> None:
    there = SlackPlatform()
    async with world_of(there, tmp_path) as here:
        await there.say("first", where="thread", addressed=True)
        await here.heard()
        await here.disconnect()
        await there.say("second", where="thread")
        here.channel = here.made()
        await here.connect()
        assert [arrived.text for arrived in await here.heard(2)] == ["first", "second"]


async def test_the_token_of_slack_is_shown_to_slack_only(tmp_path: Path) -> None:
    there, elsewhere = SlackPlatform(), SlackPlatform()
    await elsewhere.start(tmp_path)
    try:
        async with world_of(there, tmp_path) as here:
            file = {"url_private_download": f"http://localhost:{elsewhere.port}/files/F1"}
            message = {**there._message("look"), "channel": "D0ADA", "files": [file]}
            await there._event({**message, "subtype": "file_share"})
            (arrived,) = await here.heard()
        assert "not stored by Slack" in arrived.text
    finally:
        await elsewhere.stop()


def test_marks_keep_the_furthest_of_each_chat() -> None:
    marks = ReadCursors()
    for chat, id in (("a", "9"), ("b", "10"), ("a", "8")):
        marks.seen(chat, id)
    again = ReadCursors(str(marks))
    assert (again.of("a"), again.before("c"), again.chats()) == ("9", "10", ["a", "b"])
    assert ReadCursors("rubbish").chats() == []


async def test_a_message_of_parts_goes_on_after_the_last_that_went_out() -> None:
    went: list[str] = []

    async def part(name: str) -> str:
        if name == "b" and went == ["a"]:
            went.append("failed")
            raise OSError("cut")
        went.append(name)
        return name

    progress = MultipartSend()
    parts: list[Callable[[], Awaitable[str]]] = [partial(part, name) for name in "abc"]
    with pytest.raises(OSError, match="cut"):
        await progress.send("key", parts)
    assert await progress.send("key", parts) == ["a", "b", "c"]
    assert went == ["a", "failed", "b", "c"]


async def test_what_is_written_before_the_first_message_of_ntfy_is_not_missed_while_away(
    tmp_path: Path,
) -> None:
    async with world("ntfy", tmp_path) as here:
        await here.disconnect()
        await here.platform.say("while you were away")
        here.channel = here.made()
        await here.connect()
        assert [arrived.text for arrived in await here.heard()] == ["while you were away"]


@pytest.mark.parametrize("status", [429, 503])
async def test_a_room_of_matrix_that_cannot_be_asked_does_not_pass_for_a_private_chat(
    status: int,
) -> None:
    answers = [
        web.json_response({"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 2_500}, status=status),
        web.json_response({"joined": {name: {} for name in ("@a:x", "@b:x", "@c:x")}}),
    ]

    async def members(_request: web.Request) -> web.Response:
        return answers.pop(0)

    app = web.Application()
    app.router.add_get("/_matrix/client/v3/rooms/{room}/joined_members", members)
    async with TestServer(app) as server:
        wire = MatrixClient(str(server.make_url("")), "token")
        rooms = Rooms(wire)
        with pytest.raises(MatrixError) as raised:
            await rooms.is_group("!r:x")
        assert raised.value.after == (2.5 if status == 429 else None)
        assert await rooms.is_group("!r:x")
        await wire.close()
