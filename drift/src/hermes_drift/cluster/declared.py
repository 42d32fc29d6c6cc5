"""The Kubernetes objects that a repository declares."""

import posixpath
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hermes_drift.cluster.resources import ApiKind, group_of
from hermes_drift.config import Kubernetes
from hermes_drift.scopes.repository import Repository

ENDS = (".yaml", ".yml", ".json")
RENDERED = ("kustomization.yaml", "kustomization.yml", "Chart.yaml")
MAX_BYTES = 2_000_000


class DeclaredObject(NamedTuple):
    source: str
    body: dict[str, Any]
    namespace: str
    """Empty for an object of the whole cluster."""
    api: ApiKind | None = None
    """None if the API server does not say."""

    @property
    def kind(self) -> str:
        return str(self.body.get("kind", ""))

    @property
    def name(self) -> str:
        return str((self.body.get("metadata") or {}).get("name", ""))

    @property
    def group(self) -> str:
        return group_of(self.body.get("apiVersion"))

    @property
    def title(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {where}{self.name}"

    @property
    def resource(self) -> str:
        """Unambiguous for kubectl: `deployment.v1.apps/web`."""
        group, _, version = str(self.body.get("apiVersion", "v1")).rpartition("/")
        return f"{self.kind.lower()}.{version}.{group}/{self.name}"


async def declared_in(
    wanted: Kubernetes, repository: Repository
) -> tuple[Sequence[DeclaredObject], list[str], list[str]]:
    """The objects, files that could not be read, and notes on files that were left out."""
    import yaml

    found: list[DeclaredObject] = []
    troubles, notes = [], []
    entries = [one for one in repository.below(wanted.declared)
               if one.kind == "file" and one.path.endswith(ENDS)]  # fmt: skip
    data = await repository.read_all(entries)
    for path, raw in data.items():
        if posixpath.basename(path) in RENDERED:
            notes.append(f"{path} is not rendered; declare the rendered manifests instead")
            continue
        try:
            documents = list(yaml.safe_load_all(raw[:MAX_BYTES].decode()))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            mark = getattr(error, "problem_mark", None)
            where = f" line {mark.line + 1}" if mark else ""
            troubles.append(f"{path}{where} is not valid YAML")
            continue
        found += [one for each in documents for one in _objects(each, path, wanted.namespace)]
    return found, troubles, notes


def _objects(document: Any, path: str, namespace: str) -> Iterator[DeclaredObject]:
    if not isinstance(document, dict) or "kind" not in document:
        return
    if str(document["kind"]).endswith("List") and isinstance(document.get("items"), list):
        for one in document["items"]:
            yield from _objects(one, path, namespace)
        return
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and metadata.get("name"):
        yield DeclaredObject(path, document, str(metadata.get("namespace") or namespace))
