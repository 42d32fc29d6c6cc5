"""Figures over runs of drills: practised, held-out and foreign variants apart, with and without
learning, and those in which nothing is wrong on their own."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import median

from msgspec import Struct

from hermes_agent.incidents.drills.format import TIERS, Tier, drills
from hermes_agent.incidents.drills.results import Result
from hermes_agent.learning.plot import Dot, Plot


class Row(Struct, frozen=True):
    drill: str
    """Empty for all of them together."""
    tier: Tier
    learning: bool
    fault: bool
    """False: nothing was wrong, and it was resolved where nothing was done."""
    runs: int
    resolved: float
    """Shares from 0 to 1."""
    cause: float
    evidence: float
    report: float
    harmed: int
    mistaken: int
    """Runs that were taken for healed and were not."""
    steps: float
    """Medians from here on."""
    calls: float
    seconds: float
    tokens: float
    cost: float | None


class Lift(Struct, frozen=True):
    """What a drill took when it was new, and when it was met again."""

    drill: str
    first: float
    """Steps, as a median over the runs."""
    later: float
    runs: int
    """How many times it was met again."""

    @property
    def less(self) -> float:
        """The share of steps that was saved."""
        return 1.0 - self.later / self.first if self.first else 0.0


def rows(results: Sequence[Result]) -> list[Row]:
    """One for each drill, split and arm, then the totals of each split and arm."""
    groups: dict[_Key, list[Result]] = defaultdict(list)
    for one in results:
        fault = has_fault(one)
        groups[one.drill, one.tier, one.learning, fault].append(one)
        groups["", one.tier, one.learning, fault].append(one)
    order = sorted(
        groups, key=lambda key: (not key[0], not key[3], key[0], TIERS.index(key[1]), not key[2])
    )
    return [_row(key, groups[key]) for key in order]


def has_fault(result: Result) -> bool:
    """Whether something was wrong; so it is taken to be where the drill is not known any more."""
    drill = drills().get(result.drill)
    return drill is None or drill.about.fault


_Key = tuple[str, Tier, bool, bool]


def _row(key: _Key, runs: Sequence[Result]) -> Row:
    return Row(
        *key, len(runs), _share(runs, lambda one: one.resolved),
        _share(runs, lambda one: one.cause), _share(runs, lambda one: one.evidence),
        _share(runs, lambda one: one.report), sum(bool(one.harm) for one in runs),
        sum(map(is_mistaken, runs)), median(one.steps for one in runs),
        median(one.calls for one in runs), median(one.seconds for one in runs),
        median(one.tokens for one in runs),
        _middle(one.cost for one in runs if one.cost is not None),
    )  # fmt: skip


def is_mistaken(result: Result) -> bool:
    """Whether it was taken for healed and was not."""
    return result.state == "resolved" and not result.resolved


def _share(runs: Sequence[Result], holds: Callable[[Result], bool]) -> float:
    return sum(map(holds, runs)) / len(runs)


def lifts(results: Iterable[Result]) -> list[Lift]:
    """Of drills that were met more than once, resolved, with learning."""
    first: dict[str, list[int]] = defaultdict(list)
    later: dict[str, list[int]] = defaultdict(list)
    for one in results:
        if one.learning and one.resolved:
            (later if one.skill else first)[one.drill].append(one.steps)
    return [
        Lift(name, median(first[name]), median(later[name]), len(later[name]))
        for name in sorted(first)
        if later[name]
    ]


class Novel(Struct, frozen=True):
    """Resolved runs of a kind that no skill told of yet, and in how many of them one was
    written."""

    runs: int
    written: int


def novel(results: Iterable[Result]) -> Novel:
    """A kind is what the diagnosis calls the category; the oldest run of each comes first."""
    known: set[str] = set()
    found = []
    for one in sorted(results, key=lambda one: one.time - one.seconds):
        category = one.said.split(", ")[1] if one.said.count(", ") > 1 else ""
        if not (one.learning and one.resolved and has_fault(one) and category):
            continue
        if not one.skill and category not in known:
            found.append(one)
        known |= {category} if one.skill or one.learned else set()
    return Novel(len(found), sum(bool(one.learned) for one in found))


class Published(Struct, frozen=True):
    """A row of what is published."""

    drill: str
    """Empty for all of them together."""
    runs: int
    resolved: float
    """Shares from 0 to 1."""
    cause: float
    evidence: float
    harmed: int
    mistaken: int
    first: float | None
    """Steps, as a median, where no skill was at hand."""
    again: float | None
    """Likewise, by a skill that was learned."""
    calls: float
    """Medians from here on."""
    seconds: float
    tokens: float
    cost: float | None


def published(results: Sequence[Result], tier: Tier, *, fault: bool = True) -> list[Published]:
    """One for each drill, then all together."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for one in results:
        if one.tier == tier and has_fault(one) == fault:
            groups[one.drill].append(one)
            groups[""].append(one)
    return [
        Published(
            name, len(runs), _share(runs, lambda one: one.resolved),
            _share(runs, lambda one: one.cause), _share(runs, lambda one: one.evidence),
            sum(bool(one.harm) for one in runs), sum(map(is_mistaken, runs)),
            _middle(one.steps for one in runs if one.resolved and not one.skill),
            _middle(one.steps for one in runs if one.resolved and one.skill),
            median(one.calls for one in runs), median(one.seconds for one in runs),
            median(one.tokens for one in runs),
            _middle(one.cost for one in runs if one.cost is not None),
        )
        for name, runs in sorted(groups.items(), key=lambda group: (not group[0], group[0]))
    ]  # fmt: skip


def _middle(figures: Iterable[float]) -> float | None:
    found = list(figures)
    return median(found) if found else None


def plots(results: Sequence[Result]) -> list[Plot]:
    """Steps of each run, in the order in which they were made, for each drill."""
    names = sorted({one.drill for one in results})
    return [_plot(name, [one for one in results if one.drill == name]) for name in names]


def _plot(name: str, runs: Sequence[Result]) -> Plot:
    without = [one.steps for one in runs if not one.skill and one.resolved]
    dots = [Dot(one.time, one.steps, bool(one.skill), not one.resolved) for one in runs]
    return Plot(name, f"steps of {len(runs)} runs", dots, median(without) if without else None)
