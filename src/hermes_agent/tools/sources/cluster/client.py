"""Asks a cluster's API server: lists, single objects, tables, logs, and which kinds there are."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.sources.cluster.credentials import ClusterLogin, login
from hermes_agent.tools.sources.connection import Source, attempted, quoted, segment

Object = dict[str, Any]
PAGE, PAGES = 500, 8
"""How many objects a request and a list have at most."""
LOG_GONE = "unable to retrieve container logs"
"""What a node says instead of a log that it has removed."""
AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
AS_METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
_KINDS = """
api/v1: Pod po pods; Service svc services; Endpoints ep endpoints; ConfigMap cm configmaps; Secret secrets; Event ev events; PersistentVolumeClaim pvc persistentvolumeclaims; ServiceAccount sa serviceaccounts; ResourceQuota quota resourcequotas; LimitRange limits limitranges; Node* no nodes; Namespace* ns namespaces; PersistentVolume* pv persistentvolumes
apis/apps/v1: Deployment deploy deployments; ReplicaSet rs replicasets; StatefulSet sts statefulsets; DaemonSet ds daemonsets; ControllerRevision controllerrevisions
apis/batch/v1: Job jobs
apis/networking.k8s.io/v1: Ingress ing ingresses; IngressClass* ingressclasses; NetworkPolicy netpol networkpolicies
apis/storage.k8s.io/v1: StorageClass* sc storageclasses
apis/rbac.authorization.k8s.io/v1: Role roles; RoleBinding rolebindings; ClusterRole* clusterroles; ClusterRoleBinding* clusterrolebindings
"""  # noqa: E501 - a group is a line


class ResourceKind(Struct, frozen=True):
    """A kind of objects, and where the API has them."""

    kind: str
    plural: str
    group: str
    """`api/v1`, `apis/apps/v1`."""
    namespaced: bool = True
    names: tuple[str, ...] = ()

    def path(self, namespace: str = "", name: str = "") -> str:
        where = f"/namespaces/{segment(namespace)}" if namespace and self.namespaced else ""
        return f"/{self.group}{where}/{self.plural}" + (f"/{segment(name)}" if name else "")


def _kinds() -> dict[str, ResourceKind]:
    found = {}
    for line in _KINDS.strip().splitlines():
        group, _, rows = line.partition(": ")
        for row in rows.split(";"):
            kind, *names = row.split()
            whole = ResourceKind(
                kind.rstrip("*"), names[-1], group, "*" not in kind, tuple(names[:-1])
            )
            for name in (whole.kind.lower(), *names):
                found[name] = whole
    return found


KINDS: Mapping[str, ResourceKind] = _kinds()


class ClusterApi(Struct, frozen=True):
    source: Source
    login: ClusterLogin

    async def get(self, path: str, accept: str = "", **params: Any) -> Any:
        status, text = await self.reply(path, accept, **params)
        if status < 300:
            return self.source.read(text)
        said = message(text) or "nothing more"
        if status == 401:
            hint = "log in again, or choose another context"
            raise ToolError(f"the cluster rejects the login: {said}", hint, "never")
        if status == 403:
            raise ToolError(f"the cluster does not permit it: {said}", "", "changed")
        raise ToolError(f"the cluster answers {status}: {said}", retry="changed")

    async def reply(self, path: str, accept: str = "", **params: Any) -> tuple[int, str]:
        """The status and the text, whatever they are."""
        login, headers = self.login, {"Accept": accept or "application/json"}
        if login.token:
            headers["Authorization"] = f"Bearer {login.token}"
        name = {"sni_hostname": login.server_name} if login.server_name else {}
        answer, data = await self.source.reply(
            "GET", path, headers=headers, auth=None if login.token else login.basic,
            verify=login.context, extensions=name,
            params={name: value for name, value in params.items() if value not in ("", None)},
        )  # fmt: skip
        return answer.status_code, data.decode(errors="replace")

    async def items(
        self, kind: ResourceKind | str, namespace: str = "", accept: str = "", **params: Any
    ) -> list[Object]:
        """All objects of a kind. Who may not see all namespaces gets those of the login's own."""
        where = KINDS[kind] if isinstance(kind, str) else kind
        found: list[Object] = []
        params = {"limit": PAGE, **params}
        for _ in range(PAGES):
            status, text = await self.reply(where.path(namespace), accept, **params)
            if status == 403 and not namespace and where.namespaced:
                namespace = self.login.namespace
                status, text = await self.reply(where.path(namespace), accept, **params)
            if status >= 300:
                what = (
                    f"the cluster does not list {where.plural}: {message(text) or 'nothing more'}"
                )
                raise ToolError(what, retry="changed")
            read = self.source.read(text)
            for one in read.get("items") or []:
                one["kind"] = where.kind
                found.append(one)
            params["continue"] = read.get("metadata", {}).get("continue", "")
            if not params["continue"]:
                break
        return found

    async def seen(
        self, kind: ResourceKind | str, namespace: str = "", **params: Any
    ) -> tuple[list[Object], list[str]]:
        """All objects of a kind, or not all and why: not everyone may see everything. What is in
        Secrets is not even asked for."""
        accept = AS_METADATA if kind == "secrets" else ""
        found = await attempted(self.items(kind, namespace, accept, **params))
        if isinstance(found, ToolError):
            return [], [found.message]
        what = kind if isinstance(kind, str) else kind.plural
        cut = f"only the first {len(found)} {what} were read"
        return found, [cut] if len(found) >= PAGE * PAGES else []

    async def tried(
        self, kinds: Sequence[ResourceKind | str], namespace: str, **params: Any
    ) -> tuple[list[list[Object]], dict[ResourceKind | str, str]]:
        """Lists of several kinds, and why some could not be had, or not whole."""
        asked = await asyncio.gather(*(self.seen(kind, namespace, **params) for kind in kinds))
        unseen = {kind: why[0] for kind, (_, why) in zip(kinds, asked, strict=True) if why}
        if len(unseen) == len(kinds):
            raise ToolError(next(iter(unseen.values())), retry="changed")
        return [found for found, _ in asked], unseen

    async def groups(self) -> dict[str, str]:
        """The API groups with the version that the server prefers."""
        found = (await self.get("/apis"))["groups"]
        return {one["name"]: one["preferredVersion"]["groupVersion"] for one in found}

    async def resources(self, group: str) -> list[ResourceKind]:
        """The kinds of a group such as `apps/v1`."""
        whole = group if group.startswith(("api/", "apis/")) else f"apis/{group}"
        status, text = await self.reply(f"/{whole}")
        if status >= 300:
            return []  # a service behind the group is down; the others still count
        return [
            ResourceKind(
                one["kind"], one["name"], whole, one["namespaced"],
                (one.get("singularName", ""), *one.get("shortNames", [])),
            )
            for one in self.source.read(text)["resources"]
            if "/" not in one["name"] and "list" in one.get("verbs", [])
        ]  # fmt: skip

    async def kind(self, name: str) -> ResourceKind:
        """By kind, plural, short name, or `plural.group`."""
        wanted, _, group = name.strip().lower().partition(".")
        if not group and wanted in KINDS:
            return KINDS[wanted]
        groups = await self.groups()
        chosen = [one for key, one in groups.items() if not group or key.startswith(group)]
        lists = await asyncio.gather(*(self.resources(one) for one in ("api/v1", *chosen)))
        kinds = [one for resources in lists for one in resources]
        for one in kinds:
            if wanted in (one.kind.lower(), one.plural, *one.names):
                return one
        near = ", ".join(sorted({one.plural for one in kinds if wanted[:4] in one.plural}))
        hint = f"kinds like it: {near}" if near else "such as pod, deployment, ingress"
        raise ToolError(f"the cluster has no kind {name!r}", hint, "changed")

    async def find(self, kind: ResourceKind, name: str, namespace: str) -> Object:
        """One object; without a namespace it is looked for in all."""
        if namespace or not kind.namespaced:
            found: Object = await self.get(kind.path(namespace, name))
            if found.setdefault("kind", kind.kind) != kind.kind:
                raise ToolError(f"the cluster answers with a {found['kind']}", retry="changed")
            return found
        exact = await self.items(kind, fieldSelector=f"metadata.name={name}")
        if len(exact) == 1:
            return await self.find(kind, name, exact[0]["metadata"]["namespace"])
        if exact:
            where = ", ".join(one["metadata"]["namespace"] for one in exact)
            raise ToolError(f"several: {kind.plural} {name!r}", f"`namespace`: {where}", "changed")
        near = [
            f"{one['metadata']['namespace']}/{one['metadata']['name']}"
            for one in await self.items(kind, accept=AS_METADATA)
            if name.lower() in one["metadata"]["name"]
        ]
        hint = f"there are: {', '.join(near[:8])}" if near else f"`get {kind.plural}` lists them"
        raise ToolError(f"there is no {kind.kind} {name!r}", hint, "changed")


async def connect(source: Source) -> ClusterApi:
    found = await login(source)
    if not source.settings.url:
        source = source.at(found.server)
    return ClusterApi(source, found)


def message(text: str) -> str:
    """What the cluster says of an error."""
    try:
        return quoted(str(json.loads(text)["message"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return quoted(text)
