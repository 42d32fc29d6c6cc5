"""Messages on several channels while everything goes wrong: none lost, none answered twice where
that can be known, order kept in each chat."""

from pathlib import Path

import pytest

from tests.gateway.chaos import storm


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_storm_loses_doubles_and_mixes_up_nothing(tmp_path: Path) -> None:
    told = await storm(
        tmp_path, messages=400, chats=8, kills=4, between=1.5, pause=0.1, seed=8, patience=400
    )
    assert told["answers"] == 400
    assert told["kills"] == 4
    assert min(told[trouble] for trouble in ("cut", "lost", "429", "500", "twice")) > 0


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_ten_thousand_messages_in_a_storm(tmp_path: Path) -> None:
    told = await storm(
        tmp_path, messages=10_000, chats=50, kills=60, between=2.5, pause=0.25, seed=10,
        patience=900,
    )  # fmt: skip
    print(told)
    assert told["answers"] == 10_000
    assert told["kills"] == 60
