"""A turn over providers that fail: what it leaves behind is what an undisturbed one leaves."""

import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.messages import Reply, Request, ToolCall
from hermes_agent.core.settings.root import LoopSettings, ModelSettings, Price, Settings
from hermes_agent.core.settings.services import ModelService
from hermes_agent.core.tools import Tool
from hermes_agent.models.registry import ModelRegistry
from tests.support.failing_models import Time
from tests.support.openai_server import OpenAIServer
from tests.support.turns import bench

STEPS = 20
NAMES = ("one/m", "two/m", "three/m")
FAILURES = ("429", "cut", "500", "stall", "midway", "reset")
SILENCE_SECONDS = 1.0
ONE_BY_ONE = Settings(loop=LoopSettings(parallel_calls=1))
"""In the order of the script, so that the journals can be compared."""
ROUTING = ev.ModelRetried | ev.ModelRouted | ev.CostCharged


def script() -> list[Reply | Any]:
    """Two calls in each step, then an answer that tells how many results were seen."""

    def step(number: int) -> Reply:
        calls = (
            ToolCall.of(f"c{number}a", "note", text=f"step {number}, first"),
            ToolCall.of(f"c{number}b", "note", text=f"step {number}, second"),
        )
        return Reply(f"now step {number} of the work", calls)

    def last(request: Request) -> Reply:
        return Reply(f"done with {len(request.messages)} messages")

    return [*map(step, range(STEPS - 1)), last]


@dataclass
class Worked:
    journal: list[Any]
    """Without what may differ."""
    noted: list[str]
    """The calls that ran."""
    routing: list[Any]
    answered: set[str]
    """Who gave the replies."""


async def work(folder: Path, *, disturbed: bool) -> Worked:
    folder.mkdir()
    noted: list[str] = []
    time = Time(1_000_000.0)
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(OpenAIServer(script())) for _ in NAMES]

        async def note(text: str) -> str:
            noted.append(text)
            time.now += 20.0
            number = len(noted)
            if disturbed and number % 2:
                # In turn one, two and all three of them, each in another way.
                for which in range(number // 2 % 3 + 1):
                    how = FAILURES[(number // 2 + which) % len(FAILURES)]
                    servers[which].fail_next(how, times=1 if how == "stall" else 2)
            return f"noted {number // 2}"

        services = {
            name.partition("/")[0]: ModelService(url=server.url, needs_key=False)
            for name, server in zip(NAMES, servers, strict=True)
        }
        settings = ModelSettings(
            services=services,
            prices=dict.fromkeys(NAMES, Price(1.0, 2.0)),
            silence_seconds=SILENCE_SECONDS if disturbed else 60.0,
            retries=20,
        )
        models = ModelRegistry(
            settings, {}, folder, clock=time, sleep=time.sleep, random=lambda: 0.5
        )
        stack.push_async_callback(models.close)
        tool = Tool(name="note", function=note, description="Note something")
        b = await stack.enter_async_context(
            bench(folder, models.open(NAMES), tools=[tool], settings=ONE_BY_ONE)
        )
        end = await b.say("work")
        assert (end.reason, end.error) == ("done", "")
        events = await b.events()
        for server in servers:
            server.assert_prefix_stable()
        kept = [event for event in events if not isinstance(event, ROUTING)]
        return Worked(
            journal=plain(kept, b.session.id, folder),
            noted=noted,
            routing=[event for event in events if isinstance(event, ROUTING)],
            answered={event.model for event in events if isinstance(event, ev.Replied)},
        )


def plain(events: Sequence[Any], session: str, folder: Path) -> list[Any]:
    """Events without times, places and who answered at what price. An effect's id holds the
    number of its reply in the journal, which the routing events before it change."""
    numbers: dict[str, int] = {}

    def renumbered(match: re.Match[str]) -> str:
        return f"REPLY-{numbers.setdefault(match[1], len(numbers))}"

    made = []
    for event in events:
        text = msgspec.json.encode(event).decode().replace(str(folder), "FOLDER")
        text = re.sub(rf"{session}-(\d+)", renumbered, text).replace(session, "SESSION")
        fields: dict[str, Any] = msgspec.json.decode(text)
        for name in ("seconds", "cost", "usage"):
            fields.pop(name, None)
        if isinstance(event, ev.Replied):
            del fields["model"]
        made.append(fields)
    return made


async def test_a_turn_over_three_failing_providers_ends_as_an_undisturbed_one(
    tmp_path: Path,
) -> None:
    calm = await work(tmp_path / "calm", disturbed=False)
    wild = await work(tmp_path / "wild", disturbed=True)
    assert (calm.routing, calm.answered) == ([], {NAMES[0]})
    assert wild.answered == set(NAMES)
    assert wild.journal == calm.journal
    assert wild.noted == calm.noted
    assert len(set(wild.noted)) == len(wild.noted) == 2 * (STEPS - 1)
    decided = [e for e in wild.routing if isinstance(e, ev.ModelRouted | ev.ModelRetried)]
    troubles = {event.trouble for event in decided}
    assert troubles >= {"rate_limit", "broken_stream", "overload", "timeout"}
    steps = {event.step for event in decided if isinstance(event, ev.ModelRouted)}
    assert steps == {"model", "skipped", "opened", "closed"}
    charged = [event for event in wild.routing if isinstance(event, ev.CostCharged)]
    assert {event.model for event in charged} == set(NAMES), "what broke midway was not free"
    assert all(event.cost and event.again for event in charged)


async def test_a_silent_provider_is_left_for_the_next_one_within_the_turn(tmp_path: Path) -> None:
    async with OpenAIServer([Reply("first")]) as one, OpenAIServer([Reply("second")]) as two:
        one.fail_next("silent", times=9)
        services = {
            "one": ModelService(url=one.url, needs_key=False),
            "two": ModelService(url=two.url, needs_key=False),
        }
        settings = ModelSettings(services=services, first_seconds={"one": 0.3})
        models = ModelRegistry(settings, {}, tmp_path)
        async with bench(tmp_path, models.open(["one/m", "two/m"])) as b:
            end = await b.say("hi")
            (routed,) = await b.events(ev.ModelRouted)
            (replied,) = await b.events(ev.Replied)
        await models.close()
    assert (end.reason, replied.model, len(one.requests)) == ("done", "two/m", 1)
    assert (routed.step, routed.trouble) == ("model", "timeout")
    assert "sent nothing for 0.3 seconds" in routed.reason


@pytest.mark.parametrize("how", FAILURES)
async def test_pieces_of_a_try_that_failed_are_void(tmp_path: Path, how: str) -> None:
    async with OpenAIServer([Reply("first")]) as one, OpenAIServer([Reply("second")]) as two:
        one.fail_next(how, times=2)
        services = {
            "one": ModelService(url=one.url, needs_key=False),
            "two": ModelService(url=two.url, needs_key=False),
        }
        # Only where nothing is going to come: a loaded machine may be slow with any answer.
        silence = 3.0 if how == "stall" else 60.0
        settings = ModelSettings(services=services, silence_seconds=silence, retries=0)
        time = Time()
        models = ModelRegistry(settings, {}, tmp_path, clock=time, sleep=time.sleep)
        async with bench(tmp_path, models.open(["one/m", "two/m"])) as b:
            end = await b.say("hi")
            (routed,) = await b.events(ev.ModelRouted)
            (replied,) = await b.events(ev.Replied)
            shown = ""
            for recorded in b.published:
                match recorded.event:
                    case ev.TextArrived(text=text):
                        shown += text
                    case ev.TextVoided():
                        shown = ""
        await models.close()
    assert isinstance(routed, ev.ModelRouted)
    assert (routed.step, routed.model, routed.to) == ("model", "one/m", "two/m")
    assert isinstance(replied, ev.Replied)
    assert (replied.model, replied.text, shown, end.text) == ("two/m", *["second"] * 3)
