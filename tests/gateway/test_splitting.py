"""Long texts in several messages."""

import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hermes_agent.gateway.delivery.splitting import open_fence, split, utf16

NUMBER = re.compile(r"\n\n\((\d+)/(\d+)\)$")


def bare(parts: list[str]) -> list[str]:
    """The messages without their numbers."""
    return [NUMBER.sub("", part) for part in parts] if len(parts) > 1 else parts


def test_a_text_that_fits_is_one_message_without_a_number() -> None:
    assert split("hello\n\nthere\n", 100) == ["hello\n\nthere"]
    assert split("  \n ", 100) == []


def test_a_text_is_parted_between_paragraphs_and_numbered() -> None:
    text = "\n\n".join(f"{word} " * 9 + "end." for word in ("one", "two", "three"))
    parts = split(text, 80)
    assert [part.split()[0] for part in parts] == ["one", "two", "three"]
    assert parts[0].endswith("(1/3)")


def test_code_that_is_parted_is_closed_and_opened_again() -> None:
    text = (
        "Look:\n\n```python\n" + "\n".join(f"value_{n} = {n}" for n in range(60)) + "\n```\nDone."
    )
    parts = bare(split(text, 200))
    assert len(parts) > 3
    for part in parts:
        assert not open_fence(part)
    assert parts[1].startswith("```python\n")
    code = "\n".join(line for part in parts for line in part.splitlines() if "value" in line)
    assert code == "\n".join(f"value_{n} = {n}" for n in range(60))


def test_a_word_is_not_torn_and_a_sign_neither() -> None:
    words = [f"word{n}" for n in range(200)]
    assert " ".join(bare(split(" ".join(words), 60))).split() == words
    family = "👩‍👩‍👧‍👦"
    for part in bare(split(family * 40, 60)):
        assert part.replace(family, "") == ""
    flag = "🇮🇹"
    for part in bare(split(flag * 80, 61)):
        assert len(part) % 2 == 0


TEXT = st.text(
    st.one_of(
        st.sampled_from("abc ABC\n\n.`~ \u0301👍🏽👩‍👧🇩🇪é漢"),
        st.characters(codec="utf-8"),
    ),
    max_size=600,
)


@settings(max_examples=300)
@given(TEXT, st.integers(40, 200), st.sampled_from([len, utf16]))
@example("```\n" + "x" * 300, 50, len)
@example("~~~~~~~~~~ words\n" + "\n" * 100 + "y" * 90, 48, len)
@example("```a```" * 30, 40, len)
def test_nothing_is_too_long_and_nothing_is_lost(text: str, longest: int, measure: object) -> None:
    assert callable(measure)
    parts = split(text, longest, measure)
    assert all(measure(part) <= longest for part in parts)
    assert all(part.strip() for part in parts)
    if "`" not in text and "~" not in text:
        together = "".join("".join(part.split()) for part in bare(parts))
        assert together == "".join(text.split())
    for part in bare(parts)[1:]:
        assert not unicodedata.combining(part[0]) or longest < 100
    for part in bare(parts)[:-1]:
        assert not open_fence(part)


def test_there_must_be_room_for_something() -> None:
    with pytest.raises(ValueError, match="too small"):
        split("x" * 100, 10)
