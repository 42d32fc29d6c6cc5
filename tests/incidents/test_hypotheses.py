"""The board of hypotheses."""

import pytest
from msgspec.structs import replace

from hermes_agent.core.errors import ToolError
from hermes_agent.core.incidents import Evidence, Hypothesis, Incident
from hermes_agent.incidents.response.hypotheses import (
    MAX_COUNT,
    best_guess,
    check_category,
    line,
    put,
    ranked,
)

FULL = Hypothesis("", "the disk is full", "web", "disk-full", 0.7, supports=(Evidence("e1", "q"),))
SLOW = Hypothesis("", "the database is slow", "db", "slow-dependency", 0.4)
INCIDENT = Incident("inc-1", "web is down", "P1", "investigating", "check", "f", "web")


def test_a_hypothesis_gets_the_next_name() -> None:
    board, first = put((), FULL)
    board, second = put(board, SLOW)
    assert (first.id, second.id) == ("h1", "h2")
    assert (
        line(second)
        == "h2 [open, 40%] db: the database is slow (slow-dependency; 0 for, 0 against)"
    )


def test_the_same_claim_again_is_the_same_hypothesis() -> None:
    board, _ = put((), FULL)
    board, made = put(board, replace(FULL, confidence=0.9, supports=(Evidence("e2", "r"),)))
    assert [one.id for one in board] == ["h1"]
    assert made.confidence == 0.9
    assert [one.effect for one in made.supports] == ["e1", "e2"]


def test_a_hypothesis_that_is_changed_keeps_what_is_not_said_anew() -> None:
    board, _ = put((), FULL)
    board, made = put(
        board, Hypothesis("h1", "", state="refuted", contradicts=(Evidence("e3", "s"),))
    )
    assert (made.claim, made.component, made.category) == ("the disk is full", "web", "disk-full")
    assert (made.state, len(made.supports), len(made.contradicts)) == ("refuted", 1, 1)


def test_an_unknown_name_and_too_many_are_refused() -> None:
    with pytest.raises(ToolError, match="no hypothesis 'h9'"):
        put((), Hypothesis("h9", "x"))
    full = tuple(Hypothesis(f"h{n}", f"claim {n}") for n in range(MAX_COUNT))
    with pytest.raises(ToolError, match="the board has"):
        put(full, Hypothesis("", "one more"))


def test_what_is_believed_most_comes_first() -> None:
    board = (
        Hypothesis("h1", "a", confidence=0.9, state="refuted"),
        Hypothesis("h2", "b", confidence=0.3),
        Hypothesis("h3", "c", confidence=0.2, state="confirmed"),
        Hypothesis("h4", "d", confidence=0.6),
    )
    assert [one.id for one in ranked(board)] == ["h3", "h4", "h2", "h1"]


def test_the_best_guess_is_what_was_not_refuted() -> None:
    board, _ = put((), FULL)
    found = best_guess(replace(INCIDENT, hypotheses=board))
    assert (found.component, found.category) == ("web", "disk-full")
    refuted = replace(INCIDENT, hypotheses=(replace(board[0], state="refuted"),))
    assert best_guess(refuted).category == "unknown"
    assert best_guess(INCIDENT).component == "web"


def test_causes_have_names_of_one_list() -> None:
    assert check_category("disk-full") == "disk-full"
    with pytest.raises(ToolError, match="no cause is called 'full disk'"):
        check_category("full disk")
