"""Alerts are about services that are known here, whatever their labels call them."""

import pytest

from hermes_agent.core.incidents import MonitoredService, Signal, WatchedCheck
from hermes_agent.core.skills import Check
from hermes_agent.incidents.alerts.matching import matched
from hermes_agent.incidents.monitoring.config import Watched

TOPOLOGY = (MonitoredService("shop", vital=True), MonitoredService("orders", terminal="db-1"))


def check(name: str, service: str, terminal: str = "", **more: object) -> Watched:
    watched = WatchedCheck(name, Check("true"), service, terminal, "P1", "ann")
    return Watched(watched, policy="night", **more)  # type: ignore[arg-type]


CHECKS = (
    check("shop-answers", "shop"),
    check("shop-latency", "shop"),
    check("queue-length", "queue", labels={"alertname": "QueueLong"}),
    check("orders-answer", "orders", "db-1"),
    check("cache", "cache"),
    check("shop-drill", "shop", source="drill"),
)


def alert(labels: dict[str, str], service: str = "") -> Signal:
    return Signal("alertmanager", "f", "it is bad", service, labels=labels)


@pytest.mark.parametrize(
    ("labels", "service", "name"),
    [
        ({"service": "shop"}, "shop", "shop-answers"),
        ({"app": "Shop"}, "shop", "shop-answers"),
        ({"job": "node", "pod": "shop-7d9f8b6c54-x2k9z"}, "shop", "shop-answers"),
        ({"pod": "shop-0", "namespace": "prod"}, "shop", "shop-answers"),
        ({"namespace": "shop"}, "shop", "shop-answers"),
        ({"name": "shop.service", "instance": "web-1:9100"}, "shop", "shop-answers"),
        ({"instance": "https://shop.example.org:8443/healthz"}, "shop", "shop-answers"),
        ({"container": "/cache"}, "cache", "cache"),
        ({"instance": "db-1:9100"}, "orders", "orders-answer"),
        ({"alertname": "QueueLong", "service": "shop"}, "queue", "queue-length"),
        ({"alertname": "ShopLatencyHigh", "service": "shop"}, "shop", "shop-latency"),
    ],
)
def test_an_alert_gets_the_check_of_its_service(
    labels: dict[str, str], service: str, name: str
) -> None:
    found = matched(alert(labels), TOPOLOGY, CHECKS)
    assert found.check is not None
    assert (found.service, found.check.name) == (service, name)
    assert (found.owner, found.policy) == ("ann", "night")
    assert found.terminal == ("db-1" if service == "orders" else "")


@pytest.mark.parametrize(
    "labels",
    [{}, {"service": "shopping"}, {"app": "shop-cart"}, {"instance": "db-11:9100"}, {"shop": "x"}],
)
def test_an_alert_about_something_else_stays_as_it_is(labels: dict[str, str]) -> None:
    unknown = alert(labels, "other")
    assert matched(unknown, TOPOLOGY, CHECKS) == unknown


@pytest.mark.parametrize(
    ("labels", "severity"),
    [
        ({"service": "shop", "severity": "critical"}, "P0"),
        ({"service": "shop", "severity": "warning"}, "P2"),
        ({"service": "shop"}, "P2"),
        ({"service": "cache", "severity": "critical"}, "P2"),
    ],
)
def test_only_a_critical_alert_about_a_vital_service_is_a_p0(
    labels: dict[str, str], severity: str
) -> None:
    assert matched(alert(labels), TOPOLOGY, CHECKS).severity == severity
