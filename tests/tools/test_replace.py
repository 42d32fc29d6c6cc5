import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.replace import replace

CODE = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n"


def test_the_same_passage_in_several_places_is_named_with_its_lines() -> None:
    with pytest.raises(ToolError) as caught:
        replace("a\nb\na\nb\na\n", "a\nb", "c", everywhere=False)
    assert "2 times, on lines 1, 3" in caught.value.message
    assert "`all`" in caught.value.hint


def test_all_places_are_replaced_when_that_is_asked_for() -> None:
    done = replace("a b a\na\n", "a", "c", everywhere=True)
    assert (done.text, done.lines) == ("c b c\nc\n", (1, 1, 2))


def test_a_passage_that_is_missing_gets_the_closest_line_named() -> None:
    with pytest.raises(ToolError) as caught:
        replace(CODE, "    def gg(self):\n        return 22", "x", everywhere=False)
    assert "line 5: 'def g(self):'" in caught.value.hint


def test_nothing_close_gives_no_line_at_all() -> None:
    with pytest.raises(ToolError) as caught:
        replace(CODE, "quite another thing", "x", everywhere=False)
    assert "closest" not in caught.value.hint


def test_a_change_that_was_made_already_is_recognised() -> None:
    with pytest.raises(ToolError, match="already made"):
        replace("x = 2\n", "x = 1", "x = 2", everywhere=False)


@pytest.mark.parametrize(("old", "new"), [("", "x"), ("a", "a")])
def test_an_empty_or_pointless_change_is_refused(old: str, new: str) -> None:
    with pytest.raises(ToolError):
        replace("a\n", old, new, everywhere=False)


def test_lines_given_with_less_indentation_are_found_and_the_new_ones_indented() -> None:
    done = replace(
        CODE, "def g(self):\n    return 2", "def g(self):\n    x = 2\n\n    return x",
        everywhere=False,
    )  # fmt: skip
    assert done.loosely
    assert "    def g(self):\n        x = 2\n\n        return x\n" in done.text


def test_lines_given_without_their_indentation_get_it_back() -> None:
    text = "if a:\n        if b:\n            c()\n"
    done = replace(text, "    if b:\n        c()\n", "    if d:\n        e()\n", everywhere=False)
    assert done.loosely
    assert done.text == "if a:\n        if d:\n            e()\n"


def test_lines_given_with_too_much_indentation_lose_it() -> None:
    done = replace("a:\n  b\n", "    a:\n      b\n", "    a:\n      c\n", everywhere=False)
    assert (done.loosely, done.text) == (True, "a:\n  c\n")


def test_white_space_at_line_ends_does_not_hide_a_passage() -> None:
    done = replace("a  \nb\t\nc\n", "a\nb\n", "x\ny\n", everywhere=False)
    assert (done.loosely, done.text) == (True, "x\ny\nc\n")


def test_a_loose_passage_with_its_line_end_can_be_joined_to_the_next_line() -> None:
    done = replace("a  \nb\nc\n", "a\nb\n", "x", everywhere=False)
    assert done.text == "xc\n"


def test_a_loose_passage_can_be_removed_whole() -> None:
    assert replace("a\n  b \nc\n", "b\n", "", everywhere=False).text == "a\nc\n"
    assert replace("a \nb \nc\n", "a\nb\n", "", everywhere=False).text == "c\n"


def test_a_loose_passage_that_fits_two_places_is_refused() -> None:
    with pytest.raises(ToolError, match="matches 2 places, on lines 1, 4"):
        replace("a \nb\n\na\t\nb\n", "a\nb\n", "x", everywhere=False)


def test_indentation_that_does_not_agree_is_not_guessed() -> None:
    with pytest.raises(ToolError, match="was not found"):
        replace("if a:\n  b\n", "if a:\n    b\n", "if c:\n    d\n", everywhere=False)


def test_the_line_ends_of_a_file_are_kept() -> None:
    done = replace("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", everywhere=False)
    assert done.text == "x\r\ny\r\nz\r\nc\r\n"
    loose = replace("a \r\nb\r\nc\r\n", "a\nb\n", "x\ny\n", everywhere=False)
    assert (loose.loosely, loose.text) == (True, "x\r\ny\r\nc\r\n")
