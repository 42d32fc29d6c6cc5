"""The runtime killed with SIGKILL at every journal write, one by one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_agent.cli.client.api import RuntimeGone
from hermes_agent.core.errors import UsageError
from tests.faults.harness import Case, ForkServer, case
from tests.support.sampling import sampled

MESSAGES = ("one", "two")


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    made = ForkServer()
    yield made
    made.close()


def kill_at(one: Case, phase: str, number: int) -> bool:
    """Send messages to a runtime that dies at a write; True when it died."""
    one.start(phase, number)
    for key in MESSAGES:
        if not one.send(key):
            return one.has_died()
    return one.finish_all()


WRITES = 44
"""A run of two messages makes about as many."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("phase", ["before", "after"])
def test_a_kill_at_any_journal_write_loses_nothing_and_repeats_nothing(
    tmp_path: Path, fork_server: ForkServer, phase: str
) -> None:
    deaths = 0
    for number in sampled(range(1, WRITES + 1), 6, phase):
        with case(tmp_path / f"{phase}-{number}", fork_server) as one:
            if kill_at(one, phase, number):
                deaths += 1
                one.start()
                for key in MESSAGES:  # whoever got no answer sends again, with the same key
                    if key not in one.acknowledged:
                        assert one.send(key)
                one.finish()
            one.check()
            assert len(one.lines()) >= 4
    assert deaths


@pytest.mark.timeout(600)
@pytest.mark.parametrize("act", ["rewind", "branch"])
@pytest.mark.parametrize("phase", ["before", "after"])
def test_a_kill_at_a_rewind_or_a_branch_leaves_the_old_state_or_the_new(
    tmp_path: Path, fork_server: ForkServer, act: str, phase: str
) -> None:
    with case(tmp_path / "one", fork_server) as one:
        one.start()
        assert one.send("one")
        one.finish_all()
        one.kill()
        deaths = 0
        for number in range(1, 20):
            one.start(phase, number)
            try:
                one.api.post(f"/v1/sessions/{one.session}/{act}", {})
                break
            except RuntimeGone:
                deaths += one.has_died()
            except UsageError:  # it has been rewound before
                break
        assert deaths
        one.kill()
        one.start()
        kinds = [event["event"]["kind"] for event in one.journal()]
        sessions = one.api.get("/v1/sessions")
        if act == "rewind":
            assert kinds.count("rewound") == 1
        else:
            # Of a branch that was being made when the runtime died there is all or nothing.
            for branch in sessions:
                if branch["branch_of"]:
                    copied = one.api.get(f"/v1/sessions/{branch['id']}/journal")
                    assert [one["event"]["kind"] for one in copied] == [*kinds, "branched"]
            assert any(branch["branch_of"] for branch in sessions)
        assert one.api.get("/v1/check") == []
