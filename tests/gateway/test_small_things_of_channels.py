"""How long platforms ask to wait, which commands of a group are for us, and files too large."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_agent.core.messages import Media
from hermes_agent.gateway.channels.shared import MAX_BYTES, MAX_WAIT, retry_after
from hermes_agent.gateway.channels.telegram import wire
from tests.support.platforms.telegram import TelegramPlatform
from tests.support.platforms.world import world_of

NOW = "Mon, 16 Nov 2026 02:00:00 GMT"
LATER = "Mon, 16 Nov 2026 02:01:30 GMT"


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0.25"}, 0.25),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "9999999"}, MAX_WAIT),
        ({"Retry-After": LATER, "Date": NOW}, 90.0),
        ({"Retry-After": LATER}, 5.0),
        ({"Retry-After": "soon"}, 5.0),
        ({"Retry-After": "nan"}, 5.0),
        ({}, 5.0),
    ],
)
def test_how_long_a_platform_asks_to_wait(headers: Mapping[str, str], wait: float) -> None:
    assert retry_after(headers, 5.0) == wait


def group(text: str, command: int = 0) -> wire.Update:
    entities = [{"type": "bot_command", "offset": 0, "length": command}] if command else []
    message: dict[str, Any] = {
        "message_id": 1, "chat": {"id": -5, "type": "group"}, "text": text, "entities": entities,
        "from": {"id": 7},
    }  # fmt: skip
    return msgspec.convert({"update_id": 1, "message": message}, wire.Update)


def addressed(groups: wire.Groups, update: wire.Update, me: wire.Me) -> bool:
    arrived = wire.arrived(update, groups.me_in(update, me))
    assert arrived is not None
    return arrived.addressed


def test_a_bare_command_of_a_group_is_ours_only_where_telegram_sorts_out_which_are() -> None:
    me, all_of_it = wire.Me(1, "our_bot"), wire.Me(1, "our_bot", sees_all=True)
    bare, ours = group("/new", 4), group("/new@our_bot", 12)
    groups = wire.Groups()
    assert addressed(groups, bare, me)
    assert not addressed(groups, bare, all_of_it)
    assert addressed(groups, ours, all_of_it)
    assert not addressed(groups, group("we talk among ourselves"), me)
    assert not addressed(groups, bare, me)  # we hear all of this group, as an administrator
    assert addressed(groups, ours, me)


async def test_a_file_that_is_too_large_is_not_fetched_from_telegram(tmp_path: Path) -> None:
    there = TelegramPlatform()
    async with world_of(there, tmp_path) as here:
        large = Media("video/mp4", b"x" * (MAX_BYTES + 1), "film.mp4")
        await there.say("look", files=(large,))
        (arrived,) = await here.heard()
        assert arrived.files == ()
        assert "too large" in arrived.text
