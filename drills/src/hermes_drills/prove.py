"""Proves composed episodes: healthy, broken, healed by the expert, and every wrong fix and every
cheat scores nothing.

    python -m hermes_drills.prove [--split first] [--seeds 3] [--category C] [--mechanism M]
                                  [--at-once N] [--expert-only]
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

from msgspec import Struct

from hermes_drills.cheats import cheats
from hermes_drills.compose import Case, cases
from hermes_drills.episode import SETTLE_SECONDS, Episode
from hermes_drills.errors import DrillError
from hermes_drills.types import Split


class Proof(Struct, frozen=True):
    """What one case came to; empty troubles where it proves itself."""

    case: str
    troubles: tuple[str, ...]
    episodes: int
    seconds: float


def prove(
    case: Case, folder: Path, *, expert_only: bool = False, settle: float = 1.5,
    patience: float = SETTLE_SECONDS,
) -> Proof:  # fmt: skip
    """Each remedy in a box of its own, since a wrong one may leave nothing to heal."""
    began, troubles, count = time.monotonic(), list[str](), 0
    attempts: dict[str, Sequence[str] | None] = {"expert": None}
    try:
        with Episode(case, folder / "expert", patience) as episode:
            count += 1
            episode.prepare()
            attempts |= {} if expert_only else {**_others(case, episode)}
            episode.heal(case.fault.expert(case.world, episode.truth))
            verdict = episode.judge(settle=patience)
            if not verdict.resolved:
                troubles.append(f"the expert did not heal it: {verdict}")
        for number, (name, commands) in enumerate(attempts.items()):
            if commands is None:
                continue
            with Episode(case, folder / f"wrong-{number}", patience) as episode:
                count += 1
                episode.prepare()
                episode.heal(commands)
                if episode.judge(settle=settle).resolved:
                    troubles.append(f"{name!r} counts as healed")
    except DrillError as error:
        troubles.append(error.message)
    return Proof(case.name, tuple(troubles), count, time.monotonic() - began)


def _others(case: Case, episode: Episode) -> dict[str, Sequence[str]]:
    wrong = case.fault.wrong(case.world, episode.truth)
    if case.split == "no-fault":  # to do nothing is right
        return dict(wrong)
    return {**wrong, **cheats(case.world, episode.truth, episode.check)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", default="first", choices=get_args(Split))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--category", default="")
    parser.add_argument("--mechanism", default="")
    parser.add_argument("--at-once", type=int, default=4 * (os.cpu_count() or 1))
    parser.add_argument("--patience", type=float, default=SETTLE_SECONDS, metavar="SECONDS",
                        help="how long a box may take to start, on a busy machine")  # fmt: skip
    parser.add_argument("--expert-only", action="store_true", help="no wrong fixes, no cheats")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    found = [
        case for case in cases(options.split, seeds, options.category)
        if options.mechanism in ("", case.fault.mechanism)
    ]  # fmt: skip
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as top, ThreadPoolExecutor(options.at_once) as pool:
        proofs = list(
            pool.map(
                lambda pair: _told(
                    prove(
                        pair[1],
                        Path(top, str(pair[0])),
                        expert_only=options.expert_only,
                        patience=options.patience,
                    )
                ),
                enumerate(found),
            )
        )
    seconds = time.monotonic() - began
    good = sum(not one.troubles for one in proofs)
    count = sum(one.episodes for one in proofs)
    share = good / len(proofs) if proofs else 0.0
    print(f"{good} of {len(proofs)} cases passed ({share:.1%}); {count} episodes in "
          f"{seconds:.1f} s, {count / seconds:.2f} a second")  # fmt: skip
    return 0 if proofs and good == len(proofs) else 1


def _told(proof: Proof) -> Proof:
    if proof.troubles:
        print(f"{proof.case}: {'; '.join(proof.troubles)}", flush=True)
    return proof


if __name__ == "__main__":
    sys.exit(main())
