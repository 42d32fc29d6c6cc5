"""Loki's API over loopback, as its reference describes it."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.tools.sources.changes import what_changed
from hermes_agent.tools.sources.loki import loki
from tests.support.model_server import ModelServer, Raw, Received
from tests.support.sources import Observer

NOW = 1_795_100_000.0
LINES = [  # seconds before now, labels, line
    (5400, {"app": "shop", "level": "info"}, "request 1 done"),
    (1500, {"app": "shop", "level": "info"}, '{"msg": "request 2 done", "level": "info"}'),
    (1200, {"app": "shop", "detected_level": "error"}, "no connection to 10.0.0.1"),
    (600, {"app": "shop", "detected_level": "error"}, "no connection to 10.0.0.2"),
]


def loki_server(received: Received) -> Raw:
    given = {name: values[0] for name, values in parse_qs(received.query).items()}
    if received.headers.get("x-scope-orgid") != "team-a":
        return Raw([b"no org id\n"], 401, {"content-type": "text/plain"})
    found: Any
    match received.path.removeprefix("/loki/api/v1/"):
        case "labels":
            found = ["app", "level"]
        case "label/app/values":
            found = ["shop", "web"]
        case "query_range" if given["query"].startswith("{") and "error |" not in given["query"]:
            start, end = int(given["start"]) / 1e9, int(given["end"]) / 1e9
            found = {
                "resultType": "streams",
                "result": [
                    {"stream": names, "values": [[str(int((NOW - ago) * 1e9)), line]]}
                    for ago, names, line in LINES
                    if start <= NOW - ago < end
                ],
            }
        case "query_range" if "count_over_time" in given["query"]:
            at = float(given["start"]) / 1e9
            series = {"metric": {"app": "shop"}, "values": [[at, "3"], [at + 120, "9"]]}
            found = {"resultType": "matrix", "result": [series]}
        case _:
            return Raw([b"parse error at line 1, col 1"], 400, {"content-type": "text/plain"})
    return Raw.json({"status": "success", "data": found})


@pytest.fixture
def logs(observer: Observer) -> Iterator[Observer]:
    with ModelServer(loki_server) as server:
        headers = {"X-Scope-OrgID": "secret:TENANT"}
        observer.sources["logs"] = SourceSettings(kind="loki", url=server.root, headers=headers)
        observer.secrets = {"TENANT": "team-a"}
        observer.now = lambda: NOW
        yield observer


async def test_lines_are_in_order_with_their_place(logs: Observer) -> None:
    result = await logs.call(loki, action="query", query='{app="shop"}')
    assert result.data["lines"] == 3
    assert result.text.index("shop request 2 done") < result.text.index("shop no connection")


async def test_patterns_compare_with_the_time_before(logs: Observer) -> None:
    result = await logs.call(loki, action="patterns", query='{app="shop"}')
    assert result.data == {"source": "logs", "lines": 3, "patterns": 2, "errors": 2, "new": 1}
    assert "NEW error 2x" in result.text
    assert "info 1x (1 before)" in result.text


async def test_numbers_are_plots(logs: Observer) -> None:
    volume = await logs.call(loki, action="volume", query='{app="shop"}')
    assert "{app=shop}" in volume.text
    assert "▁ █" in volume.text  # where there are no lines, there is no value
    assert "12" in volume.text
    with pytest.raises(ToolError, match="numbers, not lines"):
        await logs.call(loki, action="patterns", query="sum(count_over_time({a='b'}[1m]))")


async def test_labels_have_values(logs: Observer) -> None:
    assert "app\nlevel" in (await logs.call(loki, action="labels")).text
    assert "shop\nweb" in (await logs.call(loki, action="labels", query="app")).text


async def test_what_changed_names_new_errors(logs: Observer) -> None:
    result = await logs.call(what_changed, around="20m ago", minutes=25, sources=["logs"])
    assert "logs: new error, 2x in shop: no connection to 10.0.0.1" in result.text


@pytest.mark.parametrize(("query", "said"), [("nonsense", "parse error"), ("", "`query` is empty")])
async def test_a_wrong_query_is_told(logs: Observer, query: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        await logs.call(loki, action="query", query=query)


async def test_the_tenant_is_a_header(logs: Observer) -> None:
    assert await logs.verify() == "answers; 2 labels in the last hour"
    logs.secrets = {"TENANT": "other"}
    with pytest.raises(ToolError, match="refuses access"):
        await logs.call(loki, action="labels")
