"""The kinds of sources as a table. A kind's module is imported when it is first used; it has
`verify(source)`, which says in a few words that the source answers, and `changes(source, window)`,
which finds what became different in that time."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

from hermes_agent.core.settings.sources import SourceKind


class SourceType(NamedTuple):
    module: str
    about: str
    schemes: tuple[str, ...] = ("http", "https")
    """How an address of it begins; empty: it needs none."""
    packages: tuple[str, ...] = ()
    extra: str = ""
    example: str = ""

    def load(self) -> Any:
        return import_module(f"hermes_agent.tools.sources.{self.module}")


_GIT_HOSTS: tuple[tuple[SourceKind, str, str], ...] = (
    ("github", "GitHub", "https://api.github.com"),
    ("gitlab", "GitLab", "https://gitlab.com"),
    ("gitea", "Gitea", "https://gitea.example.com"),
)

TYPES: Mapping[SourceKind, SourceType] = {
    "prometheus": SourceType(
        "prometheus", "metrics, alerts and targets", example="http://prometheus:9090"
    ),
    "containers": SourceType(
        "containers",
        "containers of Docker or Podman: states, logs, events",
        example="unix:///var/run/docker.sock",
    ),
    **{
        kind: SourceType(
            "git_hosts.tool", f"commits, pull requests, CI and releases on {name}", example=example
        )
        for kind, name, example in _GIT_HOSTS
    },
    "argocd": SourceType(
        "argocd",
        "applications of Argo CD, and their deployments",
        example="https://argocd.example.com",
    ),
    "kubernetes": SourceType(
        "kubernetes",
        "workloads, events, logs and Flux of a cluster",
        example="https://cluster:6443",
    ),
}
