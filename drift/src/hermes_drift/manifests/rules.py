"""The rules that are built in: each a small function over one object, its pod or one container.
What they ask for, how bad it is and why stand in the policy."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from hermes_agent.policy.yaml_nodes import Node
from hermes_drift.manifests.documents import child, text_of, texts, truth
from hermes_drift.manifests.objects import KubeContainer, KubeObject

About = Literal["object", "pod", "container"]
Hit = tuple[Node, str]
"""Where, and what is wrong there."""


class RuleParameters(Struct, frozen=True):
    """What a policy gives a rule to go by."""

    want: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()


class RuleTarget(Struct, frozen=True):
    """What a rule looks at."""

    thing: KubeObject
    pod: Node
    container: KubeContainer | None = None

    @property
    def spec(self) -> Node | None:
        return child(self.pod, "spec")

    @property
    def inner(self) -> KubeContainer:
        assert self.container is not None
        return self.container

    def setting(self, name: str) -> Node | None:
        """Of the security context: the container's own, else the pod's."""
        own = child(self.inner.node, "securityContext", name)
        return own if own is not None else child(self.spec, "securityContext", name)

    @property
    def windows(self) -> bool:
        return text_of(child(self.spec, "os", "name")) == "windows"


class BuiltIn(Struct, frozen=True):
    about: About
    find: Callable[[RuleTarget, RuleParameters], Iterator[Hit]]


def image_tag(image: str) -> str | None:
    """The tag of an image, empty where it has none; None where it is pinned by its digest."""
    if re.search(r"@[a-z0-9+._-]+:[0-9a-fA-F]{32,}$", image):
        return None
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def _labels(spot: RuleTarget, terms: RuleParameters) -> Iterator[Hit]:
    thing = spot.thing
    places = [("the object lacks", thing.node)]
    if spot.pod is not thing.node:
        places.append(("its pods lack", spot.pod))
    for lacks, node in places:
        about = child(node, "metadata")
        written = child(about, "labels")
        given = texts(written)
        missing = [name for name in terms.want if not given.get(name)]
        if missing:
            noun = "label" if len(missing) == 1 else "labels"
            yield written or about or node, f"{lacks} the {noun} {', '.join(missing)}"


def _amounts(
    kind: str, others: Sequence[str]
) -> Callable[[RuleTarget, RuleParameters], Iterator[Hit]]:
    def find(spot: RuleTarget, terms: RuleParameters) -> Iterator[Hit]:
        if spot.inner.role == "ephemeral":
            return  # they can have none
        written = child(spot.inner.node, "resources")
        missing = [
            name
            for name in terms.want
            if not any(
                text_of(child(holder, "resources", part, name))
                for part in others
                for holder in (spot.inner.node, spot.spec)
            )
        ]
        if missing:
            at = child(written, kind) or written or spot.inner.node
            yield at, f"no {kind[:-1]} for {' and '.join(missing)}"

    return find


def _image(spot: RuleTarget, _terms: RuleParameters) -> Iterator[Hit]:
    written = child(spot.inner.node, "image")
    if written is None:
        yield spot.inner.node, "it names no image"
        return
    tag = image_tag(spot.inner.image)
    if tag == "":
        yield written, f"the image {spot.inner.image} has no tag, which means latest"
    elif tag == "latest":
        yield written, f"the image {spot.inner.image} is whatever is latest"


def _non_root(spot: RuleTarget, _terms: RuleParameters) -> Iterator[Hit]:
    wish, user = spot.setting("runAsNonRoot"), spot.setting("runAsUser")
    number = text_of(user)
    if user is not None and number.isdigit() and int(number) == 0:
        yield user, "runAsUser is 0: it runs as root"
    elif wish is not None and truth(wish) is None:
        yield wish, f"runAsNonRoot is {text_of(wish)!r}, which is neither true nor false"
    elif wish is not None and not truth(wish):
        yield wish, "runAsNonRoot is false"
    elif wish is None and not number.isdigit():
        at = child(spot.inner.node, "securityContext") or spot.inner.node
        yield at, "neither it nor its pod says runAsNonRoot: true"


def _privileged(spot: RuleTarget, _terms: RuleParameters) -> Iterator[Hit]:
    written = child(spot.inner.node, "securityContext", "privileged")
    if truth(written):
        yield written or spot.inner.node, "it is privileged"
    host_process = child(spot.inner.node, "securityContext", "windowsOptions", "hostProcess")
    if truth(host_process):
        yield host_process or spot.inner.node, "it is a host process of Windows"


def _escalation(spot: RuleTarget, _terms: RuleParameters) -> Iterator[Hit]:
    written = child(spot.inner.node, "securityContext", "allowPrivilegeEscalation")
    if spot.windows or truth(written) is False:
        return
    at = written or child(spot.inner.node, "securityContext") or spot.inner.node
    yield at, "allowPrivilegeEscalation is not false"


def _capabilities(spot: RuleTarget, terms: RuleParameters) -> Iterator[Hit]:
    added = child(spot.inner.node, "securityContext", "capabilities", "add")
    allowed = {name.upper().removeprefix("CAP_") for name in terms.allow}
    for item in (added.items if added is not None else None) or ():
        if text_of(item).upper().removeprefix("CAP_") not in allowed:
            yield item, f"it adds the capability {text_of(item)}"


def _read_only(spot: RuleTarget, _terms: RuleParameters) -> Iterator[Hit]:
    written = child(spot.inner.node, "securityContext", "readOnlyRootFilesystem")
    if not spot.windows and not truth(written):
        at = written or child(spot.inner.node, "securityContext") or spot.inner.node
        yield at, "its root file system can be written"


def _host_path(spot: RuleTarget, terms: RuleParameters) -> Iterator[Hit]:
    volumes = child(spot.spec, "volumes")
    for volume in (volumes.items if volumes is not None else None) or ():
        found = child(volume, "hostPath")
        path = text_of(child(found, "path"))
        if found is not None and path not in terms.allow:
            name = text_of(child(volume, "name"))
            yield found, f"the volume {name or '(no name)'} is {path or 'a folder'} of the node"


def _host_namespaces(spot: RuleTarget, _terms: RuleParameters) -> Iterator[Hit]:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        written = child(spot.spec, name)
        if written is not None and truth(written):
            yield written, f"{name} is true"


def _host_port(spot: RuleTarget, _terms: RuleParameters) -> Iterator[Hit]:
    ports = child(spot.inner.node, "ports")
    for port in (ports.items if ports is not None else None) or ():
        written = child(port, "hostPort")
        if written is not None and text_of(written) != "0":
            yield written, f"it takes port {text_of(written)} of the node"


def _probe(name: str) -> Callable[[RuleTarget, RuleParameters], Iterator[Hit]]:
    def find(spot: RuleTarget, _terms: RuleParameters) -> Iterator[Hit]:
        if spot.inner.stays and child(spot.inner.node, name) is None:
            yield spot.inner.node, f"no {name}"

    return find


_SECRET = re.compile(r"passw|secret|token|api_?key|private_?key|credential", re.IGNORECASE)
_NO_SECRET = re.compile(r"_(?:file|path|name|dir|url|ttl|expiry|length)$", re.IGNORECASE)


def _plain_secret(spot: RuleTarget, terms: RuleParameters) -> Iterator[Hit]:
    env = child(spot.inner.node, "env")
    for item in (env.items if env is not None else None) or ():
        name, value = text_of(child(item, "name")), child(item, "value")
        plain = text_of(value)
        if value is None or not _SECRET.search(name) or _NO_SECRET.search(name):
            continue
        if len(plain) < 4 or plain.startswith(("/", "$(")) or name in terms.allow:
            continue  # a switch, a path or a reference
        yield value, f"{name} looks like a secret and stands here in plain text"


def _shape(spot: RuleTarget, _terms: RuleParameters) -> Iterator[Hit]:
    thing = spot.thing
    if not thing.name:
        yield child(thing.node, "metadata") or thing.node, "it has no name"
    if not any(one.role == "container" for one in thing.containers):
        yield spot.spec or spot.pod, "it has no containers"


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
