"""Production sources as a person adds them, and as the agent reads them without asking."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from hermes_agent.runtime.sources import server_of
from hermes_agent.tools.sources.registry import TYPES
from tests.support.cli import Hermes
from tests.support.recorded_wire import answering

SCRIPT = """
turns:
  - when: what is down
    replies:
      - calls: [{tool: find_tools, with: {query: metrics}}]
      - calls:
          - tool: use_tool
            with: {name: prometheus, arguments: {action: query, query: up == 0}}
      - say: "The shop is down."
"""
ANSWER = {
    "status": "success",
    "data": {
        "resultType": "vector",
        "result": [{"metric": {"__name__": "up", "job": "shop"}, "value": [1, "0"]}],
    },
}


def prometheus(
    _method: str, _target: str, _body: bytes, headers: Mapping[str, str]
) -> tuple[int, Any]:
    allowed = headers.get("authorization") == "Bearer t0ken-of-the-shop"
    return (200, ANSWER) if allowed else (401, "who are you?")


@pytest.fixture
def url() -> Iterator[str]:
    with answering(prometheus) as address:
        yield address


def test_a_source_is_added_with_a_token_tested_and_removed(hermes: Hermes, url: str) -> None:
    said = hermes.run("sources", "add", "prometheus", url, "--token", input="t0ken-of-the-shop\n")
    assert "added prometheus: answers; 0 targets" in said.stdout
    config = (hermes.home / "config.yaml").read_text()
    assert "token: secret:SOURCE_PROMETHEUS_TOKEN" in config
    assert "t0ken" not in config
    assert [row["ok"] for row in hermes.json("sources", "test")] == [True]
    assert "prometheus (prometheus): answers" in hermes.run("doctor").stdout
    assert ".env: SOURCE_PROMETHEUS_TOKEN" in hermes.good("sources", "remove", "prometheus")
    assert hermes.json("sources", "list") == []


def test_a_source_that_refuses_is_told_with_the_way_out(hermes: Hermes, url: str) -> None:
    said = hermes.good("sources", "add", "prometheus", url)
    assert "saved prometheus, but it does not work yet" in said
    assert "refuses access (401)" in said
    again = hermes.run("sources", "add", "prometheus", url, "--token", input="t0ken-of-the-shop\n")
    assert (again.returncode, "'prometheus' is this source already" in again.stderr) == (2, True)
    assert not (hermes.home / ".env").exists()
    tried = hermes.run("sources", "test", "prometheus")
    assert tried.returncode == 1
    assert "check its token or password" in tried.stdout


def test_an_address_of_redis_may_ask_for_tls(hermes: Hermes) -> None:
    said = hermes.good("sources", "add", "redis", "rediss://127.0.0.1:1/0")
    assert "saved redis, but it does not work yet: cannot reach redis" in said
    refused = hermes.run("sources", "add", "mysql", "rediss://127.0.0.1:1/0")
    assert "not an address of mysql" in refused.stderr


def test_an_address_without_a_scheme_is_told_with_one(hermes: Hermes) -> None:
    said = hermes.run("sources", "add", "prometheus", "prometheus:9090")
    assert (said.returncode, "such as http://prometheus:9090" in said.stderr) == (2, True)
    hermes.good("sources", "add", "postgresql", "postgres://127.0.0.1:1/shop")
    (row,) = hermes.json("sources", "list")
    assert row["url"] == "postgresql://127.0.0.1:1/shop"


def test_a_port_that_cannot_be_one_is_told(hermes: Hermes) -> None:
    said = hermes.good("sources", "add", "prometheus", "http://127.0.0.1:99999")
    assert "prometheus (127.0.0.1) has an invalid address: Port out of range" in said


def test_the_agent_reads_a_source_without_asking(hermes: Hermes, url: str) -> None:
    hermes.run("sources", "add", "prometheus", url, "--token", input="t0ken-of-the-shop\n")
    (hermes.work / "mine.yaml").write_text(SCRIPT)
    answer = hermes.json("ask", "what is down?", "--model", "scripted/./mine.yaml")
    assert answer["text"] == "The shop is down."
    messages = json.dumps(hermes.json("sessions", "show", answer["session"])["messages"])
    assert "up{job=shop}" in messages
    assert "t0ken" not in messages


def test_databases_of_one_server_are_one_server() -> None:
    kind = TYPES["postgresql"]
    given = ("postgresql://localhost/shop", "postgresql://127.0.0.1:5432", "postgresql://[::1]/a")
    assert [server_of(url, kind) for url in given] == ["127.0.0.1:5432"] * 2 + ["[::1]:5432"]
