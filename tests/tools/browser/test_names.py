"""Names of files and of keys."""

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.browser.downloads import harmless
from hermes_agent.tools.browser.keys import key_events


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("report.pdf", "report.pdf"),
        ("Straße (2).txt", "Straße (2).txt"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        (".bashrc", "bashrc"),
        ("..", "download"),
        ("", "download"),
        ("a\nb\u202etxt.exe", "a_b_txt.exe"),
        ("$(rm -rf ~);.sh", "_(rm -rf _)_.sh"),
    ],
)
def test_the_name_of_a_download_leads_nowhere_else(given: str, kept: str) -> None:
    assert harmless(given) == kept


def test_the_name_of_a_download_is_of_bounded_length() -> None:
    assert len(harmless("x" * 5000 + "." + "y" * 5000)) == 80


def test_a_letter_is_typed_and_a_shortcut_is_not() -> None:
    down, up = key_events("a")
    assert down == {"type": "keyDown", "text": "a", "key": "a", "code": "KeyA",
                    "windowsVirtualKeyCode": 65, "modifiers": 0}  # fmt: skip
    assert up["type"] == "keyUp"
    assert key_events("Control+a")[0]["type"] == "rawKeyDown"
    assert key_events("Shift+A")[0]["text"] == "A"
    assert key_events("Control++")[0]["key"] == "+"
    assert key_events("+")[0]["text"] == "+"
    assert key_events("enter")[0]["text"] == "\r"


@pytest.mark.parametrize("name", ["", "Hyper+a", "Entr", "ab"])
def test_a_key_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(ToolError, match="no key called"):
        key_events(name)
