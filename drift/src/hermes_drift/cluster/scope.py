"""Scope kubernetes: declared objects against live ones, by declared fields and by who owns the
others."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hermes_drift import diff_text
from hermes_drift.cluster import autoscalers, ownership
from hermes_drift.cluster.declared import DeclaredObject, declared_in
from hermes_drift.cluster.fields import (
    ABSENT,
    SERVERS,
    Path,
    at,
    differences,
    element,
    keys_of,
    path_text,
)  # fmt: skip
from hermes_drift.cluster.ownership import Owned
from hermes_drift.cluster.resources import ApiKind, group_of, kinds_in
from hermes_drift.config import Kubernetes
from hermes_drift.matching import fits_any
from hermes_drift.scopes.repository import Repository
from hermes_drift.values import Advice, DriftFinding, LiveState, ScopeResult, SecretFilter, Who

UNREAD = ("Secret", "SealedSecret")
SHARED = ("annotations", "labels", "data", "nodeSelector")
AT_ONCE = 40
"""Objects in one command."""


class ClusterAudit:
    def __init__(
        self, wanted: Kubernetes, repository: Repository, live: LiveState, hide: SecretFilter
    ) -> None:
        self._wanted = wanted
        self._repository = repository
        self._live = live
        self._hide = hide
        words = ["kubectl"]
        words += ["--context", wanted.context] if wanted.context else []
        words += ["--kubeconfig", wanted.kubeconfig] if wanted.kubeconfig else []
        self._kubectl = shlex.join(words)
        self._found: list[DriftFinding] = []
        self._troubles: list[str] = []
        self._scalers: dict[str, Sequence[Any]] = {}
        self._requests: Sequence[ownership.ApiRequest] = ()
        self._kinds: Mapping[tuple[str, str], ApiKind] = {}
        """Empty if the server does not say."""
        self._notes: list[str] = []

    async def run(self) -> ScopeResult:
        objects, self._troubles, self._notes = await declared_in(self._wanted, self._repository)
        unread = [one.title for one in objects if one.kind in UNREAD]
        if unread:
            self._notes.append(f"secrets are not read: {', '.join(unread)}")
        objects = [one for one in objects if one.kind not in UNREAD]
        if self._wanted.audit_log:
            path = self._wanted.audit_log
            self._requests, trouble = await ownership.read_requests(self._live, path)
            if trouble:
                self._notes.append(
                    f"the audit log {path} cannot be read, so users are unknown: {trouble}"
                )
        if objects:
            answer = await self._live.ask(f"{self._kubectl} api-resources --no-headers")
            self._kinds = kinds_in(answer.out)
        objects = [self._placed(one) for one in objects]
        checked = 0
        more = {""} if self._wanted.extra and self._kinds else set()
        for namespace in sorted(more | {one.namespace for one in objects}):
            there = [one for one in objects if one.namespace == namespace]
            checked += await self._namespace(namespace, there)
        return ScopeResult(
            "kubernetes", checked, tuple(self._found), tuple(self._troubles), tuple(self._notes)
        )

    def _placed(self, one: DeclaredObject) -> DeclaredObject:
        """With its kind, and without a namespace if its kind has none."""
        api = self._kinds.get((one.group, one.kind))
        namespaced = api is None or api.namespaced
        return one._replace(api=api, namespace=one.namespace if namespaced else "")

    async def _namespace(self, namespace: str, objects: Sequence[DeclaredObject]) -> int:
        found: dict[tuple[str, str, str], Any] = {}
        seen: list[DeclaredObject] = []
        for start in range(0, len(objects), AT_ONCE):
            some = objects[start : start + AT_ONCE]
            seen += await self._get(namespace, some, found)
        for one in seen:
            live = found.get((one.group, one.kind, one.name))
            if live is None:
                self._missing(one)
            else:
                await self._compare(one, live)
        await self._extras(namespace, seen)
        return len(seen)

    async def _get(
        self, namespace: str, some: Sequence[DeclaredObject],
        found: dict[tuple[str, str, str], Any],
    ) -> Sequence[DeclaredObject]:  # fmt: skip
        """Read objects into `found`. Returns those that could be asked for, even if absent."""
        names = shlex.join(one.resource for one in some)
        items = await self._query(f"get{_in(namespace)} {names} --ignore-not-found")
        if items is not None:
            for one in items:
                found[group_of(one["apiVersion"]), one["kind"], one["metadata"]["name"]] = one
            return some
        if len(some) == 1:
            self._troubles.append(f"{some[0].title}: {self._why}")
            return ()
        if "connect" in self._why.lower() or "refused" in self._why.lower():
            place = f"namespace {namespace}" if namespace else "cluster-scoped"
            self._troubles.append(f"{place}: {self._why}")
            return ()
        return [each for one in some for each in await self._get(namespace, [one], found)]

    async def _query(self, what: str) -> list[Any] | None:
        command = f"{self._kubectl} {what} -o json"
        answer = await self._live.ask(f"{command} --show-managed-fields")
        if "unknown flag: --show-managed-fields" in answer.error:  # before 1.21 it always did
            answer = await self._live.ask(command)
        if not answer.ok:
            self._why = answer.trouble
            return None
        try:
            document = msgspec.json.decode(answer.out) if answer.out.strip() else {"items": []}
        except msgspec.MsgspecError:
            self._why = "kubectl did not print JSON"
            return None
        return list(document["items"]) if "items" in document else [document]

    def _add(self, one: DeclaredObject, field: str, **more: Any) -> None:
        if not fits_any(self._wanted.ignore, f"{one.title} {field}"):
            self._found.append(
                DriftFinding("kubernetes", one.title, field, source=one.source,
                             terminal=self._live.name, namespace=one.namespace, group=one.group,
                             **more)
            )  # fmt: skip

    def _revert(self, one: DeclaredObject) -> str:
        show = shlex.quote(f"{self._repository.commit[:12]}:{one.source}")
        folder = shlex.quote(self._repository.folder)
        return f"git -C {folder} show {show} | {self._kubectl} apply{_in(one.namespace)} -f -"

    def _missing(self, one: DeclaredObject) -> None:
        self._add(
            one, "missing", declared="present", live="not present",
            who=ownership.deleted_by(one, self._requests),
            advice=Advice(
                revert=self._revert(one),
                adopt=shlex.join(["git", "-C", self._repository.folder, "rm", "--", one.source]),
            ),
        )  # fmt: skip

    async def _compare(self, one: DeclaredObject, live: Mapping[str, Any]) -> None:
        owned = ownership.owners(live)
        body = {name: value for name, value in one.body.items()
                if name not in ("apiVersion", "kind", "status")}  # fmt: skip
        leaves = list(_leaves(body, ()))
        declarers = ownership.declarers(leaves, owned)
        for path, declared, there in differences(body, live):
            if path == ("metadata", "namespace"):
                continue
            owner = ownership.owner_of(path, owned)
            if there is ABSENT or owner is None:
                owner = ownership.last_writer(owned, declarers)
                who = ownership.who(owner, sure=False)
            else:
                who = ownership.who(owner, sure=owner.manager not in declarers)
            await self._differs(one, path, declared, there, who)
        for path, owner in _added(body, live, owned, declarers):
            await self._differs(one, path, ABSENT, at(live, path), ownership.who(owner))

    async def _differs(
        self, one: DeclaredObject, path: Path, declared: Any, live: Any, who: Who
    ) -> None:
        who = ownership.with_user(who, one, self._requests)
        history: tuple[str, ...] = ()
        scaling = autoscalers.scaling_of(
            await self._scalers_of(one, path), one.kind, one.name, path, live
        )
        if scaling is not None and scaling.within:
            last = f"; last written by {who.name}" if who.name else ""
            who = Who("controller", scaling.kind, "certain", None, f"{scaling.text}{last}")
        elif scaling is not None:
            history = (scaling.text,)
        field = path_text(path)
        change = f"remove {field}" if live is ABSENT else f"{field}: {self._shown(path, live)}"
        self._add(
            one, field, declared=self._shown(path, declared), live=self._shown(path, live), who=who,
            history=history,
            advice=Advice(
                revert=self._revert(one),
                adopt=f"in {one.source}, {one.kind} {one.name}: {change}",
            ),
        )  # fmt: skip

    def _shown(self, path: Path, value: Any) -> str:
        """In one line, without secrets."""
        name = path[-2][6:-1] if path[-1] == "value" and "[name=" in path[-2] else path[-1]
        clear = self._clear(name, value)
        text = clear if isinstance(clear, str) else msgspec.json.encode(clear).decode()
        return diff_text.brief(self._hide(text))

    def _clear(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            own = value.get("name")
            return {
                key: self._clear(str(own) if key == "value" and own else key, inner)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [self._clear(name, inner) for inner in value]
        if not isinstance(value, str):
            return value
        return self._hide(f"{name}={value}").removeprefix(f"{name}=")

    async def _scalers_of(self, one: DeclaredObject, path: Path) -> Sequence[Any]:
        """Autoscalers of the namespace, if the field is one that they set."""
        if path != ("spec", "replicas") and "resources" not in path:
            return ()
        if one.namespace not in self._scalers:
            found: list[Any] = []
            for key in autoscalers.KINDS:
                kind = self._kinds.get(key)
                name = kind.resource if kind else f"{key[1].lower()}s"
                if kind or (not self._kinds and key == autoscalers.KINDS[0]):
                    items = await self._query(f"get{_in(one.namespace)} {name}")
                    found += items or ()
                    if items is None:
                        self._notes.append(f"{name} in {one.namespace} are not known: {self._why}")
            self._scalers[one.namespace] = found
        return self._scalers[one.namespace]

    async def _extras(self, namespace: str, seen: Sequence[DeclaredObject]) -> None:
        """Undeclared objects that no other object owns: of declared kinds, if that is wanted, and
        of admission policies: of declared kinds always, of all kinds if wanted."""
        extra = self._wanted.extra
        kinds = {
            one.resource.partition("/")[0]: one.api for one in seen
            if extra or (one.api is not None and one.api.is_admission_policy)
        }  # fmt: skip
        declared = set(kinds.values())
        kinds |= {
            one.resource: one for one in self._kinds.values()
            if extra and one not in declared and one.is_admission_policy
            and one.namespaced == bool(namespace)
        }  # fmt: skip
        for kind, api in kinds.items():
            known = {one.name for one in seen if one.resource.startswith(f"{kind}/")}
            items = await self._query(f"get{_in(namespace)} {kind}")
            if items is None:
                place = self._troubles if api in declared or api is None else self._notes
                place.append(f"undeclared {kind}: {self._why}")
            for live in items or ():
                metadata = live["metadata"]
                if metadata["name"] in known or metadata.get("ownerReferences"):
                    continue
                one = DeclaredObject("", live, metadata.get("namespace", ""), api)
                owned = [each for each in ownership.owners(live) if each.part != "status"]
                first = min(owned, key=lambda each: each.at or 0.0, default=None)
                target = f"{_in(one.namespace)} {shlex.quote(f'{kind}/{one.name}')}"
                self._add(
                    one, "extra", declared="not declared",
                    live=f"created {metadata.get('creationTimestamp')}",
                    who=ownership.with_user(ownership.who(first), one, self._requests),
                    advice=Advice(
                        revert=f"{self._kubectl} delete{target}",
                        adopt=f"{self._kubectl} get{target} -o yaml, "
                        "remove the server's fields, and commit it",
                    ),
                )  # fmt: skip


def _in(namespace: str) -> str:
    """The option of kubectl; none for objects of the whole cluster."""
    return f" -n {shlex.quote(namespace)}" if namespace else ""


def _leaves(declared: Any, path: Path) -> Iterator[Path]:
    if isinstance(declared, dict) and declared:
        for name, value in declared.items():
            yield from _leaves(value, (*path, name))
    elif isinstance(declared, list) and (keys := keys_of(path)):
        for one in declared:
            if isinstance(one, dict):
                yield from _leaves(one, (*path, element(one, keys)))
    else:
        yield path


def _added(
    body: Mapping[str, Any], live: Mapping[str, Any], owned: Sequence[Owned],
    declarers: frozenset[str],
) -> Iterator[tuple[Path, Owned]]:  # fmt: skip
    """Fields that somebody other than the declarers added, the outermost of each. Defaults belong
    to nobody, or to the creator of the object."""
    seen: set[Path] = set()
    for one in sorted(owned, key=lambda one: -(one.at or 0.0)):
        if one.manager in declarers or one.part == "status":
            continue
        for path in sorted(one.paths):
            outer = _outermost(body, path)
            if outer is None or outer in seen or any(outer[: len(own)] == own for own in SERVERS):
                continue
            whole = any(isinstance(at(body, path[:size]), list) and not keys_of(path[:size])
                        for size in range(1, len(outer)))  # fmt: skip
            if at(live, outer) is not ABSENT and not whole and not _filled(outer, owned, declarers):
                seen.add(outer)
                yield outer, one


def _outermost(body: Mapping[str, Any], path: Path) -> Path | None:
    """The first undeclared part of the path; in maps with many writers, the key."""
    for size in range(1, len(path) + 1):
        if at(body, path[:size]) is ABSENT:
            if path[size - 1] not in SHARED:
                return path[:size]
            return path[: size + 1] if len(path) > size else None
    return None


def _filled(path: Path, owned: Sequence[Owned], declarers: frozenset[str]) -> bool:
    """Whether a declarer owns it too: then it is a default that two have written."""
    return any(path in one.paths for one in owned if one.manager in declarers)
