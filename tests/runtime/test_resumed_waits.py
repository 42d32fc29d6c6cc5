"""A resumed turn waits for what it had when it began, and says for what."""

import asyncio
from pathlib import Path

from hermes_agent.agent.conversation import ConversationState
from hermes_agent.agent.dependencies import TurnDependencies
from hermes_agent.core import events as ev
from hermes_agent.core.errors import Degraded
from hermes_agent.core.records import Session, SessionMessage
from hermes_agent.runtime.turns.scheduler import TurnScheduler
from tests.support.runtime_fixture import RuntimeFixture, open_runtime, script, until

SLOW = {"say": "It took a while.", "wait": 600}
RULES = """\
version: 1
name: night
profile: night
extends: sandbox
description: All that a test needs.
rules: []
"""


async def notices(here: RuntimeFixture, session: str) -> list[str]:
    events = await here.runtime.context.store.events(session)
    return [one.event.text for one in events if isinstance(one.event, ev.NoticeIssued)]


async def begun(here: RuntimeFixture, model: str, **more: str) -> str:
    """A session whose turn has asked its model."""
    session = await here.open(model, **more)
    await here.send(session, "go")

    async def asked() -> bool:
        return any(isinstance(one, ev.ModelRequested) for one in await here.journal(session))

    await until(asked)
    return session.id


async def test_a_turn_that_resumes_without_its_model_waits_for_it(tmp_path: Path) -> None:
    model = script(tmp_path / "models", "slow", SLOW)
    async with open_runtime(tmp_path) as here:
        id = await begun(here, model)
    gone = tmp_path / "models" / "slow.json"
    gone.unlink()
    async with open_runtime(tmp_path) as here:

        async def said() -> bool:
            return bool(await notices(here, id))

        await until(said)
        (notice,) = await notices(here, id)
        assert notice.startswith("waiting: ")
        assert "slow.json" in notice
        script(tmp_path / "models", "slow", {"say": "Here I am."})
        journal = await here.idle(await here.runtime.context.store.session(id))
        assert [(one.reason, one.text) for one in journal if isinstance(one, ev.TurnFinished)] == [
            ("done", "Here I am.")
        ]


async def test_a_turn_that_cannot_be_set_up_again_waits_and_can_be_stopped(tmp_path: Path) -> None:
    model = script(tmp_path / "models", "slow", SLOW)
    rules = tmp_path / "home" / "policies" / "night.yaml"
    rules.parent.mkdir(parents=True)
    rules.write_text(RULES)
    async with open_runtime(tmp_path) as here:
        ids = [await begun(here, model, policy="night") for _ in range(2)]
    rules.unlink()
    async with open_runtime(tmp_path) as here:

        async def said() -> bool:
            return all([await notices(here, id) for id in ids])

        await until(said)
        assert "no policy called 'night'" in (await notices(here, ids[0]))[0]
        stopped, going = [await here.runtime.context.store.session(id) for id in ids]
        assert await here.runtime.sessions.interrupt(stopped.id, "cli")
        (end,) = [e for e in await here.idle(stopped) if isinstance(e, ev.TurnFinished)]
        assert end.reason == "interrupted"
        script(tmp_path / "models", "slow", {"say": "Here I am."})
        rules.write_text(RULES)
        journal = await here.idle(going)
        assert [one.reason for one in journal if isinstance(one, ev.TurnFinished)] == ["done"]


async def test_what_is_added_while_a_turn_waits_is_known_to_it(tmp_path: Path) -> None:
    first = script(tmp_path / "models", "first", {"say": "I am the first."})
    chosen = script(tmp_path / "models", "chosen", {"say": "I am the chosen one."})
    tries, ends = 0, asyncio.Queue[ConversationState]()
    async with open_runtime(tmp_path) as here:
        runtime = here.runtime
        store = runtime.context.store

        async def build(session: Session) -> TurnDependencies:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise Degraded("the disk is full", "make room")
            await turns.add(session, ev.ModelChosen(chosen))
            return await runtime._turn_dependencies.build(session)

        async def ended(_session: Session, conversation: ConversationState) -> None:
            await ends.put(conversation)

        turns = TurnScheduler(
            store, runtime.context.bus, runtime.context.clock, build, lambda _: True, ended
        )
        session = await here.open(first)
        await store.receive(session.id, SessionMessage("m1", "go", "test"))
        await turns.begin(session)
        conversation = await ends.get()
    assert (tries, conversation.model) == (2, chosen)
    assert conversation.last_text == "I am the chosen one."
