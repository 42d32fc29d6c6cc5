"""Honcho as its official SDK speaks to it: the same requests, the same answers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import honcho
import pytest
from honcho.api_types import MessageCreateParams, SessionPeerConfig

from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.settings.root import MemorySettings
from hermes_agent.learning.providers.http import Provider
from hermes_agent.learning.providers.registry import open_provider
from tests.support.fake_honcho import KEY, MESSAGE_CHARS, FakeHoncho
from tests.support.patience import PATIENCE

HOST = "The staging host is kestrel"


def no_secret(name: str) -> str:
    raise NotFound(f"no secret called {name!r}")


@asynccontextmanager
async def opened(server: FakeHoncho) -> AsyncIterator[Provider]:
    settings = MemorySettings(
        provider="honcho", address=server.root, workspace="anna", timeout_seconds=PATIENCE
    )
    provider = open_provider(settings, (lambda _name: KEY) if server.key else no_secret)
    yield provider
    await provider.close()


@asynccontextmanager
async def sdk(server: FakeHoncho) -> AsyncIterator[honcho.Honcho]:
    client = honcho.Honcho(
        api_key=KEY, base_url=server.root, workspace_id="anna", timeout=PATIENCE, max_retries=0
    )
    yield client
    client._http.close()  # there is no public way
    await client._async_http_client.close()


async def test_we_ask_as_the_sdk_asks_and_hear_what_it_hears() -> None:
    with FakeHoncho() as ours, FakeHoncho() as theirs:
        async with opened(ours) as provider:
            await provider.remember("one", [("user", HOST), ("assistant", "Noted")])
            found = await provider.recall("staging host", 3)

        async with sdk(theirs) as client:
            session = await client.aio.session(
                "one",
                peers=[
                    ("user", SessionPeerConfig(observe_me=True)),
                    ("hermes", SessionPeerConfig(observe_me=False)),
                ],
            )
            said = (("user", HOST), ("hermes", "Noted"))
            await session.aio.add_messages(
                [MessageCreateParams(peer_id=who, content=text) for who, text in said]
            )
            view = honcho.ConclusionsView(client, "anna", "user", "user")
            concluded = await view.aio.query("staging host", top_k=3)

    assert ours.asked() == theirs.asked()
    assert found == tuple(each.content for each in concluded) == (HOST,)


async def test_workspace_and_session_are_made_once() -> None:
    with FakeHoncho() as server:
        async with opened(server) as provider:
            for session in ("one", "one", "two"):
                await provider.remember(session, [("user", HOST)])
            await provider.recall("host", 3)
    assert [path.removeprefix("/v3/workspaces") for path, _, _ in server.asked()] == [
        "",
        "/anna/sessions",
        "/anna/sessions/one/messages",
        "/anna/sessions/one/messages",
        "/anna/sessions",
        "/anna/sessions/two/messages",
        "/anna/conclusions/query",
    ]


async def test_a_server_that_was_set_up_anew_is_found_out() -> None:
    with FakeHoncho() as server:
        async with opened(server) as provider:
            await provider.remember("one", [("user", HOST)])
            server.forget()
            with pytest.raises(HermesError, match="Workspace anna not found"):
                await provider.remember("one", [("user", HOST)])
            await provider.remember("one", [("user", HOST)])
    assert set(server.sessions) == {"one"}


async def test_a_server_of_ones_own_needs_no_key() -> None:
    with FakeHoncho(key="") as server:
        async with opened(server) as provider:
            await provider.check()
    assert [key for _, key, _ in server.asked()] == [""]


async def test_what_the_agent_says_is_kept_and_not_thought_about() -> None:
    with FakeHoncho() as server:
        async with opened(server) as provider:
            await provider.remember("one", [("user", HOST), ("assistant", "kestrel is down")])
            assert await provider.recall("kestrel", 5) == (HOST,)
    assert [message.peer_id for message in server.messages] == ["user", "hermes"]


async def test_long_messages_and_many_go_out_in_what_the_service_takes() -> None:
    long = "x" * MESSAGE_CHARS + "y"
    with FakeHoncho() as server:
        async with opened(server) as provider:
            await provider.remember("one", [("user", long), *[("user", HOST)] * 120])
    assert [message.content for message in server.messages] == [
        long[:-1],
        "y",
        *[HOST] * 120,
    ]


async def test_a_session_that_cannot_be_is_refused_before_anything_is_sent() -> None:
    with FakeHoncho() as server:
        async with opened(server) as provider:
            with pytest.raises(UsageError, match="not a valid honcho session"):
                await provider.remember("../other", [("user", HOST)])
    assert server.requests == []
