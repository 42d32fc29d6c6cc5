"""A real Alertmanager, and what it really posts."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest

from hermes_agent.core.incidents import Signal
from hermes_agent.incidents.alerts.formats import signals_of
from tests.support.alertmanager import alertmanager, raise_alerts
from tests.support.patience import PATIENCE
from tests.support.quick_http import QuickHTTPServer

pytestmark = pytest.mark.slow


@pytest.fixture
def posted() -> Iterator[tuple[str, "Queue[bytes]"]]:
    """An address, and the messages that are posted there."""
    messages: Queue[bytes] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.put(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            pass

    server = QuickHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/", messages
    server.shutdown()
    server.server_close()


@pytest.fixture
def api(tmp_path: Path, posted: tuple[str, "Queue[bytes]"]) -> Iterator[str]:
    with alertmanager(tmp_path, posted[0], max_alerts=2) as address:
        yield address


def next_of(messages: "Queue[bytes]", **wanted: Any) -> list[Signal]:
    """The signals of the first message that has this. Alertmanager says again what we were slow to
    take, and tells of alerts that come together one by one where it finds the time for it."""
    while True:
        message = messages.get(timeout=PATIENCE)
        told = json.loads(message)
        if wanted.items() <= {**told, **told["groupLabels"]}.items():
            return signals_of("alertmanager", message)


def test_what_alertmanager_posts_becomes_signals(
    api: str, posted: tuple[str, "Queue[bytes]"]
) -> None:
    down = {
        "labels": {"alertname": "InstanceDown", "instance": "web-1:9100", "severity": "critical",
                   "service": "shop"},
        "annotations": {"summary": "web-1 is down", "runbook_url": "https://wiki/down"},
        "generatorURL": "http://prometheus:9090/graph",
    }  # fmt: skip
    raise_alerts(api, [down])
    (first,) = next_of(posted[1], alertname="InstanceDown", status="firing")
    assert (first.title, first.service, first.severity) == ("web-1 is down", "shop", "P1")
    assert first.firing
    for part in ("since 20", "runbook: https://wiki/down", "http://prometheus:9090/graph"):
        assert part in first.detail
    raise_alerts(api, [{**down, "endsAt": datetime.now(UTC).isoformat()}])
    (over,) = next_of(posted[1], alertname="InstanceDown", status="resolved")
    assert (over.fingerprint, over.firing) == (first.fingerprint, False)
    many = [{"labels": {"alertname": "Slow", "instance": f"db-{n}"}} for n in range(3)]
    raise_alerts(api, many)
    some = next_of(posted[1], alertname="Slow", truncatedAlerts=1)
    assert [one.detail.splitlines()[-1] for one in some] == ["1 more were left out"] * 2
