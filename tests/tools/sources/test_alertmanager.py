"""Alerts and silences of a real Alertmanager."""

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from hermes_agent.core.errors import OutcomeUnknown, ToolError
from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.tools.sources.alertmanager import alertmanager, silence_alerts
from hermes_agent.tools.sources.changes import what_changed
from hermes_agent.tools.sources.times import iso
from tests.support.cli import wait_until
from tests.support.recorded_wire import answering, replay, serving
from tests.support.sources import Observer, answers, free_port, server

pytestmark = pytest.mark.slow

CONFIG = """
route: {receiver: team, group_by: [alertname], group_wait: 0s}
receivers: [{name: team}]
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, port = tmp_path_factory.mktemp("alertmanager"), free_port()
    (folder / "alertmanager.yml").write_text(CONFIG)
    url = f"http://127.0.0.1:{port}"
    command = [
        "prometheus-alertmanager", "--config.file=alertmanager.yml", "--storage.path=data",
        f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
    ]  # fmt: skip
    with server(folder, command, lambda: answers(f"{url}/-/ready")):
        alerts = [
            {"labels": {"alertname": name, "instance": f"web-{at}", "severity": "critical"},
             "annotations": {"summary": f"{name} is bad"}, "startsAt": iso(time.time() - 60)}
            for name, count in (("ShopDown", 2), ("DiskFull", 1)) for at in range(count)
        ]  # fmt: skip
        body = json.dumps(alerts).encode()
        headers = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"{url}/api/v2/alerts", body, headers))
        wait_until(
            lambda: answers(f"{url}/api/v2/alerts/groups", b"web-1"), "the alerts are grouped"
        )
        yield url


@pytest.fixture
def alerts(observer: Observer, address: str) -> Observer:
    observer.sources["alerts"] = SourceSettings(kind="alertmanager", url=address)
    return observer


async def test_alerts_come_in_groups_with_their_receivers(alerts: Observer) -> None:
    result = await alerts.call(alertmanager, action="alerts")
    assert result.data["alerts"] == 3
    assert "3 alerts in 2 groups: 3 active" in result.text
    assert "{alertname=ShopDown}, to team: 2" in result.text
    assert "DiskFull is bad" in result.text
    narrow = await alerts.call(alertmanager, action="alerts", matchers=['instance=~"web-1"'])
    assert narrow.data["alerts"] == 1


async def test_a_silence_is_made_found_after_a_restart_and_expired(alerts: Observer) -> None:
    given: dict[str, Any] = {
        "action": "create", "matchers": ["alertname=ShopDown", 'instance!="web-1"'],
        "comment": "known", "hours": 1,
    }  # fmt: skip
    assert silence_alerts.recover is not None
    assert silence_alerts.inverse is not None
    arguments = silence_alerts.arguments(given)
    recovered = await silence_alerts.recover(alerts.context(), {}, **arguments)
    assert recovered == "not-run"

    made = await alerts.call(silence_alerts, **given)
    assert "1 alerts match now" in made.text
    again = await silence_alerts.recover(alerts.context(), {}, **arguments)
    assert not isinstance(again, str)
    assert again is not None
    assert again.data == made.data
    shown = await alerts.call(alertmanager, action="alerts")
    assert f"silenced by {made.data['id']}" in shown.text
    listed = await alerts.call(alertmanager, action="silences")
    assert 'alertname="ShopDown", instance!="web-1"' in listed.text
    assert "Hermes (call)" in listed.text
    assert silence_alerts.inverse({}, arguments, made) == f"expire the silence {made.data['id']}"

    await alerts.call(silence_alerts, action="expire", id=made.data["id"])
    shown = await alerts.call(alertmanager, action="alerts")
    assert "3 active" in shown.text
    changed = await alerts.call(what_changed)
    assert "alerts: alert began: {alertname=ShopDown" in changed.text
    assert "silence ended: alertname=" in changed.text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"matchers": ["ShopDown"], "comment": "x"}, "not a valid matcher: 'ShopDown'"),
        ({"matchers": ["a=b"]}, "`comment` is empty"),
        ({"comment": "x"}, "`matchers` is empty"),
        ({"matchers": ['a=~".*"'], "comment": "x"}, "at least one matcher"),
        ({"action": "expire", "id": "x/y"}, "no silence 'x/y'"),
    ],
)
async def test_a_wrong_silence_is_refused(
    alerts: Observer, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ToolError, match=said):
        await alerts.call(silence_alerts, **{"action": "create", **given})


async def test_alerts_of_one_name_for_different_receivers_are_all_shown(
    observer: Observer,
) -> None:
    groups = [
        {"labels": {"alertname": "Disk"}, "receiver": {"name": severity}, "alerts": [{
            "fingerprint": severity, "labels": {"alertname": "Disk", "severity": severity},
            "annotations": {}, "startsAt": iso(0), "status": {"state": "active"},
        }]}
        for severity in ("warning", "critical")
    ]  # fmt: skip
    with answering(replay({"GET /api/v2/alerts/groups": [200, groups]})) as url:
        observer.sources["alerts"] = SourceSettings(kind="alertmanager", url=url)
        text = (await observer.call(alertmanager, action="alerts")).text
    assert "2 alerts in 2 groups" in text
    assert "{alertname=Disk}, to critical: 1" in text


async def test_a_silence_is_told_though_its_alerts_cannot_be_counted(observer: Observer) -> None:
    wire = {
        "GET /api/v2/silences": [200, []],
        "POST /api/v2/silences": [200, {"silenceID": "s-1"}],
        "GET /api/v2/alerts?filter=a%3Db%22": [400, {"message": "bad matcher format"}],
    }
    with answering(replay(wire)) as url:
        observer.sources["alerts"] = SourceSettings(kind="alertmanager", url=url)
        made = await observer.call(
            silence_alerts, action="create", matchers=['a=b"'], comment="known"
        )
    assert made.data["id"] == "s-1"


@pytest.mark.parametrize("keeps", [True, False])
async def test_a_silence_whose_answer_does_not_come_may_be_there_later(
    observer: Observer, keeps: bool
) -> None:
    """The connection is lost, or the time is over."""
    come = threading.Event()

    class Lost(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[]")

        def do_POST(self) -> None:
            if keeps:
                come.wait(30)

        def log_message(self, *_: object) -> None: ...

    with serving(Lost) as url:
        observer.sources["alerts"] = SourceSettings(kind="alertmanager", url=url, timeout_seconds=1)
        given = {"action": "create", "matchers": ["a=b"], "comment": "known"}
        with pytest.raises(OutcomeUnknown, match=r"took longer|cannot reach"):
            await observer.call(silence_alerts, **given)
        come.set()


async def test_an_alertmanager_says_that_it_answers(alerts: Observer) -> None:
    assert "3 alerts" in await alerts.verify()
