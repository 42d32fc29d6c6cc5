"""What a session gets in a cluster, as data: a confined pod, and the policy that cuts it off the
network."""

import hashlib
import re
from typing import Any

from msgspec import Struct

from hermes_agent.core.settings.terminals import KubernetesPlace, Limits

CONTAINER = "hermes"
HOME = "/home/hermes"
OWNER = "app.kubernetes.io/managed-by"
SESSION = "hermes-agent/session"
USER = 1000
GRACE_SECONDS = 2
IDLE = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"
"""The first process: it waits, exits on SIGTERM and reaps orphans."""
START_CPU, START_MEMORY_MB = 0.1, 128
"""What a pod requests of its node; its limits are what it may use."""


HOPELESS = {
    "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull",
    "ImagePullBackOff", "InvalidImageName", "RunContainerError",
}  # fmt: skip
"""Reasons for waiting that do not go away by waiting."""


class Made(Struct, frozen=True):
    """An object in the cluster."""

    uid: str
    labels: dict[str, str]

    def belongs_to(self, session: str) -> bool:
        return labels_of(session).items() <= self.labels.items()


class Pod(Made, frozen=True):
    phase: str
    leaving: bool
    """Whether it is about to be removed."""
    containers: tuple[str, ...]
    main: str
    """The default container."""
    running: frozenset[str]
    hopeless: str
    """Why it will certainly not run."""
    ran: bool
    complaints: tuple[str, ...]
    """Messages of conditions that are not met."""


def pod_seen(pod: Any) -> Pod:
    """What matters here of the client's pod."""
    statuses = pod.status.container_statuses or ()
    names = tuple(container.name for container in pod.spec.containers)
    notes = pod.metadata.annotations or {}
    waiting = [status.state.waiting for status in statuses if status.state.waiting]
    return Pod(
        uid=pod.metadata.uid,
        labels=pod.metadata.labels or {},
        phase=pod.status.phase or "Unknown",
        leaving=pod.metadata.deletion_timestamp is not None,
        containers=names,
        main=notes.get("kubectl.kubernetes.io/default-container", names[0]),
        running=frozenset(status.name for status in statuses if status.state.running),
        hopeless="; ".join(
            f"{wait.reason}: {wait.message or ''}" for wait in waiting if wait.reason in HOPELESS
        ),
        ran=any(status.restart_count or status.state.running for status in statuses),
        complaints=tuple(
            condition.message
            for condition in pod.status.conditions or ()
            if condition.status == "False" and condition.message
        ),
    )


def name_of(session: str) -> str:
    """The name of the session's pod and policy; a DNS label."""
    if re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", session):
        return f"hermes-{session}"
    return f"hermes-{hashlib.sha256(session.encode()).hexdigest()[:32]}"


def labels_of(session: str) -> dict[str, str]:
    return {OWNER: "hermes-agent", SESSION: name_of(session)}


def pod_of(place: KubernetesPlace, session: str) -> dict[str, Any]:
    """The manifest of the pod."""
    folders = {"workspace": place.workspace, "home": HOME, "tmp": "/tmp"}  # noqa: S108 inside the pod
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Always",  # its volumes outlast its container, so the files stay
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [{"name": volume, "emptyDir": {}} for volume in folders],
        "containers": [
            {
                "name": place.container or CONTAINER,
                "image": place.image,
                "command": ["sh", "-c", IDLE],
                "workingDir": place.workspace,
                "env": [{"name": "HOME", "value": HOME}],
                "resources": _resources(place.limits),
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "privileged": False,
                    "readOnlyRootFilesystem": True,
                },
                "volumeMounts": [
                    {"name": volume, "mountPath": path} for volume, path in folders.items()
                ],
            }
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name_of(session), "labels": labels_of(session)},
        "spec": laid_over(spec, place.manifest),
    }


def isolation_of(session: str) -> dict[str, Any]:
    """A policy under which nothing reaches the session's pod and it reaches nothing."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name_of(session), "labels": labels_of(session)},
        "spec": {
            "podSelector": {"matchLabels": labels_of(session)},
            "policyTypes": ["Ingress", "Egress"],
        },
    }


def laid_over(base: Any, over: Any) -> Any:
    """Fields of `over` win; lists of named things are joined by name; null takes a field away."""
    if isinstance(base, dict) and isinstance(over, dict):
        joined = {**base, **{key: laid_over(base.get(key), over[key]) for key in over}}
        return {key: value for key, value in joined.items() if value is not None}
    if _named(base) and _named(over):
        changes = {item["name"]: item for item in over}
        kept = [laid_over(item, changes.pop(item["name"], {})) for item in base]
        return kept + list(changes.values())
    return over


def _named(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, dict) and "name" in item for item in value
    )


def _resources(limits: Limits) -> dict[str, Any]:
    return {
        "limits": {"cpu": f"{limits.cpus:g}", "memory": f"{limits.memory_mb}Mi"},
        "requests": {
            "cpu": f"{min(limits.cpus, START_CPU):g}",
            "memory": f"{min(limits.memory_mb, START_MEMORY_MB)}Mi",
        },
    }
