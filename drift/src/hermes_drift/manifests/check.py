"""Checks manifests against a policy: what is wrong, and what an exception waives."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hermes_agent.core.errors import UsageError
from hermes_agent.policy.patterns.globs import WordGlobs
from hermes_agent.policy.yaml_nodes import Node
from hermes_drift.manifests.documents import LARGEST, Document, child, documents
from hermes_drift.manifests.expressions import failing
from hermes_drift.manifests.objects import UNSHAPED, KubeContainer, KubeObject, objects_in
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
    """A finding that an exception waives, with its source and reason."""

    finding: ManifestFinding
    by: str
    reason: str


class Unchecked(Struct, frozen=True):
    """A file, a document or an object that no rule has looked at."""

    path: str
    line: int
    kind: str
    """Of an object; empty for the others."""
    reason: str


NO_RULE = "no rule applies"
NO_MANIFEST = "not a manifest"
UNREADABLE = "cannot be read"
TEMPLATE = "a template of a chart: check the output of `helm template`"


class CheckedManifests(Struct):
    files: int = 0
    objects: int = 0
    workloads: int = 0
    findings: list[ManifestFinding] = []
    let_off: list[WaivedFinding] = []
    unchecked: list[Unchecked] = []

    def count(self, level: Level) -> int:
        return sum(finding.level == level for finding in self.findings)


def manifest_files(path: Path) -> list[Path]:
    """The file itself, or all YAML and JSON files of a folder that are not hidden."""
    if not path.exists():
        raise UsageError(f"no file or folder at {path}", "`-` reads standard input")
    if not path.is_dir():
        return [path]
    return sorted(
        file
        for file in path.rglob("*")
        if file.suffix.lower() in ENDINGS
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )


def read(path: Path) -> str | ManifestFinding | Unchecked:
    """The text of a manifest, or why it is not checked."""
    try:
        if path.stat().st_size > LARGEST * 4:
            return _unread(str(path), 1, 1, f"it is larger than {LARGEST * 4:,} bytes", "split it")
        text = path.read_text(encoding="utf-8")
        if "{{" in text and any(
            folder.name == "templates" and (folder.parent / "Chart.yaml").exists()
            for folder in path.absolute().parents
        ):
            return Unchecked(str(path), 1, "", TEMPLATE)
        return text
    except UnicodeDecodeError:
        return _unread(str(path), 1, 1, "it is not UTF-8 text", "save it as UTF-8")
    except OSError as error:
        return _unread(str(path), 1, 1, f"it cannot be read: {error.strerror}")


def check(
    sources: Sequence[tuple[str, str | ManifestFinding | Unchecked]], policy: Policy
) -> CheckedManifests:
    """Check texts, each with its path or why it is not checked."""
    checked = CheckedManifests()
    checker = _Checker(policy, checked)
    for path, text in sources:
        checked.files += 1
        if isinstance(text, Unchecked):
            checked.unchecked.append(text)
        elif isinstance(text, ManifestFinding):
            checked.findings.append(text)
            checked.unchecked.append(Unchecked(path, 1, "", UNREADABLE))
        else:
            for document in documents(text):
                checker.document(path, document)
    checked.findings.sort(key=lambda one: (one.path, one.line, one.column))
    checked.let_off.sort(key=lambda one: (one.finding.path, one.finding.line))
    return checked


def _unread(path: str, line: int, column: int, message: str, hint: str = "") -> ManifestFinding:
    why = "an unreadable manifest is not checked"
    return ManifestFinding("yaml", "error", path, line, column, message, why, hint)


class _Checker:
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
            for one in document.troubles:
                self._checked.unchecked.append(Unchecked(path, one.line, "", UNREADABLE))
            return
        objects = list(objects_in(document.root))
        if not objects and child(document.root) is not None:
            line = document.root.line
            self._checked.unchecked.append(Unchecked(path, line, "", NO_MANIFEST))
        for workload in objects:
            self._checked.objects += 1
            self._checked.workloads += workload.is_workload
            self._object(path, workload)

    def _object(self, path: str, workload: KubeObject) -> None:
        ignored = dict(_ignored(workload))
        used: set[str] = set()
        told: set[tuple[str, str, int, int, str]] = set()
        looked = False
        for rule in self._rules:
            if rule.kinds and workload.kind not in rule.kinds:
                continue
            for target in _targets(rule, workload):
                looked = True
                for node, message in _hits(rule, target):
                    finding = _finding(rule, path, target, node, message)
                    same = (rule.id, finding.container, node.line, node.column, message)
                    if same in told:  # of what several containers have around them
                        continue
                    told.add(same)
                    excused = self._excuse(rule, target, ignored)
                    if excused is None:
                        self._checked.findings.append(finding)
                        continue
                    used.add(rule.id)
                    self._checked.let_off.append(WaivedFinding(finding, *excused))
        if not looked:
            reason = UNSHAPED.get(workload.group, NO_RULE)
            line = workload.node.line
            self._checked.unchecked.append(Unchecked(path, line, workload.kind, reason))
        self._useless(path, workload, ignored, used)

    def _excuse(
        self, rule: ManifestRule, target: RuleTarget, ignored: Mapping[str, str]
    ) -> tuple[str, str] | None:
        """The exception that waives it, and its reason."""
        if rule.ignorable and ignored.get(rule.id):
            return f"annotation {IGNORE}", ignored[rule.id]
        for exempt, globs in self._exempts.get(rule.id, ()):
            if _fits(exempt, globs, target.workload, target.container):
                return exempt.where, exempt.reason
        return None

    def _useless(
        self, path: str, workload: KubeObject, ignored: Mapping[str, str], used: set[str]
    ) -> None:
        """Report annotations without effect."""
        node = child(workload.node, "metadata") or workload.node
        for id, reason in ignored.items():
            level: Level = "error"
            rule = self._known.get(id)
            if rule is None:
                message = f"{IGNORE} names {id!r}, which is not a rule"
            elif not reason:
                message = f"{IGNORE} gives no reason for {id}, so it has no effect"
            elif not rule.ignorable:
                message = f"{IGNORE} names {id}, which the policy does not let manifests waive"
            elif id not in used:
                message = f"{IGNORE} names {id}, which has no finding here"
                level = "warning"
            else:
                continue
            why = "an exception that nobody understands is never removed"
            fix = f'write {IGNORE}: "RULE: reason", or remove it'
            self._checked.findings.append(
                ManifestFinding(
                    "ignore", level, path, node.line, node.column, message, why, fix, workload.title
                )
            )


def _ignored(workload: KubeObject) -> Iterator[tuple[str, str]]:
    """Rules and reasons of the annotation: `RULE, RULE: reason`, separated by lines or `;`."""
    for line in re.split(r"[\n;]", workload.annotations.get(IGNORE, "")):
        names, _, reason = line.partition(":")
        for name in names.split(","):
            if name.strip():
                yield name.strip(), reason.strip()


def _targets(rule: ManifestRule, workload: KubeObject) -> Iterator[RuleTarget]:
    if rule.about == "object":
        if rule.must or workload.is_workload:
            yield RuleTarget(workload)
        return
    if rule.id == "shape" and workload.is_core and not workload.pods:
        yield RuleTarget(workload)
    for pod in workload.pods:
        if rule.about == "container":
            yield from (RuleTarget(workload, pod, one) for one in pod.containers)
        elif not rule.must or pod.form != "container":
            yield RuleTarget(workload, pod)


def _hits(rule: ManifestRule, target: RuleTarget) -> Iterator[Hit]:
    if not rule.must:
        yield from BUILT_IN[rule.id].find(target, rule.parameters)
        return
    wrong = failing(rule.must, rule.about, target)
    if wrong and target.container is not None and target.container.partial:
        return  # it names something that a controller adds
    if wrong is not None:
        at = target.container.node if target.container is not None else target.workload.node
        yield at, f"{rule.message} ({wrong})" if wrong else rule.message


def _finding(
    rule: ManifestRule, path: str, target: RuleTarget, node: Node, message: str
) -> ManifestFinding:
    container = target.container.name or "(no name)" if target.container is not None else ""
    return ManifestFinding(
        rule.id, rule.level, path, node.line, node.column, message, rule.why, rule.fix,
        target.workload.title, container,
    )  # fmt: skip


def _fits(
    exempt: Exempt,
    globs: Mapping[str, WordGlobs],
    workload: KubeObject,
    container: KubeContainer | None,
) -> bool:
    words = {
        "namespace": workload.namespace, "name": workload.name, "kind": workload.kind,
        "container": container.name if container is not None else None,
        "image": container.image if container is not None else None,
    }  # fmt: skip
    for key, glob in globs.items():
        word = words[key]
        if word is None or not glob.fit(word):
            return False
    return not exempt.annotation or any(_annotated(one, workload) for one in exempt.annotation)


def _annotated(wanted: str, workload: KubeObject) -> bool:
    name, equals, value = wanted.partition("=")
    given = workload.annotations.get(name)
    return given is not None and (not equals or bool(WordGlobs([value]).fit(given)))
