"""Somebody installs Hermes on a machine, has it watch what runs there, and something breaks."""

import json
import random
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.support.cli import Hermes, wait_until

pytestmark = pytest.mark.sample_file(3)

NODE_PORTS = range(20_000, 30_000)
"""Below the ephemeral ports, as a service's port is."""
LOOK = "kubectl -n shop get pods"
SCRIPT = {
    "turns": [
        {
            "when": "How to go about it",
            "replies": [
                {"calls": [{"tool": "terminal", "with": {"command": LOOK}}]},
                {
                    "calls": [
                        {
                            "tool": "incident",
                            "with": {
                                "action": "escalate", "component": "web",
                                "category": "bad-deploy", "summary": "web ends after its start",
                                "evidence": ["CrashLoopBackOff"], "needed": "roll back the release",
                            },
                        }
                    ]
                },
                {"say": "It is handed over."},
            ],
        },
        {
            "when": "the frobnicator hums",
            "replies": [{"say": '{"name": "hum", "run": "test -e /etc/passwd"}'}],
        },
        {"when": "unplug it", "replies": [{"say": '{"name": "x", "run": "rm -rf /srv/x"}'}]},
        {"replies": [{"say": "Good day."}]},
    ]
}  # fmt: skip


@pytest.fixture
def hermes(tmp_path: Path) -> Iterator[Hermes]:
    made = Hermes(tmp_path / "hermes", json.dumps({"name": "story", **SCRIPT}))
    machine = tmp_path / "user"
    made.environ |= {
        "HOME": str(machine), "XDG_CONFIG_HOME": str(machine / "config"), "TZ": "Asia/Kolkata",
        "HERMES_POLICY": "careful",
    }  # fmt: skip
    machine.mkdir()
    yield made
    made.close()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], certificate: Path | None) -> Iterator[int]:
    """An HTTP server on a port of a service; with a certificate, an HTTPS server."""
    while True:
        with suppress(OSError):
            server = _Server(("127.0.0.1", random.choice(NODE_PORTS)), handler)
            break
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def certificate(folder: Path, days: int) -> Path:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shop.test")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=days))
        .sign(key, SHA256())
    )
    path = folder / "shop.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(private + made.public_bytes(Encoding.PEM))
    return path


class Shop(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


class Cluster(BaseHTTPRequestHandler):
    """An API server with one pod, which `state` is about."""

    state = "Running"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        found: dict[str, Any] = {
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "/api/v1": {
                "kind": "APIResourceList", "groupVersion": "v1",
                "resources": [
                    {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod",
                     "verbs": ["get", "list"], "shortNames": ["po"]}
                ],
            },
        }.get(path) or {
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {},
            "columnDefinitions": [
                {"name": name, "type": "string", "format": "", "description": "", "priority": 0}
                for name in ("Name", "Ready", "Status", "Restarts")
            ],
            "rows": [
                {"cells": ["web-7d9", "0/1", self.state, "12"],
                 "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                            "metadata": {"name": "web-7d9", "namespace": "shop"}}}
            ],
        }  # fmt: skip
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def incidents(hermes: Hermes, service: str) -> list[dict[str, Any]]:
    return [one for one in hermes.json("incidents", "list") if one["service"] == service]


def run_twice(hermes: Hermes) -> None:
    """The job of the critical checks, as often as it takes for a failure to count."""
    for _ in range(2):
        hermes.good("task", "run", "watch-health", "--follow")


def test_out_of_the_box_something_is_watched(hermes: Hermes, tmp_path: Path) -> None:
    assert "nothing is watched; `hermes watch install`" in hermes.good("status")
    assert "nothing is watched" in hermes.run("doctor").stdout
    with serving(Shop, certificate(tmp_path, 90)) as port:
        plan = hermes.json("watch", "install")  # asks nobody, so it changes nothing
        assert plan["installed"] is False
        assert not (hermes.home / "checks").exists()
        names = {one["name"] for one in plan["checks"]}
        assert {f"https-{port}", f"certificate-{port}", "disk-root"} <= names
        shown = hermes.good("watch", "install", "--yes")
        assert f"https-{port}" in shown
        assert "daily at 08:00, Asia/Kolkata" in shown
        assert "no channel has a home chat\nhint: `hermes gateway setup" in shown
        jobs = {one["spec"]["name"]: one for one in hermes.json("task", "list")}
        assert list(jobs) == ["watch-health", "watch-audit", "watch-briefing"]
        assert jobs["watch-briefing"]["schedule"]["zone"] == "Asia/Kolkata"
        again = {one["name"] for one in hermes.json("watch", "install")["checks"]}
        assert again & names == set()
        assert "nothing is watched" not in hermes.good("status")
    run_twice(hermes)
    wait_until(lambda: incidents(hermes, f"port-{port}"), "an incident")


def test_what_fails_already_is_said_and_left_out(hermes: Hermes, tmp_path: Path) -> None:
    with serving(Shop, certificate(tmp_path, 3)) as port:
        shown = hermes.good("watch", "install", "--yes")
        assert f"fails now, left out: certificate-{port}: " in shown
        assert (hermes.home / "checks" / f"https-{port}.yaml").exists()
        assert not (hermes.home / "checks" / f"certificate-{port}.yaml").exists()


def test_a_file_that_is_there_already_is_said_and_the_rest_is_installed(
    hermes: Hermes, tmp_path: Path
) -> None:
    with serving(Shop, certificate(tmp_path, 90)) as port:
        mine = hermes.home / "checks" / f"certificate-{port}.yaml"
        mine.parent.mkdir(parents=True)
        mine.write_text("[not a check\n")
        shown = hermes.good("watch", "install", "--yes")
        assert f"its file exists, left out: certificate-{port}: {mine} is there already" in shown
        assert (mine.parent / f"https-{port}.yaml").exists()
        assert mine.read_text() == "[not a check\n"


def test_a_crash_loop_becomes_an_incident_that_knows_the_last_one(
    hermes: Hermes, tmp_path: Path
) -> None:
    with serving(Cluster, None) as port:
        _use_cluster(Path(hermes.environ["HOME"]), port)
        assert "passes" in hermes.good(
            "watch", "add", "no pod in namespace shop is crash looping", "--yes"
        )
        for number in (1, 2):
            Cluster.state = "CrashLoopBackOff"
            run_twice(hermes)
            id = f"inc-{number}"
            wait_until(partial(_report, hermes, id), f"the report of {id}")
            found = hermes.api.get(f"/v1/incidents/{id}")["incident"]
            assert (found["state"], found["diagnosis"]["category"]) == ("escalated", "bad-deploy")
            Cluster.state = "Running"
            hermes.good("task", "run", "watch-health", "--follow")
            wait_until(partial(_is_over, hermes, id), f"{id} is over")
    brief = hermes.good("sessions", "show", found["session"])
    assert "inc-1: bad-deploy in web: web ends after its start" in brief
    assert "like inc-1: bad-deploy in web" in hermes.good("incidents", "show", "inc-2")
    day = datetime.fromtimestamp(found["opened"]).astimezone(UTC) + timedelta(hours=5.5)
    assert _report(hermes, "inc-2") == f"{day:%Y-%m-%d}-shop-crashloopbackoff-inc-2.md"
    assert "inc-2" in hermes.good("search", "crash loop shop")


def _use_cluster(user: Path, port: int) -> None:
    (user / ".kube").mkdir(parents=True)
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "shop",
        "contexts": [{"name": "shop", "context": {"cluster": "shop", "user": "shop"}}],
        "clusters": [{"name": "shop", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "shop", "user": {}}],
    }  # fmt: skip
    (user / ".kube" / "config").write_text(json.dumps(config))


def _report(hermes: Hermes, id: str) -> str:
    found = [path.name for path in (hermes.home / "incidents").glob(f"*-{id}.md")]
    return found[0] if found else ""


def _is_over(hermes: Hermes, id: str) -> bool:
    return bool(hermes.api.get(f"/v1/incidents/{id}")["incident"]["state"] == "resolved")


def test_what_no_pattern_fits_is_asked_of_the_model_and_must_only_read(hermes: Hermes) -> None:
    shown = hermes.good("watch", "add", "the frobnicator hums", "--yes")
    assert "$ test -e /etc/passwd" in shown
    assert "the gate says that the command only reads" in shown
    assert (hermes.home / "checks" / "hum.yaml").exists()
    refused = hermes.run("watch", "add", "unplug it", "--yes")
    assert (refused.returncode, "would do more than read" in refused.stderr) == (2, True)
    other = hermes.run("watch", "add", "the moon is up there", "--yes")
    assert "proposed no command" in other.stderr
    assert "hint: give the command: `hermes watch add NAME --run COMMAND`" in other.stderr


def test_another_machine_is_reached_only_by_the_checks_that_people_agreed_to(
    hermes: Hermes,
) -> None:
    words = "the shop answers on http://shop.invalid within 2 seconds"
    shown = hermes.good("watch", "add", words, "--yes")
    assert "adding it adds to policies/approved.yaml" in shown
    assert "shop-answers fails now: exit code 6" in shown
    elsewhere = hermes.json("policy", "explain", "curl -fsS http://shop.invalid/")
    assert elsewhere["verdict"] == "ask"
    other = "the shop answers on http://other.invalid within 2 seconds"
    refused = hermes.run("watch", "add", other, "--name", "shop-answers", "--yes")
    assert (refused.returncode, "already exists" in refused.stderr) == (2, True)
    assert "other.invalid" not in (hermes.home / "policies" / "approved.yaml").read_text()
