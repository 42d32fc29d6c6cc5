"""The gateway's ledgers: `core.gateway.Gateway` in the same database."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import apsw

from hermes_agent.core.gateway import (
    ArrivedState,
    ChannelHealth,
    ChatBinding,
    DeliveryState,
    GatewayStore,
    Identity,
    InboundMessage,
    InboxEntry,
    NewDelivery,
    OutboxEntry,
    Pairing,
    QueueDepths,
)
from hermes_agent.core.protocols import Clock
from hermes_agent.core.pseudonyms import PseudonymHasher
from hermes_agent.store.blobs import BlobStore
from hermes_agent.store.gateway import identities, inbox, outbox
from hermes_agent.store.knowledge.store import ReadFn, WriteFn


class StoredGateway(GatewayStore):
    """Made by the store, which hands in its writer and its readers."""

    def __init__(
        self,
        write: WriteFn,
        read: ReadFn,
        clock: Clock,
        bodies: BlobStore,
        folder: Path,
        random: Callable[[int], bytes],
    ) -> None:
        self._write = write
        self._read = read
        self._clock = clock
        self._bodies = bodies
        self._folder = folder
        self._random = random
        self._made: PseudonymHasher | None = None

    def _ids(self) -> PseudonymHasher:
        if self._made is None:
            self._made = PseudonymHasher.open(self._folder, self._random)
        return self._made

    # what arrived
    async def add_inbound(self, arrived: InboundMessage, mark: str = "") -> InboxEntry | None:
        return await self._write(
            "gateway_arrive",
            lambda db: inbox.add_inbound(
                db, self._bodies, self._ids(), arrived, mark, self._clock()
            ),
        )

    async def mark(self, channel: str) -> str:
        return await self._read(lambda db: inbox.mark(db, channel))

    async def save_cursor(self, channel: str, mark: str) -> None:
        await self._write("gateway_mark", lambda db: inbox.save_cursor(db, channel, mark))

    async def new(self, limit: int = 100, after: int = 0) -> Sequence[InboxEntry]:
        while True:
            found, lost = await self._read(lambda db: inbox.new(db, self._bodies, limit, after))
            if not lost:
                return found
            await self._write("gateway_lost", partial(inbox.give_up, lost=lost))

    async def dealt(self, number: int, state: ArrivedState, why: str = "") -> None:
        left = await self._write(
            "gateway_dealt", lambda db: inbox.dealt(db, self._bodies, number, state, why)
        )
        if left:
            await self._write("sweep", self._bodies.sweep)

    async def failed_to_deal(self, number: int, why: str) -> int:
        return await self._write("gateway_failed", lambda db: inbox.failed(db, number, why))

    async def dead_letters(self, limit: int = 100) -> Sequence[InboxEntry]:
        return await self._read(lambda db: inbox.dead_letters(db, self._bodies, limit))

    async def retry_dead_letter(self, number: int) -> InboxEntry:
        return await self._write(
            "gateway_deal_again", lambda db: inbox.again(db, self._bodies, number)
        )

    async def drop_dead_letter(self, number: int) -> None:
        await self._write("gateway_drop_aside", lambda db: inbox.drop(db, self._bodies, number))
        await self._write("sweep", self._bodies.sweep)

    # what is to be sent
    async def enqueue(self, *deliveries: NewDelivery) -> Sequence[OutboxEntry]:
        return await self._write("gateway_enqueue", lambda db: self._enqueue(db, deliveries))

    def _enqueue(self, db: apsw.Connection, new: Sequence[NewDelivery]) -> Sequence[OutboxEntry]:
        return outbox.enqueue(db, self._bodies, self._ids(), new, self._clock())

    async def tell(
        self, bond: ChatBinding, told: int, *deliveries: NewDelivery
    ) -> Sequence[OutboxEntry]:
        def work(db: apsw.Connection) -> Sequence[OutboxEntry]:
            identities.told(db, bond, told)
            return self._enqueue(db, deliveries)

        return await self._write("gateway_tell", work)

    async def due(self, channel: str, now: float, limit: int = 100) -> Sequence[OutboxEntry]:
        while True:
            found, lost = await self._read(
                lambda db: outbox.due(db, self._bodies, channel, now, limit)
            )
            if not lost:
                return found
            await self._write("gateway_lost", partial(outbox.give_up, lost=lost))

    async def sending(self, id: int, attempts: int, doubtful: bool = False) -> bool:
        return await self._write(
            "gateway_sending",
            lambda db: outbox.sending(db, id, attempts, doubtful, self._clock()),
        )

    async def partly_sent(self, id: int, part: int) -> None:
        await self._write("gateway_partly_sent", lambda db: outbox.partly_sent(db, id, part))

    async def sent(self, id: int, receipt: str) -> None:
        await self._write("gateway_sent", lambda db: outbox.sent(db, id, receipt, self._clock()))

    async def not_sent(
        self, id: int, error: str, due: float | None, doubtful: bool, counted: bool = True,
        unsure: bool = False,
    ) -> None:  # fmt: skip
        await self._write(
            "gateway_not_sent",
            lambda db: outbox.not_sent(db, id, error, due, doubtful, counted, unsure),
        )

    async def deliveries(
        self, *, channel: str = "", state: DeliveryState | None = None, key: str = "",
        limit: int = 100,
    ) -> Sequence[OutboxEntry]:  # fmt: skip
        return await self._read(
            lambda db: outbox.deliveries(db, self._bodies, channel, state, key, limit)
        )

    async def again(self, id: int, now: float) -> OutboxEntry:
        return await self._write(
            "gateway_again", lambda db: outbox.again(db, self._bodies, id, now)
        )

    async def drop(self, id: int) -> None:
        await self._write("gateway_drop", lambda db: outbox.drop(db, self._bodies, id))
        await self._write("sweep", self._bodies.sweep)

    # people
    async def identity(self, channel: str, hash: str) -> Identity | None:
        return await self._read(lambda db: identities.identity(db, channel, hash))

    async def identities(self, channel: str = "") -> Sequence[Identity]:
        return await self._read(lambda db: identities.identities(db, channel))

    async def save_identity(self, identity: Identity) -> None:
        await self._write("gateway_identity", lambda db: identities.save_identity(db, identity))

    async def drop_identity(self, channel: str, hash: str) -> bool:
        return await self._write(
            "gateway_drop_identity",
            lambda db: identities.drop_identity(db, channel, hash),
        )

    async def save_pairing(self, pairing: Pairing) -> None:
        await self._write(
            "gateway_pairing", lambda db: identities.save_pairing(db, self._ids(), pairing)
        )

    async def redeem_pairing(
        self, channel: str, code: str, now: float, let_in: Callable[[Pairing], Identity]
    ) -> Pairing | None:
        def work(db: apsw.Connection) -> Pairing | None:
            used = identities.redeem_pairing(db, self._ids(), channel, code, now)
            if used is not None:
                identities.save_identity(db, let_in(used))
            return used

        return await self._write("gateway_use_pairing", work)

    async def stranger(self, channel: str, hash: str) -> None:
        await self._write("gateway_stranger", lambda db: identities.stranger(db, channel, hash))

    async def strangers(self) -> Mapping[str, int]:
        return await self._read(identities.strangers)

    # bonds
    async def binding(self, key: str) -> ChatBinding | None:
        return await self._read(lambda db: identities.binding(db, key))

    async def bindings(self, *, behind: bool = False) -> Sequence[ChatBinding]:
        return await self._read(lambda db: identities.bindings(db, behind))

    async def binding_of(self, session: str) -> ChatBinding | None:
        return await self._read(lambda db: identities.binding_of(db, session))

    async def save_binding(self, bond: ChatBinding) -> None:
        await self._write("gateway_bond", lambda db: identities.save_binding(db, bond))

    # channels
    async def counts(self) -> Mapping[str, QueueDepths]:
        return await self._read(identities.counts)

    async def proofs(self) -> Mapping[str, ChannelHealth]:
        return await self._read(identities.proofs)

    async def save_health(self, proof: ChannelHealth) -> None:
        await self._write("gateway_proof", lambda db: identities.save_health(db, proof))

    async def tidy(self, before: float) -> int:
        def work(db: apsw.Connection) -> int:
            identities.tidy(db)
            gone = inbox.tidy(db, self._bodies, before)
            return gone + outbox.tidy(db, self._bodies, before)

        count = await self._write("gateway_tidy", work)
        await self._write("sweep", self._bodies.sweep)
        return count
