"""Turns: messages in, events, what follows from them, and who may write."""

import asyncio
import time
from pathlib import Path

import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.errors import Fenced
from hermes_agent.core.messages import ToolCall, Usage
from hermes_agent.core.records import AfterCommand, Parked, Question, SessionMessage
from tests.store.helpers import Clock, a_session, a_turn, opened, told


async def test_a_message_is_kept_once_even_after_it_was_taken(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session, other = await a_session(store), await a_session(store)
        assert await store.receive(session.id, SessionMessage("k1", "hello", "telegram", True))
        assert not await store.receive(session.id, SessionMessage("k1", "hello again"))
        assert await store.receive(other.id, SessionMessage("k1", "elsewhere"))
        assert await store.sessions_with_queued_messages() == [session.id, other.id]
        turn = await store.start_turn(session.id)
        assert turn is not None
        taken = ev.MessageTaken("k1", "hello", "telegram", True)
        assert told(await store.events(session.id, 1)) == [ev.TurnStarted(turn.id), taken]
        assert await store.sessions_with_queued_messages() == [other.id]
        assert not await store.receive(session.id, SessionMessage("k1", "hello"))
    async with opened(tmp_path) as store:
        assert not await store.receive(session.id, SessionMessage("k1", "hello"))


async def test_a_turn_starts_only_with_mail_and_without_another_turn(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        assert await store.start_turn(session.id) is None
        turn = await a_turn(store, session, "one")
        await store.receive(session.id, SessionMessage("two", "two"))
        assert await store.start_turn(session.id) is None
        assert await store.unfinished_turn(session.id) == turn
        recorded = await store.take_queued_messages(turn)
        assert told(recorded) == [ev.MessageTaken("two", "two")]
        assert list(await store.take_queued_messages(turn)) == []
        await store.append(turn, ev.TurnFinished(turn.id, "done"))
        assert await store.unfinished_turn(session.id) is None
        assert await store.start_turn(session.id) is None
        assert (await a_turn(store, session, "three")).id != turn.id


async def test_events_are_numbered_without_gaps_and_read_from_any_place(tmp_path: Path) -> None:
    clock = Clock()
    async with opened(tmp_path, clock=clock) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        clock.now += 5
        added = await store.append(
            turn, ev.NoticeIssued("a"), ev.NoticeIssued("b"), ev.NoticeIssued("c")
        )
        assert [(one.number, one.time) for one in added] == [(n, clock.now) for n in (4, 5, 6)]
        everything = await store.events(session.id)
        assert [one.number for one in everything] == [1, 2, 3, 4, 5, 6]
        assert await store.events(session.id, 4) == list(added)[1:]
        assert await store.last_number(session.id) == 6
        assert await store.check() == []


async def test_every_kind_of_event_comes_back_as_it_was(tmp_path: Path) -> None:
    every = [
        ev.TurnResumed(1, 2, 3),
        ev.ModelRequested(1, "m", 4, "abc"),
        ev.ModelRetried("rate_limit", "slow down", 1, 0.5),
        ev.Replied(
            1, "", (ToolCall("c1", "terminal", '{"command": "echo \\u00e9"}'),), Usage(1, 2)
        ),
        ev.CallJudged("e1", "terminal", "allow", "inside", "r"),
        ev.CallIntended("e1", "c1", "terminal", 1, {"pid": 4}),
        ev.CallFinished("e1", "c1", "terminal", "日本語\x00\n", True, 0.1, {"code": 0}),
        ev.BudgetReached("steps", 5, 5),
        ev.Compacted(1, 3, "they talked", Usage(5, 5), 0.1),
        ev.NoticeIssued("look", "warning"),
        ev.TurnFinished(1, "failed", "", "broken", "mend it", 3, Usage(6, 7), 0.1, 2.0),
    ]
    async with opened(tmp_path) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        await store.append(turn, *every)
        assert told(await store.events(session.id, 3)) == every


async def test_a_turn_taken_over_is_closed_to_its_old_holder(tmp_path: Path) -> None:
    async with opened(tmp_path) as old, opened(tmp_path) as new:
        session, idle = await a_session(old), await a_session(old)
        turn = await a_turn(old, session)
        await old.append(turn, ev.NoticeIssued("mine"))
        (taken,) = await new.claim_unfinished()
        assert (taken.id, taken.session, taken.resumed) == (turn.id, session.id, True)
        assert taken.fence > turn.fence
        with pytest.raises(Fenced):
            await old.append(turn, ev.NoticeIssued("still mine?"))
        with pytest.raises(Fenced):
            await old.take_queued_messages(turn)
        await old.receive(idle.id, SessionMessage("k", "for the new one"))
        with pytest.raises(Fenced):
            await old.start_turn(idle.id)
        await new.append(taken, ev.TurnFinished(taken.id, "done"))
        assert await new.start_turn(idle.id) is not None
        assert [type(e) for e in told(await new.events(session.id, 3))] == [
            ev.NoticeIssued,
            ev.TurnFinished,
        ]


async def test_each_take_over_raises_the_fence_and_takes_only_unfinished_turns(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as store:
        done, open_ = await a_session(store), await a_session(store)
        first = await a_turn(store, done)
        await store.append(first, ev.TurnFinished(first.id, "done"))
        second = await a_turn(store, open_)
        once, twice = await store.claim_unfinished(), await store.claim_unfinished()
        assert [turn.id for turn in once] == [turn.id for turn in twice] == [second.id]
        assert twice[0].fence == once[0].fence + 1
        assert (await store.unfinished_turn(open_.id)).fence == twice[0].fence


async def test_a_turn_can_be_started_together_with_the_take_over(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        await store.receive(session.id, SessionMessage("k", "hello"))
        taken, turn = await asyncio.gather(store.claim_unfinished(), store.start_turn(session.id))
        assert list(taken) == []
        assert turn is not None
        await store.append(turn, ev.NoticeIssued("fine"))


async def test_a_finished_or_deleted_turn_takes_no_more_events(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        await store.append(turn, ev.TurnFinished(turn.id, "done"))
        with pytest.raises(Fenced, match="ended"):
            await store.append(turn, ev.NoticeIssued("too late"))
        again = await a_turn(store, session)
        await store.delete_session(session.id)
        with pytest.raises(Fenced, match="deleted"):
            await store.append(again, ev.NoticeIssued("too late"))


async def test_questions_are_open_until_answered(tmp_path: Path) -> None:
    clock = Clock()
    async with opened(tmp_path, clock=clock) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        assert (await store.session(session.id)).state == "running"
        first = ev.QuestionAsked("q1", "approval", "May I?", 2e6, "e1", ("yes", "no"))
        await store.append(turn, first)
        clock.now += 1
        await store.append(turn, ev.QuestionAsked("q2", "question", "Which?", 2e6))
        assert list(await store.questions()) == [
            Question("q1", session.id, "approval", "May I?", ("yes", "no"), "e1", 1e6, 2e6),
            Question("q2", session.id, "question", "Which?", (), "", 1e6 + 1, 2e6),
        ]
        assert (await store.session(session.id)).state == "waiting"
        await store.append(turn, ev.QuestionAnswered("q1", "yes", "me"))
        assert (await store.session(session.id)).state == "waiting"
        await store.append(turn, ev.QuestionAnswered("q2", None))
        assert (await store.session(session.id)).state == "running"
        assert list(await store.questions()) == []
        await store.append(turn, ev.QuestionAsked("q3", "budget", "More?", 2e6))
        await store.append(turn, ev.TurnFinished(turn.id, "interrupted"))
        assert list(await store.questions()) == []
        assert (await store.session(session.id)).state == "idle"


async def test_an_effect_is_parked_with_its_input_until_somebody_decides(tmp_path: Path) -> None:
    clock = Clock()
    async with opened(tmp_path, clock=clock) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        calls = tuple(ToolCall(f"c{n}", "send", f'{{"n": {n}}}') for n in range(3))
        await store.append(turn, ev.Replied(1, "", calls))
        for n in range(3):
            await store.append(turn, ev.CallIntended(f"e{n}", f"c{n}", "send"))
        await store.append(turn, ev.CallFinished("e0", "c0", "send", "sent"))
        clock.now += 9
        await store.append(turn, ev.CallParked("e1", "c1", "send", "nobody knows"))
        parked = Parked("e1", session.id, "send", '{"n": 1}', "nobody knows", clock.now)
        assert list(await store.parked()) == [parked]
        assert (await store.session(session.id)).state == "parked"
        await store.append(turn, ev.ParkDecided("e1", "retry", "me"))
        assert list(await store.parked()) == []
        await store.append(turn, ev.CallIntended("e1", "c1", "send", 2))
        await store.append(turn, ev.CallParked("e1", "c1", "send", "again"))
        await store.append(turn, ev.CallParked("e2", "c2", "send", "too"))
        assert [one.effect for one in await store.parked()] == ["e1", "e2"]
        await store.append(turn, ev.ParkDecided("e1", "skip"))
        await store.append(turn, ev.CallFinished("e1", "c1", "send", "skipped", ok=False))
        assert [one.effect for one in await store.parked()] == ["e2"]
        await store.append(turn, ev.TurnFinished(turn.id, "interrupted"))
        assert list(await store.parked()) == []
        assert (await store.session(session.id)).state == "idle"


async def test_spending_is_summed_since_a_moment(tmp_path: Path) -> None:
    clock = Clock(100.0)
    async with opened(tmp_path, clock=clock) as store:
        turn = await a_turn(store, await a_session(store))
        await store.append(turn, ev.Replied(1, "a", usage=Usage(1, 1), cost=1.0))
        clock.now = 200.0
        await store.append(turn, ev.Replied(2, "b", usage=Usage(1, 1), cost=2.0))
        await store.append(turn, ev.Compacted(0, 1, "s", Usage(1, 1), 4.0))
        await store.append(turn, ev.Replied(3, "c", usage=Usage(1, 1), cost=None))
        assert [await store.spent(since) for since in (0.0, 100.0, 101.0, 201.0)] == [7, 7, 6, 0]


async def test_a_failing_append_adds_none_of_its_events(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        unwritable = ev.NoticeIssued("\ud800")
        with pytest.raises(UnicodeEncodeError):
            await store.append(turn, ev.NoticeIssued("before"), unwritable)
        assert await store.last_number(session.id) == 3
        await store.append(turn, ev.NoticeIssued("after"))
        assert told(await store.events(session.id, 3)) == [ev.NoticeIssued("after")]


async def test_a_long_session_is_read_in_one_go(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        for step in range(1_000):
            call = ToolCall(f"c{step}", "terminal", '{"command":"ls"}')
            await store.append(
                turn,
                ev.ModelRequested(step, "m", step, "d"),
                ev.Replied(step, "looking at it " * 10, (call,), Usage(900, 90)),
                ev.CallIntended(f"e{step}", call.id, "terminal"),
                ev.CallFinished(f"e{step}", call.id, "terminal", "some output " * 20),
            )
        started = time.process_time()
        events = await store.events(session.id)
        used = time.process_time() - started
        assert [one.number for one in events] == list(range(1, 4_004))
        assert used < 2.0  # CPU seconds; it takes about 0.05


async def test_a_message_for_the_end_of_a_command_is_kept_for_each_of_its_targets(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        started = {"id": "e1", "state": "running", "background": True, "terminal": "local"}
        done = ev.CallFinished("e1", "c1", "terminal", "", data={**started, "wake": False})
        await store.append(await a_turn(store, session), done)
        waiting = [AfterCommand("effect/e2", target, "done") for target in ("mail:a", "slack:b")]
        for _ in range(2):  # a call that is recovered hands them in again
            assert await store.add_after_command("e1", waiting)
        (command,) = await store.background_commands(session.id)
        assert list(command.messages) == waiting
