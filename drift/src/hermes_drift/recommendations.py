"""What to recommend, and which skill fits."""

import posixpath
import re
from collections.abc import Mapping

from msgspec.structs import replace

from hermes_drift.values import DriftFinding

OLDER = "older than what is declared"
"""Ends the line of history that says so."""


def advised(finding: DriftFinding) -> DriftFinding:
    do, why = _choice(finding)
    advice = replace(finding.advice, do=do, why=why)
    if do == "leave":
        advice = replace(advice, revert="")
    return replace(finding, advice=advice)


def _choice(one: DriftFinding) -> tuple[str, str]:
    who = one.who
    if one.weight == "harmless":
        return "leave", one.why
    if one.weight == "dangerous":
        return "revert", "then find out how it came about"
    if any(line.endswith(OLDER) for line in one.history):
        return "revert", "what is declared was never brought here, or was taken back"
    if one.field in ("missing", "mode", "owner", "group", "active", "loaded", "masked"):
        return "revert", "nothing speaks for what is live"
    if who.kind in ("controller", "package"):
        return "adopt", f"{who.name or 'a controller'} would change it again"
    if who.kind == "person" and who.name:
        return "decide", f"ask {who.name}: adopt it if it was meant, else revert it"
    return "decide", "adopt it if it was meant, else revert it"


def matching_skill(finding: DriftFinding, skills: Mapping[str, str]) -> str:
    """A skill, by name, whose name says that it is for this, or whose description names the thing.
    `skills`: names and descriptions."""
    for name in (f"drift-{finding.scope}", f"{finding.scope}-drift", *_prevention(finding)):
        if name in skills:
            return name
    wanted = _thing(finding)
    if len(wanted) < 4:
        return ""
    word = re.compile(rf"\b{re.escape(wanted)}\b", re.IGNORECASE)
    return next((name for name, about in skills.items() if word.search(f"{name} {about}")), "")


def _prevention(one: DriftFinding) -> tuple[str, ...]:
    if one.field in ("mode", "owner", "group"):
        return ("permission-change",)
    if one.field.endswith("image") or one.field == "version":
        return ("bad-deploy",)
    if one.field in ("active", "replicas", "missing") and one.scope in ("units", "compose"):
        return ("service-crash",)
    if one.field == "content" or one.scope == "units":
        return ("bad-config",)
    return ()


def _thing(one: DriftFinding) -> str:
    """`nginx` of /etc/nginx/nginx.conf, web.service, or Deployment shop/web."""
    last = posixpath.basename(one.object.rstrip("/"))
    return last.partition(".")[0]
