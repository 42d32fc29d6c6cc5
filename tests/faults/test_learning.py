"""What is learned, in runtimes that are killed with SIGKILL at a chosen write."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.cli.client.api import RuntimeGone
from tests.faults.harness import Case, Event, wait_until
from tests.faults.learner import Learners
from tests.support.learning_curve import DESCRIPTION, FIX, SKILL
from tests.support.learning_curve import models as curve_models
from tests.support.learning_curve import skill_text as curve_text
from tests.support.learning_fixture import skill_text
from tests.support.subagents import call, say

pytestmark = pytest.mark.timeout(600)

FACT = "db2 is the replica of db1"
BOOK = """\
steps:
  - run: echo one >> effects.log
  - run: echo two >> effects.log
    verify: {run: grep -q two effects.log}
  - run: echo three >> effects.log
verify:
  - run: grep -q three effects.log
"""


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Case]:
    learners = Learners()
    made = Case(tmp_path, learners, 1)
    yield made
    made.close()
    learners.close()


def write(one: Case, *replies: Event, **config: Any) -> None:
    """What the model says, and the settings."""
    turns = [{"when": ".", "replies": list(replies)}]
    one.script.write_text(json.dumps({"name": "scripted/learner", "turns": turns}))
    (one.home / "config.yaml").write_text(json.dumps(config))


def plant(one: Case, name: str, text: str, **files: str) -> None:
    folder = one.home / "skills" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)
    for path, content in files.items():
        (folder / path.replace("_", ".")).write_text(content)


def until_dead(one: Case, begin: Any) -> None:
    """Do something that the runtime dies of."""
    try:
        begin()
    except RuntimeGone:
        pass
    assert one.has_died()


def events(one: Case, kind: str) -> list[dict[str, Any]]:
    return [each["event"] for each in one.journal() if each["event"]["kind"] == kind]


# notes


@pytest.mark.parametrize("phase", ["before:edit_notes", "after:edit_notes"])
def test_a_note_is_written_once_though_the_runtime_dies_beside_it(one: Case, phase: str) -> None:
    write(one, {"calls": [call("memory", action="add", text=FACT)]}, say("noted"))
    one.start(phase, 1)
    until_dead(one, lambda: one.send_plainly("m1", "note this"))
    one.start()
    if not one.session:  # it died before it could answer
        one.send_plainly("m1", "note this")
    one.finish()
    (done,) = events(one, "call_finished")
    assert done["ok"], done
    assert events(one, "call_parked") == []
    notes = one.api.get("/v1/memory")["notes"]
    assert [note["text"] for note in notes] == [FACT]
    assert len(one.api.get("/v1/memory/log")) == 1
    assert (one.home / "memories" / "MEMORY.md").read_text().count(FACT) == 1


def test_what_a_persons_skill_is_to_become_is_proposed_once(one: Case) -> None:
    better = skill_text("three-steps", body="Do it better.")
    files = {"SKILL.md": better}
    wrote = call("write_skill", name="three-steps", files=files, why="it is better")
    write(one, {"calls": [wrote]}, say("written"))
    plant(one, "three-steps", skill_text("three-steps"))
    one.start("after:propose", 1)
    until_dead(one, lambda: one.send_plainly("m1", "improve it"))
    one.start()
    one.finish()
    (done,) = events(one, "call_finished")
    assert done["ok"], done
    assert [each["title"] for each in one.api.get("/v1/proposals")] == ["skill three-steps"]


# runbooks


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [8, 12, 16, 20, 24])
def test_a_runbook_that_is_killed_goes_on_and_repeats_no_step(one: Case, number: int) -> None:
    write(one)
    plant(one, "three-steps", skill_text("three-steps"), runbook_yaml=BOOK)
    one.start("after:append", number)
    given = {"workspace": str(one.work), "policy": "sandbox"}

    def begin() -> None:
        one.session = one.api.post("/v1/skills/three-steps/run", given)["session"]
        one.finish()

    until_dead(one, begin)
    assert one.session
    one.start()
    one.finish()
    assert one.lines() == ["one", "two", "three"]
    (end,) = events(one, "turn_finished")
    assert end["text"].startswith("done: three-steps"), end
    assert len(events(one, "turn_resumed")) == 1


# proofs


def learning(one: Case) -> None:
    """A home that learns from the first task how to do it in fewer steps."""
    work, look = curve_models(one.folder)
    one.script = Path(work.removeprefix("scripted/"))
    config = {
        "model": work,
        "models": {"uses": {"review": [look], "judge": [look]}, "retries": 0},
        "learning": {"rounds": 1, "cases": 6, "every": 1_000, "proof_share": 1.0},
    }
    (one.home / "config.yaml").write_text(json.dumps(config))
    (one.work / "service.conf").write_text("port=1\n")
    (one.work / "wanted").write_text("9001\n")


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("phase", "number"),
    [("before:add_trials", 5), ("after:delete_session", 3)],
)
def test_a_proof_that_is_killed_is_finished_and_its_trials_are_removed(
    one: Case, phase: str, number: int
) -> None:
    learning(one)
    one.start(phase, number)
    task = "The service web is down and does not answer. Mend its port."
    until_dead(one, lambda: one.send_plainly("m1", task))
    one.start()
    one.finish()
    wait_until(lambda: state(one) == "proven", "the proof")
    wait_until(lambda: one.api.get("/v1/status")["learning"]["tasks"] == 0, "all tasks")
    listed = one.api.get("/v1/sessions", limit=1_000)
    assert {session["source"] for session in listed} == {"cli"}
    assert not list((one.home / "proofs").glob("*"))
    spools = {path.name for path in (one.home / "terminals").glob("*")}
    assert spools <= {session["id"] for session in listed}


def state(one: Case) -> str:
    found = {row["name"]: row["state"] for row in one.api.get("/v1/skills")}
    return found.get(SKILL, "")


# what comes after a turn


@pytest.mark.sample(1)
@pytest.mark.parametrize("phase", ["before:add_uses", "before:save_documents", "before:add_task"])
def test_a_runtime_that_dies_after_a_turn_breaks_nothing(one: Case, phase: str) -> None:
    """The turn itself is whole. What comes after it is made up for a minute later, by whichever
    runtime is there then; until then the session goes on without."""
    learning(one)
    folder = one.home / "skills" / SKILL
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(curve_text(SKILL, DESCRIPTION, f"Run `{FIX}`."))
    one.start(phase, 1 if phase != "before:save_documents" else 2)
    task = "The service web is down and does not answer. Mend its port."
    until_dead(one, lambda: one.send_plainly("m1", task))
    one.start()
    one.finish()
    assert [end["reason"] for end in events(one, "turn_finished")] == ["done"]
    assert (one.work / "service.conf").read_text() == "port=9001\n"
    one.send_plainly("m2", "The service mail is down and does not answer. Mend its port.")
    one.finish()

    def found() -> bool:
        hits = one.api.get("/v1/recall", query="service answer port mend", kind="session")
        return one.session in [hit["ref"] for hit in hits]

    wait_until(found, "the session to be found")
    assert [end["reason"] for end in events(one, "turn_finished")] == ["done", "done"]
    assert one.api.get("/v1/status")["learning"]["trouble"] == ""
