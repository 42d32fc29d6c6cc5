"""What terminals need of a Kubernetes cluster: pods, policies, events, permissions, programs."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from kubernetes_asyncio import client, config
from kubernetes_asyncio.stream import WsApiClient

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import KubernetesPlace
from hermes_agent.terminals.hosted.base import plain
from hermes_agent.terminals.kubernetes.pod import Made, Pod, pod_seen

ANSWER_SECONDS = 30.0
HEARTBEAT_SECONDS = 60.0
"""Between pings that keep an idle connection alive and show when it is dead."""


def found_config(place: KubernetesPlace, environ: Mapping[str, str]) -> str:
    """The kubeconfig to use, or "" for the one of the pod we run in."""
    home = environ.get("HOME", "")
    chosen = place.kubeconfig or environ.get("KUBECONFIG", "")
    if not chosen and home:
        chosen = f"{home}/.kube/config"
    paths = [f"{home}{path[1:]}" if path.startswith("~/") else path for path in chosen.split(":")]
    if any(path and Path(path).is_file() for path in paths):
        return ":".join(paths)
    if not place.kubeconfig and environ.get("KUBERNETES_SERVICE_HOST"):
        return ""
    raise HermesError(
        f"no kubeconfig at {chosen!r}" if chosen else "no kubeconfig was found",
        "set the terminal's `kubeconfig` or KUBECONFIG",
    )


class Cluster:
    """Connects at the first request, and again after `close`."""

    def __init__(self, place: KubernetesPlace, environ: Mapping[str, str]) -> None:
        self._place, self._environ = place, environ
        self._clients: tuple[client.ApiClient, WsApiClient] | None = None
        self._connecting = asyncio.Lock()

    async def close(self) -> None:
        if self._clients is not None:
            clients, self._clients = self._clients, None
            for each in clients:
                await each.close()

    async def pod(self, name: str) -> Pod | None:
        found = await self._ask("get pods", "CoreV1Api", "read_namespaced_pod", name)
        return pod_seen(found) if found else None

    async def make_pod(self, body: Any) -> None:
        await self._ask("create pods", "CoreV1Api", "create_namespaced_pod", body=body)

    async def remove_pod(self, name: str, uid: str, grace: int) -> None:
        body = {"gracePeriodSeconds": grace, "preconditions": {"uid": uid}}
        await self._ask("delete pods", "CoreV1Api", "delete_namespaced_pod", name, body=body)

    async def policy(self, name: str) -> Made | None:
        read = "read_namespaced_network_policy"
        found = await self._ask("get networkpolicies", "NetworkingV1Api", read, name)
        return Made(found.metadata.uid, found.metadata.labels or {}) if found else None

    async def make_policy(self, body: Any) -> None:
        create = "create_namespaced_network_policy"
        await self._ask("create networkpolicies", "NetworkingV1Api", create, body=body)

    async def remove_policy(self, name: str, uid: str) -> None:
        delete, body = "delete_namespaced_network_policy", {"preconditions": {"uid": uid}}
        await self._ask("delete networkpolicies", "NetworkingV1Api", delete, name, body=body)

    async def warnings(self, uid: str) -> list[str]:
        """The cluster's warnings about a pod, oldest first."""
        only = f"involvedObject.uid={uid},type=Warning"
        try:
            listed = await self._ask(
                "list events", "CoreV1Api", "list_namespaced_event", field_selector=only
            )
        except HermesError as error:  # whoever asks has worse to tell
            return [error.message]
        return [event.message for event in listed.items if event.message] if listed else []

    async def may(self, verb: str, resource: str, subresource: str = "", group: str = "") -> bool:
        act = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
        review = await self._ask(
            "create selfsubjectaccessreviews",
            "AuthorizationV1Api",
            "create_self_subject_access_review",
            body={"spec": {"resourceAttributes": {"namespace": self._place.namespace, **act}}},
        )
        return review is not None and bool(review.status.allowed)

    async def open_program(
        self, pod: str, container: str, argv: Sequence[str], *, stdin: bool, stderr: bool
    ) -> aiohttp.ClientWebSocketResponse:
        _, sockets = await self._connected()
        core: Any = client.CoreV1Api(sockets)  # the client's types know neither lists nor sockets
        try:
            opening = await core.connect_get_namespaced_pod_exec(
                pod,
                self._place.namespace,
                command=list(plain(argv)),
                container=container,
                stdin=stdin,
                stdout=True,
                stderr=stderr,
                tty=False,
                _preload_content=False,
            )
            async with asyncio.timeout(ANSWER_SECONDS):
                socket: aiohttp.ClientWebSocketResponse = await opening
        except aiohttp.WSServerHandshakeError as error:
            if error.status == 401:
                await self.close()  # the credentials are read anew next time
            if error.status == 403:
                raise _forbidden("get pods/exec", self._place, "") from None
            raise ConnectionError(
                f"no program can be started in the pod {pod}: the cluster answers {error.status}"
            ) from None  # and not the whole error, which has the command in it
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionError(
                f"the cluster cannot be reached: {type(error).__name__}"
            ) from None
        return socket

    async def _ask(self, doing: str, group: str, method: str, *names: str, **options: Any) -> Any:
        """Call a method of the client; None where there is no such thing, or it is there or gone
        already."""
        where = () if group == "AuthorizationV1Api" else (self._place.namespace,)
        for again in (True, False):
            api, _ = await self._connected()
            try:
                call = getattr(getattr(client, group)(api), method)
                return await call(*names, *where, **options, _request_timeout=ANSWER_SECONDS)
            except client.ApiException as error:
                if error.status in (404, 409):
                    return None
                if error.status == 401 and again:
                    await self.close()  # a token may have run out; the next one is read anew
                    continue
                raise _refused(doing, self._place, error) from None
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise HermesError(
                    f"the cluster at {api.configuration.host} cannot be reached:"
                    f" {str(error) or type(error).__name__}",
                    "check that `kubectl version` answers",
                ) from None
        raise AssertionError("a second refusal is raised above")

    async def _connected(self) -> tuple[client.ApiClient, WsApiClient]:
        async with self._connecting:
            if self._clients is None:
                settings = await self._configuration()
                self._clients = (
                    client.ApiClient(settings),
                    WsApiClient(settings, heartbeat=HEARTBEAT_SECONDS),
                )
            return self._clients

    async def _configuration(self) -> client.Configuration:
        path = found_config(self._place, self._environ)
        settings = client.Configuration()
        try:
            if path:
                await config.load_kube_config(
                    path, self._place.context or None, settings, persist_config=False
                )
            else:
                inside: Any = config.load_incluster_config
                inside(settings, environ=dict(self._environ))
        except (config.ConfigException, yaml.YAMLError, OSError) as error:
            raise HermesError(
                f"the kubeconfig {path!r} cannot be used: {error}",
                "`kubectl config get-contexts` lists the contexts it has",
            ) from None
        return settings


def _refused(doing: str, place: KubernetesPlace, error: client.ApiException) -> HermesError:
    try:
        said = str(json.loads(error.body or "")["message"])
    except (ValueError, KeyError, TypeError):
        said = str(error.reason)
    if error.status == 401:
        return HermesError(
            f"the cluster rejects the credentials: {said}",
            "log in again, or choose another `context`",
        )
    if error.status == 403:
        return _forbidden(doing, place, said)
    return HermesError(f"the cluster refuses to {doing}: {said}", "check the terminal's settings")


def _forbidden(doing: str, place: KubernetesPlace, said: str) -> HermesError:
    hint = f"a Role must grant: {doing}"
    if "networkpolicies" in doing:
        hint += "; or set `network: true`, which lets commands reach the pod's network"
    return HermesError(
        f"the cluster forbids {doing} in the namespace {place.namespace!r}"
        + (f": {said}" if said else ""),
        hint,
    )
