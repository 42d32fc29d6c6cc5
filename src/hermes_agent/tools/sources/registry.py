"""The kinds of sources as a table. A kind's module is imported when it is first used; it has
`verify(source)`, which says in a few words that the source answers, and `changes(source, window)`,
which finds what became different; what lies outside of that time is left out afterwards."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

from hermes_agent.core.settings.sources import SourceKind


class SourceType(NamedTuple):
    module: str
    about: str
    example: str
    """An address, as a hint; how it begins is how addresses of this kind must begin."""
    port: int = 0
    """Where `hermes sources discover` looks on this machine."""
    probe: str = ""
    """The page that only this kind of server has, for those that speak HTTP."""
    package: str = ""
    """Of the extra `sources`, without which it cannot be asked."""

    def load(self) -> Any:
        return import_module(f"hermes_agent.tools.sources.{self.module}")


_GIT_HOSTS: tuple[tuple[SourceKind, str, str], ...] = (
    ("github", "GitHub", "https://api.github.com"),
    ("gitlab", "GitLab", "https://gitlab.com"),
    ("gitea", "Gitea", "https://gitea.example.com"),
)

TYPES: Mapping[SourceKind, SourceType] = {
    "prometheus": SourceType(
        "prometheus", "metrics, alerts and targets: Prometheus, VictoriaMetrics, Thanos, Mimir",
        "http://prometheus:9090", 9090, "/api/v1/status/buildinfo",
    ),
    "kubernetes": SourceType(
        "kubernetes", "workloads, events, logs and Flux of a cluster", "https://cluster:6443"
    ),
    "containers": SourceType(
        "containers", "containers of Docker or Podman: states, logs, events",
        "unix:///var/run/docker.sock",
    ),
    "alertmanager": SourceType(
        "alertmanager", "alerts in groups, and silences",
        "http://alertmanager:9093", 9093, "/api/v2/status",
    ),
    "loki": SourceType(
        "loki", "logs by LogQL", "http://loki:3100", 3100, "/loki/api/v1/status/buildinfo"
    ),
    "opensearch": SourceType(
        "opensearch", "logs in OpenSearch or Elasticsearch",
        "https://opensearch:9200", 9200, "/_cluster/health",
    ),
    "postgresql": SourceType(
        "databases.postgresql", "sessions, locks, slow statements, replication, sizes",
        "postgresql://db:5432/shop", 5432, package="psycopg",
    ),
    "mysql": SourceType(
        "databases.mysql", "MySQL, MariaDB: sessions, locks, slow statements, replicas, sizes",
        "mysql://db:3306/shop", 3306, package="pymysql",
    ),
    "redis": SourceType(
        "databases.redis", "Redis, Valkey: memory, clients, slow log, key sizes",
        "redis://cache:6379", 6379,
    ),
    **{
        kind: SourceType("git_hosts.tool", f"commits, pull requests, CI, releases on {name}", url)
        for kind, name, url in _GIT_HOSTS
    },
    "argocd": SourceType(
        "argocd", "applications of Argo CD, and their deployments", "https://argocd.example.com"
    ),
}  # fmt: skip
