"""A parent and its children, killed with SIGKILL in the middle: all finish, nothing twice."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.cli.client.api import RuntimeGone
from hermes_agent.core.errors import HermesError
from tests.faults.harness import Case, Event, ForkServer, case, wait_until
from tests.support.subagents import call, delegated, say, shell

CHILDREN = 8
NAMES = [f"child{number}" for number in range(1, CHILDREN + 1)]
EFFECTS = ("first", "second", "third", "fourth")
WRITES = 100
"""About as many as a whole run makes; several events may go into one."""
SURE = 40
"""No run makes fewer: so many come one after the other."""


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    made = ForkServer()
    yield made
    made.close()


def write(one: Case, plan: list[Event], work: dict[str, list[Event]]) -> None:
    """Give the case a script for a parent and its children."""
    turns = [{"when": "plan", "replies": plan}]
    turns += [{"when": rf"\b{name}\b", "replies": replies} for name, replies in work.items()]
    one.script.write_text(json.dumps({"name": "scripted/children", "turns": turns}))


def busy_children(one: Case) -> None:
    """Each child leaves lines by commands and a file that it changes; the last adds a line by a
    tool of which nobody can know whether it ran."""

    def line(name: str, effect: str) -> Event:
        return call("terminal", command=f"echo {name}-{effect} >> effects.log")

    work = {}
    for name in NAMES:
        note = f"note-{name}.txt"
        last = line(name, "fourth")
        if name == NAMES[-1]:
            log = str(one.work / "effects.log")
            last = call("append_line", path=log, line=f"{name}-fourth")
        work[name] = [
            {"calls": [line(name, "first"), call("write_file", path=note, content="written")]},
            {"calls": [line(name, "second"), call("count_lines", path=str(one.work / note))]},
            {"calls": [call("patch", path=note, old="written", new="patched")]},
            {"calls": [line(name, "third"), last]},
            say(f"{name} is done"),
        ]
    write(one, [delegated(*NAMES), say("all are done")], work)


def send(one: Case) -> bool:
    """Give the parent its task; True when that was acknowledged."""
    try:
        return one.send_plainly("m1", "plan")
    except RuntimeGone:
        return False


def begin(one: Case, phase: str, number: int) -> None:
    """Start a runtime that dies at a write, and let it work until it does."""
    one.start(phase, number)
    if one.acknowledged or send(one):
        one.finish_all()
    else:
        one.has_died()


def go_on(one: Case) -> None:
    """Start a runtime that lives, and let it finish."""
    if one.died:
        one.start()
    if not one.acknowledged:
        assert send(one)
    one.finish()


def family(one: Case) -> list[Event]:
    return list(one.api.get("/v1/sessions", parent=one.session))


def journal(one: Case, session: str) -> list[dict[str, Any]]:
    return [each["event"] for each in one.api.get(f"/v1/sessions/{session}/journal")]


def check(one: Case) -> None:
    """Everything is done, once, and nothing was parked that leaves a trace."""
    assert Counter(one.lines()) == Counter(f"{n}-{e}" for n in NAMES for e in EFFECTS)
    for name in NAMES:
        assert (one.work / f"note-{name}.txt").read_text() == "patched"
    found = family(one)
    assert len(found) == CHILDREN
    for session in (one.session, *(child["id"] for child in found)):
        events = journal(one, session)
        ends = [event for event in events if event["kind"] == "turn_finished"]
        assert [end["reason"] for end in ends] == ["done"], ends
        taken = [event["key"] for event in events if event["kind"] == "message_taken"]
        assert len(taken) == 1
        finished = [event for event in events if event["kind"] == "call_finished"]
        assert all(event["ok"] for event in finished), finished
        assert len({event["effect"] for event in finished}) == len(finished)
        parked = {event["tool"] for event in events if event["kind"] == "call_parked"}
        assert parked <= {"append_line"}
    (told,) = [each for each in journal(one, one.session) if each["kind"] == "call_finished"]
    for name in NAMES:
        assert f"{name} is done" in told["text"]
    (end,) = [each for each in journal(one, one.session) if each["kind"] == "turn_finished"]
    assert end["text"] == "all are done"
    assert one.api.get("/v1/parked") == []


@pytest.mark.timeout(600)
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(6))
def test_a_parent_with_eight_children_is_killed_and_all_finish_once(
    tmp_path: Path, fork_server: ForkServer, seed: int
) -> None:
    chance = random.Random(500 + seed)
    with case(tmp_path, fork_server) as one:
        busy_children(one)
        number = chance.randrange(5, WRITES)
        begin(one, chance.choice(("before", "after")), number)
        assert one.died or number > SURE, "it was to die in the middle"
        go_on(one)
        check(one)


@pytest.mark.timeout(600)
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(3))
def test_a_family_that_is_killed_twice_still_finishes_once(
    tmp_path: Path, fork_server: ForkServer, seed: int
) -> None:
    chance = random.Random(700 + seed)
    with case(tmp_path, fork_server) as one:
        busy_children(one)
        begin(one, "after", chance.randrange(15, SURE))
        assert one.died
        begin(one, "before", chance.randrange(3, 40))
        go_on(one)
        check(one)


@pytest.mark.timeout(600)
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(2))
def test_a_family_that_is_killed_between_its_effects_finishes_once(
    tmp_path: Path, fork_server: ForkServer, seed: int
) -> None:
    """From outside, as soon as so many lines are there: commands are under way then."""
    chance = random.Random(900 + seed)
    with case(tmp_path, fork_server) as one:
        busy_children(one)
        one.start()
        assert send(one)
        for lines in sorted(chance.sample(range(1, CHILDREN * 3), 2)):
            wait_until(lambda many=lines: len(one.lines()) >= many, "children at work")
            one.kill()
            one.start()
        one.finish()
        check(one)


def is_idle(one: Case) -> bool:
    listed = one.api.get("/v1/sessions")
    return all(session["state"] == "idle" for session in listed) and len(listed) == CHILDREN + 1


def interrupted(one: Case) -> bool:
    """Ask for it; True when that was acknowledged."""
    try:
        one.api.post(f"/v1/sessions/{one.session}/interrupt")
    except RuntimeGone:
        return False
    return True


@pytest.mark.timeout(600)
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(4))
def test_a_family_that_is_killed_while_it_is_interrupted_ends_interrupted(
    tmp_path: Path, fork_server: ForkServer, seed: int
) -> None:
    """Before, while or after the children are told, as it falls out."""
    chance = random.Random(1100 + seed)
    with case(tmp_path, fork_server) as one:
        line = "echo {name} >> effects.log; until [ -e go ]; do sleep 0.05; done"
        work = {name: [shell(line.format(name=name)), say("never")] for name in NAMES}
        write(one, [delegated(*NAMES), say("never")], work)
        one.start()
        assert send(one)
        wait_until(lambda: len(one.lines()) == CHILDREN, "children at work")
        one.kill()
        # Those that are taken up write as much as there are of them before they wait again.
        one.start("after", chance.randrange(CHILDREN + 2, CHILDREN + 22))
        acknowledged = interrupted(one)
        try:
            wait_until(lambda: one.died or is_idle(one), "the end of all, or the kill")
        except (RuntimeGone, HermesError):
            one.has_died()
        if one.died:
            one.start()
        if not acknowledged:
            assert interrupted(one)
        wait_until(lambda: is_idle(one), "the end of all")
        reasons = {
            event["reason"]
            for session in one.api.get("/v1/sessions")
            for event in journal(one, session["id"])
            if event["kind"] == "turn_finished"
        }
        assert reasons == {"interrupted"}
        assert sorted(one.lines()) == sorted(NAMES)
        assert one.api.get("/v1/parked") == []
