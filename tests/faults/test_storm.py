"""Interrupts, steering, consent and deaths, mixed."""

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.harness import ForkServer
from tests.faults.storm import storm


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_after_any_storm_the_journal_and_the_files_agree(tmp_path: Path) -> None:
    fork_server = ForkServer()
    chance = random.Random(7)
    done: Counter[str] = Counter()
    try:
        for number in range(8):
            done += storm(tmp_path / str(number), fork_server, chance)
    finally:
        fork_server.close()
    for action in ("bring", "steer", "reply", "interrupt", "kill_shell", "die", "stop"):
        assert done[action] >= 3, f"the storm did not try {action}: {done}"
