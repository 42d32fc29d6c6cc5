"""The suite-wide promise: every two successive requests of a session share their prefix. It is
checked on the journal of every store that any test leaves behind, killed runtimes included."""

import asyncio
import hashlib
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import msgspec

from hermes_agent.agent import compaction, vision
from hermes_agent.agent.conversation import ConversationState
from hermes_agent.core import events as ev
from hermes_agent.core.errors import Degraded
from hermes_agent.core.messages import Prompt, UserMessage
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
    talk = ConversationState(session, prompt)
    sent: list[bytes] = []
    checked = 0
    same: int | None = None
    """Messages before the first that was exchanged for another since the last request."""
    for one in recorded:
        event = one.event
        if isinstance(event, ev.ModelRequested):
            now = [msgspec.json.encode(prompt), *map(msgspec.json.encode, talk.messages)]
            if event.use == "main":
                assert event.digest == _digest(now), f"{session}: event {one.number} differs"
                assert event.messages == len(talk.messages)
                kept = len(sent) if same is None else min(len(sent), 1 + same)
                assert now[:kept] == sent[:kept], f"{session}: event {one.number} broke the prefix"
                sent, same = now, None
            else:
                assert event.digest in _asides(talk, event), f"{session}: {one.number} differs"
            checked += 1
        before = list(talk.messages)
        talk.apply(one)
        match event:
            case ev.Rewound(to=to):
                again = ConversationState(session, prompt).apply_all(recorded[: to - 1])
                assert talk.messages == again.messages, f"{session}: event {one.number} differs"
                pairs = zip(before, talk.messages, strict=False)
                kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
                same = kept if same is None else min(same, kept)
            case ev.Compacted(first=changed) | ev.ImageDescribed(message=changed):
                same = changed if same is None else min(same, changed)
    return checked


def _asides(talk: ConversationState, event: ev.ModelRequested) -> list[str]:
    """What a request on the side can have been."""
    requests = [compaction.summary_request(talk, event.messages - 1)]
    if event.use == "vision":
        seen = [one for one in talk.messages if isinstance(one, UserMessage) and one.files]
        requests = [vision.request(message, talk.session) for message in seen]
    return [
        _digest([msgspec.json.encode(asked.prompt), *map(msgspec.json.encode, asked.messages)])
        for asked in requests
    ]


def _digest(parts: list[bytes]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part)
    return whole.hexdigest()
