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


TYPES: Mapping[SourceKind, SourceType] = {
    "prometheus": SourceType(
        "prometheus", "metrics, alerts and targets", example="http://prometheus:9090"
    ),
    "containers": SourceType(
        "containers",
        "containers of Docker or Podman: states, logs, events",
        ("unix", "tcp", "https"),
        example="unix:///var/run/docker.sock",
    ),
    "kubernetes": SourceType(
        "kubernetes.tool",
        "workloads, events, logs and Flux of a cluster",
        example="https://cluster:6443",
    ),
}
