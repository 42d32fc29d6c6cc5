"""A memory service beside the built-in memory, through a whole runtime."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.settings.root import MemorySettings, ModelSettings, Settings
from hermes_agent.core.skills import RecallResult
from hermes_agent.runtime.runtime import Runtime
from tests.support.fake_mem0 import KEY, FakeMem0
from tests.support.learning_fixture import Clock, LearningFixture
from tests.support.model_server import ModelServer, Raw, Received
from tests.support.subagents import answers, delegated, say

FACT = "our staging cluster is called kestrel"


class Moody(FakeMem0):
    """Takes nothing in while it is broken."""

    broken = False

    def _add(self, body: dict[str, Any]) -> Raw:
        if self.broken:
            return Raw.json({"detail": "out of order"}, 500)
        return super()._add(body)


@pytest.fixture
def server() -> Iterator[Moody]:
    with Moody() as running:
        yield running


class Started:
    """A runtime that has a memory service."""

    def __init__(self, folder: Path, address: str, key: str = KEY, **memory: Any) -> None:
        (folder / "work").mkdir(parents=True, exist_ok=True)
        self.clock = Clock()
        self.folder = folder
        settings = Settings(
            memory=MemorySettings(provider="mem0", address=address, **memory),
            models=ModelSettings(retries=0),
        )
        environ = {"MEM0_API_KEY": key} if key else {}
        self.runtime = Runtime(folder / "home", environ, settings=settings, clock=self.clock)

    async def __aenter__(self) -> LearningFixture:
        await self.runtime.start()
        return LearningFixture(self.folder, self.runtime)

    async def __aexit__(self, *_: object) -> None:
        await self.runtime.stop()


def model(folder: Path) -> str:
    return answers(folder, staging=[say("I see")], cluster=[say("kestrel")])


def taken(journal: list[Any]) -> ev.MessageTaken:
    return [one for one in journal if isinstance(one, ev.MessageTaken)][-1]


async def test_what_was_said_is_remembered_after_the_turn_and_recalled_in_a_fence(
    tmp_path: Path, server: Moody
) -> None:
    async with Started(tmp_path, server.root) as h:
        first = await h.open(model(tmp_path))
        await h.say(first, FACT)
        await h.learned()
        assert await h.tasks() == {f"remember {first.id} 1": ("done", "2 messages")}
        assert [one["memory"] for one in server.memories] == [FACT]
        second = await h.open(model(tmp_path))
        found = taken(await h.say(second, "which cluster is staging?")).recalled
        assert "The user did not say it now." in found.text
        assert f"- {FACT}" in found.text
        assert "<memory-context" in found.text
        assert (await h.shown(second))[0] == f"which cluster is staging?\n\n{found.text}"
        assert (await h.get("/v1/status"))["learning"]["trouble"] == ""


async def test_what_could_not_be_remembered_is_tried_again(tmp_path: Path, server: Moody) -> None:
    server.broken = True
    started = Started(tmp_path, server.root)
    async with started as h:
        session = await h.open(model(tmp_path))
        await h.say(session, FACT)
        await h.learned()
        assert server.memories == []
        ((state, why),) = (await h.tasks()).values()
        assert (state, "out of order" in why) == ("due", True)
        assert "mem0 did not store a turn" in (await h.get("/v1/status"))["learning"]["trouble"]
        server.broken = False
        started.clock.now += 700
        await h.learned()
        assert [one["memory"] for one in server.memories] == [FACT]
        assert await h.tasks() == {f"remember {session.id} 1": ("done", "2 messages")}
        assert (await h.get("/v1/status"))["learning"]["trouble"] == ""


async def test_a_service_that_does_not_answer_holds_one_turn_up_at_most_and_is_named(
    tmp_path: Path,
) -> None:
    def hang(_received: Received) -> Raw:
        return Raw(status=0, end="hang")

    with ModelServer(hang) as dead:
        started = Started(tmp_path, dead.root, timeout_seconds=0.2)
        async with started as h:
            session = await h.open(model(tmp_path))
            assert (await h.say(session, FACT))[-1].text == "I see"
            trouble = (await h.get("/v1/status"))["learning"]["trouble"]
            assert trouble.startswith("mem0 ")
            assert "took longer than 0.2 s" in trouble
            assert (await h.say(session, "and the cluster?"))[-1].text == "kestrel"
            await h.learned()
            assert len(dead.requests) == 1, "it is left alone for a while"
            assert taken(await h.journal(session)).recalled == RecallResult()


async def test_a_service_without_its_key_keeps_no_message_from_being_worked_on(
    tmp_path: Path,
) -> None:
    async with Started(tmp_path, "http://127.0.0.1:9", key="") as h:
        session = await h.open(model(tmp_path))
        assert (await h.say(session, FACT))[-1].text == "I see"
        assert "mem0 needs a key" in (await h.get("/v1/status"))["learning"]["trouble"]


async def test_secrets_are_taken_out_of_what_the_service_is_told(
    tmp_path: Path, server: Moody
) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    async with Started(tmp_path, server.root) as h:
        await h.say(await h.open(model(tmp_path)), f"staging has the token {token}")
        await h.learned()
    assert server.memories
    assert token.encode() not in b"".join(request.body for request in server.requests)


async def test_children_do_not_ask_the_service(tmp_path: Path, server: Moody) -> None:
    name = answers(tmp_path, plan=[delegated("staging"), say("done")], staging=[say("I see")])
    async with Started(tmp_path, server.root) as h:
        await h.say(await h.open(name), "plan")
        await h.learned()
    asked = [request.json for request in server.requests]
    assert [one.get("query") for one in asked if "query" in one] == ["plan"]
    assert len(asked) == 2
