"""An episode proves itself, or it counts for nothing and says why."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.crashed_service import drill as crashed
from hermes_agent.incidents.drills.episode import Discarded, Episode
from hermes_agent.incidents.drills.format import Case, find
from hermes_agent.incidents.drills.probe import Probe


def altered(**parts: object) -> Case:
    """A drill of which some parts are others."""
    usual = find("crashed_service").case(1, "killed")
    module = SimpleNamespace(**{**vars(crashed), **parts})
    return Case(usual.drill, module, usual.plan, 1, "killed")


def fails(box: Box, plan: object) -> None:
    box.run("cat /no/such/file")


def takes_forever(box: Box, plan: object) -> None:
    box.run("sleep 60", seconds=0.2)


@pytest.mark.parametrize(
    ("inject", "why"), [(fails, "No such file"), (takes_forever, "took longer than 0.2 s")]
)
def test_what_cannot_be_broken_is_discarded(inject: object, why: str, tmp_path: Path) -> None:
    with Episode(altered(inject=inject), tmp_path / "box") as episode:
        with pytest.raises(Discarded, match=why):
            episode.prepare()
        assert episode.box.alive
    assert not (tmp_path / "box").exists()


def test_who_stood_still_until_the_time_was_over_looks_once_more(tmp_path: Path) -> None:
    looks: list[float] = []

    def healthy(probe: Probe, plan: object) -> list[str]:
        looks.append(time.monotonic())
        if len(looks) == 1:
            time.sleep(0.3)
            return ["no answer in time"]
        assert isinstance(plan, crashed.Plan)
        return crashed.healthy(probe, plan)

    with Episode(altered(healthy=healthy), tmp_path / "box", patience=0.2) as episode:
        episode.boot()
        assert len(looks) == 2


def test_a_machine_that_is_gone_is_not_healed(tmp_path: Path) -> None:
    with Episode(altered(), tmp_path / "box") as episode:
        episode.prepare()
        episode.box.remove()
        assert episode.judge().wrong == ("the whole machine is gone",)
