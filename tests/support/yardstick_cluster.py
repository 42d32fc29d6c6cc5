"""The cases of the yardstick that ask about a cluster, each in a namespace of its own."""

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from hermes_agent.tools.sources.kubernetes import kubernetes
from tests.support.cluster import IDLE, NODE
from tests.support.cluster_objects import APPS, CORE, MERGE, NETWORK, Namespace, pod, stamp
from tests.support.images import IMAGE
from tests.support.yardstick import Call, Case

Build = Callable[[Namespace], None]
CRASH = "CrashLoopBackOff"
READY = '"ready":true'
BACK_OFF = {"reason": CRASH, "message": "back-off 40s restarting failed container"}


def shell(script: str) -> dict[str, Any]:
    """In a form in which the manifest does not tell what the program says."""
    packed = b64encode(script.encode()).decode()
    return {"command": ["/bin/sh", "-c", f'eval "$(echo {packed} | base64 -d)"']}


def says(*lines: str) -> dict[str, Any]:
    """Says these lines and goes on; it is ready when it has."""
    said = "; ".join(["true", *(f"echo '{line}'" for line in lines)])
    probe = {"exec": {"command": ["test", "-f", "/tmp/said"]}, "periodSeconds": 1}
    return {**shell(f"{said}; touch /tmp/said; {IDLE}"), "readinessProbe": probe}


def fails(*lines: str) -> dict[str, Any]:
    return shell("; ".join(f"echo '{line}'" for line in lines) + "; exit 1")


def owned(one: Any, by: Any, kind: str, version: str = "apps/v1") -> Any:
    data = by["metadata"]
    one["metadata"]["ownerReferences"] = [
        {"apiVersion": version, "kind": kind, "name": data["name"], "uid": data["uid"],
         "controller": True},
    ]  # fmt: skip
    return one


def deployment(
    space: Namespace,
    name: str,
    container: Mapping[str, Any],
    *,
    spec: Mapping[str, Any] | None = None,
    node: str = NODE,
    status: Any = None,
    replicas: int = 1,
) -> Any:
    """With the ReplicaSet and the pod that controllers would make; the pod, or the deployment."""
    labels = {"app": name}
    whole = pod(f"{name}-6d5f84-x2z9q", {**labels, "pod-template-hash": "6d5f84"}, node=node,
                **container)  # fmt: skip
    whole["spec"].update(spec or {})
    body = {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": whole["spec"]},
        },
    }  # fmt: skip
    one = space.made(APPS, "deployments", body, {"replicas": replicas})
    among = whole["metadata"]["labels"]
    replica_set = space.made(APPS, "replicasets", owned({
        "metadata": {"name": f"{name}-6d5f84", "labels": among,
                     "annotations": {"deployment.kubernetes.io/revision": "1"}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": among},
                 "template": {"metadata": {"labels": among}, "spec": whole["spec"]}},
    }, one, "Deployment"))  # fmt: skip
    if not replicas:
        return one
    return space.made(CORE, "pods", owned(whole, replica_set, "ReplicaSet"), status)


def pending(space: Namespace, name: str, message: str, **spec: Any) -> Any:
    """What the scheduler would say of a pod that fits nowhere."""
    container = {"resources": spec.pop("resources", {})}
    condition = {
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
    }  # fmt: skip
    status = {"phase": "Pending", "conditions": [condition]}
    one = deployment(space, name, container, spec=spec, node="", status=status)
    space.event(one, "FailedScheduling", message)
    return one


def refused(space: Namespace, name: str, message: str) -> None:
    """What the ReplicaSet's controller would say of pods that it may not make."""
    replica_set = deployment(space, name, {}, replicas=0)
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                 "message": message}  # fmt: skip
    path = f"/{APPS}/namespaces/{space.space}/deployments/{name}"
    space.client.patch(path, json={"spec": {"replicas": 1}}, headers=MERGE)
    status = {"unavailableReplicas": 1, "conditions": [condition]}
    space.client.patch(f"{path}/status", json={"status": status}, headers=MERGE)
    found = space.client.get(
        f"/{APPS}/namespaces/{space.space}/replicasets/{replica_set['metadata']['name']}-6d5f84"
    ).json()
    space.event({**found, "kind": "ReplicaSet"}, "FailedCreate", message)


def job(space: Namespace, name: str, container: Mapping[str, Any]) -> Any:
    one = space.made("apis/batch/v1", "jobs", {
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": IMAGE}],
        }}},
    })  # fmt: skip
    whole = pod(f"{name}-8kq2v", {"job-name": name}, **container)
    whole["spec"]["restartPolicy"] = "Never"
    space.made(CORE, "pods", owned(whole, one, "Job", "batch/v1"))
    return {**one, "kind": "Job"}


def service(space: Namespace, name: str, port: int, target: int) -> None:
    ports = [{"port": port, "targetPort": target}]
    space.made(CORE, "services", {
        "metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": ports},
    })  # fmt: skip


def ingress(space: Namespace, name: str, to: str, port: int, **spec: Any) -> None:
    backend = {"service": {"name": to, "port": {"number": port}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    rules = [{"host": f"{name}.example", "http": {"paths": [path]}}]
    space.made(NETWORK, "ingresses", {"metadata": {"name": name}, "spec": {"rules": rules, **spec}})


def claim(space: Namespace, name: str, storage: str, notes: Mapping[str, str] | None = None) -> Any:
    one = space.made(CORE, "persistentvolumeclaims", {
        "metadata": {"name": name, "annotations": dict(notes or {})},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": storage,
                 "resources": {"requests": {"storage": "3Gi"}}},
    })  # fmt: skip
    return {**one, "kind": "PersistentVolumeClaim"}


def bound(space: Namespace, name: str, notes: Mapping[str, str]) -> None:
    claim(space, name, "standard", notes)
    status = {"phase": "Bound", "capacity": {"storage": "3Gi"}}
    path = f"/{CORE}/namespaces/{space.space}/persistentvolumeclaims/{name}"
    spec = {"volumeName": f"volume-of-{name}"}
    for where, part in ((path, {"spec": spec}), (f"{path}/status", {"status": status})):
        answer = space.client.patch(where, json=part, headers=MERGE)
        assert answer.is_success, answer.text


def killed(space: Namespace, name: str) -> None:
    """As the kernel ends what needs too much memory: its tests have no limits here."""
    ended = {"exitCode": 137, "reason": "OOMKilled", "startedAt": stamp(9), "finishedAt": stamp(3)}
    status = {
        "phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [{
            "name": "main", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 4,
            "state": {"waiting": BACK_OFF}, "lastState": {"terminated": ended},
        }],
    }  # fmt: skip
    limits = {"resources": {"limits": {"memory": "96Mi"}}}
    deployment(space, name, limits, node="", status=status)


def asked(space: str, name: str) -> tuple[Call, ...]:
    """What is wrong with it? As everybody begins who does not know."""
    return tuple(
        (kubernetes, {"action": action, "namespace": space, **more})
        for action, more in (
            ("overview", {}), ("describe", {"name": name}), ("logs", {"name": name}),
        )
    )  # fmt: skip


def one_pod(name: str, **container: Any) -> Build:
    return lambda space: space.made(CORE, "pods", pod(name, {"app": name}, **container))


def of(name: str, **container: Any) -> Build:
    return lambda space: deployment(space, name, container)


def nothing(_: Namespace) -> None:
    """What is asked for is not there."""


def starts_normally(space: Namespace) -> None:
    one = space.made(CORE, "pods", pod("web", {"app": "web"}, **says("ready to serve")))
    words = f"Successfully assigned {space.space}/web to {NODE}"
    space.event(one, "Scheduled", words, "Normal")


def init_fails(space: Namespace) -> None:
    first = {"name": "fetch", "image": IMAGE, "imagePullPolicy": "Never",
             **shell("wgett http://config/start.json")}  # fmt: skip
    deployment(space, "log-shipper", shell(IDLE), spec={"initContainers": [first]})


def init_waits(space: Namespace) -> None:
    first = {"name": "wait-for-cache", "image": IMAGE, "imagePullPolicy": "Never",
             **shell(f"echo 'waiting for the service session-cache'; {IDLE}")}  # fmt: skip
    deployment(space, "storefront", shell(IDLE), spec={"initContainers": [first]})


def two_causes(space: Namespace) -> None:
    one = job(space, "fetch-rates", fails("curl: (6) Could not resolve host: rates.bank.invalid"))
    words = 'error looking up service account: serviceaccount "fetcher" not found'
    space.event(one, "FailedCreate", f'pods "fetch-rates-" is forbidden: {words}')


def wrong_class(space: Namespace) -> None:
    one = claim(space, "cache-data", "premium-nvme")
    words = 'storageclass.storage.k8s.io "premium-nvme" not found'
    space.event(one, "ProvisioningFailed", words)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "cache-data"}}]
    pending(
        space, "cache", "0/3 nodes are available: 3 pod has unbound immediate "
        "PersistentVolumeClaims.", volumes=volumes,
    )  # fmt: skip


def wrong_claim(space: Namespace) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "media-data-old"}}]
    bound(space, "media-data", {})
    pending(space, "media", '0/3 nodes are available: 3 persistentvolumeclaim "media-data-old" '
            "not found.", volumes=volumes)  # fmt: skip


def wrong_ingress_class(space: Namespace) -> None:
    deployment(space, "portal", says("listening on 8080"))
    service(space, "portal", 80, 8080)
    ingress(space, "portal", "portal", 80, ingressClassName="edge-proxy-2")


def database_of_root(space: Namespace) -> None:
    words = '"root" execution of the PostgreSQL server is not permitted.'
    deployment(space, "postgres", fails(words))
    lines = ("lookup of ann took 5021 ms", "cannot reach postgres:5432: connection refused")
    deployment(space, "user-search", says(*lines))


def settings_of_staging(space: Namespace) -> None:
    lines = [
        *(f"GET /items/{number} 200" for number in range(300)),
        "settings have changed on disk, reading them again",
        "database is now db.staging.example:5432",
        *(f"GET /items/{number} 500 connection refused" for number in range(300)),
    ]
    deployment(space, "catalog-api", says(*lines))


def needle(space: Namespace) -> None:
    line = 'echo "link $((i % 7)) ok, $i packets"'
    found = "echo 'Peer down: 10.8.0.3, timer expired'"
    script = f"i=0; while [ $i -lt 9000 ]; do {line}; i=$((i+1)); [ $i = 4400 ] && {found}; done"
    whole = {**says(), **shell(f"{script}; touch /tmp/said; {IDLE}")}
    space.made(CORE, "pods", pod("router", {"app": "router"}, **whole))


def render_times(space: Namespace) -> None:
    lines = [
        f"page={page} rendered in {base + number % 10 * 0.2:.1f} s"
        for number in range(20)
        for page, base in (("home", 0.3), ("checkout", 7.0), ("search", 1.1))
    ]
    space.made(CORE, "pods", pod("pages", {"app": "pages"}, **says(*lines)))


def backups(space: Namespace) -> None:
    for number, name in enumerate(("orders-data", "media-data", "build-cache", "wiki-data")):
        mark = "7d1e52aa-90c4" if number % 2 else "c0ffee00-1234"
        bound(space, name, {"backups.example/made-from": mark})


def blocked(space: Namespace) -> None:
    deployment(space, "frontend", says("timeout after 5 s: http://backend:80"))
    deployment(space, "backend", says("listening on 8080"))
    service(space, "backend", 80, 8080)
    only = {"from": [{"podSelector": {"matchLabels": {"tier": "internal"}}}]}
    chosen = {"matchLabels": {"app": "backend"}}
    spec = {"podSelector": chosen, "policyTypes": ["Ingress"], "ingress": [only]}
    policy = {"metadata": {"name": "backend-guard"}, "spec": spec}
    space.made(NETWORK, "networkpolicies", policy)


def wrong_port(space: Namespace) -> None:
    address = {"name": "CATALOG_ADDRESS", "value": "catalog:8082"}
    deployment(space, "checkout", {
        **says("cannot reach catalog:8082: connection refused"), "env": [address],
    })  # fmt: skip
    deployment(space, "catalog", says("listening on 8080"))
    service(space, "catalog", 8080, 8080)


def wrong_target(space: Namespace) -> None:
    ports = [{"containerPort": 9090}]
    deployment(space, "users", {**says("listening on 9090"), "ports": ports})
    service(space, "users", 9090, 9999)


def misrouted(space: Namespace) -> None:
    for name in ("frontend", "advice"):
        deployment(space, name, says(f"{name} listens on 8080"))
        service(space, name, 80, 8080)
    ingress(space, "frontend", "advice", 80)


def no_service(space: Namespace) -> None:
    deployment(space, "gateway", says("lookup ads on 10.0.0.10:53: no such host"))
    deployment(space, "ads", says("listening on 8080"))


def scaled_down(space: Namespace) -> None:
    deployment(space, "timeline", {}, replicas=0)
    service(space, "timeline", 80, 8080)


def same_port(space: Namespace) -> None:
    more = {"name": "exporter", "image": IMAGE, "imagePullPolicy": "Never",
            **fails("listen tcp :8080: bind: address already in use")}  # fmt: skip
    whole = pod("mailer-0", {"app": "mailer"}, **says("listening on 8080"))
    whole["spec"]["containers"].append(more)
    space.made(CORE, "pods", whole)


def quota(space: Namespace) -> None:
    hard = {"metadata": {"name": "memory"}, "spec": {"hard": {"limits.memory": "1Gi"}}}
    space.made(CORE, "resourcequotas", hard)
    amounts = "requested: limits.memory=2Gi, used: limits.memory=900Mi, limited: limits.memory=1Gi"
    forbidden = 'pods "ranking-6d5f84-" is forbidden: exceeded quota: memory'
    refused(space, "ranking", f"{forbidden}, {amounts}")


def probe_of(kind: str, what: Mapping[str, Any]) -> dict[str, Any]:
    probe = {**what, "periodSeconds": 1, "failureThreshold": 1}
    return {**shell(IDLE), kind: probe}


NODES = "0/3 nodes are available: "
SECRET = r'secrets is forbidden: User \\"stranger\\" cannot list resource \\"secrets\\"'


def logs_of(space: str, name: str, pattern: str = "") -> Call:
    return kubernetes, {"action": "logs", "namespace": space, "name": name, "pattern": pattern}


def describe(space: str, name: str) -> Call:
    return kubernetes, {"action": "describe", "namespace": space, "name": name}


def get(space: str, kind: str, **more: str) -> Call:
    return kubernetes, {"action": "get", "namespace": space, "kind": kind, **more}


CLUSTER: tuple[tuple[Case, Build, tuple[str, ...]], ...] = (
    (Case("02_what_is_wrong_with_pod", "out of memory",
          asked("y02", "pod/image-resizer-6d5f84-x2z9q"), ("OOMKilled",), 1),
     lambda space: killed(space, "image-resizer"), ()),
    (Case("04_related_k8s_events", "a pod that starts as it should; its events",
          ((kubernetes, {"action": "events", "namespace": "y04", "kind": "pod", "name": "web"}),),
          ("Scheduled", "Pulled", "Created", "Started"), 1),
     starts_normally, (READY, '"Started"')),
    (Case("05_image_version", "which image a pod has", (describe("y05", "pod/turtle"),),
          (r"web:1\.23\.4",), 1),
     one_pod("turtle", image="registry.invalid/web:1.23.4"), ("ErrImageNeverPull",)),
    (Case("07_high_latency", "slow calls to the database, in the log",
          asked("y07", "deployment/orders"), (r"database .* took 7\.4 s",), 3),
     of("orders", **says("GET /orders", "database select orders took 7.4 s", "200 in 7.5 s")),
     (READY,)),
    (Case("09_crashpod", "ends for lack of an environment variable",
          asked("y09", "deployment/payments-worker"), ("REGION_CODE is not set",), 1),
     of("payments-worker", **fails("REGION_CODE is not set")), (CRASH,)),
    (Case("10_image_pull_backoff", "an image that is not there",
          asked("y10", "deployment/crm"),
          (r"registry\.invalid/acme/crm:9", "ErrImagePull|ImagePullBackOff"), 1),
     of("crm", image="registry.invalid/acme/crm:9", imagePullPolicy="IfNotPresent"),
     ("ErrImagePull|ImagePullBackOff",)),
    (Case("11_init_containers", "a misspelled command in an init container",
          asked("y11", "deployment/log-shipper"), ("wgett: not found",), 1),
     init_fails, (CRASH,)),
    (Case("12_job_crashing", "a job that does not reach its database",
          asked("y12", "job/report-checker"), ("main-db:5433.*refused",), 1),
     lambda space: job(space, "report-checker", fails("cannot connect to main-db:5433: refused")),
     ('"Failed"',)),
    (Case("13a_pending_node_selector_basic", "a node selector that no node has",
          asked("y13", "deployment/profiles"), ("didn't match Pod's node affinity/selector",), 1),
     lambda space: pending(
         space, "profiles", f"{NODES}3 node(s) didn't match Pod's node affinity/selector.",
         nodeSelector={"disk": "nvme"}), ()),
    (Case("14_pending_resources", "a GPU that no node has",
          asked("y14", "deployment/trainer"), (r"Insufficient nvidia\.com/gpu",), 1),
     lambda space: pending(space, "trainer", f"{NODES}3 Insufficient nvidia.com/gpu.",
                           resources={"limits": {"nvidia.com/gpu": "4"}}), ()),
    (Case("15_failed_readiness_probe", "never ready",
          asked("y15", "deployment/search"), ("[Rr]eadiness probe failed", "index.loaded"), 1),
     of("search", **probe_of("readinessProbe", {"exec": {"command": ["cat", "/index.loaded"]}})),
     ("Readiness probe failed",)),
    (Case("17_oom_kill", "out of memory again and again",
          asked("y17", "deployment/exporter"), ("OOMKilled", CRASH, "96Mi"), 1),
     lambda space: killed(space, "exporter"), ()),
    (Case("19_detect_missing_app_details", "something that is not there",
          (describe("", "deployment/certificate-checker"),),
          ("certificate-checker", "not found|no deployment|there is no"), 1),
     nothing, ()),
    (Case("20_long_log_file_search", "one line among 9000",
          (logs_of("y20", "router", "peer down"),), (r"Peer down: 10\.8\.0\.3",), 1),
     needle, (READY,)),
    (Case("21_job_fail_curl_no_svc_account", "an old event misleads; the log has the cause",
          asked("y21", "job/fetch-rates"), (r"resolve host: rates\.bank\.invalid",), 1),
     two_causes, ('"Failed"',)),
    (Case("23_app_error_in_current_logs", "runs, but cannot resolve a name",
          asked("y23", "deployment/memes"), ("memcom.*not known",), 3),
     of("memes", **says("GET /", "memcom: Name or service not known", "503")), (READY,)),
    (Case("24_misconfigured_pvc", "a claim of a storage class that is not there",
          asked("y24", "deployment/cache"), ("premium-nvme", "cache-data"), 1),
     wrong_class, ()),
    (Case("25_misconfigured_ingress_class", "an ingress class that is not there",
          asked("y25", "deployment/portal"), ("edge-proxy-2",), 1),
     wrong_ingress_class, (READY,)),
    (Case("26_page_render_times", "times of one page among others, in the log",
          (logs_of("y26", "pages", "checkout"),), (r"in 7\.0 s", r"in 8\.8 s"), 1),
     render_times, (READY,)),
    (Case("28_permissions_error", "an account that may not list secrets",
          ((kubernetes, {"action": "get", "kind": "secrets"}),), (SECRET,), 1, account="stranger"),
     nothing, ()),
    (Case("104a_postgres_root_issue", "slow for want of a database that does not start",
          asked("y104", "deployment/user-search"),
          (f"{CRASH}|exit code 1", '"root" execution of the PostgreSQL server is not'), 1),
     database_of_root, (CRASH, READY)),
    (Case("108_logs_nearby_lines", "the cause stands before the first of 300 errors",
          (logs_of("y108", "deployment/catalog-api", "connection refused"),),
          ("settings have changed", r"db\.staging\.example"), 1),
     settings_of_staging, (READY,)),
    (Case("112_find_pvcs_by_uuid", "claims with an identifier in an annotation, and their sizes",
          (get("", "pvc", pattern="7d1e52aa-90c4"),), ("media-data.*3Gi", "wiki-data.*3Gi"), 1),
     backups, ()),
    (Case("176_network_policy_blocking_traffic", "a policy lets in others only",
          (*asked("y176", "service/backend")[:2], get("y176", "networkpolicies")),
          ("backend-guard", "tier=internal"), 2),
     blocked, (READY,)),
    (Case("assign_to_non_existent_node", "a pod for a node that is not there",
          asked("s1", "deployment/accounts"), ("node-17", "didn't match Pod's node"), 2),
     lambda space: pending(
         space, "accounts", f"{NODES}3 node(s) didn't match Pod's node affinity/selector.",
         nodeSelector={"kubernetes.io/hostname": "node-17"}), ()),
    (Case("incorrect_port_assignment", "calls a service at a port that it does not have",
          (*asked("s2", "deployment/checkout")[:1], logs_of("s2", "deployment/checkout"),
           describe("s2", "service/catalog")), ("catalog:8082", "8080"), 3),
     wrong_port, (READY,)),
    (Case("ingress_misroute", "an ingress leads to another service",
          asked("s3", "ingress/frontend")[:2], (r"(?s)frontend\.example.*name: advice",), 2),
     misrouted, (READY,)),
    (Case("init_container_dependency_hang", "an init container waits for ever",
          asked("s4", "deployment/storefront"),
          ("wait-for-cache", "waiting for the service session-cache"), 3),
     init_waits, ('"running"',)),
    (Case("k8s_target_port-misconfig", "a service's target port is not the container's",
          asked("s5", "service/users")[:2], ("9999", "9090"), 2),
     wrong_target, (READY,)),
    (Case("liveness_probe_misconfiguration", "a liveness probe of the wrong port",
          asked("s6", "deployment/advice"), ("Liveness probe failed", ":1/"), 1),
     of("advice", **probe_of("livenessProbe", {"httpGet": {"path": "/", "port": 1}})),
     ("Liveness probe failed",)),
    (Case("missing_configmap", "a ConfigMap that is not there",
          asked("s7", "deployment/geo"), ('configmap "geo-start" not found',), 1),
     of("geo", **shell(IDLE), envFrom=[{"configMapRef": {"name": "geo-start"}}]),
     ("CreateContainerConfigError",)),
    (Case("missing_service", "a service that is not there",
          (*asked("s8", "deployment/gateway")[:1], logs_of("s8", "deployment/gateway"),
           describe("s8", "service/ads")),
          ("lookup ads .*no such host", "ads.*not found|no service|there is no"), 3),
     no_service, (READY,)),
    (Case("namespace_memory_limit", "a quota lets no pod be made",
          asked("s9", "deployment/ranking"), ("exceeded quota: memory", r"limits\.memory=1Gi"), 1),
     quota, ()),
    (Case("pod_anti_affinity_deadlock", "pods that keep each other from every node",
          asked("s10", "deployment/store"), ("anti-affinity",), 1),
     lambda space: pending(
         space, "store", f"{NODES}3 node(s) didn't match pod anti-affinity rules."), ()),
    (Case("pvc_claim_mismatch", "a claim by a wrong name",
          asked("s11", "deployment/media"), ("media-data-old", "not found"), 1),
     wrong_claim, ()),
    (Case("rbac_misconfiguration", "a role that misses a right",
          asked("s12", "deployment/operator"), ("configmaps is forbidden",), 1),
     of("operator", **fails("configmaps is forbidden: cannot list in the namespace shop")),
     (CRASH,)),
    (Case("resource_request_too_large", "asks for more memory than any node has",
          asked("s13", "deployment/matcher"), ("Insufficient memory", "900Gi"), 2),
     lambda space: pending(space, "matcher", f"{NODES}3 Insufficient memory.",
                           resources={"requests": {"memory": "900Gi"}}), ()),
    (Case("scale_pod", "scaled to none",
          asked("s14", "deployment/timeline"), ("0 replicas|scaled to 0|replicas: 0",), 2),
     scaled_down, ()),
    (Case("sidecar_port_conflict", "two containers want one port",
          asked("s15", "pod/mailer-0"), ("exporter", "address already in use"), 1),
     same_port, (CRASH,)),
    (Case("taint_no_toleration", "a taint that is not tolerated",
          asked("s16", "deployment/users"), ("had taint {team: ml}",), 1),
     lambda space: pending(
         space, "users", f"{NODES}3 node(s) had taint {{team: ml}}, that the pod didn't "
         "tolerate."), ()),
)  # fmt: skip
"""Cases, what makes the fault, and what the node has said of it when it is there."""


def space_of(case: Case) -> str:
    return str(case.calls[0][1].get("namespace") or f"y{case.name.partition('_')[0]}")


@contextmanager
def all_faults() -> Iterator[None]:
    """Every namespace at once, until the end of the block."""
    with ExitStack() as at_end:
        made: list[tuple[Namespace, tuple[str, ...]]] = []
        for case, build, words in CLUSTER:
            space = Namespace(space_of(case))
            at_end.callback(space.client.close)
            space.begin()
            at_end.callback(space.remove)
            build(space)
            made.append((space, words))
        for space, words in made:
            space.wait(f"{space.space} has {words}", partial(has_said, space, words))
            reconcile(space)
        yield


def reconcile(space: Namespace) -> None:
    """What controllers would say of the pods by now: how many are ready, and where."""
    path = f"/{CORE}/namespaces/{space.space}"
    pods: dict[str, tuple[Any, bool]] = {}
    for one in space.client.get(f"{path}/pods").json()["items"]:
        ready = any(each["type"] == "Ready" and each["status"] == "True"
                    for each in one["status"].get("conditions") or [])  # fmt: skip
        pods[one["metadata"]["labels"].get("app", "")] = one, ready
    among = f"/{APPS}/namespaces/{space.space}/deployments"
    for one in space.client.get(among).json()["items"]:
        name = one["metadata"]["name"]
        if pods.get(name, (None, False))[1]:
            status = {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}
            space.client.patch(f"{among}/{name}/status", json={"status": status}, headers=MERGE)
    for one in space.client.get(f"{path}/services").json()["items"]:
        name, port = one["metadata"]["name"], one["spec"]["ports"][0]["targetPort"]
        if name in pods:
            pod_of, ready = pods[name]
            address = {"ip": "10.1.0.7", "targetRef": {
                "kind": "Pod", "name": pod_of["metadata"]["name"]}}  # fmt: skip
            part = "addresses" if ready else "notReadyAddresses"
            space.made(CORE, "endpoints", {
                "metadata": {"name": name},
                "subsets": [{part: [address], "ports": [{"port": port}]}],
            })  # fmt: skip


def has_said(space: Namespace, words: tuple[str, ...]) -> bool:
    path = f"/{CORE}/namespaces/{space.space}"
    said = "".join(space.client.get(f"{path}/{what}").text for what in ("pods", "events"))
    return all(re.search(word, said) for word in words)
