"""The built-in rules: each a function over one object, its pod or one container. The policy says
what they require, how bad a violation is, and why."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from hermes_agent.policy.yaml_nodes import Node
from hermes_drift.manifests.documents import child, items, text_of, texts, truth
from hermes_drift.manifests.objects import KubeContainer, KubeObject, KubePod

About = Literal["object", "pod", "container"]
Hit = tuple[Node, str]
"""A node, and what is wrong with it."""


class RuleParameters(Struct, frozen=True):
    """What a policy requires or allows."""

    want: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()


class RuleTarget(Struct, frozen=True):
    """What a rule checks."""

    workload: KubeObject
    pod: KubePod | None = None
    container: KubeContainer | None = None

    @property
    def specs(self) -> tuple[Node, ...]:
        return self.pod.specs if self.pod is not None else ()

    @property
    def inner(self) -> KubeContainer:
        assert self.container is not None
        return self.container

    def security(self, *names: str) -> Node | None:
        """From the container's own security context."""
        return child(self.inner.node, "securityContext", *names)

    def setting(self, name: str) -> Node | None:
        """From the container's security context, else the pod's."""
        given = (child(spec, "securityContext", name) for spec in self.specs)
        found = (one for one in (self.security(name), *given) if one is not None)
        return next(found, None)

    @property
    def windows(self) -> bool:
        return any(text_of(child(spec, "os", "name")) == "windows" for spec in self.specs)


Finder = Callable[[RuleTarget, RuleParameters], Iterator[Hit]]


class BuiltIn(Struct, frozen=True):
    about: About
    find: Finder


def image_tag(image: str) -> str | None:
    """The tag of an image, empty without one; None if it is pinned by digest."""
    if re.search(r"@[a-z0-9+._-]+:[0-9a-fA-F]{32,}$", image):
        return None
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def _labels(target: RuleTarget, parameters: RuleParameters) -> Iterator[Hit]:
    workload = target.workload
    places = [("the object lacks", workload.node)]
    places += [
        ("its pods lack", pod.node)
        for pod in workload.pods
        if pod.form == "template" and pod.node is not workload.node
    ]
    for lacks, node in places:
        about = child(node, "metadata")
        written = child(about, "labels")
        given = texts(written)
        missing = [name for name in parameters.want if not given.get(name)]
        if missing:
            noun = "label" if len(missing) == 1 else "labels"
            yield written or about or node, f"{lacks} the {noun} {', '.join(missing)}"


def _amounts(kind: str, others: Sequence[str]) -> Finder:
    def find(target: RuleTarget, parameters: RuleParameters) -> Iterator[Hit]:
        if target.inner.role == "ephemeral":
            return  # these cannot have resources
        written = target.inner.resources
        pod = target.pod if target.pod is not None and target.pod.form != "container" else None
        shared = child(pod.spec, "resources") if pod is not None else None
        missing = [
            name
            for name in parameters.want
            if not any(
                text_of(child(holder, part, name))
                for part in others
                for holder in (written, shared)
            )
        ]
        if missing:
            at = child(written, kind) or written or target.inner.node
            yield at, f"no {kind[:-1]} for {' and '.join(missing)}"

    return find


def _image(target: RuleTarget, _parameters: RuleParameters) -> Iterator[Hit]:
    written = child(target.inner.node, "image")
    if written is None:
        if not target.inner.partial:
            yield target.inner.node, "it has no image"
        return
    tag = image_tag(target.inner.image)
    if tag == "":
        yield written, f"the image {target.inner.image} has no tag, which means latest"
    elif tag == "latest":
        yield written, f"the image {target.inner.image} has the tag latest"


def _non_root(target: RuleTarget, _parameters: RuleParameters) -> Iterator[Hit]:
    wish, user = target.setting("runAsNonRoot"), target.setting("runAsUser")
    number = text_of(user)
    if user is not None and number.isdigit() and int(number) == 0:
        yield user, "runAsUser is 0: it runs as root"
    elif wish is not None and truth(wish) is None:
        yield wish, f"runAsNonRoot is {text_of(wish)!r}, which is neither true nor false"
    elif wish is not None and not truth(wish):
        yield wish, "runAsNonRoot is false"
    elif wish is None and not number.isdigit() and not target.inner.partial:
        at = target.security() or target.inner.node
        yield at, "neither the container nor its pod sets runAsNonRoot: true"


def _privileged(target: RuleTarget, _parameters: RuleParameters) -> Iterator[Hit]:
    written = target.security("privileged")
    if truth(written):
        yield written or target.inner.node, "it is privileged"
    host_process = target.security("windowsOptions", "hostProcess")
    if truth(host_process):
        yield host_process or target.inner.node, "it is a Windows host process"


def _left_open(target: RuleTarget, written: Node | None) -> bool:
    return written is None and target.inner.partial


def _escalation(target: RuleTarget, _parameters: RuleParameters) -> Iterator[Hit]:
    written = target.security("allowPrivilegeEscalation")
    if target.windows or truth(written) is False or _left_open(target, written):
        return
    at = written or target.security() or target.inner.node
    yield at, "allowPrivilegeEscalation is not false"


def _capabilities(target: RuleTarget, parameters: RuleParameters) -> Iterator[Hit]:
    allowed = {name.upper().removeprefix("CAP_") for name in parameters.allow}
    for item in items(target.security("capabilities", "add")):
        if text_of(item).upper().removeprefix("CAP_") not in allowed:
            yield item, f"it adds the capability {text_of(item)}"


def _read_only(target: RuleTarget, _parameters: RuleParameters) -> Iterator[Hit]:
    written = target.security("readOnlyRootFilesystem")
    if not target.windows and not truth(written) and not _left_open(target, written):
        at = written or target.security() or target.inner.node
        yield at, "its root file system is writable"


def _host_path(target: RuleTarget, parameters: RuleParameters) -> Iterator[Hit]:
    for volume in (one for spec in target.specs for one in items(child(spec, "volumes"))):
        found = child(volume, "hostPath")
        path = text_of(child(found, "path"))
        if found is not None and path not in parameters.allow:
            name = text_of(child(volume, "name"))
            said = f"the volume {name or '(no name)'} mounts {path or 'a folder'} from the node"
            yield found, said


def _host_namespaces(target: RuleTarget, _parameters: RuleParameters) -> Iterator[Hit]:
    for spec in target.specs:
        for name in ("hostNetwork", "hostPID", "hostIPC"):
            written = child(spec, name)
            if written is not None and truth(written):
                yield written, f"{name} is true"


def _host_port(target: RuleTarget, _parameters: RuleParameters) -> Iterator[Hit]:
    for port in items(child(target.inner.node, "ports")):
        written = child(port, "hostPort")
        if written is not None and text_of(written) != "0":
            yield written, f"it uses port {text_of(written)} on the node"


def _probe(name: str) -> Finder:
    def find(target: RuleTarget, _parameters: RuleParameters) -> Iterator[Hit]:
        if (
            target.inner.stays
            and not target.inner.partial
            and child(target.inner.node, name) is None
        ):
            yield target.inner.node, f"no {name}"

    return find


_SECRET = re.compile(r"passw|secret|token|api_?key|private_?key|credential", re.IGNORECASE)
_NO_SECRET = re.compile(r"_(?:file|path|name|dir|url|ttl|expiry|length)$", re.IGNORECASE)


def _plain_secret(target: RuleTarget, parameters: RuleParameters) -> Iterator[Hit]:
    for item in items(child(target.inner.node, "env")):
        name, value = text_of(child(item, "name")), child(item, "value")
        plain = text_of(value)
        if value is None or not _SECRET.search(name) or _NO_SECRET.search(name):
            continue
        if len(plain) < 4 or plain.startswith(("/", "$(")) or name in parameters.allow:
            continue  # a switch, a path or a reference
        yield value, f"{name} looks like a secret in plain text"


def _shape(target: RuleTarget, _parameters: RuleParameters) -> Iterator[Hit]:
    workload = target.workload
    if not workload.name:
        yield child(workload.node, "metadata") or workload.node, "it has no name"
    containers = target.pod.containers if target.pod is not None else ()
    if workload.is_core and not any(one.role == "container" for one in containers):
        at = target.pod.spec or target.pod.node if target.pod is not None else workload.node
        yield at, "it has no containers"


BUILT_IN: Mapping[str, BuiltIn] = {
    "shape": BuiltIn("pod", _shape),
    "labels": BuiltIn("object", _labels),
    "requests": BuiltIn("container", _amounts("requests", ("requests", "limits"))),
    "limits": BuiltIn("container", _amounts("limits", ("limits",))),
    "image-tag": BuiltIn("container", _image),
    "run-as-non-root": BuiltIn("container", _non_root),
    "privileged": BuiltIn("container", _privileged),
    "privilege-escalation": BuiltIn("container", _escalation),
    "capabilities": BuiltIn("container", _capabilities),
    "read-only-root": BuiltIn("container", _read_only),
    "host-path": BuiltIn("pod", _host_path),
    "host-namespaces": BuiltIn("pod", _host_namespaces),
    "host-port": BuiltIn("container", _host_port),
    "readiness-probe": BuiltIn("container", _probe("readinessProbe")),
    "liveness-probe": BuiltIn("container", _probe("livenessProbe")),
    "plain-secret": BuiltIn("container", _plain_secret),
}
