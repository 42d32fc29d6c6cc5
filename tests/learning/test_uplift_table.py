"""The lift table and its charts, as values."""

import re
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from hermes_agent.core.knowledge import SkillRecord, SkillUse
from hermes_agent.learning.evaluation.chart import (
    ASCII,
    UNICODE,
    ChartPoint,
    Plot,
    chart,
    image,
    key,
    nice,
    spark,
)
from hermes_agent.learning.evaluation.table import (
    count,
    duration,
    lift_said,
    money,
    pair,
    picture,
    report,
)
from hermes_agent.learning.evaluation.uplift import lift

START = 1_767_225_600.0  # 2026-01-01 UTC
DAY = 86_400.0
SVG = "{http://www.w3.org/2000/svg}"


def side(*values: float | None) -> dict[str, float | None]:
    names = ("success", "steps", "seconds", "tokens", "dollars")
    return dict(zip(names, values or (None,) * len(names), strict=True))


def dots(*steps: int, opened: bool = True, bad: bool = False) -> list[dict[str, Any]]:
    return [
        {"time": START + DAY * n, "steps": one, "opened": opened, "bad": bad}
        for n, one in enumerate(steps)
    ]


def row(skill: str, **more: Any) -> dict[str, Any]:
    """A skill of which nothing is known but what is named."""
    return {
        "skill": skill, "state": "given", "version": 1, "author": "person", "model": "", "uses": 0,
        "with": side(), "without": side(), "lift": side(), "trend": [], "evidence": "none",
        "reason": "", **more,
    }  # fmt: skip


HELPS = row(
    "disk-full", state="proven", version=3, author="review", model="openai/gpt-5-mini", uses=14,
    **{"with": side(0.93, 6, 38.2, 4_100, 0.0123)}, without=side(0.6, 14, 92, 9_800, 0.0312),
    lift=side(0.33, 0.571, 0.58, 0.58, 0.6), evidence="replay n=8",
    trend=[*dots(14, 13, opened=False), *dots(12, bad=True), *dots(9, 7, 6)],
)  # fmt: skip
HARMS = row(
    "service-down", state="demoted", uses=5, lift=side(-0.43, -0.22, None, None, None),
    **{"with": side(0.4, 22, 6_100, 1_250_000, 1.25)}, without=side(0.83, 18, 90, 800_000, 0.9),
    evidence="use n=5", trend=dots(22, 25, 20),
)  # fmt: skip
UNUSED = row("write-a-skill")


def lines_of(text: str, begin: str, many: int = 2) -> list[str]:
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(begin))
    return lines[at : at + many]


# the table


def test_a_row_shows_every_figure_with_and_without_the_skill() -> None:
    first, second, third = lines_of(report([UNUSED, HELPS, HARMS]), "disk-full", 3)
    assert first.split()[:7] == [
        "disk-full", "14", "93/60", "6/14", "38s/92s", "4.1k/9.8k", "0.012/0.031",
    ]  # fmt: skip
    assert first.split()[7] == spark([12, 9, 7, 6])
    assert "proven, version 3 by review (openai/gpt-5-mini)" in second
    assert third.strip() == "8 replayed cases; success +33 points, 57 % fewer steps"


def test_the_most_used_comes_first_and_what_was_not_measured_says_so() -> None:
    text = report([UNUSED, HARMS, HELPS])
    places = [text.index(f"\n{name}") for name in ("disk-full", "service-down", "write-a-skill")]
    assert places == sorted(places)
    first, second = lines_of(text, "write-a-skill")
    assert first.split() == ["write-a-skill", "0", *"------"]
    assert second.strip() == "given, version 1 by person; no baseline yet"


@pytest.mark.parametrize("plain", [False, True])
def test_everything_fits_into_a_hundred_columns(plain: bool) -> None:
    long = row(
        "x" * 200, state="quarantined", version=123, author="review", model="m" * 200, uses=9_999,
        **{"with": side(1.0, 99.5, 359_000, 999_900, 123.456)},
        without=side(1.0, 99.5, 359_000, 999_900, 123.456),
        lift=side(-0.99, -1.5, None, None, None), evidence="replay n=100", trend=dots(*range(40)),
    )  # fmt: skip
    text = report([long, HELPS], plain=plain)
    assert max(map(len, text.splitlines())) <= 100
    assert text.isascii() == plain


def test_a_name_cannot_drive_the_terminal() -> None:
    text = report([row("bad\x1b[2J", model="m\x07odel", trend=dots(1, 2), uses=2)])
    assert "\x1b" not in text
    assert "\x07" not in text


def test_without_anything_measured_it_says_so() -> None:
    assert report([]).startswith("no skill was used, tried or learned yet")


def test_numbers_are_short_and_right() -> None:
    shown = [count(one) for one in (None, 0, 6, 6.5, 140, 999.4, 4_100, 99_960, 1_250_000)]
    assert shown == ["-", "0", "6", "6.5", "140", "999", "4.1k", "100k", "1.2M"]
    times = [duration(one) for one in (None, 4.23, 9.97, 38.2, 92, 400, 6_100, 400_000)]
    assert times == ["-", "4.2s", "10s", "38s", "92s", "7m", "1.7h", "111h"]
    assert [money(one) for one in (None, 0.0, 0.0123, 1.25)] == ["-", "0.000", "0.012", "1.25"]
    assert [pair("-", "-"), pair("6", "-")] == ["-", "6/-"]


def test_a_lift_is_said_in_the_words_of_what_it_saves() -> None:
    assert lift_said(side(0.0, 0.25, None, None, None)) == "25 % fewer steps"
    assert lift_said(side(None, 0.0, -0.5, None, None)) == "50 % more time"
    assert lift_said(side(-0.2, 0.0, 0.0, 0.0, 0.0)) == "success -20 points"
    assert lift_said(side(0.0, 0.0, 0.0, 0.0, None)) == "no difference"
    assert lift_said(side()) == "no baseline yet"


def test_the_rows_that_are_measured_are_the_rows_that_are_shown() -> None:
    record = SkillRecord("disk-full", "proven", 2, "d", START, START, "review", "x/y")
    uses = [
        SkillUse("disk-full", "d", "s", n, START + DAY * n, n > 3, "bad" if n == 5 else "good",
                 steps=20 - n, seconds=9.0, tokens=1_000, dollars=0.01)
        for n in range(1, 8)
    ]  # fmt: skip
    rows = msgspec.to_builtins(lift([record], uses, []))
    first, second = lines_of(report(rows), "disk-full")
    assert first.split()[:4] == ["disk-full", "4", "75/100", "14.5/18"]
    assert "version 2 by review (x/y)" in second
    (group,) = ET.fromstring(picture(rows)).findall(f"{SVG}g")
    assert len(group.findall(f"{SVG}circle")) == 7
    assert len(group.findall(f"{SVG}path")) == 1


# in the terminal


def test_a_chart_has_a_mark_for_each_use_at_its_height() -> None:
    shown = [
        ChartPoint(START, 8, False),
        ChartPoint(START + DAY, 8, True, bad=True),
        ChartPoint(START + DAY, 4, True),
    ]
    lines = chart(Plot("name", "note", shown, usual=6.0))
    assert lines[:2] == ["name", "note"]
    assert lines[2].startswith("8 ┤○ ✗")
    assert lines[4].startswith("  │┄┄┄┄")
    assert lines[6].startswith("4 ┤    ●")
    assert lines[-2].startswith("0 ┼───")
    assert lines[-1].split() == ["2026-01-01", "2026-01-02"]
    assert all(mark in key() for mark in ("●", "○", "✗", "┄"))


def test_a_chart_can_be_drawn_without_unicode() -> None:
    plot = Plot("name", "", [ChartPoint(START, 3, True), ChartPoint(START, 5, False)], 5.0)
    drawn = "\n".join([*chart(plot, plain=True), key(plain=True), spark([1, 2, 3], plain=True)])
    assert drawn.isascii()
    assert all(mark in drawn for mark in "*o.|+-")


def test_a_chart_keeps_to_its_width_and_shows_the_last_uses() -> None:
    many = [ChartPoint(START + n * DAY, 3, n % 2 == 0) for n in range(500)]
    lines = chart(Plot("name", "", many), width=60)
    assert max(map(len, lines)) <= 60
    assert lines[-1].split()[1] == "2027-05-15"


def test_the_scale_reaches_over_the_highest_value() -> None:
    tops = [nice(value) for value in (0, 2, 3, 10, 10.5, 13, 17, 25, 99, 101, 1_700)]
    assert tops == [2, 2, 4, 10, 12, 16, 20, 30, 100, 120, 2_000]


def test_small_bars_begin_at_nothing() -> None:
    assert spark([0, 7, 14]) == UNICODE.levels[0] + UNICODE.levels[4] + UNICODE.levels[7]
    assert spark([]) == ""
    assert spark([0, 0]) == UNICODE.levels[0] * 2
    assert len(ASCII.levels) == len(UNICODE.levels)


def test_the_three_most_used_are_charted() -> None:
    rows = [row(f"skill-{n}", uses=n, trend=dots(*range(1, n + 1))) for n in range(1, 6)]
    text = report(rows)
    charted = [line for line in text.splitlines() if re.fullmatch(r"skill-\d", line)]
    assert charted == ["skill-5", "skill-4", "skill-3"]


# as an image


def test_the_image_is_well_formed_and_has_its_parts() -> None:
    drawn = ET.fromstring(picture([HELPS, HARMS, UNUSED]))
    assert drawn.tag == f"{SVG}svg"
    groups = drawn.findall(f"{SVG}g")
    assert len(groups) == 2
    texts = ["".join(one.itertext()) for one in drawn.iter(f"{SVG}text")]
    for words in ("with the skill", "without it", "went wrong", "disk-full", "service-down",
                  "uses, oldest first", "steps", "2026-01-01"):  # fmt: skip
        assert words in texts
    assert "1 skill is not shown: not used yet, or used less than these" in texts
    circles = [one.get("class") for one in groups[0].iter(f"{SVG}circle")]
    assert sorted(filter(None, circles)) == ["with"] * 4 + ["without"] * 2
    assert len(groups[0].findall(f"{SVG}path")) == 1  # the use that went wrong
    assert len(groups[0].findall(f"{SVG}polyline")) == 2


def test_higher_values_are_drawn_higher() -> None:
    (group,) = ET.fromstring(picture([row("one", trend=dots(2, 6, 4), uses=3)])).findall(f"{SVG}g")
    places = [
        (float(one.get("cx", "")), float(one.get("cy", ""))) for one in group.iter(f"{SVG}circle")
    ]
    (x1, low), (x2, high), (x3, middle) = places
    assert x1 < x2 < x3
    assert high < middle < low


def test_names_are_escaped_in_the_image() -> None:
    odd = 'a<b>&"\x1b\x00\ud800'
    drawn = ET.fromstring(image(odd, [Plot(odd, odd, [ChartPoint(START, 1, True)])], odd))
    texts = ["".join(one.itertext()) for one in drawn.iter(f"{SVG}text")]
    assert texts.count('a<b>&"') == 4
