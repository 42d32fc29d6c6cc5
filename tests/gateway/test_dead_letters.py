"""What is given up or lost is shown and can be dropped, and holds up nobody; strangers are counted
and leave little."""

from pathlib import Path

import apsw
import pytest

from hermes_agent.core.errors import HermesError, NotFound
from hermes_agent.core.gateway import Chat, Identity
from hermes_agent.store.gateway import inbox
from hermes_agent.store.store import Store
from tests.gateway.test_gateway_store import HERE, PICTURE, said, to
from tests.store.helpers import opened

LONG = "".join(f"{number} " for number in range(20_000))
"""So long that it lies in a file of its own."""


def lose(folder: Path) -> None:
    for path in (folder / "blobs").rglob("*"):
        if path.is_file():
            path.unlink()


async def test_what_is_lost_is_given_up_with_the_reason_and_the_chat_goes_on(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as store:
        ledger = store.gateway
        await ledger.enqueue(to("a", LONG), to("b", files=(PICTURE,)), to("c", "after them"))
        for one in (said("m1", LONG), said("m2", files=(PICTURE,)), said("m3", "after them")):
            await ledger.add_inbound(one)
        lose(tmp_path)
        assert [due.key for due in await ledger.due("tele", 2e9)] == ["c"]
        assert [kept.arrived.text for kept in await ledger.new()] == ["after them"]
        dead = await ledger.deliveries(state="dead")
        assert [one.key for one in dead] == ["b", "a"]
        assert all("is missing" in one.error for one in dead)
        assert "is missing" in dead[1].outgoing.text
        assert dead[0].outgoing.chat == HERE
        aside = await ledger.dead_letters()
        assert ["is missing" in one.why for one in aside] == [True, True]
        assert (await ledger.counts())["tele"].dead == 2
        (again,) = await ledger.enqueue(to("a", LONG))
        assert (again.state, again.outgoing.text) == ("dead", LONG)
        with pytest.raises(HermesError, match="is missing"):
            await ledger.retry_dead_letter(aside[0].number)
        assert len(await ledger.dead_letters()) == 2


async def test_what_nobody_wants_is_dropped_and_leaves_nothing_but_its_hash(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as store:
        ledger = store.gateway
        first, second = await ledger.enqueue(to("a", LONG), to("b", "next"))
        kept = await ledger.add_inbound(said("m1", files=(PICTURE,)))
        assert kept is not None
        with pytest.raises(NotFound):
            await ledger.drop_dead_letter(kept.number)
        await ledger.not_sent(first.id, "no such chat", None, doubtful=False)
        await ledger.dealt(kept.number, "dead", "it failed")
        await ledger.drop(first.id)
        await ledger.drop_dead_letter(kept.number)
        assert not any(path.is_file() for path in (tmp_path / "blobs").rglob("*"))
        assert [one.key for one in await ledger.deliveries()] == ["b"]
        assert await ledger.dead_letters() == []
        assert (await ledger.counts())["tele"].dead == 0
        assert (await ledger.enqueue(to("a", LONG)))[0].state == "dropped"
        assert await ledger.add_inbound(said("m1")) is None
        with pytest.raises(NotFound):
            await ledger.drop(first.id)
        await ledger.drop(second.id)
        assert await ledger.due("tele", 2e9) == []
        assert await store.check() == []


async def test_strangers_are_counted_over_a_restart_until_they_are_let_in(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for hash in ("one", "two", "one"):
            await store.gateway.stranger("tele", hash)
    async with opened(tmp_path) as store:
        assert await store.gateway.strangers() == {"tele": 2}
        await store.gateway.save_identity(Identity("tele", "one"))
        assert await store.gateway.strangers() == {"tele": 1}


async def brought(store: Store, number: int, channel: str) -> None:
    kept = await store.gateway.add_inbound(said(f"m{number}", chat=Chat(channel, "c")))
    assert kept is not None
    await store.gateway.dealt(kept.number, "ignored", "a stranger")


async def test_a_flood_of_strangers_leaves_no_more_rows_than_a_few(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await brought(store, 0, "other")
        real = await store.gateway.add_inbound(said("real"))
        assert real is not None
        await store.gateway.dealt(real.number, "done")
    db = apsw.Connection(str(tmp_path / "state.db"))
    with db:
        db.executemany(
            "insert into gateway_inbox (channel, hash, state, kept, why) "
            "values ('tele', ?, 'ignored', 1.0, 'a stranger')",
            [(f"h{number}",) for number in range(inbox.MAX_IGNORED + 500)],
        )
    db.close()
    async with opened(tmp_path) as store:
        await brought(store, 1, "tele")
        assert await store.gateway.add_inbound(said("m1", chat=Chat("tele", "c"))) is None
        assert await store.gateway.add_inbound(said("real")) is None
        assert await store.gateway.add_inbound(said("m0", chat=Chat("other", "c"))) is None
    db = apsw.Connection(str(tmp_path / "state.db"))
    ((count,),) = db.execute("select count(*) from gateway_inbox where state = 'ignored'")
    assert count == inbox.MAX_IGNORED + 1
    db.close()
