"""cron in a box is the real one: it runs jobs by the clock, or does not, and nobody else counts."""

import re
from pathlib import Path

import pytest

from hermes_agent.incidents.drills.format import find
from tests.incidents.drills.proving import SOON, broken, every_variant

NAME = "missed_job"
REAL = [
    pytest.param(variant, marks=[] if variant == "no-user" else pytest.mark.slow)
    for _, variant in every_variant(NAME)
]
"""The next minute takes its time to come: one in the quick tests is enough."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("variant", REAL)
def test_what_was_mended_is_run_by_cron_in_the_next_minute(variant: str, tmp_path: Path) -> None:
    with broken(NAME, variant, 1, tmp_path) as episode:
        for commands in episode.case.wrong.values():
            episode.heal(commands)
            assert not episode.judge(settle=0.2, again=SOON).resolved
        episode.heal(episode.case.reference)
        verdict = episode.judge(again=SOON)
        assert verdict.resolved, verdict
        assert episode.holds()


@pytest.mark.parametrize("variant", [variant for _, variant in every_variant(NAME)])
def test_what_the_alert_says_grounds_no_diagnosis(variant: str) -> None:
    case = find(NAME).case(1, variant)
    known = f"{case.check.name} {case.check.service} {case.check.check.run} pid 17"
    assert not re.search(case.truth.evidence, known)
