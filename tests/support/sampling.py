"""What `make test` runs of a long list of cases: others in each run, by HERMES_TEST_SEED. Without
a seed, as in `make test-all`, all of them."""

import os
from collections.abc import Sequence
from random import Random
from typing import TypeVar

SEED = os.environ.get("HERMES_TEST_SEED", "")
T = TypeVar("T")


def sampled(cases: Sequence[T], count: int, name: str) -> list[T]:
    """`count` of the cases in their order, or all of them without a seed."""
    if not SEED or count >= len(cases):
        return list(cases)
    chosen = Random(f"{SEED} {name}").sample(range(len(cases)), count)
    return [cases[place] for place in sorted(chosen)]
