"""A real Alertmanager that posts to an address."""

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.cluster import free_ports
from tests.support.patience import PATIENCE


@contextmanager
def alertmanager(folder: Path, url: str, token: str = "", **hook: Any) -> Iterator[str]:
    """The address of its API. `hook` are more settings of the receiver."""
    route = {"receiver": "hermes", "group_wait": "0s", "group_interval": "1s",
             "group_by": ["alertname"]}  # fmt: skip
    bearer = {"http_config": {"authorization": {"credentials": token}}} if token else {}
    hooks = [{"url": url, **bearer, **hook}]
    wanted = {"route": route, "receivers": [{"name": "hermes", "webhook_configs": hooks}]}
    (folder / "config.yml").write_text(yaml.safe_dump(wanted))
    (port,) = free_ports(1)
    server = subprocess.Popen(
        ["prometheus-alertmanager", f"--config.file={folder}/config.yml",
         f"--storage.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}",
         "--cluster.listen-address="],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}/api/v2"
    finally:
        server.terminate()
        server.wait()


def raise_alerts(api: str, alerts: list[dict[str, Any]]) -> None:
    """Said again until the server is up."""
    request = urllib.request.Request(
        f"{api}/alerts", json.dumps(alerts).encode(), {"Content-Type": "application/json"}
    )
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(request, timeout=10).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "Alertmanager does not start"
            time.sleep(0.1)
