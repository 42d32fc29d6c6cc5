"""Views as text: what is written is read back, and what people make of it is understood."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.learning.memory.text import alike, clean, entries, page, plain

PAGE = """# Hosts

- web1 runs the API
* web2 is the spare
+ db1
  is not to be restarted

  ever
-
A paragraph
of two lines

another one
## Habits
  indented but no bullet above
- tabs
\tgo on too
"""


def test_a_page_is_read_as_bullets_headings_and_paragraphs() -> None:
    assert entries(PAGE) == [
        "# Hosts",
        "web1 runs the API",
        "web2 is the spare",
        "db1\nis not to be restarted\n\never",
        "A paragraph\nof two lines",
        "another one",
        "## Habits",
        "indented but no bullet above",
        "tabs\ngo on too",
    ]


def test_a_line_that_is_appended_to_a_file_is_an_entry_of_its_own() -> None:
    assert entries("- one\n" + "echoed\n") == ["one", "echoed"]
    assert entries("- one\r\n- two\r\n") == ["one", "two"]


texts = st.lists(st.text(max_size=60).map(clean).filter(bool), max_size=6)


@given(texts)
def test_what_is_written_is_read_back(some: list[str]) -> None:
    assert entries(page(some)) == some


@given(st.text(max_size=200))
def test_whatever_a_page_holds_can_be_written_and_read_again(text: str) -> None:
    found = entries(text)
    assert entries(page(found)) == found
    assert [clean(one) for one in found] == found


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("The user likes short answers.", "the user likes  short answers", True),
        ("web1 has 16 GB", "web2 has 16 GB", False),
        ("the API is on port 8080", "the API is on port 8081", False),
        ("never restart the database", "always restart the database", False),
        ("磁盘已满时清理日志", "磁盘已满时 清理日志。", True),
        ("磁盘已满时清理日志", "磁盘已满时重启服务", False),
        ("!!!", "???", False),
    ],
)
def test_notes_that_say_the_same_are_alike(one: str, other: str, same: bool) -> None:
    assert alike(one, other) is same
    assert alike(other, one) is same


def test_marks_alone_are_told_apart() -> None:
    assert plain("!!!") != plain("???")
