"""Every runbook that comes with the house heals a drill of its category alone, through the gate and
without a model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_agent.incidents.drills.format import drills
from hermes_agent.models.responder.playbooks import playbook

QUICK = ("crashed_service", "killed")
"""The others are proven by `make test-all`."""
CASES = [
    pytest.param(name, variant, marks=[] if (name, variant) == QUICK else pytest.mark.slow)
    for name, drill in drills().items()
    if drill.about.fault and not drill.lacking()
    for variant in drill.about.variants.practised[:2]
]


def hermes(home: Path, *words: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "hermes_agent", *words],
        env={**os.environ, "HERMES_HOME": str(home)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return ran.stdout


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_a_runbook_heals_the_drill_of_its_category_alone(
    tmp_path: Path, name: str, variant: str
) -> None:
    category = drills()[name].about.category
    book = playbook(category)
    assert book is not None
    skill = f"{category}-prevention"
    folder = tmp_path / "skills" / skill
    folder.mkdir(parents=True)
    for path, text in book.files(skill).items():
        (folder / path).write_text(text)
    try:
        told = ("--variant", variant, "--seed", "11", "--runbook", "--json")
        result = json.loads(hermes(tmp_path, "drill", "run", name, *told))
    finally:
        hermes(tmp_path, "down")
    assert (result["resolved"], result["wrong"], result["harm"]) == (True, [], [])
    assert (result["model"], result["steps"], result["tokens"]) == (f"runbook/{skill}", 0, 0)
