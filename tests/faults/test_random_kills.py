"""The runtime killed with SIGKILL at random instants while messages keep coming."""

import random
from pathlib import Path

import pytest

from tests.faults.harness import Nursery
from tests.faults.sites import SITES
from tests.faults.soak import soak

KILLS = {"local": 100, "sandbox": 40, "ssh": 40}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("site", "part"), [("local", 0), ("local", 1), ("sandbox", 0), ("ssh", 0)])
def test_kills_at_random_instants_lose_nothing_and_repeat_nothing(
    tmp_path: Path, site: str, part: int
) -> None:
    nursery = Nursery()
    chance = random.Random(20_261_115 + part)
    try:
        kills = soak(tmp_path, nursery, chance, KILLS[site], SITES[site])
    finally:
        nursery.close()
    assert kills >= KILLS[site]
