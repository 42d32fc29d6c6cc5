"""The ledgers: what arrives is kept once, what is to be sent goes in order and is not forgotten."""

from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from hermes_agent.core.errors import NotFound
from hermes_agent.core.gateway import (
    Button,
    ChannelHealth,
    Chat,
    ChatBinding,
    Identity,
    InboundMessage,
    NewDelivery,
    OutboundMessage,
    Pairing,
    Person,
    PseudonymHasher,
    QueueDepths,
)
from hermes_agent.core.messages import Media
from tests.store.helpers import Clock, a_session, a_turn, opened

HERE = Chat("tele", "chat-4711")
THERE = Chat("tele", "chat-4712", "thread-9")
ANNA = Person("person-815", "Anna")
PICTURE = Media("image/png", bytes(range(256)) * 600, "a.png")
MEMO = Media("audio/ogg", b"\xff\xfeshort", "memo.ogg")


def said(id: str, text: str = "hello", chat: Chat = HERE, **more: object) -> InboundMessage:
    return InboundMessage(id, chat, ANNA, text, **more)  # type: ignore[arg-type]


def to(key: str, text: str = "hi", chat: Chat = HERE, **more: object) -> NewDelivery:
    return NewDelivery(key, OutboundMessage(chat, text, **more))  # type: ignore[arg-type]


async def test_what_arrives_twice_under_one_id_is_kept_once(tmp_path: Path) -> None:
    clock = Clock(100.0)
    async with opened(tmp_path, clock=clock) as store:
        ledger = store.gateway
        first = await ledger.add_inbound(said("m1", "one"), "offset-1")
        assert first is not None
        assert await ledger.add_inbound(said("m1", "one, again"), "offset-2") is None
        other = await ledger.add_inbound(said("m1", chat=Chat("slack", "C1")))
        assert other is not None
        assert [kept.arrived.text for kept in await ledger.new()] == ["one", "hello"]
        assert await ledger.mark("tele") == "offset-2"
        assert await ledger.mark("slack") == ""
        await ledger.dealt(first.number, "done")
        assert [kept.number for kept in await ledger.new()] == [other.number]
        assert await ledger.new(after=other.number) == []
        assert await ledger.add_inbound(said("m1")) is None


async def test_files_come_back_as_they_were_and_large_ones_lie_beside_the_database(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as store:
        arrived = said("m1", files=(PICTURE, MEMO), voice=(MEMO,), reply_to="m0", group=True)
        await store.gateway.add_inbound(arrived)
        (kept,) = await store.gateway.new()
        assert kept.arrived == arrived
        sent = OutboundMessage(HERE, "see", (PICTURE,), ((Button("yes", "y:1"),),), edit="5")
        for number in range(3):
            await store.gateway.enqueue(NewDelivery(f"k{number}", sent))
        (due,) = await store.gateway.due("tele", 2e9)
        assert due.outgoing == sent
        blobs = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
        assert len(blobs) == 1
        listed = await store.gateway.deliveries()
        assert [one.outgoing.files for one in listed] == [(replace(PICTURE, data=b""),)] * 3
        assert await store.check() == []


async def test_what_failed_is_counted_set_aside_and_dealt_with_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        kept = await store.gateway.add_inbound(said("m1"))
        assert kept is not None
        assert await store.gateway.failed_to_deal(kept.number, "the model is out") == 1
        assert await store.gateway.failed_to_deal(kept.number, "still out") == 2
        await store.gateway.dealt(kept.number, "dead", "still out")
        assert await store.gateway.new() == []
        (aside,) = await store.gateway.dead_letters()
        assert (aside.state, aside.tries, aside.why) == ("dead", 2, "still out")
        assert (await store.gateway.retry_dead_letter(kept.number)).state == "new"
        assert [one.tries for one in await store.gateway.new()] == [0]
        with pytest.raises(NotFound):
            await store.gateway.retry_dead_letter(kept.number)


async def test_a_key_is_one_delivery_and_each_chat_shows_its_first_alone(tmp_path: Path) -> None:
    clock = Clock(50.0)
    async with opened(tmp_path, clock=clock) as store:
        ledger = store.gateway
        one, same = await ledger.enqueue(to("a"), to("a", "other text"))
        assert same == one
        two, three = await ledger.enqueue(to("b"), to("c", chat=THERE))
        assert [due.id for due in await ledger.due("tele", 50.0)] == [one.id, three.id]
        assert [due.id for due in await ledger.due("tele", 50.0, limit=1)] == [one.id]
        assert await ledger.due("slack", 99.0) == []
        assert await ledger.sending(one.id, 0)
        await ledger.not_sent(one.id, "busy", 80.0, doubtful=False)
        assert [due.id for due in await ledger.due("tele", 60.0)] == [three.id]
        (first, _) = await ledger.due("tele", 80.0)
        assert (first.id, first.attempts, first.error) == (one.id, 1, "busy")
        assert await ledger.sending(one.id, 1)
        await ledger.sent(one.id, "r-1")
        assert [due.id for due in await ledger.due("tele", 80.0)] == [two.id, three.id]
        assert not await ledger.sending(one.id, 2)
        (done,) = await ledger.enqueue(to("a"))
        assert (done.state, done.receipt, done.sent) == ("sent", "r-1", 50.0)


async def test_an_attempt_that_was_seen_before_it_was_made_is_not_made_again(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as store:
        (one,) = await store.gateway.enqueue(to("a"))
        assert await store.gateway.sending(one.id, 0)
        assert not await store.gateway.sending(one.id, 0)
        (cut,) = await store.gateway.due("tele", 2e9)
        assert cut.state == "sending"
        assert await store.gateway.sending(one.id, cut.attempts, doubtful=True)
        await store.gateway.sent(one.id, "r")
        (listed,) = await store.gateway.deliveries(state="sent")
        assert listed.doubtful


async def test_what_is_given_up_does_not_block_and_can_be_tried_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        ledger = store.gateway
        one, two = await ledger.enqueue(to("s/1/0"), to("s/2/0"))
        await ledger.sending(one.id, 0)
        await ledger.not_sent(one.id, "no such chat", None, doubtful=False)
        assert [due.id for due in await ledger.due("tele", 2e9)] == [two.id]
        (dead,) = await ledger.deliveries(channel="tele", state="dead")
        assert (dead.key, dead.error) == ("s/1/0", "no such chat")
        counted = {"tele": QueueDepths(waiting=1, dead=1, oldest=two.created)}
        assert await ledger.counts() == counted
        again = await ledger.again(one.id, 60.0)
        assert (again.state, again.attempts, again.due) == ("waiting", 0, 60.0)
        assert [due.id for due in await ledger.due("tele", 2e9)] == [one.id]
        with pytest.raises(NotFound):
            await ledger.again(one.id, 60.0)
        assert [d.key for d in await ledger.deliveries(key="s/1")] == ["s/1/0"]


async def test_a_clock_that_is_set_back_holds_up_no_delivery(tmp_path: Path) -> None:
    async with opened(tmp_path, clock=Clock(90_000.0)) as store:
        (one,) = await store.gateway.enqueue(to("a"))
        assert [due.id for due in await store.gateway.due("tele", 500.0)] == [one.id]
        await store.gateway.sending(one.id, 0)
        await store.gateway.not_sent(one.id, "not now", 90_600.0, doubtful=False)
        assert await store.gateway.due("tele", 90_500.0) == []
        assert [due.id for due in await store.gateway.due("tele", 500.0)] == [one.id]


async def test_telling_and_how_far_was_told_are_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        await a_turn(store, session)
        await store.gateway.save_binding(ChatBinding("key", session.id, HERE))
        (behind,) = await store.gateway.bindings(behind=True)
        assert behind.session == session.id
        last = await store.last_number(session.id)
        await store.gateway.tell(behind, last, to("a"))
        assert await store.gateway.bindings(behind=True) == []
        await store.gateway.tell(behind, last - 1)
        bond = await store.gateway.binding("key")
        assert bond == ChatBinding("key", session.id, HERE, told=last)
        assert await store.gateway.binding_of(session.id) == bond
        assert await store.gateway.binding("other") is None


async def test_a_chat_that_turned_to_another_session_misses_nothing_of_either(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as store:
        first, second = await a_session(store), await a_session(store)
        for session in (first, second):
            await a_turn(store, session)
        await store.gateway.save_binding(ChatBinding("key", first.id, HERE))
        (behind,) = await store.gateway.bindings(behind=True)
        await store.gateway.save_binding(ChatBinding("key", second.id, HERE))
        assert {one.session for one in await store.gateway.bindings(behind=True)} == {
            first.id,
            second.id,
        }
        await store.gateway.tell(behind, 400, to("a"))
        (left,) = await store.gateway.bindings(behind=True)
        assert (left.key, left.session, left.told) == ("key", second.id, 0)
        await store.gateway.save_binding(ChatBinding("other", second.id, THERE))
        assert [one.key for one in await store.gateway.bindings() if one.session == second.id] == [
            "other"
        ]
        await store.delete_session(second.id)
        await store.gateway.tidy(0.0)
        assert [one.session for one in await store.gateway.bindings()] == [first.id]


async def test_people_pairings_and_proofs(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        ledger = store.gateway
        anna = Identity("tele", "hash-1", "Anna", "owner", since=5.0)
        await ledger.save_identity(anna)
        assert await ledger.identity("tele", "hash-1") == anna
        assert await ledger.identity("slack", "hash-1") is None
        assert await ledger.identities("slack") == []
        assert await ledger.identities() == [anna]
        assert await ledger.drop_identity("tele", "hash-1")
        assert not await ledger.drop_identity("tele", "hash-1")
        pairing = Pairing("CODE-1", "tele", "owner", 100.0)

        def let_in(by: Pairing) -> Identity:
            return Identity("tele", "hash-2", role=by.role)

        await ledger.save_pairing(pairing)
        assert await ledger.redeem_pairing("slack", "CODE-1", 50.0, let_in) is None
        assert await ledger.identity("tele", "hash-2") is None
        assert await ledger.redeem_pairing("tele", "CODE-1", 50.0, let_in) == pairing
        assert await ledger.identity("tele", "hash-2") == let_in(pairing)
        assert await ledger.redeem_pairing("tele", "CODE-1", 50.0, let_in) is None
        await ledger.save_pairing(pairing)
        assert await ledger.redeem_pairing("tele", "CODE-1", 100.0, let_in) is None
        proof = ChannelHealth("tele", proven=4.0, failures=2, error="deaf")
        await ledger.save_health(proof)
        assert await ledger.proofs() == {"tele": proof}


async def test_what_is_old_goes_but_is_neither_taken_nor_sent_again(tmp_path: Path) -> None:
    clock = Clock(100.0)
    async with opened(tmp_path, clock=clock) as store:
        ledger = store.gateway
        done = await ledger.add_inbound(said("m1", files=(PICTURE,)))
        stuck = await ledger.add_inbound(said("m2"))
        assert done is not None
        assert stuck is not None
        await ledger.dealt(done.number, "done")
        (sent, waiting) = await ledger.enqueue(
            to(f"job/{HERE.target}", files=(PICTURE,)), to("other")
        )
        await ledger.sent(sent.id, "receipt-77")
        clock.now = 1000.0
        assert await ledger.tidy(500.0) == 2
        assert await ledger.tidy(500.0) == 0
        assert [one.number for one in await ledger.new()] == [stuck.number]
        assert [one.id for one in await ledger.due("tele", 2e9)] == [waiting.id]
        assert await ledger.add_inbound(said("m1")) is None
        (again,) = await ledger.enqueue(to(f"job/{HERE.target}"))
        assert (again.id, again.state) == (sent.id, "sent")
        assert not any(path.is_file() for path in (tmp_path / "blobs").rglob("*"))
        assert await store.check() == []


async def test_what_strangers_send_is_not_kept(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        kept = await store.gateway.add_inbound(said("m1", files=(PICTURE,)))
        assert kept is not None
        assert any(path.is_file() for path in (tmp_path / "blobs").rglob("*"))
        await store.gateway.dealt(kept.number, "ignored", "a stranger")
        assert not any(path.is_file() for path in (tmp_path / "blobs").rglob("*"))
        assert await store.gateway.add_inbound(said("m1")) is None
        assert await store.check() == []


async def test_names_of_people_and_places_do_not_outlive_the_rows_that_need_them(
    tmp_path: Path,
) -> None:
    clock = Clock(100.0)
    async with opened(tmp_path, clock=clock) as store:
        ledger = store.gateway
        ids = PseudonymHasher.open(tmp_path)
        await ledger.save_identity(Identity("tele", ids("tele", ANNA.id), "Anna"))
        await ledger.save_pairing(Pairing("SECRET-CODE", "tele", expires=2e9))
        kept = await ledger.add_inbound(said("message-1234567"))
        assert kept is not None
        await ledger.dealt(kept.number, "ignored", "a stranger")
        (sent,) = await ledger.enqueue(to(f"x/{HERE.target}"))
        await ledger.sent(sent.id, "receipt-77")
        clock.now = 900.0
        await ledger.tidy(800.0)
    db = apsw.Connection(str(tmp_path / "state.db"))
    tables = [name for (name,) in db.execute("select name from sqlite_schema where type = 'table'")]
    ours = [name for name in tables if name.startswith("gateway_")]
    dump = str([db.execute(f"select * from {name}").fetchall() for name in ours])
    db.close()
    assert "Anna" in dump
    for name in (HERE.chat, ANNA.id, "message-1234567", "receipt-77", "SECRET-CODE"):
        assert name not in dump


def test_hashes_are_of_one_home_and_parts_do_not_run_together(tmp_path: Path) -> None:
    one, two = PseudonymHasher.open(tmp_path / "one"), PseudonymHasher.open(tmp_path / "two")
    assert one("a", "b") == PseudonymHasher.open(tmp_path / "one")("a", "b")
    assert one("a", "b") != two("a", "b")
    assert len({one("ab"), one("a", "b"), one("", "ab"), one("ab", "")}) == 4
    assert (tmp_path / "one/credentials/gateway.key").stat().st_mode & 0o077 == 0
