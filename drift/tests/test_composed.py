"""Services that Compose itself has made, on a real Docker engine."""

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.dockerd import docker_engine
from tests.support.drift_repositories import ShellLive, audited, declare, looked
from tests.support.images import IMAGE

pytestmark = pytest.mark.slow

SERVICES = {
    "web": {
        "image": IMAGE, "command": ["sh", "-c", "sleep 600"], "network_mode": "none",
        "environment": {"LEVEL": "${LEVEL:-info}", "WORKERS": 4, "EMPTY": ""},
        "restart": "unless-stopped", "user": "1000:1000", "labels": {"team": "shop"},
        "volumes": ["./conf:/conf:ro", "data:/data"], "cap_add": ["NET_RAW"],
    },
    "worker": {
        "image": IMAGE, "command": "sleep 600", "network_mode": "none", "restart": "no",
        "environment": ["LEVEL=debug", "QUEUE"], "deploy": {"replicas": 2},
    },
}  # fmt: skip


class Composed:
    """A repository with a Compose file, and what was made of it."""

    def __init__(self, folder: Path) -> None:
        self.project = f"shop{uuid.uuid4().hex[:8]}"
        text = yaml.safe_dump({"version": "3.8", "services": SERVICES, "volumes": {"data": {}}})
        files = {"compose.yaml": text, "conf/a": "x", ".env": "LEVEL=warning\n"}
        drift = {"compose": [{"declared": "compose.yaml", "project": self.project}]}
        self.repository = declare(folder / "repository", drift, files)
        self.live = ShellLive({"DOCKER_HOST": docker_engine()})

    def run(self, *words: str) -> str:
        done = subprocess.run(
            words, cwd=self.repository, env={**os.environ, "DOCKER_HOST": docker_engine()},
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def compose(self, *words: str) -> str:
        return self.run("docker-compose", "-p", self.project, "-f", "compose.yaml", *words)

    def container(self, service: str) -> str:
        return self.compose("ps", "-q", service).split()[0]


@pytest.fixture
def composed(tmp_path: Path) -> Iterator[Composed]:
    made = Composed(tmp_path)
    made.compose("up", "-d")
    yield made
    made.compose("down", "-v", "-t", "0", "--remove-orphans")


async def test_what_compose_made_is_no_drift_and_what_was_done_to_it_is(composed: Composed) -> None:
    (scope,) = await looked(composed.repository, composed.live)
    assert (scope.checked, scope.findings, scope.troubles) == (2, (), ())

    composed.run("docker", "stop", "-t", "0", composed.container("worker"))
    composed.run("docker", "update", "--restart", "always", composed.container("web"))
    composed.compose("run", "-d", "worker", "sleep", "600")  # once, which is nobody's drift
    composed.run(
        "docker", "run", "-d", "--network", "none",
        "--label", f"com.docker.compose.project={composed.project}",
        "--label", "com.docker.compose.service=stray", IMAGE, "sleep", "600",
    )  # fmt: skip
    found = await audited(composed.repository, composed.live)
    assert {key: one.live for key, one in found.items()} == {
        ("worker", "replicas"): found["worker", "replicas"].live,
        ("web", "restart"): "always",
        ("stray", "extra"): f"1 x {IMAGE}",
    }
    assert found["worker", "replicas"].live.startswith("1 (exited with ")
    assert "created by Compose" in found["web", "restart"].who.evidence
    assert found["stray", "extra"].who.kind == "person"
    assert (await composed.live.ask(found["stray", "extra"].advice.revert)).ok
    composed.compose("up", "-d", "--force-recreate", "-t", "0")
    assert await audited(composed.repository, composed.live) == {}
