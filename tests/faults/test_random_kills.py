"""The runtime killed with SIGKILL at random instants while messages keep coming."""

import random
from pathlib import Path

import pytest

from tests.faults.harness import ForkServer
from tests.faults.sites import SITES
from tests.faults.soak import soak
from tests.support.sampling import SEED

KILLS = {"local": 20, "sandbox": 8, "ssh": 8} if SEED else {"local": 200, "sandbox": 40, "ssh": 40}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("site", KILLS)
def test_kills_at_random_instants_lose_nothing_and_repeat_nothing(
    tmp_path: Path, site: str
) -> None:
    fork_server = ForkServer()
    try:
        kills = soak(tmp_path, fork_server, random.Random(SEED or 7), KILLS[site], SITES[site])
    finally:
        fork_server.close()
    assert kills >= KILLS[site]
