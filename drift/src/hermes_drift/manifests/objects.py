"""The objects of a manifest, with their pods and containers: of the core kinds where these are
known to be, of every other kind by shape."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from hermes_agent.policy.yaml_nodes import Node
from hermes_drift.cluster.resources import ADMISSION_GROUPS, group_of
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
"""Where each core kind of workload has its pod template."""
CORE_GROUPS = ("", "apps", "batch", "extensions")
UNSHAPED = {
    **dict.fromkeys(ADMISSION_GROUPS, "patterns of a policy, not workloads"),
    "apiextensions.k8s.io": "a schema, not a workload",
    "helm.toolkit.fluxcd.io": "values of a chart: check what it renders",
    "helm.cattle.io": "values of a chart: check what it renders",
}
"""API groups whose objects only look as if they had containers."""

Role = Literal["container", "init", "ephemeral"]
_ROLES: dict[str, Role] = {
    "containers": "container", "initContainers": "init", "ephemeralContainers": "ephemeral",
}  # fmt: skip
_CONTAINER_KEYS = frozenset(
    {"command", "args", "env", "envFrom", "ports", "resources", "computeResources", "script",
     "volumeMounts", "workingDir", "imagePullPolicy", "securityContext", "livenessProbe",
     "readinessProbe"}
)  # fmt: skip
_MODEL_KEYS = frozenset({"modelFormat", "storageUri"})
"""Of a container in which a model is served; its image comes from the model's format."""
DEEPEST = 60


class KubeContainer(Struct, frozen=True):
    node: Node
    name: str
    role: Role
    image: str
    partial: bool = False
    """Whether a controller completes it, so that what is absent is not known to be."""

    @property
    def stays(self) -> bool:
        """Whether it runs as long as the pod does, as sidecars among the init containers do."""
        restarts = text_of(child(self.node, "restartPolicy")) == "Always"
        return self.role == "container" or (self.role == "init" and restarts)

    @property
    def resources(self) -> Node | None:
        return child(self.node, "resources") or child(self.node, "computeResources")


class KubePod(Struct, frozen=True):
    """What a pod is made of: a template, a pod's spec in a field, or a single container."""

    node: Node
    specs: tuple[Node, ...]
    """Where settings of the pod may be, the nearest first."""
    containers: tuple[KubeContainer, ...]
    form: Literal["template", "spec", "container"] = "template"
    """`template`: with metadata of its own. `container`: a single one, with more around it."""

    @property
    def spec(self) -> Node | None:
        return self.specs[0] if self.specs else None


class KubeObject(Struct, frozen=True):
    node: Node
    kind: str
    group: str
    name: str
    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    pods: tuple[KubePod, ...] = ()

    @property
    def title(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {where}{self.name or '(no name)'}"

    @property
    def is_core(self) -> bool:
        """Whether its kind is known to have a pod."""
        return self.group in CORE_GROUPS and self.kind in POD_AT

    @property
    def is_workload(self) -> bool:
        return self.is_core or bool(self.pods)


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
    group = group_of(text_of(child(root, "apiVersion")))
    pods: Sequence[KubePod] = ()
    if group in CORE_GROUPS and kind in POD_AT:
        template = child(root, *POD_AT[kind])
        if template is not None:
            spec = child(template, "spec")
            specs = () if spec is None else (spec,)
            pods = (KubePod(template, specs, tuple(_containers(spec))),)
    elif group not in UNSHAPED:
        pods = tuple(_shaped(root))
    annotations = texts(child(about, "annotations"))
    for pod in pods:
        if pod.form == "template" and pod.node is not root:
            annotations = {**texts(child(pod.node, "metadata", "annotations")), **annotations}
    return KubeObject(
        node=root,
        kind=kind,
        group=group,
        name=text_of(child(about, "name")) or text_of(child(about, "generateName")),
        namespace=text_of(child(about, "namespace")),
        labels=texts(child(about, "labels")),
        annotations=annotations,
        pods=tuple(pods),
    )


def _containers(spec: Node | None, whole: bool = True) -> Iterator[KubeContainer]:
    for key, role in _ROLES.items():
        for node in items(child(spec, key)):
            name, image = text_of(child(node, "name")), text_of(child(node, "image"))
            yield KubeContainer(node, name, role, image, partial=not whole and not image)


def _shaped(root: Node) -> Iterator[KubePod]:
    for key, node in root.pairs or ():
        if key.text not in ("metadata", "status"):
            yield from _pods(node, (root,), key.text or "", "container")


def _pods(node: Node, around: tuple[Node, ...], path: str, role: Role) -> Iterator[KubePod]:
    """The pods and single containers in a part of an object; `around`: what it is in, the nearest
    first, the whole object last."""
    if len(around) > DEEPEST or node.is_null:
        return
    for number, item in enumerate(node.items or ()):
        name = text_of(child(item, "name")) or str(number)
        yield from _pods(item, around, f"{path}[{name}]", role)
    if node.pairs is None:
        return
    listed = child(node, "containers")
    is_pod = bool(items(listed)) and all(one.pairs for one in items(listed))
    is_template = is_pod and path.endswith("spec") and child(around[0], "spec") is node
    if is_pod:
        specs = (node,) if is_template else (node, *around[:-1])
        pod = around[0] if is_template else node
        form: Literal["template", "spec"] = "template" if is_template else "spec"
        yield KubePod(pod, specs, tuple(_containers(node, whole=False)), form)
    if _is_container(node, is_pod):
        image = text_of(child(node, "image"))
        name = text_of(child(node, "name")) or path
        single = KubeContainer(node, name, role, image, partial=not image)
        yield KubePod(node, around[:-1] or around, (single,), "container")
    for key, value in node.pairs:
        if not (is_pod and key.text in _ROLES):
            inner = _ROLES.get(key.text or "", "container")
            yield from _pods(value, (node, *around), f"{path}.{key.text}", inner)


def _is_container(node: Node, is_pod: bool) -> bool:
    keys = {key.text for key, _ in node.pairs or ()}
    if text_of(child(node, "image")) and keys & _CONTAINER_KEYS:
        return True
    if is_pod:
        return False
    return bool(keys & _MODEL_KEYS) or any(
        amount and (name in ("cpu", "memory", "ephemeral-storage") or "/" in name)
        for key in ("resources", "computeResources")
        for part in ("requests", "limits")
        for name, amount in texts(child(node, key, part)).items()
    )  # not the size of a volume, nor a schema
