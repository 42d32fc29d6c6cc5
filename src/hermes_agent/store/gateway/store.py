"""The inbox, the outbox, identities and bindings of the gateway: a part of the store."""

from collections.abc import Sequence

from hermes_agent.core.gateway import ArrivedState, InboxEntry, OutboxEntry
from hermes_agent.store.engine.operations import StorePart, read, write
from hermes_agent.store.gateway import identities as identity_rows
from hermes_agent.store.gateway import inbox, outbox


class GatewayStore(StorePart):
    add_inbound = write(inbox.add_inbound)
    mark = read(inbox.mark)
    save_cursor = write(inbox.save_cursor)
    failed_to_deal = write(inbox.failed_to_deal)
    dead_letters = read(inbox.dead_letters)
    retry_dead_letter = write(inbox.retry_dead_letter)
    _new = read(inbox.new)
    _new_lost = write(inbox.give_up_inbound)
    _dealt = write(inbox.dealt)
    _drop_dead_letter = write(inbox.drop_dead_letter)

    enqueue = write(outbox.enqueue)
    tell = write(outbox.tell)
    sending = write(outbox.sending)
    partly_sent = write(outbox.partly_sent)
    sent = write(outbox.sent)
    not_sent = write(outbox.not_sent)
    deliveries = read(outbox.deliveries)
    again = write(outbox.again)
    _due = read(outbox.due)
    _due_lost = write(outbox.give_up_outbound)
    _drop = write(outbox.drop)

    identity = read(identity_rows.identity)
    identities = read(identity_rows.identities)
    save_identity = write(identity_rows.save_identity)
    drop_identity = write(identity_rows.drop_identity)
    save_pairing = write(identity_rows.save_pairing)
    redeem_pairing = write(identity_rows.redeem_pairing)
    stranger = write(identity_rows.stranger)
    strangers = read(identity_rows.strangers)
    binding = read(identity_rows.binding)
    bindings = read(identity_rows.bindings)
    binding_of = read(identity_rows.binding_of)
    save_binding = write(identity_rows.save_binding)
    counts = read(identity_rows.counts)
    proofs = read(identity_rows.proofs)
    save_health = write(identity_rows.save_health)
    _tidy = write(outbox.tidy_gateway)

    async def new(self, limit: int = 100, after: int = 0) -> Sequence[InboxEntry]:
        """Unprocessed messages after a number, in order of arrival; fewer if they are large.
        Messages whose content is lost become dead letters, with the reason."""
        while True:
            found, lost = await self._new(limit, after)
            if not lost:
                return found
            await self._new_lost(lost)

    async def dealt(self, number: int, state: ArrivedState, why: str = "") -> None:
        if await self._dealt(number, state, why):
            await self._engine.sweep()

    async def drop_dead_letter(self, number: int) -> None:
        """Discard a dead letter; only its hash is remembered."""
        await self._drop_dead_letter(number)
        await self._engine.sweep()

    async def due(self, channel: str, now: float, limit: int = 100) -> Sequence[OutboxEntry]:
        """The first unsent message of each chat that is due: order per chat is preserved. One that
        was `sending` when the runtime died comes again, marked doubtful. One whose content is lost
        is given up, with the reason."""
        while True:
            found, lost = await self._due(channel, now, limit)
            if not lost:
                return found
            await self._due_lost(lost)

    async def drop(self, id: int) -> None:
        """Discard a message that was given up or waits; only its hash is remembered."""
        await self._drop(id)
        await self._engine.sweep()

    async def tidy(self, before: float) -> int:
        """Forget what was handled or sent before then, except for the hashes that prevent
        duplicates; returns how many rows."""
        count = await self._tidy(before)
        await self._engine.sweep()
        return count
