"""An existing pod, or one made for the session and found again by its name and labels."""

import asyncio
import importlib.util
from collections.abc import Mapping, Sequence
from typing import NoReturn

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.installation.extras import install_hint
from hermes_agent.core.settings.terminals import KubernetesPlace
from hermes_agent.terminals.kubernetes import pod as made
from hermes_agent.terminals.transport import ByteStream, ProcessResult, Transport

PATIENCE_SECONDS = 300.0
"""How long a pod may take to start: an image is pulled, a node may have to be added."""
POLL_SECONDS = (0.1, 0.2, 0.5, 1.0)
WANTED = {
    "pod": ("get pods", "create pods/exec", "get pods/exec"),
    "image": ("create pods", "delete pods"),
    "isolation": ("create networkpolicies", "get networkpolicies", "delete networkpolicies"),
}
MISSING = (
    f"the Kubernetes client is not installed: {install_hint('kubernetes')}",
    "set either `image` or `pod` of a kubernetes terminal",
)


def transport(
    place: KubernetesPlace, *, session: str, environ: Mapping[str, str], **_: object
) -> Transport:
    if lacking := _lacking(place):
        raise UsageError(lacking)
    return KubernetesTransport(place, session, environ)


async def check(place: KubernetesPlace | None, environ: Mapping[str, str]) -> str:
    """What is missing, as a sentence; empty when nothing is. Asks the cluster for permissions."""
    if lacking := _lacking(place):
        return lacking
    from hermes_agent.terminals.kubernetes.cluster import Cluster, found_config

    try:
        found_config(place or KubernetesPlace(), environ)
        if place is None:
            return ""
        cluster = Cluster(place, environ)
        try:
            refused = [act for act in _wanted(place) if not await cluster.may(*_split(act))]
        finally:
            await cluster.close()
    except HermesError as error:
        return f"{error.message}: {error.hint}"
    if refused:
        return (
            f"the cluster does not allow {', '.join(refused)} in the namespace"
            f" {place.namespace!r}: a Role must grant it"
        )
    return ""


def _lacking(place: KubernetesPlace | None) -> str:
    if importlib.util.find_spec("kubernetes_asyncio") is None:
        return MISSING[0]
    return MISSING[1] if place and bool(place.image) == bool(place.pod) else ""


def _wanted(place: KubernetesPlace) -> list[str]:
    wanted = [*WANTED["pod"]]
    if place.image:
        wanted += WANTED["image"]
        if not place.network:
            wanted += WANTED["isolation"]
    return wanted


def _split(act: str) -> tuple[str, str, str, str]:
    """`create pods/exec` as verb, resource, subresource and group."""
    verb, _, what = act.partition(" ")
    resource, _, subresource = what.partition("/")
    return verb, resource, subresource, "networking.k8s.io" * (resource == "networkpolicies")


class KubernetesTransport:
    def __init__(
        self,
        place: KubernetesPlace,
        session: str,
        environ: Mapping[str, str],
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        from hermes_agent.terminals.kubernetes.cluster import Cluster

        self._place, self._session = place, session
        self._name = place.pod or made.name_of(session)
        self._container = place.container or ("" if place.pod else made.CONTAINER)
        self._cluster = Cluster(place, environ)
        self._patience = patience
        self._making = asyncio.Lock()
        self._isolated = False

    async def ready(self) -> None:
        if self._place.pod:
            await self._see()
            return
        async with self._making:
            await self._make()

    async def call(self, argv: Sequence[str], stdin: bytes = b"") -> ProcessResult:
        from hermes_agent.terminals.kubernetes.exec import SocketChannel, fed

        socket = await self._cluster.open_program(
            self._name, self._container, fed(argv, stdin), stdin=bool(stdin), stderr=True
        )
        try:
            return await SocketChannel(socket).finish(stdin)
        finally:
            await socket.close()

    async def start(self, argv: Sequence[str]) -> ByteStream:
        from hermes_agent.terminals.kubernetes.exec import SocketChannel

        return SocketChannel(
            await self._cluster.open_program(
                self._name, self._container, argv, stdin=True, stderr=False
            )
        )

    async def rest(self) -> None:
        """A pod cannot hibernate; it requests little."""

    async def close(self) -> None:
        await self._cluster.close()

    async def destroy(self) -> None:
        if not self._place.pod:
            async with self._making:
                pod = await self._cluster.pod(self._name)
                if pod and pod.belongs_to(self._session):
                    await self._cluster.remove_pod(self._name, pod.uid, made.GRACE_SECONDS)
                policy = None if self._place.network else await self._cluster.policy(self._name)
                if policy and policy.belongs_to(self._session):
                    await self._cluster.remove_policy(self._name, policy.uid)
        await self.close()

    async def _see(self) -> None:
        """Check that the pod of the settings runs, and find its container."""
        pod = await self._cluster.pod(self._name)
        if pod is None:
            raise HermesError(
                f"no pod {self._name!r} in the namespace {self._place.namespace!r}",
                f"kubectl get pods --namespace {self._place.namespace}",
            )
        self._container = self._place.container or pod.main
        if self._container not in pod.containers:
            raise HermesError(
                f"the pod {self._name!r} has no container {self._container!r}",
                f"it has: {', '.join(pod.containers)}",
            )
        if self._container not in pod.running:
            raise HermesError(
                f"the pod {self._name!r} is not running: {pod.phase}",
                f"kubectl describe pod --namespace {self._place.namespace} {self._name}",
            )

    async def _make(self) -> None:
        """Wait for the session's pod, creating it when there is none."""
        over = asyncio.get_running_loop().time() + self._patience
        looks = 0
        while True:
            pod = await self._cluster.pod(self._name)
            if pod and not pod.belongs_to(self._session):
                raise HermesError(
                    f"pod {self._name!r} exists but was not created for this session",
                    "rename or remove it",
                )
            if pod is None or not self._isolated:
                await self._isolate()
            if pod is None:
                await self._cluster.make_pod(made.pod_of(self._place, self._session))
            elif not pod.leaving:
                if self._container in pod.running:
                    return
                if pod.phase in ("Failed", "Succeeded"):  # evicted, say; it never comes back
                    await self._cluster.remove_pod(self._name, pod.uid, 0)
                elif pod.hopeless:
                    await self._give_up(pod, pod.hopeless)
            if asyncio.get_running_loop().time() > over:
                await self._give_up(pod, f"not running after {self._patience:g} seconds")
            await asyncio.sleep(POLL_SECONDS[min(looks, len(POLL_SECONDS) - 1)])
            looks += 1

    async def _isolate(self) -> None:
        """Create the network policy before the pod, so that the pod is never without it."""
        if not self._place.network:
            await self._cluster.make_policy(made.isolation_of(self._session))
            policy = await self._cluster.policy(self._name)
            if policy is None or not policy.belongs_to(self._session):
                raise HermesError(
                    f"NetworkPolicy {self._name!r} exists but was not created for this session",
                    "rename or remove it",
                )
        self._isolated = True

    async def _give_up(self, pod: made.Pod | None, reason: str) -> NoReturn:
        """Raise why the pod does not start. One that never ran holds nothing and is removed, so
        that better settings get a new one."""
        why = [reason]
        if pod is not None:
            why += pod.complaints
            why += (await self._cluster.warnings(pod.uid))[-2:]
            if not pod.ran:
                await self._cluster.remove_pod(self._name, pod.uid, 0)
        raise HermesError(
            f"the pod {self._name!r} does not start: {'; '.join(dict.fromkeys(why))}",
            "check the terminal's `image`, `limits` and `manifest`",
        )
