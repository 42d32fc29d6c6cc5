"""`make soak`: kill the runtime at random instants, thousands of times, with a storm of everything
else after every fifty.

python -m tests.faults.soak --kills 5000 --seed 7
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.harness import Case, ForkServer, Site, case
from tests.faults.sites import SITES, looking
from tests.faults.storm import storm

TURNS = 12
"""Messages sent to one home before its journal is checked and a new one begun."""


def soak(
    folder: Path,
    fork_server: ForkServer,
    chance: random.Random,
    kills: int,
    site: Callable[[], Site] = Site,
) -> int:
    """Kill at least so many times, over as many homes as that takes. Returns the kills."""
    done = rounds = 0
    while done < kills:
        rounds += 1
        with case(folder / f"round-{rounds}", fork_server, TURNS, site()) as one:
            done += one_round(one, chance)
    return done


def one_round(one: Case, chance: random.Random) -> int:
    """Send messages one after the other, killing and restarting all the while."""
    killed = 0
    one.start()
    keys = [f"m{number}" for number in range(TURNS)]
    while keys:
        if one.send(keys[0]):
            keys.pop(0)
        time.sleep(chance.choice((0.0, chance.uniform(0.0, 0.03), chance.uniform(0.0, 0.15))))
        if chance.random() < 0.8:
            one.kill()
            killed += 1
            one.start()
    one.finish()
    one.check()
    return killed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    print(f"seed {seed}", flush=True)
    chance, fork_server, done, began = random.Random(seed), ForkServer(), 0, time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="hermes-soak-"))
    try:
        while done < options.kills:
            site = chance.choice((*SITES.values(), looking))
            done += soak(
                folder / str(done), fork_server, chance, min(50, options.kills - done), site
            )
            storm(folder / f"storm-{done}", fork_server, chance)
            rate = done / (time.monotonic() - began)
            print(f"{done} kills, nothing lost, nothing twice ({rate:.1f}/s)", flush=True)
    finally:
        fork_server.close()
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
