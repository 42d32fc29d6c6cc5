"""Containers of a real engine: one that crashed and tells why, one that runs."""

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.tools.sources.containers import changes, containers
from hermes_agent.tools.sources.times import Window
from tests.support.dockerd import asked, docker_engine
from tests.support.images import IMAGE
from tests.support.podman import podman_engine
from tests.support.sources import Observer


@dataclass(frozen=True)
class Shop:
    url: str
    crashed: str
    web: str


@pytest.fixture(scope="module", params=[
    pytest.param(docker_engine, id="docker"),
    pytest.param(podman_engine, id="podman", marks=pytest.mark.slow),
])  # fmt: skip
def shop(request: pytest.FixtureRequest) -> Iterator[Shop]:
    engine: Callable[[], str] = request.param
    mark = uuid.uuid4().hex[:8]
    crash = ["sh", "-c", "echo connecting; sleep 3; echo 'panic: no database' >&2; exit 3"]
    with asked(engine()) as client:
        how = {"network_mode": "none", "detach": True}
        made = [
            client.containers.run(IMAGE, crash, name=f"crash-{mark}", **how),
            client.containers.run(
                IMAGE, ["sleep", "1000"], name=f"web-{mark}", init=True,
                environment={"DB_PASSWORD": "hunter2", "MODE": "fast"}, **how,
            ),
        ]  # fmt: skip
        made[0].wait()
        try:
            yield Shop(engine(), f"crash-{mark}", f"web-{mark}")
        finally:
            for one in made:
                one.remove(force=True)


@pytest.fixture
def prod(shop: Shop, observer: Observer) -> Observer:
    observer.sources["host"] = SourceSettings(kind="containers", url=shop.url)
    return observer


async def test_a_crashed_container_comes_first_with_the_end_of_its_log(
    prod: Observer, shop: Shop
) -> None:
    text = (await prod.call(containers, action="list", name=shop.crashed)).text
    assert "1 of 1 containers are in trouble" in text
    assert "ended with exit code 3" in text
    assert "panic: no database" in text


async def test_a_container_is_inspected_without_its_secrets(prod: Observer, shop: Shop) -> None:
    result = await prod.call(containers, action="inspect", name=shop.web)
    assert "MODE=fast" in result.text
    assert "DB_PASSWORD=(not shown)" in result.text
    assert "hunter2" not in result.text
    assert result.data["problems"] == []


async def test_both_streams_of_a_log_are_read_in_order(prod: Observer, shop: Shop) -> None:
    result = await prod.call(containers, action="logs", name=shop.crashed)
    lines = [line.partition(" ")[2] for line in result.text.splitlines()[2:-1]]
    assert sorted(lines) == ["connecting", "panic: no database"]
    first = result.text.splitlines()[2].partition(" ")[0]
    past = await prod.call(containers, action="logs", name=shop.crashed, until=first, limit=1)
    assert "connecting" in past.text


async def test_its_end_is_an_event_and_a_change(prod: Observer, shop: Shop) -> None:
    events = await prod.call(containers, action="events", name=shop.crashed, since="10m ago")
    assert "die, exit code 3" in events.text
    span = Window(time.time() - 600, time.time())
    changed = [one.what for one in await changes(prod.source(), span)]
    assert any(f"container {shop.crashed}" in what and "die" in what for what in changed)


async def test_use_of_memory_is_measured(prod: Observer, shop: Shop) -> None:
    result = await prod.call(containers, action="stats", name=shop.web)
    assert result.data["running"] == 1
    assert shop.web in result.text


async def test_a_wrong_name_is_answered_with_those_that_are_there(
    prod: Observer, shop: Shop
) -> None:
    with pytest.raises(ToolError, match="no container") as caught:
        await prod.call(containers, action="logs", name=shop.web[:7])
    assert shop.web in caught.value.hint


async def test_the_source_says_which_engine_it_is(prod: Observer) -> None:
    assert (await prod.verify()).startswith(("answers; Docker", "answers; Podman"))
