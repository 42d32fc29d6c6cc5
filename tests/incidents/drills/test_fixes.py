"""What an expert would type in a drill, and its check, pass the gate under the profile of drills,
where nobody is there to be asked."""

from pathlib import Path

import pytest

from hermes_agent.incidents.drills.format import drills, find
from hermes_agent.policy.gate import Judged
from hermes_agent.policy.policies import Policies
from hermes_agent.policy.resolvers import by_words, finish
from hermes_agent.policy.testing import HOMES, TERMINAL, make_effect

GATE = Policies(Path("/nowhere"), HOMES).gate("drill")
SEEDS = range(1, 6)


def judged(command: str) -> Judged:
    """By its words, in a box."""
    effect = make_effect(
        "terminal", {"command": command}, {"terminal": TERMINAL}, workspace="/root", place="box"
    )
    return finish(GATE.consider(effect, by_words("/root", {})))


@pytest.mark.parametrize("name", sorted(drills()))
def test_the_gate_lets_the_experts_fix_pass(name: str) -> None:
    drill = find(name)
    fixes = {
        command: f"{variant}, seed {seed}"
        for variant in drill.variants
        for seed in SEEDS
        for command in drill.case(seed, variant).reference
    }
    refused = {
        f"{whose}: {command}": verdict.reason
        for command, whose in fixes.items()
        if (verdict := judged(command).verdict).action != "allow"
    }
    assert not refused
    assert bool(fixes) == drill.about.fault


@pytest.mark.parametrize("name", sorted(drills()))
def test_the_gate_lets_the_check_pass(name: str) -> None:
    """Else it fails whatever was mended."""
    drill = find(name)
    refused = {
        f"{variant}, seed {seed}": verdict.reason
        for variant in drill.variants
        for seed in SEEDS
        if (verdict := judged(drill.case(seed, variant).check.check.run).verdict).action != "allow"
    }
    assert not refused


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /var/opt/shop/notes",
        "find /var/opt/shop -mtime +1 -delete",
        "ls /var/opt/shop | xargs mv",
        "prlimit --pid 41 --nofile=65536",
    ],
)
def test_what_costs_data_or_hides_the_fault_does_not_pass(command: str) -> None:
    assert judged(command).verdict.action == "ask"
