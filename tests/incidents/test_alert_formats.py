"""Alerts as Alertmanager, Grafana and PagerDuty really send them become signals."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.core.errors import UsageError
from hermes_agent.incidents.alerts.formats import READERS, severity_in, signals_of

ALERTMANAGER: dict[str, Any] = {
    "version": "4",
    "groupKey": '{}/{severity="critical"}:{alertname="InstanceDown"}',
    "truncatedAlerts": 0,
    "status": "firing",
    "receiver": "hermes",
    "groupLabels": {"alertname": "InstanceDown"},
    "commonLabels": {"alertname": "InstanceDown", "severity": "critical"},
    "commonAnnotations": {},
    "externalURL": "http://alertmanager:9093",
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "InstanceDown", "instance": "web-1:9100", "job": "node",
                       "severity": "critical", "team": "shop"},
            "annotations": {"summary": "web-1 is down", "description": "for 5 minutes"},
            "startsAt": "2026-11-15T09:12:33.123Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://prometheus:9090/graph?g0.expr=up",
            "fingerprint": "b4f1c2d3e4a5b6c7",
        },
        {
            "status": "resolved",
            "labels": {"alertname": "InstanceDown", "instance": "web-2:9100", "job": "node"},
            "annotations": {},
            "startsAt": "2026-11-15T08:12:33Z",
            "endsAt": "2026-11-15T09:12:33Z",
            "fingerprint": "0011223344556677",
        },
        {"status": "firing", "labels": {"alertname": "Watchdog", "severity": "none"}},
    ],
}  # fmt: skip

GRAFANA: dict[str, Any] = {
    "receiver": "hermes",
    "status": "firing",
    "orgId": 1,
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "High latency", "grafana_folder": "shop", "service": "api",
                       "severity": "warning"},
            "annotations": {"summary": "p95 over 2 s"},
            "startsAt": "2026-11-15T10:00:00Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "values": {"A": 2.3, "C": 1},
            "valueString": "[ var='A' labels={} value=2.3 ]",
            "generatorURL": "https://grafana/alerting/grafana/abc/view",
            "fingerprint": "c6eadffa33fcdf37",
            "silenceURL": "https://grafana/alerting/silence/new",
            "dashboardURL": "", "panelURL": "", "imageURL": None,
        }
    ],
    "groupLabels": {"alertname": "High latency"},
    "commonLabels": {}, "commonAnnotations": {},
    "externalURL": "https://grafana/", "version": "1", "groupKey": "{}:{}", "truncatedAlerts": 0,
    "title": "[FIRING:1] High latency", "state": "alerting", "message": "**Firing**",
}  # fmt: skip

PAGERDUTY: dict[str, Any] = {
    "event": {
        "id": "5ac64822-4adc-4fda-ade0-410becf0de4f",
        "event_type": "incident.triggered",
        "resource_type": "incident",
        "occurred_at": "2026-10-02T18:45:22.169Z",
        "agent": {"html_url": "https://acme.pagerduty.com/users/PLH1HKV", "id": "PLH1HKV",
                  "summary": "Tenex Engineer", "type": "user_reference"},
        "client": {"name": "PagerDuty"},
        "data": {
            "id": "PGR0VU2", "type": "incident",
            "self": "https://api.pagerduty.com/incidents/PGR0VU2",
            "html_url": "https://acme.pagerduty.com/incidents/PGR0VU2",
            "number": 2, "status": "triggered",
            "incident_key": "d3640fbd41094207a1c11e58e46b1662",
            "created_at": "2026-04-09T15:16:27Z", "title": "A little bump in the road",
            "service": {"html_url": "https://acme.pagerduty.com/services/PF9KMXH",
                        "id": "PF9KMXH", "summary": "API Service", "type": "service_reference"},
            "assignees": [{"id": "PTUXL6G", "summary": "User 123", "type": "user_reference"}],
            "escalation_policy": {"id": "PUS0KTE", "summary": "Default"},
            "teams": [{"id": "PFCVPS0", "summary": "Engineering", "type": "team_reference"}],
            "priority": {"id": "PSO75BM", "summary": "P1", "type": "priority_reference"},
            "urgency": "high", "conference_bridge": None, "resolve_reason": None,
        },
    }
}  # fmt: skip


def sent(kind: str, body: Any) -> list[Any]:
    return signals_of(kind, json.dumps(body).encode())


def page(event_type: str, **data: Any) -> dict[str, Any]:
    event = PAGERDUTY["event"]
    return {"event": {**event, "event_type": event_type, "data": {**event["data"], **data}}}


def test_alertmanager_sends_a_group_of_alerts() -> None:
    down, over = sent("alertmanager", ALERTMANAGER)
    assert (down.source, down.fingerprint) == ("alertmanager", "alertmanager:b4f1c2d3e4a5b6c7")
    assert (down.title, down.service, down.severity) == ("web-1 is down", "node", "P1")
    assert down.firing
    assert down.labels["team"] == "shop"
    assert down.detail.splitlines()[0] == "for 5 minutes"
    assert "http://prometheus:9090" in down.detail
    assert "since 2026-11-15T09:12:33.123Z" in down.detail
    assert "left out" not in down.detail
    assert (over.firing, over.title, over.severity) == (False, "InstanceDown web-2:9100", "P2")


def test_grafana_sends_alerts_with_their_values() -> None:
    (slow,) = sent("grafana", GRAFANA)
    assert (slow.title, slow.service, slow.severity) == ("p95 over 2 s", "api", "P2")
    assert slow.fingerprint == "grafana:c6eadffa33fcdf37"
    assert "value=2.3" in slow.detail


def test_grafana_says_values_by_name_and_rules_without_data_by_a_label() -> None:
    alert = {
        **GRAFANA["alerts"][0],
        "valueString": None,
        "panelURL": "https://grafana/d/1?viewPanel=2",
    }
    notes = {"runbook_url": "https://wiki/slow"}
    nodata = {"status": "firing", "annotations": notes,
              "labels": {"alertname": "DatasourceNoData", "rulename": "High latency"}}  # fmt: skip
    slow, none = sent("grafana", {**GRAFANA, "alerts": [alert, nodata], "truncatedAlerts": 3})
    assert "A=2.3, C=1" in slow.detail
    assert "viewPanel=2" in slow.detail
    assert none.title == "DatasourceNoData High latency"
    assert none.detail.splitlines()[-2:] == ["runbook: https://wiki/slow", "3 more were left out"]


def test_pagerduty_sends_what_happens_to_an_incident() -> None:
    (page_,) = sent("pagerduty", PAGERDUTY)
    assert (page_.title, page_.service) == ("A little bump in the road", "API Service")
    assert (page_.severity, page_.owner, page_.firing) == ("P1", "Engineering", True)
    (over,) = sent("pagerduty", page("incident.resolved"))
    assert (over.firing, over.fingerprint) == (False, page_.fingerprint)
    (late,) = sent("pagerduty", page("incident.escalated", status="resolved"))
    assert not late.firing
    (low,) = sent("pagerduty", page("incident.reopened", priority=None, urgency="low", teams=[]))
    assert (low.severity, low.owner) == ("P3", "Default")


@pytest.mark.parametrize(
    "body",
    [
        page("incident.acknowledged"),
        page("incident.annotated"),
        {"event": {"id": "x", "event_type": "pagey.ping", "resource_type": "pagey",
                   "data": {"message": "Hello from your friend Pagey!", "type": "ping"}}},
        {"event": {"event_type": "service.updated", "data": {"id": "PF9KMXH"}}},
        {"event": {"event_type": "incident.custom_field_values.updated",
                   "data": {"incident": {"id": "PGR0VU2"}, "service": "none", "id": 7}}},
        {"event": {"event_type": "service.deleted", "data": None, "agent": None, "client": None}},
    ],
)  # fmt: skip
def test_pagerduty_says_things_that_are_no_signal(body: dict[str, Any]) -> None:
    assert sent("pagerduty", body) == []


def test_alerts_without_a_fingerprint_are_told_apart_by_their_labels() -> None:
    alerts = [{"labels": {"alertname": "a", "n": n}, "annotations": None} for n in (1, 2, 1)]
    first, second, third = sent("alertmanager", {"alerts": alerts})
    assert first.fingerprint == third.fingerprint != second.fingerprint
    assert first.labels["n"] == "1"


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\xff", b'{"alerts": 3}', b'{"event": []}', b"[" * 100_000,
     b'{"alerts": [{"labels": []}]}', b'{"event": {"event_type": "incident.triggered"}}',
     b'{"event": {"event_type": "incident.triggered", "data": {}}}'],
)  # fmt: skip
def test_what_is_no_message_is_refused_with_a_sentence(kind: str, body: bytes) -> None:
    with pytest.raises(UsageError) as caught:
        signals_of(kind, body)
    assert caught.value.hint


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match="no alert format called 'nagios'"):
        signals_of("nagios", b"{}")


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["alerts", "labels", "annotations", "status", "event", "data", "id",
                         "event_type", "service", "priority", "summary", "severity"])
        | st.text(max_size=5),
        inner, max_size=6,
    ),
    max_leaves=20,
)  # fmt: skip


@settings(deadline=None)
@given(st.sampled_from(sorted(READERS)), _json)
def test_whatever_is_sent_becomes_signals_or_a_sentence(kind: str, value: Any) -> None:
    try:
        found = sent(kind, value)
    except UsageError:
        found = []
    assert all(one.fingerprint and one.title for one in found)


@settings(deadline=None)
@given(st.sampled_from(sorted(READERS)), st.data())
def test_fields_that_nobody_knows_are_ignored(kind: str, data: st.DataObject) -> None:
    body = {"alertmanager": ALERTMANAGER, "grafana": GRAFANA, "pagerduty": PAGERDUTY}[kind]
    more = data.draw(st.dictionaries(st.text(min_size=12, max_size=20), _json, max_size=3))
    assert sent(kind, {**more, **body}) == sent(kind, body)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_mean_nothing_are_refused(body: bytes) -> None:
    for kind in READERS:
        try:
            found = signals_of(kind, body)
        except UsageError:
            found = []
        assert found == []


@pytest.mark.parametrize(
    ("labels", "usual", "vital"),
    [
        ({"severity": "critical"}, "P1", "P0"),
        ({"severity": "Page"}, "P1", "P0"),
        ({"severity": "error"}, "P1", "P1"),
        ({"severity": "warning"}, "P2", "P2"),
        ({"severity": "info"}, "P3", "P3"),
        ({"severity": "P0"}, "P0", "P0"),
        ({"severity": "SEV-1"}, "P1", "P1"),
        ({"severity": "unheard of", "priority": "high"}, "P1", "P1"),
        ({"urgency": "low"}, "P3", "P3"),
        ({"severity": "unheard of"}, None, None),
        ({}, None, None),
    ],
)
def test_severities_of_others_are_understood(
    labels: dict[str, str], usual: str | None, vital: str | None
) -> None:
    assert (severity_in(labels), severity_in(labels, vital=True)) == (usual, vital)


def test_a_time_that_cannot_be_written_is_left_out() -> None:
    alert = {"labels": {"alertname": "X"}, "startsAt": "9999-12-31T23:59:59-23:59"}
    (signal,) = signals_of("alertmanager", json.dumps({"alerts": [alert]}).encode())
    assert signal.since == 0.0
