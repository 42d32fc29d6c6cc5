"""Compose services against the containers of a real Docker engine. They bear the labels that
Compose gives them; Compose itself is not needed to tell them apart."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from hermes_drift.scopes.compose import resolved, services_of
from tests.support.dockerd import asked, docker_engine
from tests.support.drift_repositories import ShellLive, audited, declare, looked
from tests.support.images import IMAGE

SLEEP = ["sh", "-c", "sleep 300"]


class Shop:
    """Containers of a project of this test's own."""

    def __init__(self, client: docker.DockerClient) -> None:
        self.name = f"shop{uuid.uuid4().hex[:8]}"
        self._client = client
        self._made: list[Any] = []

    def up(self, service: str, *, by_compose: bool = True, **more: Any) -> Any:
        labels = {
            "com.docker.compose.project": self.name,
            "com.docker.compose.service": service,
            "com.docker.compose.oneoff": "False",
        }
        if by_compose:
            labels |= {
                "com.docker.compose.config-hash": "0" * 64,
                "com.docker.compose.version": "2.29.1",
                "com.docker.compose.project.config_files": "/srv/shop/compose.yaml",
            }
        made = self._client.containers.run(
            more.pop("image", IMAGE), SLEEP, detach=True, labels=labels,
            **{"network_mode": "none", **more},
        )  # fmt: skip
        self._made.append(made)
        return made

    def close(self) -> None:
        for one in self._made:
            one.remove(force=True)


@pytest.fixture
def shop() -> Iterator[Shop]:
    with asked(docker_engine()) as client:
        made = Shop(client)
        yield made
        made.close()


def live() -> ShellLive:
    return ShellLive({"DOCKER_HOST": docker_engine()})


def compose(tmp_path: Path, shop: Shop, services: str, env: str = "") -> Path:
    drift = {"compose": [{"declared": "compose.yaml", "project": shop.name}]}
    text = f"services:\n{services}"
    files = {"compose.yaml": text, **({".env": env} if env else {})}
    return declare(tmp_path / "repository", drift, files)


WEB = f"""
  web:
    image: {IMAGE}
    command: {SLEEP}
    network_mode: none
    environment:
      LEVEL: ${{LEVEL:-info}}
      WORKERS: 4
"""


async def test_services_as_declared_are_no_drift(tmp_path: Path, shop: Shop) -> None:
    shop.up("web", environment={"LEVEL": "info", "WORKERS": "4"})
    assert await audited(compose(tmp_path, shop, WEB), live()) == {}


async def test_what_runs_otherwise_is_found(tmp_path: Path, shop: Shop) -> None:
    shop.up(
        "web", by_compose=False, cap_add=["NET_RAW"], restart_policy={"Name": "always"},
        environment={"LEVEL": "debug", "LD_PRELOAD": "/tmp/x.so", "DB_PASSWORD": "plain-word"},
        volumes={"/tmp": {"bind": "/host", "mode": "ro"}},
    )  # fmt: skip
    services = WEB + "    restart: unless-stopped\n"
    found = {field: one for (_, field), one in
             (await audited(compose(tmp_path, shop, services), live())).items()}  # fmt: skip
    assert found.keys() == {
        "environment.LEVEL", "environment.WORKERS", "environment.LD_PRELOAD",
        "environment.DB_PASSWORD", "cap_add", "restart", "mounts",
    }  # fmt: skip
    assert found["environment.LEVEL"].live == "LEVEL=debug"
    assert found["environment.WORKERS"].live == "not set"
    assert "plain-word" not in repr(found)
    assert {name for name, one in found.items() if one.weight == "dangerous"} == {
        "environment.LD_PRELOAD", "cap_add",
    }  # fmt: skip
    assert found["restart"].who.kind == "person"
    assert "not created by Compose" in found["restart"].who.evidence


async def test_images_are_weighed_by_where_they_come_from(tmp_path: Path, shop: Shop) -> None:
    shop.up("web")
    shop.up("db")
    services = f"  web: {{image: {IMAGE}-newer}}\n  db: {{image: example.org/db:1}}\n"
    found = await audited(compose(tmp_path, shop, services), live())
    assert found["web", "image"].weight == "look"
    assert found["db", "image"].weight == "dangerous"


async def test_replicas_are_counted(tmp_path: Path, shop: Shop) -> None:
    shop.up("web")
    shop.up("web").kill()
    services = f"  web: {{image: {IMAGE}, deploy: {{replicas: 2}}}}\n  db: {{image: {IMAGE}}}\n"
    found = await audited(compose(tmp_path, shop, services), live())
    assert found.keys() == {("web", "replicas"), ("db", "missing")}
    assert found["web", "replicas"].live == "1 (exited with 137, running)"


async def test_a_service_that_is_not_declared_is_found(tmp_path: Path, shop: Shop) -> None:
    shop.up("web", environment={"LEVEL": "info", "WORKERS": "4"})
    miner = shop.up("miner")
    found = (await audited(compose(tmp_path, shop, WEB), live()))["miner", "extra"]
    assert miner.id[:12] in found.advice.revert
    assert "created by Compose 2.29.1 from /srv/shop/compose.yaml" in found.who.evidence


async def test_an_engine_that_does_not_answer_is_said(tmp_path: Path) -> None:
    drift = {"compose": [{"declared": "compose.yaml", "project": "shop"}]}
    repository = declare(tmp_path, drift, {"compose.yaml": f"services:{WEB}"})
    (scope,) = await looked(repository, ShellLive({"DOCKER_HOST": "unix:///nowhere.sock"}))
    assert scope.findings == ()
    assert scope.troubles[0].startswith("project shop: ")


def test_values_depend_on_variables_that_the_repository_sets() -> None:
    given = {"A": "1", "EMPTY": ""}
    assert resolved("x${A}y$A", given) == "x1y1"
    assert resolved("${B:-2}${EMPTY:-3}${EMPTY-4}", given) == "23"
    assert resolved("$$A ${A:+set}", given) == "$A set"
    assert resolved("${B}", given) is None
    assert resolved("${B:?must}", given) is None


def test_ports_are_read_in_every_form() -> None:
    ports = ["80", "8080:80", "127.0.0.1:53:53/udp", {"target": 443, "published": "8443"}]
    (one,) = services_of({"services": {"x": {"ports": ports}}}, {}, "compose.yaml")
    assert one.ports == {"->80/tcp", "8080->80/tcp", "127.0.0.1:53->53/udp", "8443->443/tcp"}
    (one,) = services_of({"services": {"x": {"ports": ["8000-8010:80"]}}}, {}, "compose.yaml")
    assert one.ports is None
