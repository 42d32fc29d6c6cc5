"""Sessions go back, branch off and are compared; what was done stays done."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.errors import UsageError
from hermes_agent.core.messages import Reply, Usage, UserMessage
from hermes_agent.core.records import Session
from hermes_agent.core.settings.root import LoopSettings
from hermes_agent.runtime.api.app import build_app, runtime_status
from tests.support.prompt_prefix import check_session
from tests.support.runtime_fixture import RuntimeFixture, open_runtime, script

PRICE = {"input": 10.0, "output": 1.0}


def writer(folder: Path) -> str:
    """A model that writes a file per turn, then says so."""
    call = {"tool": "write_file", "with": {"path": "app.py", "content": "print()"}}
    look = {"tool": "terminal", "with": {"command": "ls"}}
    return script(folder, "writer", {"calls": [call, look]}, {"say": "written"}, price=PRICE)


async def talk_of(h: RuntimeFixture, session: Session) -> list[str]:
    conversation = await h.runtime._turns.conversation(session.id)
    return [one.text for one in conversation.messages if isinstance(one, UserMessage)]


async def number_of(h: RuntimeFixture, session: Session, text: str) -> int:
    return next(
        one.number
        for one in await h.runtime.context.store.events(session.id)
        if isinstance(one.event, ev.MessageTaken) and one.event.text == text
    )


async def checked(h: RuntimeFixture, session: Session) -> int:
    store = h.runtime.context.store
    return check_session(
        session.id, await store.prompt(session.prompt), await store.events(session.id)
    )


async def test_a_rewind_forgets_what_was_said_and_lists_what_stays_done(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as h:
        session = await h.open(writer(tmp_path))
        for text in ("zebra", "giraffe"):
            await h.say(session, text)
        cost = (await h.now(session)).cost
        report = await h.runtime.session_history.rewind(session, by="ann")
        assert (report.text, [one.text for one in report.effects]) == ("giraffe", ["wrote app.py"])
        assert await talk_of(h, session) == ["zebra"]
        assert (h.work / "app.py").exists()
        assert (await h.now(session)).cost == cost
        (found,) = await h.runtime.context.store.search("giraffe")
        (kept,) = await h.runtime.context.store.search("zebra")
        assert (found.rewound, kept.rewound) == (True, False)
        with pytest.raises(UsageError, match="not a user's message"):  # a second client, too late
            await h.runtime.session_history.rewind(session, report.message)
        await h.say(session, "lion")
        assert await talk_of(h, session) == ["zebra", "lion"]
        assert await checked(h, session) == 6


async def test_a_message_that_joined_a_turn_can_be_gone_back_to(tmp_path: Path) -> None:
    wait = {"tool": "terminal", "with": {"command": "touch begun; until [ -e go ]; do :; done"}}
    model = script(tmp_path, "one", {"calls": [wait]}, {"say": "done"})
    async with open_runtime(tmp_path) as h:
        session = await h.open(model)
        await h.send(session, "work")
        while not (h.work / "begun").exists():
            await asyncio.sleep(0.01)
        await h.send(session, "and this")
        for act in (h.runtime.session_history.rewind, h.runtime.session_history.compact):
            with pytest.raises(UsageError, match="is working"):
                await act(session)
        with pytest.raises(UsageError, match="no finished turn"):
            await h.runtime.session_history.branch(session)
        (h.work / "go").touch()
        await h.idle(session)
        call = next(
            one.number
            for one in await h.runtime.context.store.events(session.id)
            if isinstance(one.event, ev.CallIntended)
        )
        with pytest.raises(UsageError, match=f"#{call} is not a user's message"):
            await h.runtime.session_history.rewind(session, call)
        await h.runtime.session_history.rewind(session)
        assert await talk_of(h, session) == ["work"]
        await h.say(session, "or that")
        branch = await h.runtime.session_history.branch(session)
        await h.say(branch, "again")
        for one in (session, branch):
            assert await checked(h, one)


@pytest.mark.parametrize(
    ("owner", "trouble"),
    [
        ({"source": "job", "key": "job:1"}, "works for a job"),
        ({"source": "incident", "key": "i"}, "works for an incident"),
        ({"parent": "above"}, "works for session"),
    ],
)
async def test_only_conversations_with_people_are_rewound(
    tmp_path: Path, owner: dict[str, Any], trouble: str
) -> None:
    async with open_runtime(tmp_path) as h:
        above = await h.open(writer(tmp_path))
        owner = {**owner, **({"parent": above.id} if "parent" in owner else {})}
        session = await h.open(writer(tmp_path), **owner)
        with pytest.raises(UsageError, match=trouble):
            await h.runtime.session_history.rewind(session)


async def test_a_rewind_goes_back_to_before_a_summary(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, loop=LoopSettings(keep_first=1, keep_last=1)) as h:
        session = await h.open(script(tmp_path, "one", {"say": "said"}, price=PRICE))
        for number in range(5):
            await h.say(session, f"message {number}")
        report = await h.runtime.session_history.compact(session)
        assert report.messages >= 4
        now = await talk_of(h, session)
        assert len(now) < 5
        assert "summarised" in now[1]
        await h.say(session, "after")
        to = await number_of(h, session, "message 3")
        await h.runtime.session_history.rewind(session, to)
        assert await talk_of(h, session) == ["message 0", "message 1", "message 2"]
        await h.say(session, "another way")
        assert await checked(h, session)
        with pytest.raises(UsageError, match="too short"):
            await h.runtime.session_history.compact(await h.open(writer(tmp_path)))


async def test_a_summary_that_comes_too_late_is_dropped_and_paid_for(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as h:
        session = await h.open(script(tmp_path, "one", {"say": "said"}, price=PRICE))
        for number in range(3):
            await h.say(session, f"message {number}")
        before = await h.runtime._turns.conversation(session.id)
        spent = (await h.now(session)).cost or 0.0
        await h.runtime.session_history.rewind(session)  # while the summary is being written
        late = Reply("what was said", (), Usage(100, 10), "end", session.model, 0.5)
        found = await h.runtime.session_history._replace_middle(session, before, (1, 5), late)
        assert isinstance(found, UsageError)
        assert await talk_of(h, session) == ["message 0", "message 1"]
        assert (await h.now(session)).cost == pytest.approx(spent + 0.5)


async def test_a_branch_shares_the_history_and_counts_nothing_twice(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as h:
        store, history = h.runtime.context.store, h.runtime.session_history
        session = await h.open(writer(tmp_path))
        for text in ("zebra", "giraffe"):
            await h.say(session, text)
        second = await number_of(h, session, "giraffe")
        one = await history.branch(session, second, "other")
        await h.say(one, "lion")
        two = await history.branch(one)
        await h.say(two, "tiger")
        assert (one.branch_of, two.branch_of, one.branch_at) == (session.id, one.id, second - 2)
        assert await talk_of(h, two) == ["zebra", "lion", "tiger"]
        assert (await h.now(two)).messages == 15
        own = [(await h.now(each)).cost or 0.0 for each in (session, one, two)]
        assert sum(row.cost for row in await store.costs("day")) == pytest.approx(sum(own))
        assert own[2] < own[0]
        folded = await h.runtime._turns.conversation(two.id)
        assert folded.session_usage.cost == (await h.now(two)).cost
        assert len(await store.search("zebra")) == 1
        assert len(await store.judgements()) == 8
        assert (await store.verify_audit()).troubles == ()
        assert [one.tool for one in await store.parked()] == []
        await history.rewind(two, await number_of(h, two, "zebra"))  # what it shares, too
        assert await talk_of(h, two) == []
        await h.runtime.sessions.delete_session(session)
        await h.say(one, "still here")
        assert len(await store.search("zebra")) == 1  # its branch keeps it findable
        for each in (one, two):
            assert await checked(h, each)
        await h.runtime.sessions.delete_session(two)
        assert await store.check() == []
        with pytest.raises(UsageError, match="is taken"):
            await history.branch(one, name="other")


async def test_a_comparison_says_where_two_sessions_part_and_what_each_did(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as h:
        session = await h.open(writer(tmp_path))
        await h.say(session, "zebra")
        branch = await h.runtime.session_history.branch(session)
        await h.say(session, "lion")
        await h.say(await h.now(branch), "tiger")
        await h.say(await h.now(branch), "tiger")
        found = await h.runtime.session_history.compare(session, branch)
        left, right = found.sides
        assert (found.shared, found.last, found.parted) == (3, "written", branch.branch_at + 1)
        assert (left.messages, right.messages, left.calls, right.calls) == (3, 6, 2, 4)
        assert [one.text for one in left.effects] == ["wrote app.py"]
        assert (right.cost or 0.0) > (left.cost or 0.0) > 0
        with pytest.raises(UsageError):
            await h.runtime.session_history.compare(session, session)


async def test_a_session_that_paused_at_a_limit_is_shown_until_it_goes_on(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, loop=LoopSettings(max_steps=1)) as h:
        session = await h.open(writer(tmp_path))
        await h.say(session, "zebra")
        assert (await runtime_status(h.runtime))["paused"] == [session.id]
        await h.runtime.session_history.rewind(session)
        assert (await runtime_status(h.runtime))["paused"] == []


async def test_the_parts_of_the_prompt_are_named_with_their_origin(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as h:
        (h.work / "AGENTS.md").write_text("Indent by four.")
        session = await h.open(writer(tmp_path))
        await h.say(session, "zebra")
        found = await h.runtime.session_history.context(session)
        parts = {part.name: part for part in found.parts}
        assert next(iter(parts)) == "identity"
        assert parts["context file"].origin == "AGENTS.md"
        assert {"surroundings", "tools", "messages", "replies", "tool results"} <= set(parts)
        assert 0 < found.used <= found.compacts_at < found.window


async def test_the_local_api_rewinds_branches_and_compares(tmp_path: Path) -> None:
    async with open_runtime(tmp_path) as h:
        session = await h.open(writer(tmp_path))
        await h.say(session, "zebra")
        transport = httpx.ASGITransport(build_app(h.runtime, lambda: None))
        async with httpx.AsyncClient(transport=transport, base_url="http://runtime") as api:
            at = f"/v1/sessions/{session.id}"
            seen = (await api.get(f"{at}/rewind")).json()
            branch = (await api.post(f"{at}/branch", json={"name": "b"})).json()
            done = (await api.post(f"{at}/rewind", json={"message": seen["message"]})).json()
            late = await api.post(f"{at}/rewind", json={"message": seen["message"]})
            compared = (await api.get(f"{at}/compare?with=b")).json()
            context = (await api.get(f"{at}/context")).json()
            short = await api.post(f"{at}/compact")
            missing = await api.get(f"{at}/compare?with=nobody")
    assert (seen, branch["branch_of"]) == (done, session.id)
    assert (late.status_code, short.status_code, missing.status_code) == (400, 400, 404)
    assert [side["session"] for side in compared["sides"]] == [session.id, branch["id"]]
    assert context["parts"]
