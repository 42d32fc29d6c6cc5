"""`hermes sessions tree`: who works for whom, and what it cost together."""

from typing import Any

import pytest

from tests.support.cli import Hermes

SCRIPT = """
price: {input: 1.0, output: 2.0}
turns:
  - when: divide it
    replies:
      - calls: [{tool: delegate, with: {tasks: [{task: first part}, {task: second part}]}}]
      - say: Both parts are done.
  - when: first part
    replies:
      - calls: [{tool: delegate, with: {tasks: [{task: a detail}]}}]
      - say: The first part is done.
  - replies:
      - say: Done.
"""


@pytest.fixture
def family(hermes: Hermes) -> tuple[Hermes, str]:
    """A session with two children, the first of which has one of its own; and one without."""
    hermes.script.write_text(SCRIPT)
    hermes.ask("alone")
    return hermes, hermes.ask("divide it")


def titles(row: dict[str, Any]) -> list[Any]:
    return [row["title"], *(titles(child) for child in row["children"])]


def test_children_stand_below_whom_they_work_for(family: tuple[Hermes, str]) -> None:
    hermes, parent = family
    newest, alone = hermes.json("sessions", "tree")
    assert newest["id"] == parent
    assert titles(alone) == ["alone"]
    assert titles(newest)[0] == "divide it"
    below = {words[0]: words[1:] for words in titles(newest)[1:]}
    assert below == {"first part": [["a detail"]], "second part": []}
    shown = hermes.good("sessions", "tree").splitlines()
    assert shown[0].split() == ["session", "state", "age", "cost", "with", "children", "name"]
    assert len(shown) == 6
    assert {line[0] for line in shown[2:5]} <= set("├└│ ")
    assert shown[5].endswith("alone")


def test_what_children_cost_is_added_up(family: tuple[Hermes, str]) -> None:
    hermes, parent = family
    (one,) = hermes.json("sessions", "tree", parent)
    assert one["cost"] > 0

    def own(row: dict[str, Any]) -> float:
        return float(row["cost"]) + sum(own(child) for child in row["children"])

    assert one["total"] == pytest.approx(own(one))
    assert one["total"] > one["cost"]
    by_session = hermes.json("cost", "--by", "session")["costs"]
    alone = hermes.json("sessions", "tree")[1]
    spent = sum(row["cost"] for row in by_session)
    assert one["total"] + alone["total"] == pytest.approx(spent)


def test_a_named_session_is_shown_with_its_own_children(family: tuple[Hermes, str]) -> None:
    hermes, parent = family
    (whole,) = hermes.json("sessions", "tree", parent)
    assert whole == hermes.json("sessions", "tree", "--limit", "1")[0]
    first = next(child for child in whole["children"] if child["title"] == "first part")
    assert hermes.json("sessions", "tree", first["id"][:6]) == [first]
