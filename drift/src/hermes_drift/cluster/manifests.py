"""The objects that manifests of a repository declare."""

import posixpath
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hermes_drift.config import Kubernetes
from hermes_drift.scopes.repository import Repository

ENDS = (".yaml", ".yml", ".json")
RENDERED = ("kustomization.yaml", "kustomization.yml", "Chart.yaml")
MAX_BYTES = 2_000_000


class DeclaredObjects(NamedTuple):
    source: str
    body: dict[str, Any]
    namespace: str

    @property
    def kind(self) -> str:
        return str(self.body.get("kind", ""))

    @property
    def name(self) -> str:
        return str((self.body.get("metadata") or {}).get("name", ""))

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def resource(self) -> str:
        """As kubectl takes it, without doubt: `deployment.v1.apps/web`."""
        group, _, version = str(self.body.get("apiVersion", "v1")).rpartition("/")
        return f"{self.kind.lower()}.{version}.{group}/{self.name}"


async def declared_in(
    wanted: Kubernetes, repository: Repository
) -> tuple[Sequence[DeclaredObjects], list[str], list[str]]:
    """The objects, what could not be read as such, and what is not meant to be."""
    import yaml

    found: list[DeclaredObjects] = []
    troubles, notes = [], []
    entries = [one for one in repository.below(wanted.declared)
               if one.kind == "file" and one.path.endswith(ENDS)]  # fmt: skip
    data = await repository.read_all(entries)
    for path, raw in data.items():
        if posixpath.basename(path) in RENDERED:
            notes.append(f"{path} is not rendered here: declare what comes out of it")
            continue
        try:
            documents = list(yaml.safe_load_all(raw[:MAX_BYTES].decode()))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            mark = getattr(error, "problem_mark", None)
            where = f" line {mark.line + 1}" if mark else ""
            troubles.append(f"{path}{where} cannot be read as YAML")
            continue
        found += [one for each in documents for one in _objects(each, path, wanted.namespace)]
    return found, troubles, notes


def _objects(document: Any, path: str, otherwise: str) -> Iterator[DeclaredObjects]:
    if not isinstance(document, dict) or "kind" not in document:
        return
    if str(document["kind"]).endswith("List") and isinstance(document.get("items"), list):
        for one in document["items"]:
            yield from _objects(one, path, otherwise)
        return
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and metadata.get("name"):
        yield DeclaredObjects(path, document, str(metadata.get("namespace") or otherwise))
