"""Webhooks: who may post, and alerts of monitoring systems."""

import hashlib
import hmac
import json
from pathlib import Path

import httpx
import pytest

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import Chat, InboundMessage, Person, PseudonymHasher
from hermes_agent.gateway.access.identities import IdentityResolver
from hermes_agent.gateway.channel import SendError
from hermes_agent.gateway.channels.webhook.channel import MAX_UNKNOWN, make
from tests.support.patience import PATIENCE
from tests.support.platforms.webhook import ALERT_TOKEN, TOKEN
from tests.support.platforms.world import World, world
from tests.support.runtime_fixture import open_runtime

BODY = json.dumps({"sender": "cron", "data": {"body": "hello"}, "id": "1"}).encode()


def signed(body: bytes, key: str = TOKEN) -> str:
    return hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


async def post(here: World, rest: str, body: bytes, headers: dict[str, str]) -> int:
    url = f"http://{here.platform.listen}/channels/webhook/{rest}"
    async with httpx.AsyncClient(timeout=PATIENCE) as client:
        return (await client.post(url, content=body, headers=headers)).status_code


async def test_only_who_knows_the_token_is_heard(tmp_path: Path) -> None:
    async with world("webhook", tmp_path) as here:
        strangers: list[dict[str, str]] = [
            {},
            {"Authorization": "Bearer wrong-token-wrong"},
            {"X-Hub-Signature-256": f"sha256={signed(BODY, 'another key')}"},
            {"X-Hub-Signature-256": "sha256="},
            {"X-Hub-Signature-256": f"sha256={signed(b'another body')}"},
        ]
        for headers in strangers:
            for rest in ("in", "probe", "alertmanager", "nowhere"):
                assert await post(here, rest, BODY, headers) == 401
        assert await post(here, "in", BODY, {"Authorization": f"Bearer {TOKEN}"}) == 202
        assert await post(here, "nowhere", BODY, {"Authorization": f"Bearer {TOKEN}"}) == 404
        (arrived,) = await here.heard()
        assert (arrived.person.id, arrived.text, arrived.id) == ("cron", "hello", "cron/1")
        assert not arrived.person.vouched


async def test_a_retry_without_an_id_is_the_same_message(tmp_path: Path) -> None:
    async with world("webhook", tmp_path) as here:
        token = {"Authorization": f"Bearer {TOKEN}"}
        for text in ("hello", "hello", "goodbye"):
            body = json.dumps({"sender": "cron", "data": {"body": text}}).encode()
            assert await post(here, "in", body, token) == 202
        assert [one.text for one in await here.heard(2)] == ["hello", "goodbye"]


async def test_a_stranger_cannot_make_us_read_much(tmp_path: Path) -> None:
    async with world("webhook", tmp_path) as here:
        large = b"x" * (MAX_UNKNOWN + 1)
        for key in ("another key", TOKEN):
            headers = {"X-Hub-Signature-256": f"sha256={signed(large, key)}"}
            assert await post(here, "in", large, headers) == 413
        assert await post(here, "in", large, {"Authorization": f"Bearer {TOKEN}"}) == 400


async def test_an_alert_is_handed_on_as_it_is(tmp_path: Path) -> None:
    body = b'{"event": {"event_type": "incident.triggered"}}'
    async with world("webhook", tmp_path) as here:
        made = signed(body, ALERT_TOKEN)
        headers = {"X-PagerDuty-Signature": f"v1={'0' * 64},v1={made}"}
        assert await post(here, "pagerduty", body, headers) == 202
        alerts = {"Authorization": f"Bearer {ALERT_TOKEN}"}
        assert await post(here, "in", BODY, alerts) == 401
        assert await post(here, "grafana", body, {"Authorization": f"Bearer {TOKEN}"}) == 401
        (arrived,) = await here.heard()
        assert (arrived.kind, arrived.person.id) == ("alert", "pagerduty")
        assert arrived.text.encode() == body


async def test_who_must_not_post_waits_until_it_may(tmp_path: Path) -> None:
    async with world("webhook", tmp_path) as here:
        here.platform.trouble.expired = True
        with pytest.raises(SendError) as refused:
            await here.send("hello")
        assert refused.value.channel


async def test_a_short_token_is_no_token(tmp_path: Path) -> None:
    async with world("webhook", tmp_path) as here:
        around = here.surroundings(lambda _name: "short")
        with pytest.raises(HermesError, match="too short"):
            make(here.platform.settings(), around)


async def test_nobody_decides_by_webhook(tmp_path: Path) -> None:
    channels = {"webhook": {"owners": ["ann"], "allow": ["bob"]}}
    async with open_runtime(tmp_path, channels=channels) as made:
        people = IdentityResolver(made.runtime.context, PseudonymHasher.open(tmp_path))
        chat = Chat("webhook", "x")
        for person, role in (
            (Person("ann"), "owner"),
            (Person("ann", vouched=False), "member"),
            (Person("bob", vouched=False), "member"),
        ):
            known = await people.known(InboundMessage("1", chat, person))
            assert known is not None
            assert known.role == role
