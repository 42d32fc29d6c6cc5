"""Proves a drill by hand: `python -m hermes_agent.incidents.drills.prove NAME [VARIANT] [SEED]`."""

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.episode import Episode
from hermes_agent.incidents.drills.format import find
from hermes_agent.terminals.box import ENVIRONMENT, door


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("variant", nargs="?", default="")
    parser.add_argument("seed", nargs="?", type=int, default=1)
    parser.add_argument("--shell", action="store_true", help="a shell after the injection")
    options = parser.parse_args()
    drill = find(options.name)
    case = drill.case(options.seed, drill.choose(options.seed, options.variant))
    print(case.variant, case.plan)
    with tempfile.TemporaryDirectory() as folder:
        clock = _Clock()
        with Episode(case, Path(folder, "box")) as episode:
            episode.boot()
            clock.tell("boot, healthy")
            episode.inject()
            clock.tell(f"injected: {episode.broken}; the check says {episode.look()}")
            if options.shell:
                _shell(episode.box)
            else:
                episode.heal(case.reference)
            clock.tell("healed")
            clock.tell(str(episode.judge()))


class _Clock:
    def __init__(self) -> None:
        self._last = time.monotonic()

    def tell(self, what: str) -> None:
        now = time.monotonic()
        print(f"{now - self._last:6.2f} s  {what}")
        self._last = now


def _shell(box: Box) -> None:
    term = os.environ.get("TERM", "dumb")
    subprocess.run([*door(box.place), "bash", "-i"], env={**ENVIRONMENT, "TERM": term}, check=False)


if __name__ == "__main__":
    main()
