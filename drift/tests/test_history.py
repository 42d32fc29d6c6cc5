"""What an audit knows from earlier ones: edits by hand that repeat, decisions, what resolved it."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from hermes_agent.core.incidents import Incident
from hermes_agent.policy.redaction.redactor import Redactor
from hermes_drift.audit import AuditBaseline, judge
from hermes_drift.commands.show import audit_text
from hermes_drift.history import ordinal
from hermes_drift.patterns import DriftPattern, learned_from
from hermes_drift.report import markdown
from hermes_drift.routes import whole
from hermes_drift.scopes.repository import Repository
from hermes_drift.values import Audit, DriftFinding, ScopeResult, Who, fingerprint_of
from tests.support.drift_repositories import declare

NOW = 1_762_178_400.0
DAY = 86_400.0
REPLICAS = "spec.replicas"


def finding(
    object: str = "Deployment shop/web", field: str = REPLICAS, at: float = NOW - 60, **more: Any
) -> DriftFinding:
    who = Who(more.pop("kind", "person"), more.pop("by", "ann"), more.pop("sure", "certain"), at)
    namespace = object.partition(" ")[2].rpartition("/")[0]
    return DriftFinding(
        "kubernetes", object, field, "3", "5", terminal="local", namespace=namespace, who=who,
        **more,
    )  # fmt: skip


def audit(number: int, *findings: DriftFinding, days_ago: float = 0.0) -> Audit:
    numbered = [replace(one, id=f"drift-{number}.{place}") for place, one in enumerate(findings, 1)]
    result = ScopeResult("kubernetes", 3, tuple(numbered))
    return Audit(f"drift-{number}", NOW - days_ago * DAY, "/r", "0" * 40, scopes=(result,))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return declare(tmp_path / "r", {"files": []}, {})


async def judged(
    folder: Path, *findings: DriftFinding, earlier: Sequence[Audit] = (),
    patterns: Sequence[DriftPattern] = (), **more: Any,
) -> Audit:  # fmt: skip
    known = AuditBaseline(patterns, earlier, now=NOW, **more)
    repository = await Repository.open(str(folder), os.environ)
    results = [ScopeResult("kubernetes", 3, findings)]
    scopes = await judge("drift-9", results, repository, known, Redactor({}))
    return Audit("drift-9", NOW, "/r", "0" * 40, "What we want", scopes=tuple(scopes))


async def test_an_earlier_audit_is_gone_through_once_however_much_is_found(folder: Path) -> None:
    gone_through: list[str] = []

    class Counted(Audit, frozen=True):
        @property
        def findings(self) -> tuple[DriftFinding, ...]:
            gone_through.append(self.id)
            return tuple(one for scope in self.scopes for one in scope.findings)

    now = [finding(f"Deployment shop/web-{number}") for number in range(9)]
    made = await judged(folder, *now, earlier=[Counted(**asdict(audit(1, *now, days_ago=1)))])
    assert gone_through == ["drift-1"]
    assert {one.history[-1].partition(" of")[0] for one in made.findings} == {"also in drift-1"}


async def test_edits_of_an_object_by_hand_are_counted_in_a_window(folder: Path) -> None:
    """Each once, whatever fields it changed and however many audits saw it."""
    old = finding(at=NOW - 15 * DAY, by="dan")
    first = finding(field="spec.paused", at=NOW - 9 * DAY)
    second = finding(at=NOW - 3 * DAY, by="bob")
    earlier = [audit(4, second, days_ago=2), audit(3, second, days_ago=3),
               audit(2, first, days_ago=9), audit(1, old, days_ago=15)]  # fmt: skip
    other = finding("Deployment shop/api")
    now = finding(), finding(field="spec.paused"), other
    made = await judged(folder, *now, earlier=earlier)
    found = {(one.object, one.field): one for one in made.findings}
    web = found["Deployment shop/web", REPLICAS]
    assert (web.edits, found["Deployment shop/api", REPLICAS].edits) == (3, 1)
    assert web.history[0] == (
        "3rd manual edit of this object in 14 days; before: "
        "25 Oct 2025 by ann (drift-2), 31 Oct 2025 by bob (drift-3)"
    )
    assert web.advice.why.startswith("3 edits by hand: ")


@pytest.mark.parametrize("more", [{"sure": "guess"}, {"kind": "controller"}])
async def test_only_what_people_surely_changed_counts(folder: Path, more: dict[str, str]) -> None:
    earlier = [audit(1, finding(at=NOW - DAY, **more), days_ago=1)]
    (found,) = (await judged(folder, finding(), earlier=earlier)).findings
    assert found.edits == 1
    (found,) = (await judged(folder, finding(**more), earlier=earlier)).findings
    assert (found.edits, [line for line in found.history if "manual" in line]) == (0, [])


def test_numbers_are_written_as_people_write_them() -> None:
    assert [ordinal(one) for one in (1, 2, 3, 4, 11, 12, 13, 21, 112)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"
    ]  # fmt: skip


def decision(says: Any, object: str = "Deployment shop/web", **more: Any) -> DriftPattern:
    about = replace(finding(object, **more), id="drift-1.1")
    return learned_from(about, says, "load tests only", "carol", NOW - DAY)


async def test_a_decision_about_similar_drift_is_cited_and_decides_nothing(folder: Path) -> None:
    for says in ("accepted", "rejected"):
        known = [decision(says, "Deployment shop/api")]
        (found,) = (await judged(folder, finding(), patterns=known)).findings
        assert (found.weight, found.pattern) == ("look", "")
        said = f"similar drift: 2 Nov 2025, {says} by carol: load tests only (drift-1.1)"
        assert said in found.history
    other = [decision("accepted", "StatefulSet shop/db"), decision("accepted", field="spec.paused")]
    (found,) = (await judged(folder, finding(), patterns=other)).findings
    assert found.history == ()


async def test_a_decision_counts_where_it_fits_and_is_cited_where_it_no_longer_does(
    folder: Path,
) -> None:
    known, before = [decision("rejected")], [audit(1, finding(at=NOW - 2 * DAY), days_ago=2)]
    (found,) = (await judged(folder, finding(), earlier=before, patterns=known)).findings
    assert (found.advice.do, found.advice.why) == ("revert", "carol rejected it (drift-1.1)")
    controller = finding(kind="controller", by="fleet")
    (found,) = (await judged(folder, controller, earlier=before, patterns=known)).findings
    assert found.history[0].startswith("last time: 2 Nov 2025, rejected by carol")
    assert found.advice.do == "adopt"


async def test_what_resolved_it_last_time_is_named(folder: Path) -> None:
    gone = [audit(2, days_ago=1), audit(1, finding(at=NOW - 2 * DAY), days_ago=2)]
    incident = Incident(
        "inc-7", "dangerous drift", "P1", "resolved", "person", "x", ended=NOW - DAY,
        skill="undo-scaling",
    )  # fmt: skip
    known = {fingerprint_of(str(folder), "local", "Deployment shop/web"): incident}
    skills = {"undo-scaling": "when somebody scaled by hand", "drift-kubernetes": "any drift"}
    (found,) = (
        await judged(folder, finding(), earlier=gone, incidents=known, skills=skills)
    ).findings
    assert found.skill == "undo-scaling"
    assert "resolved last time in inc-7 of 2 Nov 2025 with the skill undo-scaling" in found.history
    assert "it was gone in drift-2 (reverted) and is back" in found.history


async def test_a_report_is_grouped_by_namespace_with_its_mark_in_words(folder: Path) -> None:
    policy = finding("ClusterPolicy owners", "spec.action", group="kyverno.io")
    ann = finding("Deployment bank/web")
    hpa = Who("controller", "HorizontalPodAutoscaler", "certain")
    scaled = DriftFinding("kubernetes", "Deployment shop/web", REPLICAS, "3", "5", who=hpa,
                          namespace="shop")  # fmt: skip
    made = await judged(folder, scaled, ann, policy, finding("Deployment shop/api", "spec.paused"))
    wanted = ["cluster-scoped: dangerous (1 dangerous)", "namespace bank: notable (1 notable)",
              "namespace shop: notable (1 notable, 1 harmless)"]  # fmt: skip
    told = audit_text(whole(made))  # type: ignore[arg-type]  # a dictionary
    assert [line for line in told.splitlines() if line in wanted] == wanted
    assert "kubernetes: 3 checked, dangerous (1 dangerous, 2 notable, 1 harmless)" in told
    headings = [line[4:] for line in markdown(made).splitlines() if line.startswith("### ")]
    assert headings == wanted
    assert [one.id for one in made.findings] == ["drift-9.1", "drift-9.2", "drift-9.3", "drift-9.4"]
    assert [one["namespace"] for one in whole(made)["scopes"][0]["findings"]] == [  # type: ignore[index]
        "", "bank", "shop", "shop"
    ]  # fmt: skip
