"""Repositories that declare, and a shell that looks without a gate."""

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import yaml

from hermes_agent.policy.redaction.redactor import Redactor
from hermes_drift.audit import AuditBaseline, Auditor, judge
from hermes_drift.scopes.repository import Repository
from hermes_drift.values import CommandAnswer, DriftFinding, Scope, ScopeResult
from tests.support.quick_http import QuickHTTPServer


class ShellLive:
    """Commands run as they are; those are kept that were asked."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self.name = "local"
        self.asked: list[str] = []
        self._environ = {**os.environ, **(environ or {})}

    async def ask(self, command: str) -> CommandAnswer:
        self.asked.append(command)
        done = await asyncio.to_thread(
            subprocess.run, ["bash", "-c", command], env=self._environ, capture_output=True
        )
        out, error = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        return CommandAnswer(done.returncode, out, error)


def git(folder: Path, *words: str, by: str = "ann") -> str:
    who = ["-c", f"user.name={by}", "-c", f"user.email={by}@example.org"]
    done = subprocess.run(
        ["git", "-C", folder, *who, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def declare(folder: Path, drift: Mapping[str, Any], files: Mapping[str, str | bytes]) -> Path:
    """A repository with these files and this `drift.yaml`, committed."""
    if not (folder / ".git").exists():
        folder.mkdir(parents=True, exist_ok=True)
        git(folder, "init", "-q")
    for path, content in {"drift.yaml": yaml.safe_dump(dict(drift)), **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        (folder / path).write_bytes(data)
        if data.startswith(b"#!"):
            (folder / path).chmod(0o755)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "What we want")
    return folder


async def looked(
    folder: Path, live: ShellLive | None = None, scopes: Sequence[Scope] = ()
) -> Sequence[ScopeResult]:
    shell = live or ShellLive()
    repository = await Repository.open(str(folder), os.environ)
    return await Auditor(repository, lambda _name: shell, Redactor({})).run(scopes)


async def audited(
    folder: Path, live: ShellLive | None = None, known: AuditBaseline | None = None
) -> dict[tuple[str, str], DriftFinding]:
    """Findings by object (a path by its last part) and field."""
    shell = live or ShellLive()
    repository = await Repository.open(str(folder), os.environ)
    found = await Auditor(repository, lambda _name: shell, Redactor({})).run()
    assert [one for scope in found for one in scope.troubles] == []
    judged = await judge("drift-1", found, repository, known or AuditBaseline(), Redactor({}))
    return {
        (one.object.rpartition("/")[2], one.field): one
        for scope in judged
        for one in scope.findings
    }


GROUPS = {
    "v1": {"configmaps": "ConfigMap", "services": "Service", "secrets": "Secret",
           "serviceaccounts": "ServiceAccount"},
    "apps/v1": {"deployments": "Deployment", "statefulsets": "StatefulSet"},
    "autoscaling/v2": {"horizontalpodautoscalers": "HorizontalPodAutoscaler"},
    "serving.knative.dev/v1": {"services": "Service"},
    "keda.sh/v1alpha1": {"scaledobjects": "ScaledObject"},
    "autoscaling.k8s.io/v1": {"verticalpodautoscalers": "VerticalPodAutoscaler"},
    "kyverno.io/v1": {"clusterpolicies": "ClusterPolicy", "policies": "Policy"},
    "constraints.gatekeeper.sh/v1beta1": {"k8srequiredlabels": "K8sRequiredLabels"},
    "admissionregistration.k8s.io/v1": {
        "validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
        "validatingadmissionpolicies": "ValidatingAdmissionPolicy",
    },
    "rbac.authorization.k8s.io/v1": {"roles": "Role", "rolebindings": "RoleBinding"},
}  # fmt: skip
CLUSTER_SCOPED = {
    "ClusterPolicy", "K8sRequiredLabels", "ValidatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
}  # fmt: skip


class Cluster:
    """What kubectl needs of an API server to get objects: discovery, one object, a list."""

    def __init__(self, objects: Sequence[Mapping[str, Any]]) -> None:
        self.objects = objects
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, answer = cluster.answer(urlsplit(self.path).path)
                body = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: object) -> None:
                pass

        self._server = QuickHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig(self, folder: Path) -> Path:
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        described = {
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {"server": url}}],
            "users": [{"name": "test", "user": {}}],
        }  # fmt: skip
        path = folder / "cluster.yaml"
        path.write_text(yaml.safe_dump(described))
        return path

    def answer(self, path: str) -> tuple[int, Any]:
        if path == "/api":
            return 200, {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            return 200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups()}
        parts = path.split("/")
        if parts[1:4] == ["api", "v1", "namespaces"] and len(parts) == 5:
            # kubectl looks whether it is the namespace that is not there
            named = {"name": parts[4]}
            return 200, {"kind": "Namespace", "apiVersion": "v1", "metadata": named}
        for group, kinds in GROUPS.items():
            base = "/api/v1" if group == "v1" else f"/apis/{group}"
            if path == base:
                return 200, _resources(group, kinds)
            if path.startswith(f"{base}/namespaces/"):
                namespace, resource, *name = path.removeprefix(f"{base}/namespaces/").split("/")
                return self._get(group, kinds[resource], namespace, name)
            if path.startswith(f"{base}/"):
                resource, *name = path.removeprefix(f"{base}/").split("/")
                return self._get(group, kinds[resource], None, name)
        return 404, _status(404, "NotFound", path)

    def _get(
        self, group: str, kind: str, namespace: str | None, name: list[str]
    ) -> tuple[int, Any]:
        there = [
            one for one in self.objects
            if (one["apiVersion"], one["kind"]) == (group, kind)
            and one["metadata"].get("namespace") == namespace
        ]  # fmt: skip
        if not name:
            return 200, {
                "kind": f"{kind}List", "apiVersion": group, "metadata": {}, "items": there
            }  # fmt: skip
        found = [one for one in there if one["metadata"]["name"] == name[0]]
        return (200, found[0]) if found else (404, _status(404, "NotFound", name[0]))


def _groups() -> list[Any]:
    found = []
    for group in GROUPS:
        name, slash, version = group.partition("/")
        if slash:
            both = {"groupVersion": group, "version": version}
            found.append({"name": name, "versions": [both], "preferredVersion": both})
    return found


def _resources(group: str, kinds: Mapping[str, str]) -> Any:
    listed = [
        {"name": name, "singularName": kind.lower(), "kind": kind, "verbs": ["get", "list"],
         "namespaced": kind not in CLUSTER_SCOPED}
        for name, kind in kinds.items()
    ]  # fmt: skip
    return {
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": listed
    }  # fmt: skip


def _status(code: int, reason: str, what: str) -> Any:
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": f"{what} not found", "reason": reason, "code": code,
    }  # fmt: skip
