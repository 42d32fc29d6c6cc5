"""Which action and which skill to recommend."""

import posixpath
import re
from collections.abc import Mapping

from msgspec.structs import replace

from hermes_drift.patterns import DriftPattern
from hermes_drift.values import DriftFinding

OLDER = "older than what is declared"
"""How the line of history ends that says so."""


MANY = 3
"""So many edits by hand say that the declared state does not do."""


def advised(finding: DriftFinding, pattern: DriftPattern | None = None) -> DriftFinding:
    """`pattern`: the one that decided."""
    do, why = _choice(finding, pattern)
    advice = replace(finding.advice, do=do, why=why)
    if do == "leave":
        advice = replace(advice, revert="")
    return replace(finding, advice=advice)


def _choice(one: DriftFinding, pattern: DriftPattern | None) -> tuple[str, str]:
    who = one.who
    if one.weight == "harmless":
        return "leave", one.why
    if one.weight == "dangerous":
        return "revert", "then find out how it happened"
    if pattern is not None and pattern.says == "rejected":
        return "revert", f"{pattern.by} rejected it ({pattern.finding})"
    if one.edits >= MANY:
        return "decide", f"{one.edits} edits by hand: adopt what is needed, or find out why it is"
    if any(line.endswith(OLDER) for line in one.history):
        return "revert", "the declared version was never installed here, or was rolled back"
    if one.field in ("missing", "mode", "owner", "group", "active", "loaded", "masked"):
        return "revert", "there is no reason to keep the live state"
    if who.kind in ("controller", "package"):
        return "adopt", f"{who.name or 'a controller'} would change it again"
    if who.kind == "person" and who.name:
        return "decide", f"ask {who.name}: adopt it if it was intended, otherwise revert it"
    return "decide", "adopt it if it was intended, otherwise revert it"


def matching_skill(finding: DriftFinding, skills: Mapping[str, str]) -> str:
    """The name of a skill that is for this kind of drift, or whose description names the object.
    `skills`: descriptions by name."""
    for name in (f"drift-{finding.scope}", f"{finding.scope}-drift", _incident_skill(finding)):
        if name in skills:
            return name
    # `nginx` of /etc/nginx/nginx.conf, web.service, or Deployment shop/web
    last = posixpath.basename(finding.object.rstrip("/"))
    subject = last.rpartition(" ")[2].partition(".")[0]
    if len(subject) < 4:
        return ""
    word = re.compile(rf"\b{re.escape(subject)}\b", re.IGNORECASE)
    return next((name for name, about in skills.items() if word.search(f"{name} {about}")), "")


def _incident_skill(one: DriftFinding) -> str:
    if one.field in ("mode", "owner", "group"):
        return "permission-change"
    if one.field.endswith("image") or one.field == "version":
        return "bad-deploy"
    if one.field in ("active", "replicas", "missing") and one.scope in ("units", "compose"):
        return "service-crash"
    return "bad-config" if one.field == "content" or one.scope == "units" else ""
