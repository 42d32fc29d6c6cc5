"""What is typed in a chat, and what stands around it: completion, attachments, the status line."""

from pathlib import Path
from typing import Any

import pytest

from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.talk.chat.attachments import attachments, expand, mention, pasted_media
from hermes_agent.cli.talk.chat.completion import ChatCompleter
from hermes_agent.cli.talk.chat.rendering import render
from hermes_agent.cli.talk.chat.session import ChatSession
from hermes_agent.cli.talk.chat.status import (
    StatusPart,
    bell,
    context_part,
    fitted,
    notice,
    short_folder,
    tokens,
)
from hermes_agent.cli.talk.chat.view import ViewPiece
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.settings.root import ChatSettings

PNG = b"\x89PNG\r\n\x1a\nrest"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a few files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "notes.txt").write_text("buy ``` milk\n")
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "data.bin").write_bytes(b"\0\1")
    for name in ("shot.png", "my shot.png"):
        (tmp_path / name).write_bytes(PNG)
    return tmp_path


class FakeApi(RuntimeClient):
    """A runtime with two sessions and a skill."""

    def get(self, path: str, **query: object) -> Any:
        if path.startswith("/v1/sessions"):
            return [
                {"name": "papers", "id": "aa11", "title": "sort the papers"},
                {"name": "", "id": "bb22", "title": "hello"},
            ]
        if path == "/v1/skills":
            return [{"name": "deploy-shop", "description": "deploys the shop"}]
        raise HermesError(path)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("/res", ["/resume"]),
        ("/mod", ["/model"]),
        ("/shop", ["/deploy-shop"]),
        ("/resume ", ["papers", "bb22"]),
        ("/resume pap", ["papers"]),
        ("/parked s", ["skip"]),
        ("/file no", ["notes.txt"]),
        ("/file ", ["data.bin", "docs/", "my shot.png", "notes.txt", "shot.png"]),
        ("/model anthropic/claude-opus-4-1 hi", ["anthropic/claude-opus-4-1 high"]),
        ("look at @no", ["@notes.txt"]),
        ("@my", ['@"my shot.png"']),
        ('@"my s', ['@"my shot.png"']),
        ("@.h", ["@.hidden"]),
        ("mail me@no", []),
        ("nothing", []),
        ("/nothing here", []),
    ],
)
def test_what_is_typed_can_be_completed(folder: Path, typed: str, offered: list[str]) -> None:
    talk = ChatSession(FakeApi(str(folder)), {}, session=None, interactive=True)
    word, candidates = ChatCompleter(talk).candidates(typed)
    found = [one.text for one in candidates]
    assert [one for one in found if "xhigh" not in one] == offered
    assert not found or typed.endswith(word)


def test_models_are_completed_from_the_catalogue_the_current_service_first(folder: Path) -> None:
    talk = ChatSession(FakeApi(str(folder)), {"model": "groq/x"}, session=None, interactive=True)
    _, candidates = ChatCompleter(talk).candidates("/model gpt-oss")
    services = [one.text.partition("/")[0] for one in candidates]
    assert services[0] == "groq"
    assert set(services) > {"groq"}


def test_what_a_terminal_pastes_for_a_dropped_image_is_recognised(folder: Path) -> None:
    shot, spaced = str(folder / "shot.png"), str(folder / "my shot.png")
    for pasted, found in (
        (shot, [shot]),
        (f"'{spaced}' ", [spaced]),
        (spaced, [spaced]),
        (spaced.replace(" ", "\\ "), [spaced]),
        (f"file://{spaced.replace(' ', '%20')}", [spaced]),
        (f"{shot} '{spaced}'", [shot, spaced]),
        (f"see {shot}", []),
        ("shot.png", []),
        (str(folder / "notes.txt"), []),
        (str(folder / "gone.png"), []),
        ("it's", []),
        ("", []),
    ):
        assert pasted_media(pasted) == found, pasted


def test_a_mention_attaches_a_file_and_other_words_do_not(folder: Path) -> None:
    shot = mention(str(folder / "my shot.png"))
    text, files = expand(f"compare @notes.txt, {shot} and @nobody with a@notes.txt; @notes.txt")
    assert [file["name"] for file in files] == ["my shot.png"]
    assert text.count("buy ``` milk") == 1
    assert text.endswith("notes.txt:\n````\nbuy ``` milk\n````")
    assert expand("see @notes.txt", {"notes.txt"}) == ("see @notes.txt", [])
    assert [one.name for one in attachments("@docs @shot.png")] == ["shot.png"]
    with pytest.raises(UsageError, match="neither text"):
        expand("@data.bin")
    (folder / "big.txt").write_text("x" * 300_000)
    with pytest.raises(UsageError, match="larger than"):
        expand("@big.txt")


def test_the_status_line_leaves_out_what_does_not_fit() -> None:
    parts = [
        StatusPart("working 3 s"),
        context_part(12_400, 200_000),
        StatusPart("$0.12"),
        StatusPart("", ""),
        StatusPart("anthropic/claude-opus", "claude-opus"),
        StatusPart("papers"),
    ]
    for width, shown in (
        (100, "working 3 s · 12.4k/200k context (6%) · $0.12 · anthropic/claude-opus · papers"),
        (70, "working 3 s · 12.4k/200k context (6%) · $0.12 · anthropic/claude-opus"),
        (60, "working 3 s · 12.4k/200k context (6%) · $0.12 · claude-opus"),
        (46, "working 3 s · 12.4k/200k context (6%) · $0.12"),
        (30, "working 3 s · ctx 6%"),
        (12, "working 3 s"),
        (8, "working…"),
    ):
        assert " · ".join(fitted(parts, width)) == shown


def test_numbers_and_folders_are_short() -> None:
    shown = [tokens(number) for number in (0, 950, 1_000, 99_940, 128_000, 999_600, 2_000_000)]
    assert shown == ["0", "950", "1.0k", "99.9k", "128k", "1.0M", "2.0M"]
    assert short_folder("/home/me/src", "/home/me") == "~/src"
    assert short_folder("/home/me", "/home/me") == "~"
    assert short_folder("/home/mean", "/home/me") == "/home/mean"
    assert short_folder("/srv", "/") == "/srv"
    assert short_folder("/a" * 40, "/home/me", 11) == "…/a/a/a/a/a"


def test_a_question_and_the_end_of_a_long_turn_ring() -> None:
    ended = {"kind": "turn_finished", "reason": "done"}
    asked = {"kind": "question_asked", "text": "run rm?\nmore"}
    usual, silent = ChatSettings(), ChatSettings(notify="off")
    assert (
        notice(ended, 3.0, usual) == notice(ended, 30.0, silent) == notice(asked, 0, silent) == ""
    )
    assert notice(ended, 30.0, usual) == "Hermes has finished"
    assert notice({**ended, "reason": "budget"}, 30.0, usual) == "Hermes has stopped"
    assert notice(asked, 0.0, usual) == "Hermes asks: run rm?"
    assert notice({"kind": "replied"}, 30.0, usual) == ""
    for environ, sent in (
        ({"TERM": "xterm-256color"}, "\a"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "\a\x1b]9;a, b\x1b\\"),
        ({"TERM": "foot"}, "\a\x1b]777;notify;Hermes;a, b\x1b\\"),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "tmux"}, "\a"),
    ):
        assert bell("a;\x1b b", "desktop", environ) == sent
        assert bell("a", "bell", environ) == "\a"


def test_markdown_is_left_and_tight_and_uses_the_colours_of_the_theme(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = (
        "# Head\n\n\n\nwords `code` [a link](https://example.org)\n\n\n1. one\n\n   more\n2. two\n"
        "\n| 名 | n |\n|---|---:|\n| 中文 | 1 |\n| b | 20 |\n\n```python\nx = 'y'  # why\n```\n"
    )
    monkeypatch.setenv("NO_COLOR", "1")
    plain = render([ViewPiece("markdown", text)], 40)
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[3m", "\x1b[4m", "\x1b[1;4m", "\x1b[2;3m"):
        plain = plain.replace(code, "")
    assert plain == (
        "\nHead\n\nwords code a link (https://example.org)\n\n1. one\n   more\n2. two\n\n"
        "名      n\n───── ───\n中文    1\nb      20\n\n  x = 'y'  # why\n"
    )
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("COLORTERM", "truecolor")
    coloured = render([ViewPiece("markdown", text), ViewPiece("warning", "w")], 40)
    codes = {code for part in coloured.split("\x1b[")[1:] for code in part.split("m")[0].split(";")}
    assert {"36", "32", "33"} <= codes
    assert codes <= {"0", "1", "2", "3", "4", *map(str, range(30, 38))}
