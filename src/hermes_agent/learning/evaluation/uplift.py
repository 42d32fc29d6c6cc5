"""What skills are worth: rows that compare tasks with and without them."""

from collections.abc import Sequence
from statistics import fmean, median

from msgspec import Struct

from hermes_agent.core.knowledge import SkillRecord, SkillUse, Trial
from hermes_agent.core.skills import SkillState
from hermes_agent.learning.evaluation.chart import ChartPoint

TREND = 40
"""The last turns that are shown one by one."""


class Side(Struct, frozen=True):
    """How it went with the skill, or without. None: unknown."""

    n: int = 0
    success: float | None = None
    """The share of good outcomes among the known ones."""
    steps: float | None = None
    """Medians, as all that follow."""
    seconds: float | None = None
    tokens: float | None = None
    dollars: float | None = None


class Gain(Struct, frozen=True):
    """What the skill changes. `success` is a difference, the others a share that is saved (0.25: a
    quarter less)."""

    success: float | None = None
    steps: float | None = None
    seconds: float | None = None
    tokens: float | None = None
    dollars: float | None = None


class UpliftRow(Struct, frozen=True, rename={"with_": "with"}):
    skill: str
    state: SkillState
    version: int
    author: str
    model: str
    """The model that wrote it, where one did."""
    uses: int
    """Turns in which it was opened, whatever its version was."""
    with_: Side
    without: Side
    lift: Gain
    trend: tuple[ChartPoint, ...]
    """The last turns that it fitted, oldest first."""
    evidence: str
    """`replay n=12` (cases played with and without it), `use n=9`, or `none`."""
    reason: str = ""
    """Why it is in its state."""


def lift(
    records: Sequence[SkillRecord], uses: Sequence[SkillUse], trials: Sequence[Trial]
) -> Sequence[UpliftRow]:
    """A row for each skill that was used, tried or learned, most used first. Replays of the current
    version are the evidence, the same tasks with and without it; otherwise its uses."""
    rows = [_row(record, uses, trials) for record in records]
    shown = [row for row in rows if row.uses or row.evidence != "none" or row.state != "given"]
    return sorted(shown, key=lambda row: (-row.uses, row.skill))


def _row(record: SkillRecord, uses: Sequence[SkillUse], trials: Sequence[Trial]) -> UpliftRow:
    mine = sorted((use for use in uses if use.skill == record.name), key=lambda use: use.time)
    opened = [use for use in mine if use.opened]
    other = [use for use in mine if not use.opened]
    played = [one for one in trials if (one.skill, one.digest) == (record.name, record.digest)]
    replayed = {arm: [one for one in played if one.arm == arm] for arm in ("with", "without")}
    if all(replayed.values()):
        with_ = _side(replayed["with"])
        without = _side(replayed["without"])
        evidence = f"replay n={len({one.case for one in played})}"
    else:
        with_ = _side([use for use in opened if use.digest == record.digest])
        without = _side(other)
        evidence = f"use n={with_.n}" if with_.n else "none"
    return UpliftRow(
        skill=record.name,
        state=record.state,
        version=record.version,
        author=record.by,
        model=record.model,
        uses=len(opened),
        with_=with_,
        without=without,
        lift=_gain(with_, without),
        trend=tuple(
            ChartPoint(use.time, use.steps, use.opened, use.outcome == "bad")
            for use in mine[-TREND:]
        ),
        evidence=evidence,
        reason=record.reason,
    )


def _side(runs: Sequence[SkillUse] | Sequence[Trial]) -> Side:
    if not runs:
        return Side()
    known = [good for run in runs if (good := _good(run)) is not None]
    priced = [run.dollars for run in runs if run.dollars is not None]
    return Side(
        n=len(runs),
        success=fmean(known) if known else None,
        steps=median(run.steps for run in runs),
        seconds=median(run.seconds for run in runs),
        tokens=median(run.tokens for run in runs),
        dollars=median(priced) if priced else None,
    )


def _good(run: SkillUse | Trial) -> bool | None:
    if isinstance(run, Trial):
        return run.ok
    return None if run.outcome == "unknown" else run.outcome == "good"


def _gain(with_: Side, without: Side) -> Gain:
    known = with_.success is not None and without.success is not None
    return Gain(
        success=(with_.success or 0.0) - (without.success or 0.0) if known else None,
        steps=saved(with_.steps, without.steps),
        seconds=saved(with_.seconds, without.seconds),
        tokens=saved(with_.tokens, without.tokens),
        dollars=saved(with_.dollars, without.dollars),
    )


def saved(with_: float | None, without: float | None) -> float | None:
    if with_ is None or without is None or without <= 0:
        return None
    return 1.0 - with_ / without
