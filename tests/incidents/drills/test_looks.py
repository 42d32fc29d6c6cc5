"""What the responder does to look is judged as looking: else people would be asked for each look,
and nothing could be called a false alarm."""

from pathlib import Path

import pytest

from hermes_agent.models.responder.view import probes
from hermes_agent.policy.policies import Policies
from hermes_agent.policy.resolvers import by_words, finish
from hermes_agent.policy.testing import HOMES, TERMINAL, make_effect

GATE = Policies(Path("/nowhere"), HOMES).gate("careful")
LOOKS = (*probes.TRIAGE, probes.UNITS, probes.JOBS, probes.SITES, probes.around(["/srv/shop"]))


@pytest.mark.parametrize("command", LOOKS, ids=range(len(LOOKS)))
def test_who_is_careful_lets_it_pass_without_a_question(command: str) -> None:
    effect = make_effect(
        "terminal", {"command": command}, {"terminal": TERMINAL}, workspace="/root", place="box"
    )
    verdict = finish(GATE.consider(effect, by_words("/root", {}))).verdict
    assert verdict.action == "allow", verdict.reason
