"""Whether the typed tools reach in three calls, without a shell, the facts that the answers to
others' public cases need. The table in the documentation is the one here."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.tools.sources.databases.postgresql import postgresql
from tests.support import yardstick_services as services
from tests.support.calls import caller
from tests.support.cli import wait_until
from tests.support.cluster import cluster
from tests.support.databases import postgres_server
from tests.support.model_server import ModelServer
from tests.support.recorded_wire import answering, replay
from tests.support.source import ROOT
from tests.support.sources import Observer
from tests.support.yardstick import Case, calls_needed, table
from tests.support.yardstick_cluster import CLUSTER, all_faults

PAGE = ROOT / "docs" / "concepts" / "sources-yardstick.md"
IN_CLUSTER = [case for case, _, _ in CLUSTER]
EVERY = [*IN_CLUSTER, *services.SERVICES]


@pytest.fixture
async def observer(tmp_path: Path) -> AsyncIterator[Observer]:
    async with caller(tmp_path) as here:
        yield Observer(here)


def each(cases: Any) -> Any:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


async def otherwise(case: Case, observer: Observer) -> str:
    """What is not as the table says; empty if it needs that many calls, or is still not reached."""
    needs, missing, said = await calls_needed(case, observer)
    return "" if needs == case.needs else f"{case.name}: {needs} calls, without {missing}:\n{said}"


def test_the_page_has_the_table_and_the_figures() -> None:
    reached = sum(case.needs > 0 for case in EVERY)
    text = PAGE.read_text()
    assert table(EVERY) in text
    assert f"**Reached: {reached} of {len(EVERY)}" in text


@pytest.mark.slow
@pytest.mark.timeout(500)
async def test_a_cluster_tells_what_the_answers_need(observer: Observer) -> None:
    """One test, since its namespaces are made once and there is one cluster for all processes."""
    differs = []
    with all_faults():
        for case in IN_CLUSTER:
            path = str(cluster() / (case.account or "admin"))
            observer.sources["prod"] = SourceSettings(kind="kubernetes", kubeconfig=path)
            if said := await otherwise(case, observer):
                differs.append(said)
    assert differs == []


@each(services.LOKI)
async def test_loki_tells_what_the_answer_needs(case: Case, observer: Observer) -> None:
    with ModelServer(services.loki_server) as server:
        observer.sources["logs"] = SourceSettings(kind="loki", url=server.root)
        assert await otherwise(case, observer) == ""


@each(services.OPENSEARCH)
async def test_opensearch_tells_what_the_answer_needs(case: Case, observer: Observer) -> None:
    with ModelServer(services.opensearch_server) as server:
        observer.sources["logs"] = SourceSettings(kind="opensearch", url=server.root)
        assert await otherwise(case, observer) == ""


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with services.metrics(tmp_path_factory.mktemp("prometheus")) as url:
        yield url


@each(services.PROMETHEUS)
async def test_prometheus_tells_what_the_answer_needs(
    case: Case, observer: Observer, metrics: str
) -> None:
    observer.sources["prod"] = SourceSettings(kind="prometheus", url=metrics)
    assert await otherwise(case, observer) == ""


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres_server(
        services.USERS, "shared_preload_libraries=pg_stat_statements", "autovacuum=off"
    ) as url:
        with psycopg.connect(url, user="owner", autocommit=True) as owner:
            count = "select n_live_tup from pg_stat_user_tables where relname = 'users'"
            wait_until(lambda: owner.execute(count).fetchone() == (100_000,), "it is counted")
        yield url


@contextmanager
def held(url: str) -> Iterator[None]:
    """One session has the table and does nothing with it; another waits."""
    update = "update users set email = '' where id = 7"
    with psycopg.connect(url, user="owner") as first:
        first.execute("lock table users")
        waits = subprocess.Popen(["psql", url, "-U", "owner", "-c", update])
        try:
            yield
        finally:
            first.rollback()
            assert waits.wait(30) == 0


@each(services.POSTGRESQL)
async def test_postgresql_tells_what_the_answer_needs(
    case: Case, observer: Observer, database: str
) -> None:
    observer.sources["db"] = SourceSettings(kind="postgresql", url=database, user="looker")
    if "lock" not in case.name:
        assert await otherwise(case, observer) == ""
        return
    with held(database):
        while "where id = 7" not in (await observer.call(postgresql, action="locks")).text:
            await asyncio.sleep(0)
        assert await otherwise(case, observer) == ""


@each(services.REDIS)
async def test_redis_tells_what_the_answer_needs(
    case: Case, observer: Observer, tmp_path: Path
) -> None:
    with services.cache(tmp_path / "redis", case) as url:
        observer.sources["cache"] = SourceSettings(kind="redis", url=url)
        assert await otherwise(case, observer) == ""


@each(services.ADDRESSES)
async def test_a_probe_tells_what_the_answer_needs(
    case: Case, observer: Observer, tmp_path: Path
) -> None:
    with (
        services.served(services.Page) as http,
        services.served(services.Page, services.expired(tmp_path)) as https,
    ):
        assert await otherwise(case.at(http=http, https=https), observer) == ""


@each(services.FLUX)
async def test_flux_tells_what_the_answer_needs(
    case: Case, observer: Observer, tmp_path: Path
) -> None:
    with answering(replay(services.flux_wire())) as url:
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig(url)))
        observer.sources["prod"] = SourceSettings(kind="kubernetes", url=url, kubeconfig=str(path))
        assert await otherwise(case, observer) == ""


def kubeconfig(url: str) -> Mapping[str, Any]:
    return {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": "x"}}],
    }
