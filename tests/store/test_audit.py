"""The audit log: complete, chained, and honest about what was done to it."""

from pathlib import Path

import apsw
import msgspec
import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.effects import ApprovalRequirement
from hermes_agent.core.messages import ToolCall
from hermes_agent.store.store import Store
from tests.store.helpers import a_session, a_turn, opened


async def one_effect(store: Store) -> str:
    """An effect that was asked about, agreed to by two people, and ran."""
    session = await a_session(store)
    turn = await a_turn(store, session)
    call = ToolCall("c1", "terminal", '{"command":"ls"}')
    (replied,) = await store.append(turn, ev.Replied(1, "", (call,)))
    effect = f"{session.id}-{replied.number}-0"
    judged = ev.CallJudged(effect, "terminal", "ask", "it lists", "f/r", "terminal ls")
    await store.append(
        turn,
        judged,
        ev.QuestionAsked(
            f"{effect}-ok",
            "approval",
            "may it?",
            effect=effect,
            consent=ApprovalRequirement(count=2),
        ),
        ev.ApprovalGiven(f"{effect}-ok", "ann"),
        ev.QuestionAnswered(f"{effect}-ok", "yes", "ann, bob"),
        ev.CallIntended(effect, "c1", "terminal"),
        ev.CallFinished(effect, "c1", "terminal", "a b"),
        ev.NoticeIssued("not part of the log"),
    )
    return session.id


def change(home: Path, statement: str) -> None:
    db = apsw.Connection(str(home / "state.db"))
    db.execute(statement)
    db.close()


async def test_an_effect_is_told_from_the_question_to_the_outcome(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await one_effect(store)
        entries = [msgspec.json.decode(entry.body) for entry in await store.audit()]
        assert [entry["kind"] for entry in entries] == [
            "call_judged", "question_asked", "approval_given", "question_answered",
            "call_intended", "call_finished",
        ]  # fmt: skip
        assert [entry["number"] for entry in entries] == [1, 2, 3, 4, 5, 6]
        assert entries[0]["call"] == "terminal ls"
        assert (entries[3]["answer"], entries[3]["by"]) == ("yes", "ann, bob")


async def test_the_words_of_an_answer_to_the_model_are_not_in_the_log(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        turn = await a_turn(store, await a_session(store))
        await store.append(turn, ev.QuestionAnswered("x-q1", "my birthday is in May", "ann"))
        (entry,) = await store.audit()
        assert msgspec.json.decode(entry.body)["answer"] == "words"


async def test_a_whole_chain_is_verified_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await one_effect(store)
        first = await store.verify_audit()
    async with opened(tmp_path) as store:
        await one_effect(store)
        second = await store.verify_audit(first.head)
    assert (first.entries, second.entries) == (6, 12)
    assert first.troubles == second.troubles == ()
    assert first.head != second.head


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "update audit set details = replace(details, 'ask', 'no') where number = 1",
            "entry 1 was",
        ),
        ("delete from audit where number = 3", "entries 3 to 3 are missing"),
        ("update audit set hash = zeroblob(32) where number = 2", "entry 2 was"),
        ("delete from events where kind = 'question_answered'", "is gone"),
        ("update events set body = '' where kind = 'question_asked'", "was changed"),
        ("update audit set digest = zeroblob(32) where number = 2", "entry 2 was"),
        ("update audit set session = 'zzz' where number = 2", "entry 2 was"),
        ("update audit set time = time - 360000 where number = 4", "entry 4 was"),
        ("delete from audit", "has no entry"),
        ("delete from audit where number > 4", "has no entry"),
        (
            (
                'update events set body = \'{"kind":"notice_issued","text":"x"}\' '
                "where kind = 'question_asked'"
            ),
            "was changed",
        ),
    ],
)
async def test_what_was_tampered_with_is_found(tmp_path: Path, statement: str, said: str) -> None:
    async with opened(tmp_path) as store:
        await one_effect(store)
    change(tmp_path, statement)
    async with opened(tmp_path) as store:
        troubles = (await store.verify_audit()).troubles
    assert any(said in trouble for trouble in troubles), troubles


async def test_an_end_that_was_cut_off_is_found_by_an_earlier_head(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await one_effect(store)
        head = (await store.verify_audit()).head
    change(tmp_path, "delete from audit where number > 4")
    async with opened(tmp_path) as store:
        troubles = (await store.verify_audit(head)).troubles
    assert any("cut off" in trouble for trouble in troubles)


async def test_the_log_outlives_its_session(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await one_effect(store)
        await store.append((await store.claim_unfinished())[0], ev.TurnFinished(1, "done"))
        await store.delete_session(session)
        report = await store.verify_audit()
        assert (report.entries, report.troubles) == (6, ())
        assert len(await store.audit(session=session)) == 6


async def test_judgements_come_with_the_arguments_of_their_calls(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await one_effect(store)
        await one_effect(store)
        (one,) = await store.judgements(session=session)
        assert (one.input, one.judged.action, one.policy) == (
            '{"command":"ls"}', "ask", "careful",
        )  # fmt: skip
        assert len(await store.judgements()) == 2
        assert await store.judgements(since=one.time + 1000) == []


async def test_a_question_tells_who_has_agreed_so_far(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        turn = await a_turn(store, await a_session(store))
        asked = ev.QuestionAsked(
            "x-ok", "approval", "may it?", consent=ApprovalRequirement(("a*",), 3, 60.0)
        )
        await store.append(
            turn, asked, ev.ApprovalGiven("x-ok", "ann"), ev.ApprovalGiven("x-ok", "al")
        )
        (question,) = await store.questions()
    assert (question.consent, question.agreed) == (
        ApprovalRequirement(("a*",), 3, 60.0),
        ("ann", "al"),
    )
