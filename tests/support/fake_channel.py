"""A channel that is a pad of paper: what is sent stands on it, and what is said is handed to the
router as a row of the real ledger. No wire is between: others test those."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from hermes_agent.core.gateway import (
    Chat,
    Identity,
    InboundMessage,
    InboxEntry,
    OutboundMessage,
    Person,
    PseudonymHasher,
    Role,
)
from hermes_agent.core.messages import Media
from hermes_agent.gateway.channel import Channel, Manifest, SendError
from hermes_agent.gateway.delivery.drafts import PATIENCE
from hermes_agent.gateway.delivery.outbox import Outbox
from hermes_agent.gateway.delivery.publisher import ReplyPublisher
from hermes_agent.gateway.inbound.router import HandlingResult, Router
from tests.support.runtime_fixture import RuntimeFixture, open_runtime, until

MANIFEST = Manifest(
    "pad", "Pad", "A pad of paper", "", edits=True, buttons=True, typing=True, groups=True
)

HELD = {
    "tool": "terminal",
    "with": {"command": "echo > begun; until [ -e go ]; do sleep 0.02; done"},
}
"""A call of a scripted model that is under way until `Room.let_go`."""


class FakeChannel:
    """The channel, and what the gateway's parts see of it."""

    def __init__(self, manifest: Manifest) -> None:
        self.told = manifest
        self.wake: Callable[[str], None] = lambda _channel: None
        self.sent: dict[str, OutboundMessage] = {}
        """What stands there now, by id: edits have taken their place."""
        self.every: list[OutboundMessage] = []
        self.typed = 0
        self.slow: Callable[[OutboundMessage], Awaitable[object]] | None = None
        self.hung: asyncio.Event | None = None
        """Where there is one, typing waits for it, whoever loses patience."""
        self.trouble: SendError | None = None
        self.refused = 0
        """How often it came to trouble."""

    def channel(self, _name: str) -> Channel:
        return self

    def manifest(self, _name: str) -> Manifest:
        return self.told

    async def run(self) -> None: ...

    async def send(self, outgoing: OutboundMessage, _key: str) -> str:
        if self.trouble is not None:
            self.refused += 1
            raise self.trouble
        if self.slow is not None:
            await self.slow(outgoing)
        self.every.append(outgoing)
        id = outgoing.edit or f"out-{len(self.every)}"
        self.sent[id] = outgoing
        return id

    async def typing(self, _chat: Chat) -> None:
        while self.hung is not None and not self.hung.is_set():
            with suppress(asyncio.CancelledError):
                await self.hung.wait()
        self.typed += 1

    async def probe(self) -> None: ...

    async def close(self) -> None: ...


class Room:
    """A runtime with one channel, and people who write on it."""

    def __init__(self, fixture: RuntimeFixture, pad: FakeChannel, router: Router) -> None:
        self.fixture = fixture
        self.runtime = fixture.runtime
        self.pad = pad
        self.router = router
        self._said = 0

    async def know(self, person: str, role: Role = "owner", **more: Any) -> Identity:
        identity = Identity("pad", self.router.ids("pad", person), role=role, **more)
        await self.runtime.context.store.gateway.save_identity(identity)
        return identity

    async def add_inbound(self, arrived: InboundMessage) -> tuple[InboxEntry, HandlingResult]:
        """As the inbox does it."""
        kept = await self.runtime.context.store.gateway.add_inbound(arrived)
        assert kept is not None
        dealt = await self.router.handle(kept)
        await self.runtime.context.store.gateway.dealt(kept.number, *dealt)
        return kept, dealt

    async def say(
        self,
        text: str,
        person: str = "ada",
        *,
        chat: str = "",
        group: bool = False,
        addressed: bool = True,
        kind: Any = "message",
        name: str = "",
        files: Sequence[Media] = (),
        voice: Sequence[Media] = (),
        id: str = "",
        reply_to: str = "",
    ) -> HandlingResult:
        self._said += 1
        arrived = InboundMessage(
            id or f"m{self._said}", Chat("pad", chat or f"with-{person}"),
            Person(person, name or person.title()), text, kind, group, addressed,
            tuple(files), tuple(voice), reply_to,
        )  # fmt: skip
        return (await self.add_inbound(arrived))[1]

    async def press(self, label: str, person: str = "ada", **where: Any) -> HandlingResult:
        """The button with this label of the last message that has one."""
        for outgoing in reversed(list(self.pad.every)):
            for row in outgoing.buttons:
                for button in row:
                    if button.text == label:
                        assert len(button.data.encode()) <= 60
                        return await self.say(button.data, person, kind="press", **where)
        raise AssertionError(f"no button {label!r}")

    def texts(self, chat: str = "") -> list[str]:
        """What stands in a chat."""
        return [
            one.text for one in self.pad.sent.values() if not chat or one.chat.chat == chat
        ]  # fmt: skip

    async def hears(self, part: str, chat: str = "") -> str:
        """Wait until a message with this part stands there."""

        async def there() -> bool:
            return any(part in text for text in self.texts(chat))

        await until(there)
        return next(text for text in self.texts(chat) if part in text)

    async def is_held(self) -> Path:
        """Wait until the one session is in the call `HELD`; the folder of it."""

        async def begun() -> bool:
            return (folder / "begun").exists()

        (session,) = await self.runtime.context.store.sessions()
        folder = Path(session.workspace)
        await until(begun)
        return folder

    async def let_go(self) -> None:
        ((await self.is_held()) / "go").touch()

    async def rest(self) -> None:
        """Until nothing works and nothing waits to be sent."""

        async def quiet() -> bool:
            gateway = self.runtime.context.store.gateway
            if self.runtime.sessions.working or await gateway.bindings(behind=True):
                return False
            rows = await gateway.deliveries(limit=1_000)
            return not any(row.state in ("waiting", "sending") for row in rows)

        await until(quiet)


@asynccontextmanager
async def room(
    folder: Path,
    model: str,
    *,
    manifest: Manifest = MANIFEST,
    channel: dict[str, Any] | None = None,
    pace: float = 60.0,
    patience: float = PATIENCE,
    telling: bool = True,
    policy: str = "sandbox",
    **more: Any,
) -> AsyncIterator[Room]:
    channels = {"pad": channel or {}}
    async with open_runtime(folder, model=model, policy=policy, channels=channels, **more) as h:
        pad = FakeChannel(replace(manifest, name="pad"))
        router = Router(h.runtime.domains, pad, PseudonymHasher.open(h.runtime.context.home.path))
        made = Room(h, pad, router)
        tells = ReplyPublisher(h.runtime.domains, pad, router.ids, router.recent, pace, patience)
        outbox = Outbox(
            pad.told, h.runtime.context.store.gateway, lambda: pad, is_healthy=lambda: True,
            clock=h.runtime.context.clock, sleep=asyncio.sleep, random=lambda: 0.0,
            on_sent=lambda _now: None,
        )  # fmt: skip
        pad.wake = lambda _channel: outbox.wake()
        tasks = [asyncio.create_task(outbox.run())]
        tasks += [asyncio.create_task(tells.run())] if telling else []
        try:
            yield made
        finally:
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result
