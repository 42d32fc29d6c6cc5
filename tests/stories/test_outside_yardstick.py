"""Whether the typed tools reach in three calls, without a shell, the facts that the answers to
others' public cases need. The table in the documentation is the one here."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hermes_agent.core.settings.sources import SourceSettings
from tests.support.calls import caller
from tests.support.cluster import cluster
from tests.support.sources import Observer
from tests.support.yardstick import Case, calls_needed
from tests.support.yardstick_cluster import CLUSTER, all_faults


@pytest.fixture
async def observer(tmp_path: Path) -> AsyncIterator[Observer]:
    async with caller(tmp_path) as here:
        yield Observer(here)


def check(case: Case, found: tuple[int, list[str], str]) -> None:
    needs, missing, said = found
    assert needs == case.needs, f"{case.name}: {needs} calls, without {missing}:\n{said}"


@pytest.fixture(scope="module")
def faults() -> Iterator[None]:
    with all_faults():
        yield


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("case", [case for case, _, _ in CLUSTER], ids=lambda case: case.name)
@pytest.mark.usefixtures("faults")
async def test_a_cluster_tells_what_the_answer_needs(case: Case, observer: Observer) -> None:
    path = str(cluster() / (case.account or "admin"))
    observer.sources["prod"] = SourceSettings(kind="kubernetes", kubeconfig=path)
    check(case, await calls_needed(case, observer))
