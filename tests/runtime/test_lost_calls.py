"""A runtime that is killed during a model call: what the call can have cost is counted."""

import json

import pytest

from tests.faults.harness import Case, wait_until


def test_a_call_that_died_with_its_runtime_is_counted_once(one: Case) -> None:
    """Each of the killed runtimes has made the call anew, and each of these calls is counted."""
    reply = {"say": "It took a while.", "wait": 600}
    script = {"turns": [{"replies": [reply]}], "price": {"input": 10.0, "output": 50.0}}
    one.script.write_text(json.dumps(script))
    (one.home / "config.yaml").write_text("budgets: {day_dollars: 5.0}\n")

    def events(kind: str) -> list[dict]:
        return [e["event"] for e in one.journal() if e["event"]["kind"] == kind]

    one.start()
    assert one.send("m1")
    for killed in (1, 2, 3):
        wait_until(lambda: len(events("model_requested")) == killed, "the call")  # noqa: B023
        one.kill()
        one.start()
    wait_until(lambda: len(events("model_requested")) == 4, "the last call")
    requested, charged = events("model_requested"), events("cost_charged")
    assert [event["cost"] for event in charged] == [event["most"] for event in requested[:3]]
    assert all("worst-case cost" in event["reason"] for event in charged)
    costs = one.api.get("/v1/costs?by=use")
    assert [(row["name"], row["calls"]) for row in costs["costs"]] == [("main", 3)]
    assert costs["today"] == pytest.approx(sum(event["cost"] for event in charged))


POLICY = """\
version: 1
name: night
profile: night
extends: sandbox
description: All that a test needs.
rules:
  - {id: all, match: {tool: terminal}, then: allow, reason: it is a test}
"""


def test_what_was_begun_is_parked_where_its_policy_is_gone(one: Case) -> None:
    calls = [{"tool": "terminal", "with": {"command": "echo begun >> lines; sleep 600"}}]
    script = {"turns": [{"replies": [{"calls": calls}, {"say": "It is over."}]}]}
    one.script.write_text(json.dumps(script))
    rules = one.home / "policies" / "night.yaml"
    rules.parent.mkdir()
    rules.write_text(POLICY)
    one.start()
    assert one.send_plainly("m1", "go", policy="night")
    wait_until((one.near / "lines").exists, "the command")
    one.kill()
    rules.unlink()
    one.start()
    wait_until(lambda: one.api.get("/v1/parked"), "what was begun to be shown")
    (parked,) = one.api.get("/v1/parked")
    assert parked["reason"] == "no policy called 'night'"
    rules.write_text(POLICY)
    one.api.post(f"/v1/parked/{parked['effect']}", {"decision": "skip", "by": "cli"})
    wait_until(lambda: one.state() == "idle", "the turn to end")
    ends = [e["event"] for e in one.journal() if e["event"]["kind"] == "turn_finished"]
    assert [(end["reason"], end["text"]) for end in ends] == [("done", "It is over.")]
    assert (one.near / "lines").read_text() == "begun\n"
