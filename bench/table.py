"""One figure, its floor and its limit, and the table of them."""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass

SHORT = "HERMES_BENCH_SHORT"
"""Set by `python -m bench --short`: every part runs once, with figures that mean nothing."""


def scaled(full: int, short: int) -> int:
    """How much to measure."""
    return short if os.environ.get(SHORT) else full


@dataclass(frozen=True)
class Figure:
    name: str
    value: float
    unit: str
    floor: float | None = None
    floor_name: str = ""
    limit: float | None = None
    limit_name: str = ""

    @property
    def holds(self) -> bool:
        return self.limit is None or self.value <= self.limit

    def row(self) -> str:
        floor = "" if self.floor is None else f"{self.floor:,.4g} {self.floor_name}"
        limit = "" if self.limit is None else f"{self.limit:,.4g} {self.limit_name}".strip()
        verdict = "" if self.limit is None else "ok" if self.holds else "TOO MUCH"
        value = f"{self.value:,.4g} {self.unit}"
        return f"{self.name:<58} {value:>12}  {limit:>14}  {verdict:<8}  {floor}"


HEAD = f"{'what':<58} {'figure':>12}  {'at most':>14}  {'':<8}  floor in the same run"


def show(figures: Iterable[Figure]) -> int:
    """Print the figures as they come; the number of limits that did not hold."""
    print(HEAD)
    broken = 0
    for figure in figures:
        print(figure.row(), flush=True)
        broken += not figure.holds
    print(f"{broken} over the limit" if broken else "every limit holds", file=sys.stderr)
    return broken
