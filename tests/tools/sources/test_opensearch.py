"""The API of OpenSearch over loopback, as its reference describes it."""

from collections.abc import Iterator
from typing import Any

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.tools.sources.changes import what_changed
from hermes_agent.tools.sources.opensearch import opensearch
from tests.support.model_server import ModelServer, Raw, Received
from tests.support.sources import Observer

NOW = 1_795_100_000.0
DOCUMENTS: list[tuple[int, dict[str, Any]]] = [  # seconds before now, fields
    (5400, {"message": "request 1 done", "log": {"level": "info"}}),
    (1500, {"message": "request 2 done", "log.level": "info"}),
    (1200, {"message": "no connection to 10.0.0.1", "level": "ERROR",
            "kubernetes": {"pod": {"name": "shop-1"}}}),
    (600, {"user": "ann", "action": "login"}),
]  # fmt: skip


def opensearch_server(received: Received) -> Raw:
    if received.headers.get("authorization") != "Basic YW5uOnMzY3JldA==":
        return Raw.json({"error": "Unauthorized"}, 401)
    match received.path:
        case "/":
            return Raw.json({"version": {"distribution": "opensearch", "number": "2.19.1"}})
        case "/logs-*/_count":
            return Raw.json({"count": 4})
        case "/logs-*/_field_caps":
            kinds = {"@timestamp": "date", "message": "text", "_id": "_id"}
            fields = {name: {kind: {"type": kind}} for name, kind in kinds.items()}
            return Raw.json({"indices": ["logs-1"], "fields": fields})
        case "/logs-*/_search":
            return _search(received.json)
    return Raw.json({"error": {"type": "index_not_found_exception"}, "status": 404}, 404)


def _search(body: dict[str, Any]) -> Raw:
    wanted = {key: value for one in body["query"]["bool"]["filter"] for key, value in one.items()}
    if wanted.get("query_string", {}).get("query", "").endswith("("):
        reason = {"type": "parse_exception", "reason": "Cannot parse"}
        return Raw.json({"error": {"root_cause": [reason], "type": "search_phase"}}, 400)
    times = wanted["range"]["@timestamp"]
    hits = [
        {"_index": "logs-1", "sort": [at], "_source": {"@timestamp": "19/Nov 03:12", **fields}}
        for ago, fields in reversed(DOCUMENTS)
        if times["gte"] <= (at := int((NOW - ago) * 1000)) < times["lte"]
    ]
    answer: dict[str, Any] = {"hits": {"total": {"value": len(hits)}, "hits": hits[: body["size"]]}}
    if "aggs" in body:
        assert body["aggs"]["times"]["date_histogram"]["fixed_interval"] == "60s"
        buckets = [{"key": int(NOW * 1000), "doc_count": count} for count in (1, 5, 2)]
        answer["aggregations"] = {"times": {"buckets": buckets}}
    return Raw.json(answer)


@pytest.fixture
def logs(observer: Observer) -> Iterator[Observer]:
    with ModelServer(opensearch_server) as server:
        observer.sources["logs"] = SourceSettings(
            kind="opensearch", url=server.root, user="ann", password="secret:SEARCH", index="logs-*"
        )
        observer.secrets = {"SEARCH": "s3cret"}
        observer.now = lambda: NOW
        yield observer


async def test_lines_have_their_place_and_every_field_if_none_is_a_message(logs: Observer) -> None:
    result = await logs.call(opensearch, action="search", query="*")
    assert result.data["lines"] == 3
    assert "shop-1 no connection to 10.0.0.1" in result.text
    assert result.text.index("no connection") < result.text.index("user=ann action=login")


async def test_patterns_compare_with_the_time_before(logs: Observer) -> None:
    result = await logs.call(opensearch, action="patterns")
    assert result.data == {"source": "logs", "lines": 3, "patterns": 3, "errors": 1, "new": 2}
    assert "NEW error 1x" in result.text
    assert "info 1x (1 before)" in result.text


async def test_a_histogram_names_its_peak(logs: Observer) -> None:
    result = await logs.call(opensearch, action="histogram")
    assert "▁█▃ at most 5" in result.text


async def test_fields_are_listed_by_part_of_their_name(logs: Observer) -> None:
    result = await logs.call(opensearch, action="fields", query="MES")
    assert result.data["fields"] == 2
    assert "message" in result.text


async def test_what_changed_names_new_errors(logs: Observer) -> None:
    result = await logs.call(what_changed, around="20m ago", minutes=25, sources=["logs"])
    assert "new error, 1x in shop-1: no connection to 10.0.0.1" in result.text


@pytest.mark.parametrize(
    ("given", "said"), [({"query": "("}, "Cannot parse"), ({"index": "../x"}, "404")]
)
async def test_what_is_refused_is_told(logs: Observer, given: dict[str, str], said: str) -> None:
    with pytest.raises(ToolError, match=said):
        await logs.call(opensearch, action="search", **given)


async def test_a_source_says_what_it_is(logs: Observer) -> None:
    assert await logs.verify() == "answers; opensearch 2.19.1, 4 documents in logs-*"
