"""Runbooks over the API: worked through without a model, and refused what may not be run."""

from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.messages import Usage
from tests.support.learning_fixture import LearningFixture, open_learning, skill_text

BOOK = """\
when:
  - run: test -e stale
steps:
  - name: remove the lock
    run: rm stale
    verify: {run: test ! -e stale}
  - run: echo {{word}} > state
verify:
  - run: cat state
    expect: {output: "^{{word}}$"}
"""
TEXT = skill_text(
    "clear-lock", "Removes a stale lock. Use when a lock is stale.",
    hermes_parameters="word: what to write",
)  # fmt: skip


async def ready(h: LearningFixture, text: str = TEXT, book: str = BOOK) -> None:
    (h.work / "stale").touch()
    await h.skill("clear-lock", text, runbook_yaml=book)


async def run(h: LearningFixture, **more: Any) -> tuple[list[Any], ev.TurnFinished]:
    given = {"workspace": str(h.work), "arguments": "word=up", "policy": "sandbox", **more}
    started = await h.post("/v1/skills/clear-lock/run", given)
    session = await h.runtime.context.store.session(started["session"])
    journal = await h.idle(session)
    assert isinstance(journal[-1], ev.TurnFinished)
    return journal, journal[-1]


def judged(journal: list[Any]) -> list[str]:
    return [one.action for one in journal if isinstance(one, ev.CallJudged)]


async def test_a_runbook_runs_without_any_model(tmp_path: Path) -> None:
    async with open_learning(tmp_path) as h:
        await ready(h)
        journal, end = await run(h)
        assert (end.reason, end.text.splitlines()[0]) == ("done", "done: clear-lock")
        assert (end.usage, end.cost) == (Usage(), 0.0)
        assert judged(journal) == ["allow"] * 6
        assert (h.work / "state").read_text() == "up\n"
        (h.work / "stale").touch()
        again = (await run(h))[1]
        assert again.text.startswith("nothing to do: all is as it should be")
        uses = await h.runtime.context.store.knowledge.uses("clear-lock")
        assert [(use.opened, use.outcome, use.tokens) for use in uses] == [(True, "good", 0)] * 2


@pytest.mark.parametrize("bounded", [True, False])
async def test_a_runbook_is_refused_what_the_gate_refuses(tmp_path: Path, bounded: bool) -> None:
    """By the rules, where nobody can be asked, or by the skill's own bounds."""
    text = TEXT.replace("metadata:", "allowed-tools: terminal(test:*) terminal(cat:*)\nmetadata:")
    async with open_learning(tmp_path) as h:
        await ready(h, text=text if bounded else TEXT)
        journal, end = await run(h, policy="sandbox" if bounded else "observe")
        assert "refused" in end.text
        assert "deny" in judged(journal) or "ask" in judged(journal)
        assert (h.work / "stale").exists()


async def test_a_candidate_runs_only_when_somebody_insists(tmp_path: Path) -> None:
    async with open_learning(tmp_path) as h:
        (h.work / "stale").touch()
        files = {"SKILL.md": TEXT.encode(), "runbook.yaml": BOOK.encode()}
        book = h.runtime.learning.knowledge.skills
        await book.write("clear-lock", files, by="review", state="candidate")
        given = {"workspace": str(h.work), "arguments": "word=up"}
        code, told = await h.refused("/v1/skills/clear-lock/run", given)
        assert (code, "candidate" in told["error"]) == (400, True)
        assert "--anyway" in told["hint"]
        assert await h.runtime.context.store.sessions() == []
        assert (await run(h, anyway=True))[1].text.startswith("done: clear-lock")


@pytest.mark.parametrize(
    ("name", "arguments", "code", "told"),
    [
        ("clear-lock", "", 400, "word"),
        ("clear-lock", "word='a\nb'", 400, "line break"),
        ("no-such-skill", "", 404, "no skill called"),
        ("write-a-skill", "", 400, "has no runbook.yaml"),
    ],
)
async def test_a_runbook_that_cannot_be_run_is_refused_before_anything_is_kept(
    tmp_path: Path, name: str, arguments: str, code: int, told: str
) -> None:
    async with open_learning(tmp_path) as h:
        await ready(h)
        given = {"workspace": str(h.work), "arguments": arguments}
        answered, said = await h.refused(f"/v1/skills/{name}/run", given)
        assert answered == code
        assert told in said["error"]
        assert await h.runtime.context.store.sessions() == []
