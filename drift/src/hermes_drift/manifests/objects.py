"""The objects of a manifest, with their pods and containers."""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from hermes_agent.policy.yaml_nodes import Node
from hermes_drift.manifests.documents import child, items, text_of, texts

POD_AT = {
    "Pod": (),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}
"""Where each kind of workload has its pod template."""

Role = Literal["container", "init", "ephemeral"]
_ROLES: dict[str, Role] = {
    "containers": "container", "initContainers": "init", "ephemeralContainers": "ephemeral",
}  # fmt: skip


class KubeContainer(Struct, frozen=True):
    node: Node
    name: str
    role: Role
    image: str

    @property
    def stays(self) -> bool:
        """Whether it runs as long as the pod does, as sidecars among the init containers do."""
        restarts = text_of(child(self.node, "restartPolicy")) == "Always"
        return self.role == "container" or (self.role == "init" and restarts)


class KubeObject(Struct, frozen=True):
    """One object. `pod` is its pod template: metadata and spec."""

    node: Node
    kind: str
    name: str
    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    pod: Node | None = None
    containers: tuple[KubeContainer, ...] = ()

    @property
    def title(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {where}{self.name or '(no name)'}"

    @property
    def is_workload(self) -> bool:
        return self.kind in POD_AT


def objects_in(root: Node, kind: str = "") -> Iterator[KubeObject]:
    """The objects of a document, with those in lists; none if it is not a manifest."""
    named = text_of(child(root, "kind")) or kind
    listed = child(root, "items")
    if named.endswith("List") and listed is not None and listed.items is not None:
        for one in listed.items:
            yield from objects_in(one, named.removesuffix("List"))
        return
    if named and (kind or child(root, "apiVersion") is not None):
        yield _object(root, named)


def _object(root: Node, kind: str) -> KubeObject:
    about = child(root, "metadata")
    at = POD_AT.get(kind)
    pod = None if at is None else child(root, *at)
    annotations = texts(child(about, "annotations"))
    if pod is not None and pod is not root:
        annotations = {**texts(child(pod, "metadata", "annotations")), **annotations}
    return KubeObject(
        node=root,
        kind=kind,
        name=text_of(child(about, "name")) or text_of(child(about, "generateName")),
        namespace=text_of(child(about, "namespace")),
        labels=texts(child(about, "labels")),
        annotations=annotations,
        pod=pod,
        containers=tuple(_containers(child(pod, "spec"))),
    )


def _containers(spec: Node | None) -> Iterator[KubeContainer]:
    for key, role in _ROLES.items():
        for node in items(child(spec, key)):
            name, image = text_of(child(node, "name")), text_of(child(node, "image"))
            yield KubeContainer(node, name, role, image)
