"""What is wrong with an object of a cluster, in a sentence each; reads only what the API says."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hermes_agent.core.text.format import shortened
from hermes_agent.tools.sources.cluster.client import Object
from hermes_agent.tools.sources.times import parsed

RECENT_SECONDS = 3600.0
"""A restart that long ago is still told."""
START_SECONDS = 60.0
"""How long anything may take to start before it is told."""
MESSAGE_CHARS = 400
NOT_YET = ("ContainerCreating", "PodInitializing")
SIGNALS = {137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM", 134: "SIGABRT"}


def ago(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(0, seconds):.0f} s ago"


def full_name(one: Object) -> str:
    data = one["metadata"]
    return f"{data['namespace']}/{data['name']}" if data.get("namespace") else str(data["name"])


def owner(one: Object) -> tuple[str, str]:
    """The kind and name of what controls it; a Deployment stands for its ReplicaSet."""
    for each in one["metadata"].get("ownerReferences") or []:
        if each["kind"] == "ReplicaSet" and (hashed := template_hash(one)):
            return "Deployment", each["name"].removesuffix(f"-{hashed}")
        return each["kind"], each["name"]
    return "", ""


def owned_by(one: Object) -> str:
    return " ".join(part for part in owner(one) if part)


def template_hash(one: Object) -> str:
    return str((one["metadata"].get("labels") or {}).get("pod-template-hash", ""))


def condition(one: Object, name: str) -> Mapping[str, Any]:
    found = one.get("status", {}).get("conditions") or []
    return next((each for each in found if each["type"] == name), {})


def said(one: Mapping[str, Any]) -> str:
    parts = (one.get("reason", ""), shortened(one.get("message") or "", MESSAGE_CHARS))
    return ": ".join(part for part in parts if part)


# --- pods


def container_specs(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of a pod: those that start it, then those that run."""
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def containers(pod: Object) -> list[tuple[Mapping[str, Any], Mapping[str, Any], str]]:
    """Each container's spec, its status (empty if there is none yet), and what to call it."""
    spec, status = pod["spec"], pod.get("status", {})
    found = []
    for part, states, word in (
        ("initContainers", "initContainerStatuses", "init container"),
        ("containers", "containerStatuses", "container"),
    ):
        known = {one["name"]: one for one in status.get(states) or []}
        found += [
            (one, known.get(one["name"], {}), f"{word} {one['name']}")
            for one in spec.get(part) or []
        ]
    return found


def pod_problems(pod: Object, now: float) -> list[str]:
    status, created = pod.get("status", {}), parsed(pod["metadata"].get("creationTimestamp"))
    if status.get("phase") == "Succeeded":
        return []
    if pod["metadata"].get("deletionTimestamp"):
        return stuck(pod, now)
    found = []
    if status.get("phase") == "Failed":
        found.append(f"failed: {said(status)}" if said(status) else "failed")
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return [f"cannot be scheduled for {ago(now - created)[:-4]}: {said(scheduled)}"]
    if not pod["spec"].get("nodeName") and status.get("phase") == "Pending":
        return ["pending: no scheduler has looked at it"] if now - created > START_SECONDS else []
    for spec, state, name in containers(pod):
        found += [f"{name}: {text}" for text in container_problems(spec, state, created, now)]
    return found


def container_problems(
    spec: Mapping[str, Any], status: Mapping[str, Any], created: float, now: float
) -> list[str]:
    state = status.get("state") or {}
    waiting, running, ended = (state.get(name) for name in ("waiting", "running", "terminated"))
    restarts, found = status.get("restartCount", 0), []
    if waiting and (waiting.get("reason") not in NOT_YET or now - created > START_SECONDS):
        found.append(said(waiting) or "waiting")
        if "Image" in waiting.get("reason", ""):
            found.append(f"image {spec.get('image')}")
    if ended and ended.get("exitCode"):
        found.append(ending(ended, spec, now))
    if running and not status.get("ready") and "readinessProbe" in spec:
        since = now - parsed(running.get("startedAt"))
        if since > START_SECONDS / 2 or restarts:
            found.append(f"running but not ready; readiness probe: {probe(spec['readinessProbe'])}")
    last = (status.get("lastState") or {}).get("terminated")
    recent = last and now - parsed(last.get("finishedAt")) < RECENT_SECONDS
    if last and (found or recent):
        text = ending(last, spec, now)
        found.append(f"{restarts} restart{'s' * (restarts != 1)}, the last: {text}")
        if "livenessProbe" in spec and last.get("exitCode") in (137, 143):
            found.append(f"liveness probe: {probe(spec['livenessProbe'])}")
    return ["; ".join(found)] if found else []


def ending(ended: Mapping[str, Any], spec: Mapping[str, Any], now: float | None = None) -> str:
    code = ended.get("exitCode", 0)
    signal = f" ({SIGNALS[code]})" if code in SIGNALS else ""
    text = f"{ended.get('reason') or 'ended'}, exit code {code}{signal}"
    if ended.get("reason") == "OOMKilled":
        limit = spec.get("resources", {}).get("limits", {}).get("memory", "none")
        text += f", memory limit {limit}"
    if finished := parsed(ended.get("finishedAt")):
        ran = finished - parsed(ended.get("startedAt"))
        text += f", {ago(now - finished)}" if now is not None else ""
        text += f" after {ran:.0f} s"
    message = shortened(ended.get("message") or "", MESSAGE_CHARS)
    return f"{text}: {message}" if message else text


def probe(one: Mapping[str, Any]) -> str:
    for kind, words in (("httpGet", ("path", "port")), ("tcpSocket", ("port",))):
        if kind in one:
            where = " ".join(str(one[kind].get(word, "")) for word in words)
            return f"{kind} {where}, timeout {one.get('timeoutSeconds', 1)} s"
    if "exec" in one:
        return f"exec {shortened(' '.join(one['exec'].get('command', [])), 100)}"
    return f"grpc {one['grpc'].get('port')}" if "grpc" in one else "?"


def crashed_container(pod: Object) -> str:
    """The container whose earlier log says why it fails."""
    for spec, status, _ in containers(pod):
        ended = (status.get("lastState") or {}).get("terminated") or {}
        now = (status.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode") or now.get("exitCode"):
            return str(spec["name"])
    return ""


# --- everything else


def workload_problems(one: Object, _now: float) -> list[str]:
    """Of a Deployment, StatefulSet, DaemonSet or Job."""
    status, spec = one.get("status", {}), one.get("spec", {})
    if one["kind"] == "Job":
        failed = condition(one, "Failed")
        if failed.get("status") == "True":
            return [f"failed: {said(failed)}"]
        tries = status.get("failed", 0)
        done = condition(one, "Complete").get("status") == "True"
        return [f"{tries} of its pods failed"] if tries and not done else []
    found = []
    if one["kind"] == "DaemonSet":
        wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
    else:
        wanted, ready = spec.get("replicas", 1), status.get("readyReplicas", 0)
    if ready < wanted:
        found.append(f"{ready} of {wanted} replicas are ready")
    for name, bad in (("Available", "False"), ("Progressing", "False"), ("ReplicaFailure", "True")):
        each = condition(one, name)
        if each.get("status") == bad:
            found.append(f"{name}={bad}: {said(each)}")
    if spec.get("paused"):
        found.append("its rollout is paused")
    return found


def node_problems(node: Object, now: float) -> list[str]:
    found = []
    for one in node.get("status", {}).get("conditions") or []:
        if one["status"] != ("True" if one["type"].endswith("Ready") else "False"):
            since = ago(now - parsed(one.get("lastTransitionTime")))
            found.append(f"{one['type']}={one['status']}, {since}: {said(one)}")
    if node["spec"].get("unschedulable"):
        found.append("cordoned: takes no new pods")
    return found


def claim_problems(claim: Object, _now: float) -> list[str]:
    phase = claim.get("status", {}).get("phase", "Pending")
    if phase == "Bound":
        return []
    spec = claim["spec"]
    wanted = spec.get("resources", {}).get("requests", {}).get("storage", "?")
    kind = spec.get("storageClassName") or "the default"
    return [f"{phase}; wants {wanted}, {'/'.join(spec.get('accessModes', []))}, class {kind}"]


def stuck(one: Object, now: float) -> list[str]:
    """An object that does not go away."""
    since = parsed(one["metadata"].get("deletionTimestamp"))
    if not since or now - since < START_SECONDS:
        return []
    held = one["metadata"].get("finalizers") or one.get("spec", {}).get("finalizers") or []
    return [f"being deleted since {ago(now - since)}; finalizers: {', '.join(held) or 'none'}"]


def matches(selector: Mapping[str, str], labels: Mapping[str, str] | None) -> bool:
    return bool(selector) and selector.items() <= (labels or {}).items()


def service_problems(
    service: Object, endpoints: Mapping[str, Object], pods: Sequence[Object]
) -> list[str]:
    """A Service to which no pod is ready, and why."""
    selector = service["spec"].get("selector")
    if not selector:
        return []
    subsets = endpoints.get(full_name(service), {}).get("subsets") or []
    if any(one.get("addresses") for one in subsets):
        return []
    words = ", ".join(f"{key}={value}" for key, value in selector.items())
    space = service["metadata"]["namespace"]
    near = [one for one in pods if one["metadata"].get("namespace") == space]
    chosen = [one for one in near if matches(selector, one["metadata"].get("labels"))]
    if chosen:
        return [f"no endpoint is ready: none of its {len(chosen)} pods ({words}) is"]
    close = max(
        near,
        key=lambda one: len(selector.items() & (one["metadata"].get("labels") or {}).items()),
        default=None,
    )
    text = f"no endpoint: no pod has the labels of its selector ({words})"
    if close is not None and close["metadata"].get("labels"):
        labels = ", ".join(f"{key}={value}" for key, value in close["metadata"]["labels"].items())
        text += f"; {close['metadata']['name']} has {labels}"
    return [text]


def ingress_problems(
    ingress: Object, services: Sequence[Object], classes: Sequence[str] | None
) -> list[str]:
    """A class that is not there (None: it is not known which are), and paths that lead to no
    Service, or to a port that it does not have."""
    space, found = ingress["metadata"]["namespace"], []
    wanted = ingress["spec"].get("ingressClassName")
    if wanted and classes is not None and wanted not in classes:
        found.append(f"there is no ingress class {wanted!r}; classes: {_listed(classes)}")
    near = {
        one["metadata"]["name"]: one["spec"].get("ports") or []
        for one in services
        if one["metadata"]["namespace"] == space
    }
    for rule in ingress["spec"].get("rules") or []:
        for path in (rule.get("http") or {}).get("paths") or []:
            service = path.get("backend", {}).get("service") or {}
            name, port = service.get("name", ""), service.get("port") or {}
            wanted = port.get("number") or port.get("name")
            where = f"{rule.get('host', '*')}{path.get('path', '/')} → {name}:{wanted}"
            if name and name not in near:
                found.append(f"{where}: there is no such Service")
            elif name and not any(wanted in (one["port"], one.get("name")) for one in near[name]):
                ports = ", ".join(str(one["port"]) for one in near[name])
                found.append(f"{where}: the Service has the ports {ports}")
    return found


# --- selectors and network policies


def label_selector(selector: Mapping[str, Any]) -> str:
    """A selector of a workload or a Service, as the API takes it in a query."""
    parts = selector.get("matchLabels")
    if parts is None and "matchExpressions" not in selector:
        parts = selector
    words = [f"{key}={value}" for key, value in (parts or {}).items()]
    for one in selector.get("matchExpressions") or []:
        values = f"({','.join(one.get('values') or [])})"
        form = {"In": f"{one['key']} in {values}", "NotIn": f"{one['key']} notin {values}",
                "Exists": one["key"], "DoesNotExist": f"!{one['key']}"}  # fmt: skip
        words.append(form[one["operator"]])
    return ",".join(words)


def selected(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a selector with labels and expressions chooses an object; an empty one does."""
    holds: dict[str, Callable[[Any, Any], bool]] = {
        "In": lambda value, values: value in values,
        "NotIn": lambda value, values: value not in values,
        "Exists": lambda value, _: value is not None,
        "DoesNotExist": lambda value, _: value is None,
    }
    return (selector.get("matchLabels") or {}).items() <= labels.items() and all(
        holds[one["operator"]](labels.get(one["key"]), one.get("values") or [])
        for one in selector.get("matchExpressions") or []
    )


def policy_lines(policies: Sequence[Object], labels: Mapping[str, str]) -> list[str]:
    """Whom the network policies for pods with these labels let in, and where those may go."""
    lines = []
    for policy in policies:
        spec = policy["spec"]
        if not selected(spec.get("podSelector") or {}, labels):
            continue
        for kind, part, peers, words in (
            ("Ingress", "ingress", "from", "lets in"), ("Egress", "egress", "to", "lets out to"),
        ):  # fmt: skip
            if kind in (spec.get("policyTypes") or ["Ingress"]):
                rules = [_rule(one, peers) for one in spec.get(part) or []]
                told = f"only {'; or '.join(rules)}" if rules else "nobody"
                lines.append(f"network policy {policy['metadata']['name']} {words} {told}")
    return lines


def _rule(rule: Object, peers: str) -> str:
    who = [_peer(one) for one in rule.get(peers) or []] or ["everybody"]
    ports = [str(one.get("port", "every")) for one in rule.get("ports") or []]
    return ", ".join(who) + (f", port {', '.join(ports)}" if ports else "")


def _peer(peer: Object) -> str:
    if block := peer.get("ipBlock"):
        apart = block.get("except") or []
        return str(block["cidr"]) + (f" without {_listed(apart)}" if apart else "")
    chosen = [
        f"{word} {label_selector(peer[part]) or 'all'}"
        for part, word in (("podSelector", "pods"), ("namespaceSelector", "namespaces"))
        if part in peer
    ]
    return " in ".join(chosen)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


# --- events

_VARYING = re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[0-9a-f]{10,}\b|\d+")


def event_time(event: Object) -> float:
    series = event.get("series") or {}
    for text in (series.get("lastObservedTime"), event.get("lastTimestamp"),
                 event.get("eventTime"), event["metadata"].get("creationTimestamp")):  # fmt: skip
        if text:
            return parsed(text)
    return 0.0


def event_count(event: Object) -> int:
    series = event.get("series") or {}
    return int(series.get("count") or event.get("count") or 1)


def grouped(events: Iterable[Object]) -> list[tuple[float, int, str, str, str, str]]:
    """Alike events as one: last time, count, reason, whom, message, source; the latest first."""
    groups: dict[tuple[str, ...], list[Object]] = defaultdict(list)
    for event in events:
        about = event["involvedObject"]
        message = (event.get("message") or "").replace(about.get("name", "\0"), "…")
        family = re.sub(r"(-[0-9a-f]{6,10})?-[0-9a-z]{5}$", "", about.get("name", ""))
        key = (about.get("namespace", ""), about.get("kind", ""), family,
               event.get("reason", ""), _VARYING.sub("…", message)[:80])  # fmt: skip
        groups[key].append(event)
    rows = []
    for (space, kind, family, reason, _), some in groups.items():
        last = max(some, key=event_time)
        names = Counter(one["involvedObject"].get("name", "") for one in some)
        name = next(iter(names)) if len(names) == 1 else f"{family}… ({len(names)} objects)"
        whom = f"{kind} {space + '/' if space else ''}{name}"
        maker = (last.get("source") or {}).get("component") or last.get("reportingComponent") or ""
        count = sum(event_count(one) for one in some)
        rows.append((event_time(last), count, reason, whom, last.get("message") or "", maker))
    return sorted(rows, reverse=True)
