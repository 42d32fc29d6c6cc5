"""Who needs whom: written down, said by checks, and learned."""

from pathlib import Path

import pytest

from hermes_agent.core.incidents import MonitoredService
from hermes_agent.incidents.monitoring.topology import load, load_drill, named, read, together

TEXT = """
services:
  shop: {needs: [database], owner: ann, about: "nginx, 8080"}
  database: {terminal: db-1, needs: []}
  mail:
"""


def test_services_are_read_with_what_is_known_of_them(tmp_path: Path) -> None:
    assert load(tmp_path) == ((), ())
    (tmp_path / "topology.yaml").write_text(TEXT)
    services, problems = load(tmp_path)
    assert problems == ()
    assert services == (
        MonitoredService("shop", ("database",), "ann", "nginx, 8080"),
        MonitoredService("database", terminal="db-1"),
        MonitoredService("mail"),
    )
    assert named(services, "mail") == MonitoredService("mail")
    assert named(services, "nothing") is None


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("services: [a", 2, "not YAML"),
        ("service: {}", 1, "no key 'service'"),
        ("services: [a]", 1, "must be a mapping"),
        ("services:\n  a: {need: [b]}", 2, "no key 'need'"),
        ("services:\n  a: {owner: [x]}", 2, "owner must be text"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, said: str) -> None:
    _, problems = read(text)
    assert problems[0].line == line
    assert said in problems[0].message


def test_a_drill_has_services_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "drills" / "a1"
    folder.mkdir(parents=True)
    (folder / "topology.yaml").write_text("services: {shop: {needs: [cache]}}")
    assert load(tmp_path) == ((), ())
    assert load_drill(tmp_path, "drill-a1") == (MonitoredService("shop", ("cache",)),)
    assert load_drill(tmp_path, "drill-b2") == load_drill(tmp_path, "drill-../../etc") == ()


def test_what_people_wrote_counts_before_what_was_learned() -> None:
    written = MonitoredService("shop", ("database",), "ann")
    learned = MonitoredService("shop", ("cache", "database"), "bob", "nginx", learned=True)
    assert together([written], [learned], [MonitoredService("cache", learned=True)]) == (
        MonitoredService("shop", ("database", "cache"), "ann", "nginx"),
        MonitoredService("cache", learned=True),
    )
    assert together(
        [MonitoredService("shop", owner="ann")], [MonitoredService("shop", owner="bob")]
    ) == (MonitoredService("shop", owner="ann"),)
