"""Argo CD over loopback, with answers in the shape of its API."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.tools.sources.argocd import argocd
from hermes_agent.tools.sources.changes import what_changed
from hermes_agent.tools.sources.times import parsed
from tests.support.recorded_wire import answering, replay
from tests.support.sources import Observer

NOW = parsed("2026-11-19T04:00:00Z")
NEW, OLD = "b" * 40, "a" * 40


def deployment(image: str, password: str) -> str:
    env = [{"name": "DB_PASSWORD", "value": password}]
    spec = {"template": {"spec": {"containers": [{"name": "web", "image": image, "env": env}]}}}
    return json.dumps({"kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})


def secret(value: str) -> str:
    return json.dumps({"kind": "Secret", "metadata": {"name": "db"}, "data": {"url": value}})


def application(name: str, **status: Any) -> dict[str, Any]:
    source = {"repoURL": "https://git.example/fleet", "path": name, "targetRevision": "main"}
    spec = {"source": source, "destination": {"namespace": "shop"}}
    return {"metadata": {"name": name, "namespace": "argocd"}, "spec": spec, "status": status}


SHOP = application(
    "shop",
    sync={"status": "OutOfSync", "revision": NEW},
    health={"status": "Degraded"},
    conditions=[{"type": "SyncError", "message": "one or more objects failed to apply"}],
    operationState={
        "phase": "Failed", "startedAt": "2026-11-19T03:19:00Z",
        "finishedAt": "2026-11-19T03:20:00Z", "message": "one or more tasks failed to run",
        "syncResult": {"resources": [{
            "kind": "Deployment", "namespace": "shop", "name": "web", "status": "SyncFailed",
            "message": "spec.replicas: Invalid value: -1",
        }]},
    },
    resources=[
        {"kind": "Deployment", "namespace": "shop", "name": "web", "status": "OutOfSync",
         "health": {"status": "Degraded", "message": "exceeded its progress deadline"}},
        {"kind": "Service", "namespace": "shop", "name": "web", "status": "Synced",
         "health": {"status": "Healthy"}},
        {"kind": "Job", "namespace": "shop", "name": "migrate", "hook": True},
    ],
    history=[
        {"id": 1, "revision": OLD, "deployedAt": "2026-11-18T10:00:00Z",
         "initiatedBy": {"automated": True}},
        {"id": 2, "revision": NEW, "deployedAt": "2026-11-19T03:12:00Z",
         "initiatedBy": {"username": "alice"}},
    ],
    summary={"images": ["shop/web:1.5"]},
)  # fmt: skip
LEDGER = application(
    "ledger", sync={"status": "Synced", "revision": OLD}, health={"status": "Healthy"}
)
MANAGED = [
    {"kind": "Deployment", "namespace": "shop", "name": "web",
     "normalizedLiveState": deployment("shop/web:1.4", "hunter2"),
     "predictedLiveState": deployment("shop/web:1.5", "hunter3")},
    {"kind": "Secret", "namespace": "shop", "name": "db",
     "normalizedLiveState": secret("hunter4"), "predictedLiveState": secret("hunter5")},
    {"kind": "ConfigMap", "namespace": "shop", "name": "old", "liveState": '{"metadata": {}}',
     "targetState": "null"},
    {"kind": "Job", "namespace": "shop", "name": "migrate", "hook": True,
     "liveState": '{"metadata": {}}', "targetState": "null"},
]  # fmt: skip
WIRE = {
    "GET /api/v1/applications": {"items": [LEDGER, SHOP]},
    "GET /api/v1/applications/shop/managed-resources?appNamespace=argocd": {"items": MANAGED},
    f"GET /api/v1/applications/shop/revisions/{NEW}/metadata?appNamespace=argocd":
        {"author": "Alice <alice@example.com>", "message": "Use web 1.5\n\nIt is faster."},
    "GET /api/version": {"Version": "v3.1.0+abc"},
}  # fmt: skip


@pytest.fixture
def argo(observer: Observer) -> Iterator[Observer]:
    with answering(replay({key: [200, said] for key, said in WIRE.items()})) as address:
        observer.sources["argo"] = SourceSettings(kind="argocd", url=address)
        observer.now = lambda: NOW
        yield observer


@pytest.mark.parametrize(("given", "facts"), [
    ({"action": "applications"}, (
        "shop         Degraded  OutOfSync  bbbbbbbbbbbb", "the last sync failed: one or more tasks",
    )),
    ({"action": "application", "name": "shop"}, (
        "SyncError: one or more objects", "Deployment shop/web: spec.replicas: Invalid value: -1",
        "exceeded its progress deadline", "images: shop/web:1.5",
    )),
    ({"action": "diff", "name": "shop"}, (
        "3 objects differ", "image: shop/web:1.4 → shop/web:1.5", "- its data differs (not shown)",
        "ConfigMap shop/old:\n- not in Git any more",
    )),
    ({"action": "history", "name": "shop"}, ("alice", "automatic", "Use web 1.5")),
])  # fmt: skip
async def test_what_an_application_runs_and_why_not(
    argo: Observer, given: dict[str, str], facts: tuple[str, ...]
) -> None:
    text = (await argo.call(argocd, **given)).text
    assert [fact for fact in facts if fact not in text] == []
    assert "hunter" not in text
    assert "Job" not in text  # a hook is in no state of its own


async def test_deployments_and_failed_syncs_are_changes(argo: Observer) -> None:
    text = (await argo.call(what_changed, around="2026-11-19T03:15:00Z", minutes=10)).text
    assert "argo: application shop was deployed at bbbbbbbbbbbb" in text
    assert "argo: sync of shop failed: one or more tasks failed to run" in text
    assert "aaaaaaaaaaaa" not in text


async def test_an_unknown_application_is_answered_with_those_there_are(argo: Observer) -> None:
    with pytest.raises(ToolError, match="no application 'web'") as caught:
        await argo.call(argocd, action="diff", name="web")
    assert "ledger, shop" in caught.value.hint


async def test_the_source_says_how_many_are_in_trouble(argo: Observer) -> None:
    assert await argo.verify() == "answers; Argo CD v3.1.0+abc; 2 applications, 1 in trouble"
