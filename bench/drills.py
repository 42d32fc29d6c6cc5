"""Composed episodes per second, from boot to verdict: the box is made and well, broken and not
well, healed by the expert and well again, and removed. Beside them the start of a bare sandbox."""

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeVar

from bench.table import Figure, scaled
from hermes_drills.compose import compose, faults
from hermes_drills.episode import Episode
from hermes_drills.errors import Discarded

FAMILY = "service-crash"
EPISODES = scaled(24, 2)
BARE = ("unshare", "--user", "--map-root-user", "-mpnui", "--fork", "--kill-child", "true")
T = TypeVar("T")
WORKERS = 2 * (os.cpu_count() or 1)
"""Boxes mostly wait: two for each core keep a machine busy."""


class Taken(NamedTuple):
    """Seconds of each part; none where the episode did not prove itself."""

    boot: float = 0.0
    inject: float = 0.0
    verdict: float = 0.0
    removal: float = 0.0
    proven: bool = False


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        for index in range(2):  # the first ones find cold files
            _episode(Path(folder, f"warm-{index}"), index)
        alone = [_episode(Path(folder, f"alone-{index}"), index) for index in range(EPISODES // 2)]
        many, seconds = _side_by_side(lambda index: _episode(Path(folder, str(index)), index))
    bare, bare_seconds = _side_by_side(_bare)
    proven = [one for one in (*alone, *many) if one.proven]
    good = [one for one in many if one.proven]
    for part in ("boot", "inject", "verdict", "removal"):
        middle = statistics.median(getattr(one, part) for one in proven)
        yield Figure(f"a drill's {part}, alone and side by side, median", middle * 1000, "ms")
    yield Figure(
        f"episodes of a drill with {WORKERS} at once", len(good) / seconds, "/s",
        len(bare) / bare_seconds, "/s bare sandboxes",
    )  # fmt: skip
    yield Figure(
        "episodes that did not prove themselves and were discarded",
        len(alone) + len(many) - len(proven), "", limit=0, limit_name="",
    )  # fmt: skip


def _side_by_side(work: Callable[[int], T]) -> tuple[list[T], float]:
    began = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as pool:
        done = list(pool.map(work, range(EPISODES)))
    return done, time.perf_counter() - began


def _episode(folder: Path, seed: int) -> Taken:
    fault = next(one for one in faults("first") if one.category == FAMILY)
    case = compose(fault, seed)
    clock = [time.perf_counter()]
    with Episode(case, folder) as episode:
        try:
            episode.boot()
            clock.append(time.perf_counter())
            episode.inject()
            clock.append(time.perf_counter())
        except Discarded:
            return Taken()
        episode.heal(fault.expert(case.world, episode.truth))
        verdict = episode.judge(again=0.0)
        clock.append(time.perf_counter())
    clock.append(time.perf_counter())
    boot, inject, judged, removal = (after - before for before, after in pairwise(clock))
    return Taken(boot, inject, judged, removal, verdict.resolved)


def _bare(_: int) -> bool:
    return subprocess.run(BARE, check=True).returncode == 0
