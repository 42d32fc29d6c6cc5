"""The runtime killed with SIGKILL at random instants while messages keep coming."""

import random
from pathlib import Path

import pytest

from tests.faults.harness import Nursery
from tests.faults.soak import soak

KILLS = 200


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", [0, 1])
def test_kills_at_random_instants_lose_nothing_and_repeat_nothing(
    tmp_path: Path, part: int
) -> None:
    nursery = Nursery()
    try:
        kills = soak(tmp_path, nursery, random.Random(20_261_115 + part), KILLS // 2)
    finally:
        nursery.close()
    assert kills >= KILLS // 2
