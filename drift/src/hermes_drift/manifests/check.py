"""Manifests held against a policy: what is wrong, and what was let off by which exception."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hermes_agent.core.errors import UsageError
from hermes_agent.policy.patterns.globs import WordGlobs
from hermes_agent.policy.yaml_nodes import Node
from hermes_drift.manifests.documents import LARGEST, Document, child, documents
from hermes_drift.manifests.expressions import failing
from hermes_drift.manifests.objects import KubeContainer, KubeObject, things
from hermes_drift.manifests.policy import Exempt, Level, ManifestRule, Policy
from hermes_drift.manifests.rules import BUILT_IN, Hit, RuleTarget

ENDINGS = (".yaml", ".yml", ".json")
IGNORE = "hermes/ignore"


class ManifestFinding(Struct, frozen=True):
    rule: str
    level: Level
    path: str
    line: int
    column: int
    message: str
    why: str = ""
    fix: str = ""
    object: str = ""
    container: str = ""


class WaivedFinding(Struct, frozen=True):
    """A finding that an exception covers, with who says so and why."""

    finding: ManifestFinding
    by: str
    reason: str


class CheckedManifests(Struct):
    files: int = 0
    objects: int = 0
    workloads: int = 0
    passed_over: int = 0
    """Documents that are no manifests."""
    findings: list[ManifestFinding] = []
    let_off: list[WaivedFinding] = []

    def count(self, level: Level) -> int:
        return sum(finding.level == level for finding in self.findings)


def manifest_files(path: Path) -> list[Path]:
    """A file as it is; of a folder all that are YAML or JSON, but none that is hidden."""
    if not path.exists():
        raise UsageError(f"no file or folder at {path}", "`-` reads what is piped in")
    if not path.is_dir():
        return [path]
    return sorted(
        file
        for file in path.rglob("*")
        if file.suffix.lower() in ENDINGS
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )


def read(path: Path) -> str | ManifestFinding:
    """The text of a manifest, or why it cannot be had."""
    try:
        if path.stat().st_size > LARGEST * 4:
            return _unread(str(path), 1, 1, f"it is larger than {LARGEST * 4:,} bytes", "split it")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return _unread(str(path), 1, 1, "it is no text in UTF-8", "write it in UTF-8")
    except OSError as error:
        return _unread(str(path), 1, 1, f"it cannot be read: {error.strerror}")


def check(sources: Sequence[tuple[str, str | ManifestFinding]], policy: Policy) -> CheckedManifests:
    """Texts with the names that they go by."""
    checked = CheckedManifests()
    checking = _Checking(policy, checked)
    for path, text in sources:
        checked.files += 1
        if isinstance(text, ManifestFinding):
            checked.findings.append(text)
            continue
        for document in documents(text):
            checking.document(path, document)
    checked.findings.sort(key=lambda one: (one.path, one.line, one.column))
    checked.let_off.sort(key=lambda one: (one.finding.path, one.finding.line))
    return checked


def _unread(path: str, line: int, column: int, message: str, hint: str = "") -> ManifestFinding:
    why = "what cannot be read is not checked"
    return ManifestFinding("yaml", "error", path, line, column, message, why, hint)


class _Checking:
    def __init__(self, policy: Policy, checked: CheckedManifests) -> None:
        self._rules = [rule for rule in policy.rules.values() if rule.level != "off"]
        self._known = policy.rules
        self._checked = checked
        self._exempts: dict[str, list[tuple[Exempt, dict[str, WordGlobs]]]] = {}
        for exempt in policy.exempts:
            globs = {
                key: WordGlobs(given)
                for key in ("namespace", "name", "kind", "container", "image")
                if (given := getattr(exempt, key))
            }
            for rule in exempt.rules:
                self._exempts.setdefault(rule, []).append((exempt, globs))

    def document(self, path: str, document: Document) -> None:
        for one in document.troubles:
            found = _unread(path, one.line, one.column, one.message, one.hint)
            self._checked.findings.append(found)
        if document.root is None:
            return
        found_things = list(things(document.root))
        self._checked.passed_over += not found_things and child(document.root) is not None
        for thing in found_things:
            self._checked.objects += 1
            self._checked.workloads += thing.is_workload
            self._thing(path, thing)

    def _thing(self, path: str, thing: KubeObject) -> None:
        ignored = dict(_ignored(thing))
        used: set[str] = set()
        for rule in self._rules:
            if rule.kinds and thing.kind not in rule.kinds:
                continue
            for spot in _spots(rule, thing):
                for node, message in _hits(rule, spot):
                    finding = _finding(rule, path, spot, node, message)
                    excused = self._excuse(rule, spot, ignored)
                    if excused is None:
                        self._checked.findings.append(finding)
                        continue
                    used.add(rule.id)
                    self._checked.let_off.append(WaivedFinding(finding, *excused))
        self._idle(path, thing, ignored, used)

    def _excuse(
        self, rule: ManifestRule, spot: RuleTarget, ignored: Mapping[str, str]
    ) -> tuple[str, str] | None:
        """Who lets it off, and why."""
        if rule.ignorable and ignored.get(rule.id):
            return f"annotation {IGNORE}", ignored[rule.id]
        for exempt, globs in self._exempts.get(rule.id, ()):
            if _fits(exempt, globs, spot.thing, spot.container):
                return exempt.where, exempt.reason
        return None

    def _idle(
        self, path: str, thing: KubeObject, ignored: Mapping[str, str], used: set[str]
    ) -> None:
        """An annotation that says nothing, or nothing any more, is itself a finding."""
        node = child(thing.node, "metadata") or thing.node
        for id, reason in ignored.items():
            level: Level = "error"
            rule = self._known.get(id)
            if rule is None:
                message = f"{IGNORE} names {id!r}, and there is no such rule"
            elif not reason:
                message = f"{IGNORE} gives no reason for {id}, so it does not count"
            elif not rule.ignorable:
                message = f"{IGNORE} names {id}, which the policy lets nobody off"
            elif id not in used:
                message = f"{IGNORE} names {id}, and nothing of it is found here"
                level = "warning"
            else:
                continue
            why = "an exception that nobody understands stays for ever"
            fix = f'write {IGNORE}: "RULE: reason", or remove it'
            self._checked.findings.append(
                ManifestFinding(
                    "ignore", level, path, node.line, node.column, message, why, fix, thing.title
                )
            )


def _ignored(thing: KubeObject) -> Iterator[tuple[str, str]]:
    """Rules and reasons of the annotation: `RULE: reason`, a line or a `;` between them; several
    rules with commas."""
    for line in re.split(r"[\n;]", thing.annotations.get(IGNORE, "")):
        names, _, reason = line.partition(":")
        for name in names.split(","):
            if name.strip():
                yield name.strip(), reason.strip()


def _spots(rule: ManifestRule, thing: KubeObject) -> Iterator[RuleTarget]:
    if thing.pod is None:
        unfinished = thing.is_workload and rule.id in ("shape", "labels")
        if unfinished or (rule.must and rule.about == "object"):
            yield RuleTarget(thing, thing.node)
    elif rule.about == "container":
        yield from (RuleTarget(thing, thing.pod, one) for one in thing.containers)
    else:
        yield RuleTarget(thing, thing.pod)


def _hits(rule: ManifestRule, spot: RuleTarget) -> Iterator[Hit]:
    if not rule.must:
        yield from BUILT_IN[rule.id].find(spot, rule.terms)
        return
    wrong = failing(rule.must, rule.about, spot)
    if wrong is not None:
        at = spot.container.node if spot.container is not None else spot.thing.node
        yield at, f"{rule.message} ({wrong})" if wrong else rule.message


def _finding(
    rule: ManifestRule, path: str, spot: RuleTarget, node: Node, message: str
) -> ManifestFinding:
    container = spot.container.name or "(no name)" if spot.container is not None else ""
    return ManifestFinding(
        rule.id, rule.level, path, node.line, node.column, message, rule.why, rule.fix,
        spot.thing.title, container,
    )  # fmt: skip


def _fits(
    exempt: Exempt,
    globs: Mapping[str, WordGlobs],
    thing: KubeObject,
    container: KubeContainer | None,
) -> bool:
    words = {
        "namespace": thing.namespace, "name": thing.name, "kind": thing.kind,
        "container": container.name if container is not None else None,
        "image": container.image if container is not None else None,
    }  # fmt: skip
    for key, glob in globs.items():
        word = words[key]
        if word is None or not glob.fit(word):
            return False
    return not exempt.annotation or any(_annotated(one, thing) for one in exempt.annotation)


def _annotated(wanted: str, thing: KubeObject) -> bool:
    name, equals, value = wanted.partition("=")
    given = thing.annotations.get(name)
    return given is not None and (not equals or bool(WordGlobs([value]).fit(given)))
