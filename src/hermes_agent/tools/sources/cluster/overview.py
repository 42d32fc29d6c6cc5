"""What is wrong in a cluster or a namespace, in one answer."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from hermes_agent.core.errors import ToolError
from hermes_agent.core.text.format import shortened
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.tools.sources.cluster.client import LOG_GONE, ClusterApi, Object
from hermes_agent.tools.sources.cluster.flux import flux_objects, flux_problems
from hermes_agent.tools.sources.cluster.problems import (
    ago,
    claim_problems,
    crashed_container,
    event_time,
    full_name,
    grouped,
    ingress_problems,
    node_problems,
    owned_by,
    owner,
    pod_problems,
    service_problems,
    stuck,
    workload_problems,
)
from hermes_agent.tools.sources.connection import attempted
from hermes_agent.tools.sources.redaction import text_without_secrets
from hermes_agent.tools.sources.results import answer, left_out

WARNINGS, LISTED, CRASHES, LAST_LINES = 15, 25, 4, 8
EVENT_SECONDS = 3600.0
Problems = Callable[[Object, float], Sequence[str]]
LastEvents = Mapping[str | None, Object]
"""By the uid of the object that they are about."""
KINDS = (
    "pods", "deployments", "statefulsets", "daemonsets", "jobs", "persistentvolumeclaims",
    "services", "endpoints", "ingresses", "resourcequotas",
)  # fmt: skip


async def overview(api: ClusterApi, namespace: str, now: float) -> ToolResult:
    own = f"metadata.name={namespace}" if namespace else ""
    (lists, unseen), (nodes, no_nodes), (spaces, no_spaces), (events, no_events) = (
        await asyncio.gather(
            api.tried(KINDS, namespace), api.seen("nodes"),
            api.seen("namespaces", fieldSelector=own),
            api.seen("events", namespace, fieldSelector="type=Warning"),
        )
    )  # fmt: skip
    every = dict(zip(KINDS, lists, strict=True))
    flux, more = await flux_objects(api, namespace)
    pods, services = every["pods"], every["services"]
    # Of what could not be seen, nobody knows that it is not there.
    judged = [] if {"pods", "endpoints"} & unseen.keys() else services
    ways = [] if "services" in unseen else every["ingresses"]
    claims, quotas = every["persistentvolumeclaims"], every["resourcequotas"]
    classes = await ingress_classes(api, ways)
    ends = {full_name(one): one for one in every["endpoints"]}
    last = {one["involvedObject"].get("uid"): one for one in sorted(events, key=event_time)}
    sections = [
        ("nodes", nodes, _lines(nodes, node_problems, now)),
        ("pods", pods, _pods(pods, last, now)),
        *(
            (kind, every[kind], _lines(every[kind], workload_problems, now))
            for kind in ("deployments", "statefulsets", "daemonsets", "jobs")
        ),
        ("services", judged, _each(judged, lambda one: service_problems(one, ends, pods))),
        ("ingresses", ways, _each(ways, lambda one: ingress_problems(one, services, classes))),
        ("persistentvolumeclaims", claims, _claims(claims, last, now)),
        ("resourcequotas", quotas, _quotas(quotas)),
        ("namespaces", spaces, _lines(spaces, stuck, now)),
        ("Flux objects", flux, [line for one in flux for line in flux_problems(one, now)]),
    ]
    where = f"namespace {namespace}" if namespace else "all namespaces"
    bad = [(name, lines) for name, _, lines in sections if lines]
    counts = {name: sum(one.startswith("- ") for one in lines) for name, lines in bad}
    well = [f"{len(some)} {name}" for name, some, lines in sections if some and not lines]
    told = ", ".join(f"{count} {name} in trouble" for name, count in counts.items())
    text = [f"{where}: {told or 'no problem found'}"]
    for name, lines in bad:
        text += ["", f"{name}:", *lines[:LISTED]]
        text += left_out(lines, LISTED)
    text += await _last_words(api, pods, now)
    text += _warning_lines(events, now)
    text += ["", f"nothing wrong with: {', '.join(well)}"] if well else []
    notes = [*unseen.values(), *no_nodes, *no_spaces, *no_events, *more]
    return answer(api.source, "\n".join(text), counts, notes)


def _lines(objects: Sequence[Object], problems: Problems, now: float) -> list[str]:
    """A line for each object with a problem."""
    return [
        f"- {full_name(one)}: {'; '.join(texts)}"
        for one in objects
        if (texts := problems(one, now))
    ]


def _each(objects: Sequence[Object], problems: Callable[[Object], list[str]]) -> list[str]:
    """A line for each problem."""
    return [f"- {full_name(one)}: {text}" for one in objects for text in problems(one)]


def _pods(pods: Sequence[Object], last: LastEvents, now: float) -> list[str]:
    """Those with a problem; pods of one owner with the same problem are one line."""
    alike: dict[tuple[object, ...], list[tuple[Object, str]]] = defaultdict(list)
    for pod in pods:
        problems = pod_problems(pod, now)
        if problems:
            text = "; ".join(problems)
            image = sorted(one.get("image", "") for one in pod["spec"]["containers"])
            key = (pod["metadata"]["namespace"], owner(pod), text.split(",")[0], str(image))
            alike[key if owner(pod)[0] else (full_name(pod),)].append((pod, text))
    lines = []
    for some in alike.values():
        pod, text = some[0]
        about = ", ".join(part for part in (owned_by(pod), _place(pod)) if part)
        more = f" and {len(some) - 1} more like it" if len(some) > 1 else ""
        lines.append(f"- {full_name(pod)}{more} ({about}): {text}")
        event = last.get(pod["metadata"]["uid"], {})
        message = event.get("message") or ""
        if event and message not in text:
            when = f"event {ago(now - event_time(event))}"
            lines.append(f"    {when}: {event.get('reason')}: {shortened(message, 400)}")
    return lines


def _place(pod: Object) -> str:
    node = pod["spec"].get("nodeName")
    return f"node {node}" if node else "no node"


async def ingress_classes(api: ClusterApi, ingresses: Sequence[Object]) -> list[str] | None:
    """The classes that are there, if any is wanted by name and they can be seen."""
    if not any(one["spec"].get("ingressClassName") for one in ingresses):
        return None
    found = await attempted(api.items("ingressclasses"))
    return None if isinstance(found, ToolError) else [full_name(one) for one in found]


def _claims(claims: Sequence[Object], last: LastEvents, now: float) -> list[str]:
    lines = []
    for one in claims:
        if texts := claim_problems(one, now):
            lines.append(f"- {full_name(one)}: {'; '.join(texts)}")
            if event := last.get(one["metadata"]["uid"]):
                lines.append(f"    event: {shortened(event.get('message') or '', 400)}")
    return lines


def _quotas(quotas: Sequence[Object]) -> list[str]:
    lines = []
    for one in quotas:
        status = one.get("status", {})
        used, hard = status.get("used", {}), status.get("hard", {})
        full = [
            f"{name} {used[name]} of {hard[name]}"
            for name in hard
            if used.get(name) == hard[name] != "0"
        ]
        lines += [f"- {full_name(one)} is full: {', '.join(full)}"] if full else []
    return lines


async def _last_words(api: ClusterApi, pods: Sequence[Object], now: float) -> list[str]:
    """The ends of the logs of containers that crashed, one for each owner."""
    chosen: dict[object, tuple[Object, str]] = {}
    for pod in pods:
        name = crashed_container(pod)
        if name and pod_problems(pod, now):
            chosen.setdefault(
                (pod["metadata"]["namespace"], *owner(pod)) if owner(pod)[0] else full_name(pod),
                (pod, name),
            )
    some = list(chosen.values())[:CRASHES]
    texts = await asyncio.gather(*(last_words(api, pod, name) for pod, name in some))
    lines = []
    for (pod, name), text in zip(some, texts, strict=True):
        if text:
            lines += ["", f"the end of the log of {full_name(pod)}, container {name}:", text]
    return lines


async def last_words(api: ClusterApi, pod: Object, container: str) -> str:
    data = pod["metadata"]
    path = f"/api/v1/namespaces/{data['namespace']}/pods/{data['name']}/log"
    for previous in ("true", "false"):
        status, text = await api.reply(
            path,
            "*/*",
            container=container,
            previous=previous,
            tailLines=LAST_LINES,
            limitBytes=4000,
        )
        if status < 300 and text.strip() and not text.startswith(LOG_GONE):
            return text_without_secrets(text.rstrip())
    return ""


def _warning_lines(events: Sequence[Object], now: float) -> list[str]:
    rows = [row for row in grouped(events) if now - row[0] < EVENT_SECONDS]
    if not rows:
        return []
    lines = ["", f"warning events of the last hour ({len(rows)} kinds):"]
    for at, count, reason, whom, message, _ in rows[:WARNINGS]:
        lines.append(
            f"- {ago(now - at)}, {count} times, {whom}: {reason}: {shortened(message, 300)}"
        )
    return lines
