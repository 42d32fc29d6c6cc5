"""A shop in a cluster with much that is wrong. The answers are those of a real API server: recorded
for the quick tests, and fresh for the slow ones."""

import json
import shlex
import ssl
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qsl

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from hermes_agent.core.errors import ToolError
from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.core.tools import Tool
from hermes_agent.tools.sources.changes import what_changed
from hermes_agent.tools.sources.cluster.credentials import login
from hermes_agent.tools.sources.cluster.objects import cleaned
from hermes_agent.tools.sources.cluster.problems import policy_lines
from hermes_agent.tools.sources.cluster.workloads import differences
from hermes_agent.tools.sources.kubernetes import kubernetes, server
from hermes_agent.tools.sources.redaction import HIDDEN
from hermes_agent.tools.sources.times import parsed
from tests.support.calls import caller
from tests.support.cluster import cluster
from tests.support.recorded_wire import answering, of_file, replay
from tests.support.shop_cluster import RECORDING, shop
from tests.support.sources import Observer

ASKED: tuple[tuple[Tool, dict[str, Any]], ...] = (
    (kubernetes, {"action": "overview"}),
    (kubernetes, {"action": "overview", "namespace": "shop"}),
    (kubernetes, {"action": "get"}),
    (kubernetes, {"action": "get", "kind": "secret", "name": "db"}),
    (kubernetes, {"action": "get", "name": "cm/web-config"}),
    (kubernetes, {"action": "describe", "name": "checkout-0"}),
    (kubernetes, {"action": "describe", "name": "service/cart"}),
    (kubernetes, {"action": "describe", "name": "pvc/orders"}),
    (kubernetes, {"action": "describe", "name": "deployment/web"}),
    (kubernetes, {"action": "events", "name": "report-0"}),
    (kubernetes, {"action": "logs", "name": "checkout-0"}),
    (kubernetes, {"action": "logs", "selector": "app in (checkout,search)", "pattern": "PANIC"}),
    (kubernetes, {"action": "rollout", "name": "web"}),
    (what_changed, {"minutes": 10}),
)  # fmt: skip
"""What is recorded."""
FLUX = {
    "GET /apis": {"groups": [{
        "name": "kustomize.toolkit.fluxcd.io",
        "preferredVersion": {"groupVersion": "kustomize.toolkit.fluxcd.io/v1"},
    }]},
    "GET /apis/kustomize.toolkit.fluxcd.io/v1": {"resources": [{
        "name": "kustomizations", "singularName": "kustomization", "namespaced": True,
        "kind": "Kustomization", "verbs": ["get", "list"], "shortNames": ["ks"],
    }]},
    "GET /apis/kustomize.toolkit.fluxcd.io/v1/kustomizations?limit=500": {"items": [{
        "metadata": {"name": "apps", "namespace": "flux-system"},
        "spec": {"path": "./deploy", "sourceRef": {"kind": "GitRepository", "name": "fleet"}},
        "status": {
            "lastAppliedRevision": "main@sha1:aaaa", "lastAttemptedRevision": "main@sha1:bbbb",
            "conditions": [{
                "type": "Ready", "status": "False", "reason": "BuildFailed",
                "message": "kustomize build failed: deploy.yaml: no such file",
                "lastTransitionTime": "2026-11-19T03:00:00Z",
            }],
        },
    }]},
}  # fmt: skip
"""Custom resources crash an API server of that age, built by that Go: these are written by hand."""


def kubeconfig(folder: Path, url: str, user: dict[str, Any]) -> SourceSettings:
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump({
        "current-context": "shop",
        "contexts": [{"name": "shop", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": user}],
    }))  # fmt: skip
    return SourceSettings(kind="kubernetes", url=url, kubeconfig=str(path))


async def record(into: dict[str, Any], forward: Callable[..., Any]) -> float:
    """Ask a real server what the tests ask; the time of it."""
    now = float(round(time.time()))
    with shop() as made, answering(forward(made, into)) as url, TemporaryDirectory() as folder:
        now = float(round(time.time()))
        async with caller(Path(folder)) as here:
            observer = Observer(here, now=lambda: now)
            observer.sources["prod"] = kubeconfig(Path(folder), url, {"token": "x"})
            for tool, given in ASKED:
                await observer.call(tool, **given)
            await observer.verify()
    return now


@pytest.fixture(scope="module", params=[
    "recorded", pytest.param("real", marks=[pytest.mark.slow, pytest.mark.timeout(400)]),
])  # fmt: skip
def world(request: pytest.FixtureRequest) -> Iterator[tuple[str, float]]:
    """Its address, or nothing for the kubeconfig of the real one, and the time there."""
    if request.param == "real":
        with shop():
            yield "", 0.0
        return
    recorded = of_file(RECORDING)
    with answering(replay(recorded["wire"])) as url:
        yield url, recorded["now"]


@pytest.fixture
def prod(world: tuple[str, float], observer: Observer, tmp_path: Path) -> Observer:
    url, now = world
    if url:
        observer.now = lambda: now
        observer.sources["prod"] = kubeconfig(tmp_path, url, {"token": "x"})
    else:
        path = str(cluster() / "admin")
        observer.sources["prod"] = SourceSettings(kind="kubernetes", kubeconfig=path)
    return observer


async def said(prod: Observer, tool: Tool, **given: Any) -> str:
    """In the real cluster, other tests have a `web`, too."""
    if given.get("name", "").endswith("web") and prod.now is time.time:
        given["namespace"] = "shop"
    return (await prod.call(tool, **given)).text


async def test_one_call_says_what_is_wrong_and_why(prod: Observer) -> None:
    text = (await prod.call(kubernetes, action="overview")).text
    for fact in (
        "OOMKilled, exit code 137 (SIGKILL), memory limit 64Mi",
        "panic: cannot reach db:5432",
        "CrashLoopBackOff",
        "ErrImageNeverPull",
        "image shop/search:2.0-typo",
        "0/3 nodes are available: 3 Insufficient memory",
        "1 of 2 replicas are ready",
        "ProgressDeadlineExceeded",
        "no pod has the labels of its selector (app=carts, tier=front); cart-0 has app=cart",
        'storageclass.storage.k8s.io "fast-ssd" not found',
        "shop.example/pay → payments:80: there is no such Service",
        "shop.example/cart → cart:8080: the Service has the ports 80",
    ):
        assert fact in text


async def test_a_namespace_alone_can_be_asked_for(prod: Observer) -> None:
    result = await prod.call(kubernetes, action="overview", namespace="shop")
    assert result.data["pods"] == 4
    assert result.text.splitlines()[2].startswith("namespace shop: 4 pods in trouble")


async def test_objects_are_the_table_that_kubectl_prints(prod: Observer) -> None:
    lines = (await prod.call(kubernetes, action="get")).text.splitlines()
    assert lines[2].split() == ["namespace", "name", "ready", "status", "restarts", "age"]
    assert any(line.split()[:4] == ["shop", "cart-0", "0/1", "CrashLoopBackOff"] for line in lines)


@pytest.mark.parametrize(("action", "name", "facts"), [
    ("describe", "checkout-0", ("exit code 3", "Back-off restarting", "panic: cannot reach db")),
    ("describe", "service/cart", ("problem: no endpoint", "targetPort: 8080")),
    ("describe", "pvc/orders", ("there is no class 'fast-ssd'", "no pod uses it")),
    ("describe", "deployment/web", ("Progressing=False", "image: shop/web:1.5")),
    ("events", "report-0", ("FailedScheduling", "7 times")),
    ("rollout", "web", ("POOL_SIZE].value: 50 → 5", "image: shop/web:1.4 → shop/web:1.5")),
])  # fmt: skip
async def test_an_object_comes_with_what_explains_it(
    prod: Observer, action: str, name: str, facts: tuple[str, ...]
) -> None:
    text = await said(prod, kubernetes, action=action, name=name)
    assert [fact for fact in facts if fact not in text] == []


async def test_secrets_are_never_shown(prod: Observer) -> None:
    texts = [await said(prod, tool, **given) for tool, given in ASKED]
    assert [text for text in texts if "hunter" in text or "aHVudGVy" in text] == []
    assert "mode: fast" in texts[4]
    assert "password = (not shown)" in texts[4]
    assert "DB_PASSWORD].value: changed (not shown)" in texts[12]


async def test_logs_of_several_pods_are_searched(prod: Observer) -> None:
    result = await prod.call(
        kubernetes,
        action="logs",
        selector="app in (checkout,search)",
        pattern="PANIC",
    )
    assert result.data == {"source": "prod", "pods": 2, "lines": 1}
    assert "panic: cannot reach db:5432" in result.text
    assert "search-0" in result.text
    before, _, _ = result.text.partition("panic: cannot")
    assert "what precedes the first of 1 matches" in before
    assert before.index("starting") < before.index("container main\n")


async def test_objects_are_found_by_what_is_in_their_yaml(prod: Observer) -> None:
    result = await prod.call(kubernetes, action="get", pattern="2\\.0-typo")
    assert result.data["count"] == 1
    assert "image: shop/search:2.0-typo" in result.text


def test_a_note_with_all_of_a_secret_is_not_shown() -> None:
    notes = {"kapp.k14s.io/original": '{"data":{"url":"aHVudGVyMg=="}}', "team": "shop"}
    secret = {
        "kind": "Secret",
        "metadata": {"name": "db", "annotations": notes},
        "data": {"url": "x"},
    }
    shown = cleaned(secret)
    assert shown["metadata"]["annotations"] == {"kapp.k14s.io/original": HIDDEN, "team": "shop"}
    assert shown["data"] == {"url": HIDDEN}


def test_only_secrets_are_hidden_where_templates_differ() -> None:
    def template(tag: str) -> dict[str, Any]:
        args = ["--db-password", f"hunter{tag}", "-v", tag]
        return {"spec": {"containers": [{"name": "auth", "image": f"auth:{tag}", "args": args}]}}

    assert differences(template("1"), template("2")) == [
        "- containers[auth].image: auth:1 → auth:2",
        "- containers[auth].args[1]: changed (not shown)",
        "- containers[auth].args[3]: 1 → 2",
    ]


@pytest.mark.parametrize(("policy", "line"), [
    ({"ingress": [{"from": [{"podSelector": {"matchLabels": {"tier": "in"}}}],
                   "ports": [{"port": 80}]}]}, "lets in only pods tier=in, port 80"),
    ({"policyTypes": ["Ingress"]}, "lets in nobody"),
    ({"policyTypes": ["Egress"], "egress": [{"to": [
        {"namespaceSelector": {}, "podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/8"}},
    ]}]}, "lets out to only pods all in namespaces all, 10.0.0.0/8"),
    ({"podSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}, ""),
])  # fmt: skip
def test_a_network_policy_is_told_in_words(policy: dict[str, Any], line: str) -> None:
    chosen = {"podSelector": {"matchLabels": {"app": "web"}}}
    one = {"metadata": {"name": "guard"}, "spec": {**chosen, **policy}}
    expected = [f"network policy guard {line}"] if line else []
    assert policy_lines([one], {"app": "web"}) == expected


async def test_what_changed_knows_rollouts_and_ends_of_containers(prod: Observer) -> None:
    text = (await prod.call(what_changed, minutes=10)).text
    assert "prod: rollout of shop/web, revision 2: image: shop/web:1.4 → shop/web:1.5; env" in text
    assert "prod: shop/cart-0, container main ended: OOMKilled" in text
    assert "prod: ConfigMap shop/web-config was created" in text


async def test_the_source_says_which_version_it_is(prod: Observer) -> None:
    assert await prod.verify() == "answers; Kubernetes v1.20.2; 1 nodes"


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_who_may_see_nothing_is_told_so(observer: Observer) -> None:
    stranger = str(cluster() / "stranger")
    observer.sources["prod"] = SourceSettings(kind="kubernetes", kubeconfig=stranger)
    with pytest.raises(ToolError, match=r'"stranger\\" cannot list resource'):
        await observer.call(kubernetes, action="overview")


async def test_flux_says_which_revision_it_could_not_apply(
    observer: Observer, tmp_path: Path
) -> None:
    with answering(replay({key: [200, said] for key, said in FLUX.items()})) as url:
        observer.sources["prod"] = kubeconfig(tmp_path, url, {"token": "x"})
        result = await observer.call(kubernetes, action="flux")
    assert result.data == {"source": "prod", "objects": 1, "in trouble": 2}
    assert "applied main@sha1:aaaa, attempted main@sha1:bbbb" in result.text
    assert "kustomize build failed: deploy.yaml: no such file" in result.text


SERVICE = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"selector": {"app": "web"}}}
NODE = {
    "metadata": {"name": "n"}, "spec": {},
    "status": {"conditions": [{"type": "KernelReady", "status": "True"}]},
}  # fmt: skip
SECRET = {
    "kind": "PartialObjectMetadata",
    "metadata": {"name": "db", "namespace": "shop", "creationTimestamp": "2026-11-19T03:12:00Z"},
}
POD = {"metadata": {"name": "web-1", "namespace": "shop"}, "spec": {"containers": [{"name": "a"}]}}
LOG = [f"2026-11-19T03:{minute}:00.1Z line {minute}" for minute in (10, 12, 40, 41, 42)]


def small_cluster(
    _method: str, target: str, _body: bytes, headers: Mapping[str, str]
) -> tuple[int, Any]:
    """In which endpoints may not be seen, and pods have no end."""
    path, _, query = target.partition("?")
    if path.endswith("/log"):
        most = int(dict(parse_qsl(query)).get("tailLines", len(LOG)))
        return 200, "\n".join(LOG[-most:])
    part = path.rpartition("/")[2]
    if part == "pods" and "fieldSelector" not in query:
        return 200, {"items": [POD] * 500, "metadata": {"continue": "more"}}
    if part == "endpoints" or (part == "secrets" and "PartialObject" not in headers["accept"]):
        return 403, {"message": "it is forbidden"}
    there = {"services": SERVICE, "nodes": NODE, "secrets": SECRET, "pods": POD}
    return 200, {"groups": [], "items": [there[part]] if part in there else []}


async def test_a_small_cluster_is_told_as_it_is(observer: Observer, tmp_path: Path) -> None:
    """What may not be seen is not said to be missing; logs of a time before are found."""
    observer.now = lambda: parsed("2026-11-19T03:50:00Z")
    with answering(small_cluster) as url:
        observer.sources["prod"] = kubeconfig(tmp_path, url, {"token": "x"})
        overview = (await observer.call(kubernetes, action="overview")).text
        listed = (await observer.call(kubernetes, action="get", selector="app=web")).text
        changed = (await observer.call(what_changed, minutes=60, sources=["prod"])).text
        until = {"until": "2026-11-19T03:12:30Z", "limit": 1}
        logs = (await observer.call(kubernetes, action="logs", name="web-1", **until)).text
    assert "all namespaces: no problem found" in overview
    assert "does not list endpoints" in overview
    assert "only the first 4000 pods were read" in overview
    assert "[some more were not listed]" in listed
    assert "Secret shop/db was created" in changed
    assert "[prod: only the first 4000 pods were read]" in changed
    assert "line 12" in logs
    assert "line 40" not in logs


async def test_a_login_program_of_the_kubeconfig_gives_the_token(
    observer: Observer, tmp_path: Path
) -> None:
    """It gets the variables that such programs need and no others, and runs once while it holds."""
    script = tmp_path / "login"
    said = {"kind": "ExecCredential", "status": {"token": "from-$HOME-$OPENAI_KEY"}}
    script.write_text(f"#!/bin/sh\necho run >>{shlex.quote(str(tmp_path / 'runs'))}\n"
                      f"cat <<END\n{json.dumps(said)}\nEND\n")  # fmt: skip
    script.chmod(0o755)
    observer.sources["prod"] = kubeconfig(
        tmp_path, "http://127.0.0.1:1", {"exec": {"command": "./login"}}
    )
    for _ in range(2):
        found = await login(
            observer.source(), {"PATH": "/usr/bin:/bin", "HOME": "/h", "OPENAI_KEY": "sk"}
        )
        assert found.token == "from-/h-"
    assert (tmp_path / "runs").read_text() == "run\n"


@pytest.mark.parametrize(("user", "trouble"), [
    ({"exec": {"command": "no-such-login", "installHint": "get it"}}, "no-such-login"),
    ({"exec": {"command": sys.executable, "args": ["-c", "raise SystemExit('log in')"]}}, "log in"),
    ({"auth-provider": {"name": "gcp"}}, "auth-provider"),
    ({"client-certificate-data": "Zm9v", "client-key-data": "Zm9v"}, "certificate"),
])  # fmt: skip
async def test_a_login_that_fails_is_told_in_a_sentence(
    observer: Observer, tmp_path: Path, user: dict[str, Any], trouble: str
) -> None:
    observer.sources["prod"] = kubeconfig(tmp_path, "https://127.0.0.1:1", user)
    with pytest.raises(ToolError, match=trouble) as caught:
        await login(observer.source(), {"PATH": "/usr/bin:/bin"})
    assert caught.value.hint


def test_the_address_of_a_context_is_known_without_a_login(tmp_path: Path) -> None:
    """As `hermes sources add kubernetes` asks for it."""
    path = kubeconfig(tmp_path, "https://cluster.example:6443", {"token": "x"}).kubeconfig
    assert server(path, "", {}) == "https://cluster.example:6443"
    assert server("", "shop", {"KUBECONFIG": path}) == "https://cluster.example:6443"
    inside = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert server("", "", inside) == "https://[fd00::1]:443"
    with pytest.raises(ToolError, match="no context 'test'") as caught:
        server(path, "test", {})
    assert "there are: shop" in caught.value.hint


def own_certificate(
    locked: KeySerializationEncryption = NoEncryption(),  # noqa: B008 - it holds nothing
) -> tuple[bytes, bytes]:
    """A certificate of 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "shop")])
    day, now = timedelta(days=1), datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + day)
        .add_extension(address, False)
        .add_extension(x509.BasicConstraints(True, None), True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .sign(key, hashes.SHA256())
    )
    form = (Encoding.PEM, PrivateFormat.PKCS8, locked)
    return made.public_bytes(Encoding.PEM), key.private_bytes(*form)


async def test_a_key_with_a_password_is_refused_and_no_terminal_is_asked(
    observer: Observer, tmp_path: Path
) -> None:
    certificate, key = map(b64encode, own_certificate(BestAvailableEncryption(b"hunter2")))
    user = {"client-certificate-data": certificate.decode(), "client-key-data": key.decode()}
    observer.sources["prod"] = kubeconfig(tmp_path, "https://127.0.0.1:1", user)
    with pytest.raises(ToolError, match="the client-key is encrypted"):
        await observer.verify()


async def test_a_certificate_of_the_kubeconfig_is_a_login(
    observer: Observer, tmp_path: Path
) -> None:
    certificate, key = own_certificate()
    for name, data in (("certificate", certificate), ("key", key)):
        (tmp_path / name).write_bytes(data)
    wanted = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tmp_path / "certificate")
    wanted.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    wanted.verify_mode = ssl.CERT_REQUIRED
    encoded = {"client-certificate-data": b64encode(certificate).decode(), "client-key": "key"}
    wire = {
        "GET /version": [200, {"gitVersion": "v1.34.1"}],
        "GET /api/v1/nodes?limit=500": [403, ""],
    }
    with answering(replay(wire), wanted) as url:
        source = kubeconfig(tmp_path, url, encoded)
        path = Path(source.kubeconfig)
        config = yaml.safe_load(path.read_text())
        config["clusters"][0]["cluster"]["certificate-authority"] = "certificate"
        path.write_text(yaml.safe_dump(config))
        observer.sources["prod"] = source
        assert await observer.verify() == "answers; Kubernetes v1.34.1; it may not list nodes"
        del config["users"][0]["user"]["client-key"]
        path.write_text(yaml.safe_dump(config))
        with pytest.raises(ToolError, match="cannot reach"):
            await observer.verify()
