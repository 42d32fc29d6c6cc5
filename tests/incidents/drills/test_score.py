"""Figures over runs of drills that are not plain sums."""

from msgspec.structs import replace

from hermes_agent.incidents.drills.results import Result
from hermes_agent.incidents.drills.score import Novel, novel, published


def run(seed: int, category: str = "disk-full", **more: object) -> Result:
    usual = Result(
        "disk_full", "v", seed, "practised", resolved=True, cause=True, evidence=True,
        state="resolved", said=f"a, {category}, /x", time=float(seed),
    )  # fmt: skip
    return replace(usual, **more)


def test_a_kind_is_new_until_a_skill_tells_of_it() -> None:
    runs = [
        run(1, resolved=False),
        run(2),
        run(3, learned="disk-full-prevention"),
        run(4),
        run(5, skill="disk-full-prevention"),
        run(6, "log-flood", learned="log-flood-prevention"),
        run(7, "memory-leak", learning=False),
        run(8, "memory-leak", skill="memory-leak-prevention"),
        run(9, "memory-leak"),
    ]
    assert novel(reversed(runs)) == Novel(3, 2)


def test_what_is_handed_over_is_no_mistake() -> None:
    runs = [
        run(1),
        run(2, resolved=False),
        run(3, resolved=False, state="escalated"),
        run(4, resolved=False, harm=("/srv/letters is gone",)),
    ]
    row = published(runs, "practised")[-1]
    assert (row.runs, row.resolved, row.mistaken, row.harmed) == (4, 0.25, 2, 1)
