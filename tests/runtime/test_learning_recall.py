"""What was seen before, through a whole runtime: offered with a message, and found by a search."""

from pathlib import Path
from typing import Any

from hermes_agent.core import events as ev
from hermes_agent.core.records import Session
from tests.support.learning_fixture import LearningFixture, open_learning, skill_text
from tests.support.subagents import answers, call, say, shell

PAST = "The nginx on gateway answers 502 since the certificate of upstream billing expired"
LIKE = "nginx on the gateway answers 502 again, is it the upstream certificate?"
CERTS = skill_text(
    "renew-certificate",
    "Renews an expired certificate of nginx on a gateway. Use when a gateway answers 502 because "
    "an upstream certificate expired.",
)


def model(folder: Path, **more: Any) -> str:
    return answers(
        folder,
        since=[shell("echo renewed"), say("I renewed the certificate of billing with certbot.")],
        again=[say("looked")],
        **more,
    )


def taken(journal: list[Any]) -> ev.MessageTaken:
    return [one for one in journal if isinstance(one, ev.MessageTaken)][-1]


async def lived(h: LearningFixture, name: str) -> Session:
    """A session about the certificate of the gateway."""
    session = await h.open(name)
    await h.say(session, PAST)
    return session


async def test_a_past_session_and_a_skill_that_fit_are_offered_with_the_message(
    tmp_path: Path,
) -> None:
    async with open_learning(tmp_path) as h:
        name = model(tmp_path)
        await h.skill("renew-certificate", CERTS)
        past = await lived(h, name)
        session = await h.open(name)
        found = taken(await h.say(session, LIKE)).recalled
        shown = await h.shown(session)
        (use,) = [
            one
            for one in await h.runtime.context.store.knowledge.uses()
            if one.session == session.id
        ]
    assert found.sessions == (past.id,)
    assert found.skills == ("renew-certificate",)
    assert shown[0] == f"{LIKE}\n\n{found.text}"
    assert past.id in found.text
    assert "renew-certificate" in found.text
    assert (use.skill, use.opened) == ("renew-certificate", False)


async def test_candidates_are_held_back_half_of_the_time_and_that_is_recorded(
    tmp_path: Path,
) -> None:
    async with open_learning(tmp_path) as h:
        name = model(tmp_path)
        book = h.runtime.learning.knowledge.skills
        files = {"SKILL.md": CERTS.encode()}
        await book.write("renew-certificate", files, by="review", state="candidate")
        offered, held = set(), set()
        while not (offered and held):
            session = await h.open(name)
            found = taken(await h.say(session, LIKE)).recalled
            assert (found.skills + found.held_back) == ("renew-certificate",)
            assert ("renew-certificate" in found.text) == bool(found.skills)
            (offered if found.skills else held).add(session.id)
        uses = await h.runtime.context.store.knowledge.uses("renew-certificate")
    assert {use.session for use in uses} == offered | held
    assert not any(use.opened for use in uses)


async def test_everything_is_found_by_the_tool_and_over_the_api(tmp_path: Path) -> None:
    searches = [{"calls": [call("recall", query="certificate billing upstream", kind=kind)]}
                for kind in ("session", "message", "note", "skill", "")]  # fmt: skip
    name = model(tmp_path, search=[*searches, say("found")])
    async with open_learning(tmp_path) as h:
        await h.skill("renew-certificate", CERTS)
        past = await lived(h, name)
        note = {"text": "the upstream certificate of billing is renewed by certbot"}
        await h.post("/v1/memory", {"edits": [note]})
        await h.runtime.sessions.add(
            await h.now(past), ev.Summarised("An upstream certificate had expired.", 3, "m")
        )
        session = await h.open(name)
        await h.say(session, "search for it")
        told = [done.text for done in await h.calls(session, "recall")]
        assert f"session {past.id}" in told[0]
        assert f"message {past.id}:" in told[1]
        assert "note 1 " in told[2]
        assert "skill renew-certificate" in told[3]
        hits = await h.get("/v1/recall", query="certificate billing upstream")
        assert {"session", "message", "note", "skill"} <= {hit["kind"] for hit in hits}
        only = await h.get("/v1/recall", query="certificate", kind="note")
        assert [hit["ref"] for hit in only] == ["1"]
        assert await h.get("/v1/recall", query="zebra crossing") == []


async def test_what_is_searched_for_in_vain_or_wrongly_is_said(tmp_path: Path) -> None:
    name = model(tmp_path, search=[{"calls": [call("recall", query="zebra")]}, say("nothing")])
    async with open_learning(tmp_path) as h:
        session = await h.open(name)
        await h.say(session, "search")
        (done,) = await h.calls(session)
        assert (done.ok, done.text) == (True, "nothing was found")
        answer = await h._send("GET", "/v1/recall", params={"query": "x", "kind": "dream"})
        assert answer.status_code == 400
        assert "not a valid kind of memory: 'dream'" in answer.json()["error"]
