"""Answers that must be JSON of a shape."""

import pytest
from msgspec import Struct

from hermes_agent.core.errors import ModelError
from hermes_agent.learning.structured_output import ask_for, shaped
from tests.support.learning_parts import Scripted


class Shape(Struct):
    count: int
    names: list[str]


GOOD = '{"count": 2, "names": ["a"]}'


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Sure! Here it is: {GOOD} I hope that helps {{really}}",
        f'First {{"other": 1}} and then {GOOD}',
        "{broken { " + GOOD,
    ],
)
def test_the_object_of_the_shape_is_found(text: str) -> None:
    assert shaped(text, Shape) == Shape(2, ["a"])


@pytest.mark.parametrize(
    "text", ["", "nothing", "[1, 2]", '{"count": "two", "names": []}', "{" * 99]
)
def test_a_text_without_it_is_an_error_that_says_why(text: str) -> None:
    with pytest.raises(ValueError, match=r"no JSON object|Expected|missing"):
        shaped(text, Shape)


def test_a_line_break_within_a_text_is_taken_as_it_is() -> None:
    assert shaped('{"count": 2, "names": ["a\nb"]}', Shape).names == ["a\nb"]


def test_an_object_that_was_cut_off_is_not_taken_for_one_of_its_parts() -> None:
    with pytest.raises(ValueError, match="missing"):
        shaped('{"count": 2, "names": [{"a": 1}, {"b', Shape)


async def test_the_second_answer_counts_when_the_first_is_no_good() -> None:
    ask = Scripted(["no", GOOD])
    found, answer = await ask_for(ask, "review", "system", "question", 100, Shape)
    assert found.count == 2
    assert answer.text == GOOD
    assert ask.asked[1][2].startswith("question")
    assert "there is no JSON object in it" in ask.asked[1][2]


async def test_two_answers_that_are_no_good_are_trouble_with_the_model() -> None:
    with pytest.raises(ModelError) as caught:
        await ask_for(Scripted(["no", "no"]), "review", "s", "q", 100, Shape)
    assert caught.value.kind == "garbage"
