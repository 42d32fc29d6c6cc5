"""Shows objects of a cluster: as the table that kubectl prints, or one with its surroundings."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from hermes_agent.core.errors import ToolError, UsageError
from hermes_agent.core.text.format import shortened
from hermes_agent.core.text.patterns import matches as matches_pattern
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.tools.sources.cluster.client import (
    AS_TABLE,
    KINDS,
    ClusterApi,
    Object,
    ResourceKind,
)
from hermes_agent.tools.sources.cluster.overview import ingress_classes, last_words
from hermes_agent.tools.sources.cluster.problems import (
    ago,
    claim_problems,
    container_specs,
    crashed_container,
    event_time,
    full_name,
    grouped,
    ingress_problems,
    label_selector,
    matches,
    node_problems,
    owned_by,
    owner,
    pod_problems,
    policy_lines,
    service_problems,
    workload_problems,
)
from hermes_agent.tools.sources.connection import attempted
from hermes_agent.tools.sources.redaction import HIDDEN, without_secrets
from hermes_agent.tools.sources.results import answer, left_out, table
from hermes_agent.tools.sources.times import Window, stamp

YAML_CHARS = 9000
EVENTS = 15
NOISE = {
    "managedFields", "uid", "resourceVersion", "selfLink", "generation", "generateName",
}  # fmt: skip
NOTES = ("kubectl.kubernetes.io/last-applied-configuration", "objectset.rio.cattle.io/applied")
LONG_CHARS, LINE_CHARS = 1500, 120


class _Blocks(yaml.SafeDumper):
    """Writes texts of several lines as they are."""


_Blocks.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


def cleaned(one: Object) -> Object:
    """Without what nobody reads, and without secrets."""
    data = {key: value for key, value in one["metadata"].items() if key not in NOISE}
    if notes := {key: shortened(str(value), LONG_CHARS) for key, value
                 in (data.get("annotations") or {}).items() if key not in NOTES}:  # fmt: skip
        data["annotations"] = notes
    else:
        data.pop("annotations", None)
    shown = {**one, "metadata": data}
    if one.get("kind") == "Secret":
        for key, value in notes.items():
            if "{" in value:  # some tools keep all of an object in a note
                notes[key] = HIDDEN
        for part in ("data", "stringData"):
            if shown.get(part):
                shown[part] = dict.fromkeys(shown[part], HIDDEN)
        return shown
    clean: Object = without_secrets(shown)
    return clean


def written(one: Object, limit: int = YAML_CHARS) -> str:
    text = yaml.dump(cleaned(one), Dumper=_Blocks, sort_keys=False, allow_unicode=True, width=110)
    text = text.rstrip()
    return text if len(text) <= limit else f"{text[:limit]}\n… {len(text) - limit} more characters"


async def get(
    api: ClusterApi, kind: str, name: str, namespace: str, selector: str, pattern: str, limit: int
) -> ToolResult:
    where = await api.kind(kind)
    if name:
        one = await api.find(where, name, namespace)
        return answer(api.source, written(one), {"kind": where.kind, "name": name})
    params = {"labelSelector": selector, "limit": 500}
    try:
        found = await api.get(where.path(namespace), AS_TABLE, **params)
    except ToolError:
        if namespace or not where.namespaced:
            raise
        namespace = api.login.namespace
        found = await api.get(where.path(namespace), AS_TABLE, **params)
    page = found.get("metadata") or {}  # with a selector, nobody knows how many are left
    more = page.get("remainingItemCount") or ("some" if page.get("continue") else "")
    notes = [f"{more} more were not listed" if more else ""]
    if found.get("kind") != "Table":
        names = [(full_name(one),) for one in found.get("items") or []]
        return answer(api.source, table(("name",), names, limit), {"count": len(names)}, notes)
    shown = [at for at, one in enumerate(found["columnDefinitions"]) if not one["priority"]]
    headers = [found["columnDefinitions"][at]["name"].lower() for at in shown]
    headers += ["line"] if pattern else []
    where_found = await _with_text(api, where, namespace, selector, pattern) if pattern else {}
    rows: list[tuple[str, ...]] = []
    for row in found.get("rows") or []:
        space = row["object"]["metadata"].get("namespace", "")
        cells = tuple(str(row["cells"][at]) for at in shown)
        if pattern:
            if (name := full_name(row["object"])) not in where_found:
                continue
            cells = (*cells, where_found[name])
        rows.append(cells if namespace or not where.namespaced else (space, *cells))
    if not namespace and where.namespaced:
        headers.insert(0, "namespace")
    text = table(headers, rows, limit) if rows else f"no {where.plural} there"
    return answer(api.source, text, {"count": len(rows)}, notes)


async def _with_text(
    api: ClusterApi, where: ResourceKind, namespace: str, selector: str, pattern: str
) -> dict[str, str]:
    """The names of the objects in which an expression is found, each with the first such line."""
    search = matcher(pattern)
    listed = await api.items(where, namespace, labelSelector=selector)

    def search_all() -> dict[str, str]:
        found = {}
        for one in listed:
            text = yaml.dump(cleaned(one), Dumper=_Blocks, sort_keys=False, allow_unicode=True)
            if search(text):
                line = next((line for line in text.splitlines() if search(line)), "")
                found[full_name(one)] = shortened(line.strip(" -"), LINE_CHARS)
        return found

    return await asyncio.to_thread(search_all)


def matcher(pattern: str) -> Callable[[str], bool]:
    """Takes no longer than the text is long, whatever the pattern."""
    wanted = f"(?i){pattern}"
    try:
        matches_pattern(wanted, "")
    except UsageError as error:
        raise ToolError(f"`pattern`: {error.message}", error.hint, "changed") from None
    return lambda text: matches_pattern(wanted, text)


async def describe(api: ClusterApi, kind: str, name: str, namespace: str, now: float) -> ToolResult:
    where = await api.kind(kind)
    one = await api.find(where, name, namespace)
    namespace = one["metadata"].get("namespace", "")
    events, about = await asyncio.gather(
        attempted(events_of(api, namespace, one)), attempted(_surroundings(api, one, now))
    )
    notes = [str(part) for part in (events, about) if isinstance(part, ToolError)]
    of = f", controlled by {owned_by(one)}" if owned_by(one) else ""
    lines = [f"{where.kind} {full_name(one)}{of}"]
    lines += about if isinstance(about, list) else []
    rows = grouped(events) if isinstance(events, list) else []
    lines.append(
        f"events ({len(rows)} kinds):"
        if rows
        else "no events (the cluster keeps them for about an hour)"
    )
    for at, count, reason, _, message, _ in rows[:EVENTS]:
        lines.append(f"- {ago(now - at)}, {count} times, {reason}: {shortened(message, 400)}")
    text = "\n".join([*lines, "---", written(one)])
    return answer(api.source, text, {"kind": where.kind, "name": name}, notes)


async def events_of(api: ClusterApi, namespace: str, one: Object) -> list[Object]:
    data = one["metadata"]
    chosen = f"involvedObject.name={data['name']},involvedObject.kind={one['kind']}"
    return await api.items("events", namespace, fieldSelector=chosen)


async def _surroundings(api: ClusterApi, one: Object, now: float) -> list[str]:
    """What belongs to an object and is not in it."""
    kind, namespace = one["kind"], one["metadata"].get("namespace", "")
    match kind:
        case "Pod":
            return await _around_pod(api, one, now)
        case "Service":
            return await _around_service(api, one, now)
        case "PersistentVolumeClaim":
            return await _around_claim(api, one, now)
        case "Node":
            pods = await api.items("pods", fieldSelector=f"spec.nodeName={full_name(one)}")
            return _in_trouble(node_problems(one, now)) + pod_lines(pods, now)
        case "Ingress":
            services = await api.items("services", namespace)
            return _in_trouble(ingress_problems(one, services, await ingress_classes(api, [one])))
        case "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job":
            pods = await pods_of(api, one)
            lines = _in_trouble(workload_problems(one, now)) + pod_lines(pods, now)
            return lines + await _policies(api, pods)
        case "ConfigMap" | "Secret":
            return await _users(api, one)
    return []


def _in_trouble(problems: Sequence[str]) -> list[str]:
    return [f"problem: {one}" for one in problems]


def pod_lines(pods: Sequence[Object], now: float) -> list[str]:
    bad = [(pod, texts) for pod in pods if (texts := pod_problems(pod, now))]
    lines = [f"{len(pods)} pods, {len(bad)} with a problem"]
    return lines + [f"- {one['metadata']['name']}: {'; '.join(texts)}" for one, texts in bad[:10]]


async def pods_of(api: ClusterApi, one: Object) -> list[Object]:
    """The pods of a workload or a Service; of a CronJob those of its jobs."""
    namespace = one["metadata"]["namespace"]
    if one["kind"] == "CronJob":
        jobs = await api.items("jobs", namespace)
        names = [
            job["metadata"]["name"] for job in jobs if owner(job)[1] == one["metadata"]["name"]
        ]
        chosen = f"job-name in ({','.join(names)})" if names else ""
    else:
        chosen = label_selector(one["spec"].get("selector") or {})
    return await api.items("pods", namespace, labelSelector=chosen) if chosen else []


async def _around_pod(api: ClusterApi, pod: Object, now: float) -> list[str]:
    lines = _in_trouble(pod_problems(pod, now))
    crashed = crashed_container(pod)
    if lines and crashed and (text := await last_words(api, pod, crashed)):
        lines += [f"the end of the log of the container {crashed}:", text]
    if name := pod["spec"].get("nodeName"):
        node = await attempted(api.get(KINDS["nodes"].path(name=name)))
        if not isinstance(node, ToolError):  # not everyone may see nodes
            lines += [f"its node {name}: {text}" for text in node_problems(node, now)]
    namespace = pod["metadata"]["namespace"]
    lines += [
        f"its claim {claim['metadata']['name']}: {text}"
        for claim in await api.items("persistentvolumeclaims", namespace)
        if uses(pod["spec"], claim)
        for text in claim_problems(claim, now)
    ]
    return lines + await _policies(api, [pod])


async def _policies(api: ClusterApi, pods: Sequence[Object]) -> list[str]:
    """The network policies for pods of one kind."""
    if not pods:
        return []
    data = pods[0]["metadata"]
    found = await api.items("networkpolicies", data["namespace"])
    return policy_lines(found, data.get("labels") or {})


async def _around_service(api: ClusterApi, service: Object, now: float) -> list[str]:
    data = service["metadata"]
    pods = await api.items("pods", data["namespace"])
    found = await api.items(
        "endpoints", data["namespace"], fieldSelector=f"metadata.name={data['name']}"
    )
    lines = _in_trouble(service_problems(service, {full_name(one): one for one in found}, pods))
    for subset in (found[0].get("subsets") or []) if found else []:
        ports = ", ".join(str(one["port"]) for one in subset.get("ports") or [])
        for part, word in (("addresses", "ready"), ("notReadyAddresses", "not ready")):
            names = [
                f"{one['ip']} ({(one.get('targetRef') or {}).get('name', '?')})"
                for one in subset.get(part) or []
            ]
            lines += [f"endpoints {word}, port {ports}: {', '.join(names[:20])}"] if names else []
    chosen = [
        pod for pod in pods
        if matches(service["spec"].get("selector") or {}, pod["metadata"].get("labels"))
    ]  # fmt: skip
    lines += _wrong_ports(service, chosen) + pod_lines(chosen, now)
    return lines + await _policies(api, chosen)


def _wrong_ports(service: Object, pods: Sequence[Object]) -> list[str]:
    """Ports that no container declares: a named one never works, a number may."""
    known = [
        port for pod in pods[:1] for one in pod["spec"]["containers"]
        for port in one.get("ports") or []
    ]  # fmt: skip
    names = {one.get("name") for one in known} | {one["containerPort"] for one in known}
    listed = ", ".join(f"{one.get('name', '')} {one['containerPort']}".strip() for one in known)
    lines = []
    for port in service["spec"].get("ports") or []:
        target = port.get("targetPort", port["port"])
        if pods and target not in names:
            lines.append(
                f"no container declares the target port {target}; declared: {listed or 'none'}"
            )
    return lines


async def _users(api: ClusterApi, one: Object) -> list[str]:
    pods = await api.items("pods", one["metadata"]["namespace"])
    users = [pod["metadata"]["name"] for pod in pods if uses(pod["spec"], one)]
    return [f"used by the pods {', '.join(users)}" if users else "no pod uses it"]


async def _around_claim(api: ClusterApi, claim: Object, now: float) -> list[str]:
    lines = _in_trouble(claim_problems(claim, now))
    lines += await _users(api, claim)
    classes = await api.items("storageclasses")
    wanted = claim["spec"].get("storageClassName")
    chosen = [
        one for one in classes
        if one["metadata"]["name"] == wanted or (wanted is None and _is_default(one))
    ]  # fmt: skip
    for one in chosen:
        lines.append(
            f"class {one['metadata']['name']}: {one['provisioner']}, "
            f"binding {one.get('volumeBindingMode')}"
        )
    if not chosen and wanted != "":
        there = ", ".join(one["metadata"]["name"] for one in classes) or "none"
        what = f"there is no class {wanted!r}" if wanted else "there is no default class"
        lines.append(f"problem: {what}; classes: {there}")
    return lines


def _is_default(one: Object) -> bool:
    notes = one["metadata"].get("annotations") or {}
    return notes.get("storageclass.kubernetes.io/is-default-class") == "true"


def uses(spec: Mapping[str, Any], one: Object) -> bool:
    """Whether a pod's spec mentions a ConfigMap, a Secret or a PersistentVolumeClaim."""
    return (one["kind"], one["metadata"]["name"]) in references(spec)


def references(spec: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The kinds and names of what a pod's spec takes its configuration and volumes from."""
    found = set()
    volumes = [
        source
        for volume in spec.get("volumes") or []
        for source in [volume, *((volume.get("projected") or {}).get("sources") or [])]
    ]
    for volume in volumes:
        for part, kind, key in (
            ("configMap", "ConfigMap", "name"),
            ("secret", "Secret", "secretName"),
            ("persistentVolumeClaim", "PersistentVolumeClaim", "claimName"),
        ):
            if part in volume:
                found.add((kind, volume[part].get(key) or volume[part].get("name", "")))
    for container in container_specs(spec):
        whole = container.get("envFrom") or []
        single = [one.get("valueFrom") or {} for one in container.get("env") or []]
        for one in [*whole, *single]:
            for part, kind in (("configMapRef", "ConfigMap"), ("configMapKeyRef", "ConfigMap"),
                               ("secretRef", "Secret"), ("secretKeyRef", "Secret")):  # fmt: skip
                if part in one:
                    found.add((kind, one[part].get("name", "")))
    return found


async def events(
    api: ClusterApi, kind: str, name: str, namespace: str, span: Window, limit: int
) -> ToolResult:
    chosen = []
    if name:
        chosen.append(f"involvedObject.name={name}")
    if kind:
        chosen.append(f"involvedObject.kind={(await api.kind(kind)).kind}")
    found = await api.items("events", namespace, fieldSelector=",".join(chosen))
    rows = grouped(one for one in found if event_time(one) in span)
    warnings = sum(one.get("type") == "Warning" for one in found)
    lines = [
        f"{stamp(at)}  {count} times  {reason}  {whom}: {shortened(message, 400)}"
        for at, count, reason, whom, message, _ in rows[:limit]
    ]
    lines += left_out(rows, limit, "kinds")
    text = "\n".join(lines) or "no events in that time (the cluster keeps them for about an hour)"
    return answer(api.source, text, {"kinds": len(rows), "warnings": warnings})
