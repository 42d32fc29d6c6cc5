"""What was spent: every row adds up to what the journals say, and outlives its session."""

import asyncio
import datetime as dt
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_agent.core import events as ev
from hermes_agent.core.messages import Usage
from hermes_agent.core.records import Cost, CostKey, Session
from hermes_agent.store.store import Store
from tests.store.helpers import Clock, a_session, a_turn, opened

DAY = 86_400.0
PAID = ev.Replied | ev.Compacted | ev.CostCharged

usages = st.builds(Usage, *[st.integers(0, 10_000)] * 5)
prices = st.one_of(st.none(), st.integers(0, 1_000).map(lambda cents: cents / 1_000))
models = st.sampled_from(["openai/a", "openai/b", "anthropic/c", "nameless"])
uses = st.sampled_from(["compaction", "titles", "vision"])
paid = st.one_of(
    st.builds(lambda u, c, m: ev.Replied(1, "said", usage=u, cost=c, model=m), usages, prices,
              models),
    st.builds(lambda u, c, m: ev.Compacted(0, 0, "short", u, c, m), usages, prices, models),
    st.builds(lambda u, c, m, use: ev.CostCharged(m, use, u, c), usages, prices, models, uses),
)  # fmt: skip
steps = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, int(DAY)), st.lists(paid, max_size=3)), max_size=8
)
"""In which session, how much later, and what is paid for."""


def use_of(event: ev.Event) -> str:
    match event:
        case ev.Replied():
            return "main"
        case ev.Compacted():
            return "compaction"
    assert isinstance(event, ev.CostCharged)
    return event.use


NAMES: dict[CostKey, Callable[[ev.Recorded, Session], str]] = {
    "day": lambda one, _: str(dt.datetime.fromtimestamp(one.time, dt.UTC).date()),
    "session": lambda one, _: one.session,
    "job": lambda _, session: session.key.removeprefix("job:") if session.key[:4] == "job:" else "",
    "model": lambda one, _: one.event.model,
    "service": lambda one, _: one.event.model.partition("/")[0],
    "use": lambda one, _: use_of(one.event),
}


async def journals(store: Store) -> list[tuple[ev.Recorded, Session]]:
    """What was paid for, as the journals say."""
    found = []
    for session in await store.sessions():
        found += [(one, session) for one in await store.events(session.id)]
    paid = [pair for pair in found if isinstance(pair[0].event, PAID)]
    return [pair for pair in paid if pair[0].event.usage.total or pair[0].event.cost]


def summed(rows: list[tuple[ev.Recorded, Session]], by: CostKey) -> dict[str, Cost]:
    sums: dict[str, Cost] = defaultdict(lambda: Cost("", 0, Usage(), 0.0))
    for one, session in rows:
        name, event = NAMES[by](one, session), one.event
        old = sums[name]
        sums[name] = Cost(
            name,
            old.calls + 1,
            old.usage + event.usage,
            old.cost + (event.cost or 0.0),
            old.unpriced + (event.cost is None),
            session.title if by == "session" else "",
        )
    return sums


def same(one: Cost, other: Cost) -> bool:
    return one.cost == pytest.approx(other.cost) and (
        (one.name, one.calls, one.usage, one.unpriced, one.title)
        == (other.name, other.calls, other.usage, other.unpriced, other.title)
    )


async def spend(store: Store, clock: Clock, wanted: list[tuple[int, int, list[ev.Event]]]) -> None:
    keys = ("", "job:nightly", "chat:someone")
    sessions = [await a_session(store, key=key) for key in keys]
    turns = [await a_turn(store, session, f"ask {session.id}") for session in sessions]
    for which, later, events in wanted:
        clock.now += later
        if events:
            await store.append(turns[which], *events)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_costs_by_every_name_add_up_to_the_journals(
    wanted: list[tuple[int, int, list[ev.Event]]],
) -> None:
    async def check(folder: Path) -> None:
        clock = Clock()
        async with opened(folder, clock=clock) as store:
            await spend(store, clock, wanted)
            rows = await journals(store)
            for by in NAMES:
                listed = await store.costs(by)
                expected = summed(rows, by)
                assert len(listed) == len(expected)
                assert all(same(one, expected[one.name]) for one in listed)
                assert [one.name for one in listed] == (
                    sorted(expected, reverse=True)
                    if by == "day"
                    else [one.name for one in sorted(listed, key=dearest)]
                )
            since, until = 1_000_000.0 + DAY, 1_000_000.0 + 2 * DAY
            part = [pair for pair in rows if since <= pair[0].time < until]
            listed = await store.costs("model", since, until)
            assert {one.name for one in listed} == set(summed(part, "model"))
            spent = sum(one.event.cost or 0.0 for one, _ in rows if one.time >= since)
            assert await store.spent(since) == pytest.approx(spent)
            for session in await store.sessions():
                own = [pair for pair in rows if pair[1].id == session.id]
                listed = await store.costs("use", session=session.id)
                assert all(same(one, summed(own, "use")[one.name]) for one in listed)
                total = sum(one.event.cost or 0.0 for one, _ in own)
                assert (session.cost or 0.0) == pytest.approx(total)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder)))


def dearest(one: Cost) -> tuple[float, int, str]:
    return (-one.cost, -one.calls, one.name)


async def test_costs_outlive_their_session_and_its_words_do_not(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store, key="job:backup")
        turn = await a_turn(store, session, "the combination is 12345")
        await store.append(turn, ev.Replied(1, "ok", usage=Usage(9, 1), cost=0.5, model="openai/m"))
        (before,) = await store.costs("session")
        assert before.title == "the combination is 12345"
        await store.append(turn, ev.SessionTitled("A safe"), ev.TurnFinished(turn.id, "done"))
        assert [one.title for one in await store.costs("session")] == ["A safe"]
        await store.delete_session(session.id)
        (after,) = await store.costs("session")
        assert (after.name, after.cost, after.calls, after.title) == (session.id, 0.5, 1, "")
        assert [(one.name, one.cost) for one in await store.costs("job")] == [("backup", 0.5)]
        assert await store.spent(0.0) == 0.5
    db = apsw.Connection(str(tmp_path / "state.db"))
    assert "12345" not in str(db.execute("select * from costs").fetchall())
    db.close()


async def test_a_call_that_belongs_to_no_session_counts(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.charge("openai/m", "test", Usage(5, 2), 0.25)
        await store.charge("local/m", "test", Usage(5, 2), None)
        assert await store.spent(0.0) == 0.25
        (use,) = await store.costs("use")
        assert (use.name, use.calls, use.cost, use.unpriced) == ("test", 2, 0.25, 1)
        (nobody,) = await store.costs("session")
        assert (nobody.name, nobody.title) == ("", "")


async def test_what_cost_nothing_and_used_nothing_is_no_row(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        turn = await a_turn(store, await a_session(store))
        await store.append(turn, ev.CostCharged("openai/m", "vision", Usage(), 0.0, "it failed"))
        await store.append(turn, ev.CostCharged("local/m", "vision", Usage(7, 1), 0.0))
        assert [(one.name, one.calls) for one in await store.costs("model")] == [("local/m", 1)]
