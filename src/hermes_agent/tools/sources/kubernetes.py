"""The tool that looks at a Kubernetes cluster through its API. It changes nothing and never shows
what is in a Secret."""

from typing import Annotated, Literal

from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.sources.cluster import objects, workloads
from hermes_agent.tools.sources.cluster.changes import find_changes as changes
from hermes_agent.tools.sources.cluster.client import connect
from hermes_agent.tools.sources.cluster.credentials import server
from hermes_agent.tools.sources.cluster.flux import flux
from hermes_agent.tools.sources.cluster.overview import overview
from hermes_agent.tools.sources.connection import Source, attempted, pick, required
from hermes_agent.tools.sources.times import window

__all__ = ["changes", "kubernetes", "server", "verify"]


@tool(capabilities=("network",), repeatable=True, sources=("kubernetes",))
async def kubernetes(
    context: ToolContext,
    action: Literal["overview", "get", "describe", "events", "logs", "rollout", "top", "flux"],
    kind: str = "",
    name: str = "",
    namespace: str = "",
    selector: str = "",
    container: str = "",
    previous: bool = False,
    pattern: str = "",
    since: str = "1h ago",
    until: str = "now",
    limit: Annotated[int, Meta(ge=1, le=1000)] = 60,
    source: str = "",
) -> ToolResult:
    """Look at a Kubernetes cluster; begin with overview. No `namespace` means all.
    overview: everything that is wrong, why, and ends of crash logs. get: objects of a `kind` as a
    table (with `pattern`: those whose YAML matches), or `name` as YAML. describe: one object with
    its problems, events, pods, endpoints, policies. events: of an object or all. logs: of a pod,
    or of all pods of a workload (`name` may be deployment/web) or `selector`; `pattern`: lines that
    match, and what precedes the first; `previous` run.
    rollout: revisions of a workload and what the last one changed. top: use of CPU and memory
    (kind node: of nodes). flux: what Flux has applied."""
    api, now = await connect(pick(context, source, "kubernetes")), context.clock()
    if "/" in name:
        kind, _, name = name.partition("/")
    match action:
        case "overview":
            return await overview(api, namespace, now)
        case "get":
            return await objects.get(api, kind or "pods", name, namespace, selector, pattern, limit)
        case "describe":
            required(name, "name", "such as deployment/web")
            return await objects.describe(api, kind or "pod", name, namespace, now)
        case "events":
            span = window(since, until, now)
            return await objects.events(api, kind, name, namespace, span, limit)
        case "logs":
            pods = await workloads.pods_for(api, kind, name, namespace, selector)
            span = window(since, until, now)
            return await workloads.logs(api, pods, container, previous, pattern, span, limit, now)
        case "rollout":
            required(name, "name", "such as deployment/web")
            return await workloads.rollout(api, kind, name, namespace, now)
        case "top":
            return await workloads.top(api, kind, namespace, limit)
        case "flux":
            return await flux(api, namespace, now)


async def verify(source: Source) -> str:
    api = await connect(source)
    version = (await api.get("/version"))["gitVersion"]
    nodes = await attempted(api.items("nodes"))
    count = "it may not list" if isinstance(nodes, ToolError) else len(nodes)
    return f"answers; Kubernetes {version}; {count} nodes"
