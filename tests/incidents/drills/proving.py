"""Drills proven for real: well before, broken after the injection, well after the expert's fix."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.incidents.drills.episode import Episode, Verdict
from hermes_agent.incidents.drills.format import find

SOON = 0.3
"""Between the two looks at the end; a run of a drill takes longer."""


def every_variant(*names: str) -> list[tuple[str, str]]:
    return [(name, variant) for name in names for variant in find(name).variants]


def quick_first(*names: str) -> list[Any]:
    """Every variant; all but one that is practised and one that is held out of each are slow:
    `make test-all` proves them."""
    quick = {
        (name, among[0])
        for name in names
        for among in (find(name).among("practised"), find(name).among("held"))
        if among
    }
    return [
        pytest.param(*one, marks=[] if one in quick else pytest.mark.slow)
        for one in every_variant(*names)
    ]


def every_wrong(*names: str, seed: int = 1) -> list[tuple[str, str, str]]:
    """Each wrong fix of each variant."""
    return [
        (name, variant, wrong)
        for name, variant in every_variant(*names)
        for wrong in find(name).case(seed, variant).wrong
    ]


@contextmanager
def broken(name: str, variant: str, seed: int, folder: Path) -> Iterator[Episode]:
    """A box after the injection, which has proven itself."""
    with Episode(find(name).case(seed, variant), folder / "box") as episode:
        episode.prepare()
        yield episode


def check_proven(name: str, variant: str, seed: int, folder: Path) -> None:
    with broken(name, variant, seed, folder) as episode:
        faulty = episode.case.drill.about.fault
        assert bool(episode.case.healthy(episode.probe)) == faulty
        assert episode.holds() != faulty
        episode.heal(episode.case.reference)
        verdict = episode.judge(again=SOON)
        assert verdict.resolved, verdict
        assert episode.holds()


def verdict_of(
    name: str, variant: str, seed: int, folder: Path, commands: Sequence[str]
) -> Verdict:
    """What a run with these commands comes to."""
    with broken(name, variant, seed, folder) as episode:
        episode.heal(commands)
        return episode.judge(settle=1.0, again=SOON)


def check_refuted(name: str, variant: str, wrong: str, seed: int, folder: Path) -> None:
    commands = find(name).case(seed, variant).wrong[wrong]
    assert not verdict_of(name, variant, seed, folder, commands).resolved
