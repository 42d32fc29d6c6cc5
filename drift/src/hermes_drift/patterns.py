"""Patterns of drift that is known to be harmless: shipped, or learned from people's decisions."""

import posixpath
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hermes_drift.matching import fits_any
from hermes_drift.severity import weigh
from hermes_drift.values import WEIGHTS, DriftFinding, Scope, Weight

_VOLATILE = re.compile(r"\d+(?:\.\d+)+|\d{3,}|(?=[a-f]*\d)[0-9a-f]{7,}")
"""Parts of a name that change: versions, dates, hashes."""


class DriftPattern(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where such drift is and who causes it, never which values it has."""

    name: str
    scope: Scope
    object: tuple[str, ...] = ("**",)
    field: tuple[str, ...] = ("**",)
    kind: tuple[str, ...] = ()
    """Kinds of who changed it; empty for all."""
    manager: tuple[str, ...] = ()
    why: str = ""
    covers: Weight = "look"
    """The most serious weight it excuses: accepting a changed mode does not accept setuid."""
    says: Literal["accepted", "rejected"] = "accepted"
    by: str = ""
    at: float = 0.0
    finding: str = ""
    """What it was learned from; empty if shipped."""

    def fits(self, finding: DriftFinding) -> bool:
        return (
            self.scope == finding.scope
            and fits_any(self.object, finding.object)
            and fits_any(self.field, finding.field)
            and (not self.kind or finding.who.kind in self.kind)
            and (not self.manager or fits_any(self.manager, finding.who.name))
        )

    def resembles(self, finding: DriftFinding) -> bool:
        """The same field of another such object, whoever changed it."""
        return (
            self.scope == finding.scope
            and fits_any(self.field, finding.field)
            and fits_any((_widened(self.scope, self.object[0]),), finding.object)
        )


@cache
def shipped() -> tuple[DriftPattern, ...]:
    import yaml

    text = Path(__file__).with_name("patterns.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), tuple[DriftPattern, ...])


def learned_from(
    finding: DriftFinding, says: Literal["accepted", "rejected"], why: str, by: str, at: float
) -> DriftPattern:
    """A decision about one finding, made a pattern. What a controller changed, it changes on every
    object of the kind; what a person changed, they changed on this one."""
    machine = finding.who.kind in ("controller", "package")
    name = _VOLATILE.sub("*", finding.object)
    return DriftPattern(
        f"{says} {finding.id}", finding.scope,
        (_widened(finding.scope, name) if machine else name,),
        (re.sub(r"\[\d+\]", "[*]", _VOLATILE.sub("*", finding.field)),),
        (finding.who.kind,) if finding.who.kind != "unknown" else (),
        (_VOLATILE.sub("*", finding.who.name),) if machine and finding.who.name else (),
        why, weigh(finding)[0], says, by, at, finding.id,
    )  # fmt: skip


def _widened(scope: Scope, name: str) -> str:
    """A glob for this object and others of its kind."""
    if scope == "kubernetes":
        return f"{name.partition(' ')[0]} **"
    if scope in ("files", "units") and name.startswith("/"):
        folder, last = posixpath.split(name)
        return f"{folder}/*{posixpath.splitext(last)[1]}"
    return name if scope == "compose" else "*"


def judged(
    finding: DriftFinding, learned: Sequence[DriftPattern]
) -> tuple[DriftFinding, DriftPattern | None]:
    """The finding with its weight, and the pattern that decided. Learned patterns count before
    shipped ones, the latest first; none excuses more than it covers."""
    weight, why = weigh(finding)
    for one in (*sorted(learned, key=lambda one: -one.at), *shipped()):
        if not one.fits(finding):
            continue
        if one.says == "rejected":
            return replace(finding, weight=weight, why=why, pattern=one.name), one
        if WEIGHTS.index(weight) <= WEIGHTS.index(one.covers):
            return replace(finding, weight="harmless", why=one.why, pattern=one.name), one
    return replace(finding, weight=weight, why=why), None
