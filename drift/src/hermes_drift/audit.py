"""One drift audit: run the scopes of `drift.yaml`, then judge what was found."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.incidents import Incident
from hermes_agent.incidents.alerts.ingest import bounded_fingerprint
from hermes_drift import config, history
from hermes_drift.attribution import AuditTrail
from hermes_drift.cluster.scope import ClusterAudit
from hermes_drift.diff_text import hide_named_secrets
from hermes_drift.patterns import DriftPattern, judged
from hermes_drift.recommendations import advised, matching_skill
from hermes_drift.scopes import packages
from hermes_drift.scopes.compose import ComposeAudit
from hermes_drift.scopes.files import FileAudit
from hermes_drift.scopes.repository import Repository
from hermes_drift.scopes.units import UnitAudit
from hermes_drift.values import (
    SCOPES,
    WEIGHTS,
    Audit,
    DriftFinding,
    LiveState,
    Scope,
    ScopeResult,
    SecretFilter,
    fingerprint_of,
)


class AuditBaseline(NamedTuple):
    """What is known before an audit."""

    patterns: Sequence[DriftPattern] = ()
    earlier: Sequence[Audit] = ()
    """Audits of the same repository, newest first."""
    skills: Mapping[str, str] = {}
    """Descriptions by name."""
    incidents: Mapping[str, Incident] = {}
    """Those that were resolved, the latest of each fingerprint."""
    now: float = 0.0


class Auditor:
    """`lives` returns a terminal by name; the empty name is the default one."""

    def __init__(
        self, repository: Repository, lives: Callable[[str], LiveState], hide: SecretFilter
    ) -> None:
        self._repository = repository
        self._lives = lives
        self._hide = hide_named_secrets(hide)
        self._trails: dict[str, AuditTrail] = {}

    async def run(self, scopes: Sequence[Scope] = ()) -> Sequence[ScopeResult]:
        """Every declared scope, or the named ones."""
        if not self._repository.has(config.NAME):
            raise UsageError(
                f"{self._repository.folder} has no {config.NAME} in commit "
                f"{self._repository.commit[:10]}",
                "write one and commit it; see docs/guides/drift.md",
            )
        declared = config.read((await self._repository.read(config.NAME)).decode(errors="replace"))
        results = []
        for scope in SCOPES:
            entries = getattr(declared, scope)
            if scope in scopes or (entries and not scopes):
                results.append(await self._scope(scope, entries, declared.logs))
        return results

    async def _scope(
        self, scope: Scope, entries: Sequence[object], logs: config.AuditLogConfig
    ) -> ScopeResult:
        whole = ScopeResult(scope)
        if not entries:
            return replace(whole, notes=(f"{config.NAME} declares no {scope}",))
        for entry in entries:
            try:
                one = await self._entry(entry, logs)
            except HermesError as error:  # the other entries are still checked
                one = ScopeResult(scope, troubles=(error.message,))
            whole = ScopeResult(
                scope, whole.checked + one.checked, whole.findings + one.findings,
                whole.troubles + one.troubles, whole.notes + one.notes,
            )  # fmt: skip
        return whole

    async def _entry(self, entry: object, logs: config.AuditLogConfig) -> ScopeResult:
        repository, hide = self._repository, self._hide
        live = self._lives(getattr(entry, "terminal", ""))
        trail = self._trails.setdefault(live.name, AuditTrail(live, logs))
        match entry:
            case config.FilesScope():
                return await FileAudit(entry, repository, live, trail, hide).run()
            case config.Units():
                return await UnitAudit(entry, repository, live, trail, hide).run()
            case config.Compose():
                return await ComposeAudit(entry, repository, live, hide).run()
            case config.Packages():
                return await packages.run(entry, repository, live, trail)
            case config.Kubernetes():
                return await ClusterAudit(entry, repository, live, hide).run()
        raise AssertionError(entry)


async def judge(
    id: str,
    results: Sequence[ScopeResult],
    repository: Repository,
    known: AuditBaseline,
    hide: SecretFilter,
) -> Sequence[ScopeResult]:
    """Give each finding its weight, history, advice and number: by place, the worst first."""
    number = 0
    scopes = []
    hide = hide_named_secrets(hide)
    this = Audit(id, known.now, repository.folder, repository.commit, scopes=tuple(results))
    found = history.by_object((this, *known.earlier))
    for scope in results:
        weighed = [
            await _judged(one, repository, known, found[one.key[:3]], hide)
            for one in scope.findings
        ]
        worst: dict[str, int] = {}
        for one in weighed:
            worst[one.place] = max(worst.get(one.place, 0), WEIGHTS.index(one.weight))
        weighed.sort(
            key=lambda one: (-worst[one.place], one.place, -WEIGHTS.index(one.weight), one.object,
                             one.field)
        )  # fmt: skip
        findings = []
        for one in weighed:
            number += 1
            findings.append(replace(one, id=f"{id}.{number}"))
        scopes.append(replace(scope, findings=tuple(findings)))
    return scopes


async def _judged(
    one: DriftFinding, repository: Repository, known: AuditBaseline,
    there: Sequence[history.Sighting], hide: SecretFilter,
) -> DriftFinding:  # fmt: skip
    """`there`: what this audit and earlier ones found of the object."""
    weighed, pattern = judged(one, known.patterns)
    incident = known.incidents.get(
        bounded_fingerprint(fingerprint_of(repository.folder, one.terminal, one.object))
    )
    before = [each for each in there if each[1].id and each[1].key == one.key]  # ours has no id yet
    edits = history.edits(one, there, known.now)
    lines = (
        *history.repeated(edits),
        *history.decided(one, pattern, known.patterns, before),
        *history.resolved(incident),
        *one.history,
        *history.seen(one, known.earlier, before),
        *await history.declared(one, repository),
    )
    skill = matching_skill(one, known.skills)
    if incident is not None and incident.skill in known.skills:
        skill = incident.skill
    who = replace(one.who, evidence=hide(one.who.evidence))  # command lines may name secrets
    told = tuple(map(hide, lines))
    return advised(replace(weighed, who=who, history=told, skill=skill, edits=len(edits)), pattern)
