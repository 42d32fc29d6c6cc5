"""Metrics of a real Prometheus that scrapes itself."""

from collections.abc import Iterator
from typing import Any

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.tools.sources.changes import what_changed
from hermes_agent.tools.sources.prometheus import prometheus
from tests.support.recorded_wire import answering, replay
from tests.support.sources import Observer, answers, free_port, server

CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yml]
scrape_configs:
  - job_name: itself
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
  - job_name: gone
    static_configs: [{{targets: ["127.0.0.1:1"]}}]
"""
RULES = """
groups:
  - name: shop
    rules:
      - {alert: ShopDown, expr: 'up{job="gone"} == 0', labels: {severity: critical},
         annotations: {summary: the shop is down}}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
    (folder / "prometheus.yml").write_text(CONFIG.format(port=port))
    (folder / "rules.yml").write_text(RULES)
    url = f"http://127.0.0.1:{port}"
    command = [
        "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip

    def ready() -> bool:
        fires = answers(f"{url}/api/v1/alerts", b"firing")
        return fires and answers(f"{url}/api/v1/targets", b'"health":"up"')

    with server(folder, command, ready):
        yield url


@pytest.fixture
def metrics(observer: Observer, address: str) -> Observer:
    observer.sources["prod"] = SourceSettings(kind="prometheus", url=address)
    return observer


async def test_values_at_a_time_are_a_table(metrics: Observer) -> None:
    result = await metrics.call(prometheus, action="query", query='up{job="itself"}')
    [(name, value)] = result.data["values"].items()
    assert name.startswith("up{")
    assert value == "1"
    assert '<source from="prod">' in result.text


async def test_a_range_is_a_plot_for_each_series(metrics: Observer) -> None:
    result = await metrics.call(prometheus, action="range", query="up", since="2m")
    assert result.data["series"] == 2
    assert "▁" in result.text


async def test_alerts_and_targets_in_trouble_come_first(metrics: Observer) -> None:
    alerts = await metrics.call(prometheus, action="alerts")
    assert "ShopDown" in alerts.text
    assert "the shop is down" in alerts.text
    targets = await metrics.call(prometheus, action="targets")
    assert "1 of 2 targets are up" in targets.text
    assert targets.text.index("gone") < targets.text.index("itself")


async def test_series_that_appeared_have_changed(metrics: Observer) -> None:
    result = await metrics.call(prometheus, action="changed", query="up", since="1m ago")
    assert result.data["changed"] == 2
    assert "absent" in result.text


async def test_what_changed_knows_the_alert_and_its_time(metrics: Observer) -> None:
    result = await metrics.call(what_changed, around="now", minutes=5)
    assert "prod: alert began: {alertname=ShopDown" in result.text


async def test_a_wrong_query_says_what_prometheus_says(metrics: Observer) -> None:
    with pytest.raises(ToolError, match="parse error"):
        await metrics.call(prometheus, action="query", query="up{")


async def test_a_source_says_that_it_answers(metrics: Observer) -> None:
    assert await metrics.verify() == "answers; 2 targets"


async def test_no_alerts_of_thanos_are_no_trouble(observer: Observer) -> None:
    none = {"status": "success", "data": {"alerts": None}}
    with answering(replay({"GET /api/v1/alerts": [200, none]})) as url:
        observer.sources["prod"] = SourceSettings(kind="prometheus", url=url)
        assert "no alerts" in (await observer.call(prometheus, action="alerts")).text


async def test_targets_that_go_down_are_known_without_alerts(observer: Observer) -> None:
    def mimir(_method: str, target: str, *_: object) -> tuple[int, Any]:
        if target.startswith("/api/v1/alerts"):
            return 404, {"message": "no ruler"}
        values = [[observer.now() - 60, "1"], [observer.now() - 30, "0"]]
        up = [{"metric": {"__name__": "up"}, "values": values}]
        return 200, {"status": "success", "data": {"result": up}}

    observer.now = lambda: 1795057921.0
    with answering(mimir) as url:
        observer.sources["prod"] = SourceSettings(kind="prometheus", url=url)
        text = (await observer.call(what_changed, sources=["prod"])).text
    assert "prod: up went down" in text
    assert "[prod: its alerts were not read: prod" in text


async def test_without_a_source_the_way_to_one_is_told(observer: Observer) -> None:
    with pytest.raises(ToolError) as caught:
        await observer.call(prometheus, action="alerts")
    assert "hermes sources add prometheus" in caught.value.hint
