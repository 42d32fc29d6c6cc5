"""Judges from trials whether a skill helps significantly."""

from collections.abc import Collection, Iterable, Sequence
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.knowledge import Trial
from hermes_agent.learning.evaluation.uplift import saved

LEAST_PAIRS = 5
"""Fewer cannot be told from noise: five coins all show heads once in 32 times."""
LIKELY = 0.05
"""The significance level."""
LEAST_SAVED = 0.10
"""The least saving that is worth a skill, if success is the same."""
MAX_TOKENS = 1.25
"""The most tokens relative to those without it, if success is the same."""
LEAST_OPENED = 0.5
"""The share of trials that must have opened it: what nobody reads does not help."""
HARM_PAIRS = 3
"""Cases lost with it and won without it, and none the other way, that prove harm."""
GRAIN = 100
"""Differences are rounded to hundredths, so that all sign flips can be counted."""


class Pair(Struct, frozen=True):
    """One case with the skill and without it: means over its rounds. Steps and tokens are those of
    successful rounds; None without one."""

    case: str
    success_with: float
    success_without: float
    steps_with: float | None
    steps_without: float | None
    tokens_with: float | None
    tokens_without: float | None
    opened: float = 1.0
    """The share of rounds that opened it."""

    @property
    def steps_saved(self) -> float:
        """The share of steps that it saves, from -1 to 1; 0 if one side fails."""
        if self.steps_with is None or self.steps_without is None:
            return 0.0
        more = max(self.steps_with, self.steps_without)
        return (self.steps_without - self.steps_with) / more if more else 0.0

    @property
    def score(self) -> float:
        """Success counts first, then the steps saved."""
        return (self.success_with - self.success_without) or self.steps_saved


class EvaluationVerdict(Struct, frozen=True):
    skill: str
    digest: str
    promote: bool
    why: str
    n: int = 0
    """Held-out cases that were played both ways."""
    p: float = 1.0
    """How likely chance alone would do as well."""
    success_with: float = 0.0
    success_without: float = 0.0
    steps_with: float | None = None
    steps_without: float | None = None
    tokens_with: float | None = None
    tokens_without: float | None = None
    harmful: bool = False
    """Significantly worse with it."""
    later: bool = False
    """Not finished; to be resumed."""


def pairs_of(
    trials: Iterable[Trial], digest: str, cases: Collection[str], baseline: str = ""
) -> list[Pair]:
    """The cases played with this version and without it, or with the version `baseline`."""
    ours: dict[str, list[Trial]] = {}
    others: dict[str, list[Trial]] = {}
    for one in trials:
        if one.digest == digest and one.arm == "with":
            ours.setdefault(one.case, []).append(one)
        elif (one.digest, one.arm) == ((baseline, "with") if baseline else (digest, "without")):
            others.setdefault(one.case, []).append(one)
    return [_pair(case, ours[case], others[case]) for case in cases if case in ours.keys() & others]


def _pair(case: str, ours: Sequence[Trial], others: Sequence[Trial]) -> Pair:
    good, good_without = [one for one in ours if one.ok], [one for one in others if one.ok]
    return Pair(
        case,
        len(good) / len(ours),
        len(good_without) / len(others),
        _mean(one.steps for one in good),
        _mean(one.steps for one in good_without),
        _mean(one.tokens for one in good),
        _mean(one.tokens for one in good_without),
        fmean(one.opened for one in ours),
    )


def by_chance(scores: Sequence[float]) -> float:
    """The exact one-sided permutation test of paired differences: how likely random signs would
    give as high a sum."""
    sizes = [abs(round(score * GRAIN)) for score in scores]
    reached = sum(round(score * GRAIN) for score in scores)
    ways = {0: 1}
    for size in sizes:
        further: dict[int, int] = {}
        for total, count in ways.items():
            for next_total in (total + size, total - size):
                further[next_total] = further.get(next_total, 0) + count
        ways = further
    as_high = sum(count for total, count in ways.items() if total >= reached)
    return float(as_high / 2 ** len(sizes))


def clearly_harmful(pairs: Sequence[Pair]) -> bool:
    """Significantly worse with it, or several cases lost by it and none won."""
    lost = [pair for pair in pairs if pair.success_with == 0.0 and pair.success_without == 1.0]
    won = [pair for pair in pairs if pair.success_with > pair.success_without]
    if len(lost) >= HARM_PAIRS and not won:
        return True
    scores = [-pair.score for pair in pairs]
    return len(pairs) >= LEAST_PAIRS and sum(scores) > 0 and by_chance(scores) <= LIKELY


def judged(
    skill: str, digest: str, pairs: Sequence[Pair], *, harmful: bool = False
) -> EvaluationVerdict:
    """The verdict on the held-out cases. `harmful`: playing stopped because of it."""
    if not pairs:
        why = f"no held-out case could be replayed; {_again(skill)}"
        return EvaluationVerdict(skill, digest, False, why, harmful=harmful)
    both = [
        pair for pair in pairs if pair.steps_with is not None and pair.steps_without is not None
    ]
    figures = EvaluationVerdict(
        skill,
        digest,
        promote=False,
        why="",
        n=len(pairs),
        p=by_chance([pair.score for pair in pairs]),
        success_with=fmean(pair.success_with for pair in pairs),
        success_without=fmean(pair.success_without for pair in pairs),
        steps_with=_mean(pair.steps_with for pair in both),
        steps_without=_mean(pair.steps_without for pair in both),
        tokens_with=_mean(pair.tokens_with for pair in both),
        tokens_without=_mean(pair.tokens_without for pair in both),
        harmful=harmful or clearly_harmful(pairs),
    )
    against = _against(figures, pairs)
    return _say(figures, against)


def _against(figures: EvaluationVerdict, pairs: Sequence[Pair]) -> str:
    """What speaks against promotion, if anything."""
    if figures.harmful:
        return "it makes things worse"
    if figures.n < LEAST_PAIRS:
        only = f"only {figures.n} held-out cases could be replayed; {LEAST_PAIRS} are needed"
        return f"{only}, {_again(figures.skill)}"
    if fmean(pair.opened for pair in pairs) < LEAST_OPENED:
        return "it was not opened in most of the trials"
    if figures.success_with < figures.success_without:
        return "fewer tasks succeed with it"
    if figures.success_with == figures.success_without:
        fewer_steps = saved(figures.steps_with, figures.steps_without) or 0.0
        fewer_tokens = saved(figures.tokens_with, figures.tokens_without) or 0.0
        if max(fewer_steps, fewer_tokens) < LEAST_SAVED:
            return "it saves too little"
        if 1.0 - fewer_tokens > MAX_TOKENS:
            return "it costs more tokens than the steps it saves are worth"
    if figures.p > LIKELY:
        return "the gain could be chance"
    return ""


def _again(skill: str) -> str:
    return f"`hermes skills prove {skill}` has new ones written"


def _say(figures: EvaluationVerdict, against: str) -> EvaluationVerdict:
    parts = [
        f"{figures.success_with:.0%} succeed with it and {figures.success_without:.0%} without"
    ]
    if figures.steps_with is not None and figures.steps_without is not None:
        parts.append(f"{figures.steps_with:.1f} steps and {figures.steps_without:.1f}")
    numbers = f"{', '.join(parts)} (n={figures.n}, p={figures.p:.3f})"
    return replace(figures, promote=not against, why=f"{against or 'it helps'}: {numbers}")


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
