"""The suite-wide promise: every two successive requests of a session share their prefix. It is
checked on the journal of every store that any test leaves behind, killed runtimes included."""

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hermes_agent.agent import compact
from hermes_agent.agent.fold import Conversation
from hermes_agent.core import events as ev
from hermes_agent.core.errors import Degraded
from hermes_agent.core.messages import Prompt
from hermes_agent.store.store import Store


def check_prefixes(database: Path) -> int:
    """Re-fold every session and compare each recorded request with what the journal says it must
    have been. Returns how many requests were checked."""
    return asyncio.run(_check(database.parent))


async def _check(home: Path) -> int:
    store = await Store.open(home, readonly=True)
    try:
        checked = 0
        for session in await store.sessions(100_000):
            prompt = await store.prompt(session.prompt)
            checked += check_session(session.id, prompt, await store.events(session.id))
        return checked
    except Degraded:
        return 0  # a test that damages a store on purpose leaves nothing to compare
    finally:
        await store.close()


def check_session(session: str, prompt: Prompt, recorded: Sequence[ev.Recorded]) -> int:
    talk = Conversation(session, prompt)
    sent: list[bytes] = []
    checked = 0
    compacted = False
    for one in recorded:
        event = one.event
        if isinstance(event, ev.ModelRequested):
            now = [msgspec.json.encode(prompt), *map(msgspec.json.encode, talk.messages)]
            if event.use == "main":
                assert event.digest == _digest(now), f"{session}: event {one.number} differs"
                assert event.messages == len(talk.messages)
                kept = 2 if compacted else len(sent)
                assert now[:kept] == sent[:kept], f"{session}: event {one.number} broke the prefix"
                sent, compacted = now, False
            else:
                asked = compact.summary_request(talk, event.messages - 1)
                shown = [msgspec.json.encode(prompt), *map(msgspec.json.encode, asked.messages)]
                assert event.digest == _digest(shown), f"{session}: event {one.number} differs"
            checked += 1
        talk.apply(one)
        compacted = compacted or isinstance(event, ev.Compacted)
    return checked


def _digest(parts: list[bytes]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part)
    return whole.hexdigest()
