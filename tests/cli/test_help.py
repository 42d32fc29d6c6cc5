"""Help, the manual page, suggestions, colour, the pager and progress."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_agent.cli.commands import COMMANDS, help_text
from hermes_agent.cli.help.manual import manual_page
from hermes_agent.cli.help.suggestions import SYNONYMS
from hermes_agent.cli.output.formatting import fitted, has_colour, table
from tests.support.cli import Hermes, Pane, wait_until


def test_the_list_of_commands_fits_a_terminal_and_names_each() -> None:
    lines = help_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= len(COMMANDS) + 12
    assert {one.name for one in COMMANDS} <= {line[8:].split(" ")[0] for line in lines}


def test_help_explains_a_command_and_its_actions(shared: Hermes) -> None:
    for words in (("sessions",), ("sessions", "export"), ("ask",)):
        assert shared.good("help", *words) == shared.good(*words, "--help"), words
    assert shared.good("help") == shared.good("--help")
    for words in (("sesions",), ("sessions", "exprt")):
        done = shared.run("help", *words)
        assert done.returncode == 2
        assert "did you mean `hermes sessions" in done.stderr


def test_the_manual_page_has_every_command_and_no_warnings(tmp_path: Path) -> None:
    page = tmp_path / "hermes.1"
    page.write_text(manual_page())
    done = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-l", str(page)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    for command in COMMANDS:
        assert f"hermes {command.name}\n" in done.stdout


def test_synonyms_lead_to_commands_and_each_word_to_one() -> None:
    parsers = {one.name: one.parser()[1] for one in COMMANDS}
    words = [word for others in SYNONYMS.values() for word in others.split()]
    assert len(words) == len(set(words))
    assert set(words) & {*parsers} == set()
    for target in SYNONYMS:
        name, _, action = target.partition(" ")
        assert name in parsers or name.startswith("--"), target
        if action and name != "model":  # its actions are words
            assert action in parsers[name].format_help(), target


SUGGESTED: list[tuple[str, str]] = [
    ("cron", "`hermes task`"),
    ("resume", "`hermes sessions resume`"),
    ("login", "`hermes model login`"),
    ("onboard", "`hermes setup`"),
    ("sesions", "`hermes sessions`"),
    ("kanbn", "`hermes task`"),
    ("version", "`hermes --version`"),
    ("sessions ls", "`hermes sessions list`"),
    ("sessions exprot", "`hermes sessions export`"),
    ("task rm 1", "`hermes task remove`"),
    ("sessions show", "usage: hermes sessions show"),
    ("logs --lnes 3", "--lines"),
    ("sessions delete x --force", "--yes"),
    ("sessions export x --format markdwon", "did you mean markdown?"),
    ("ask", "usage: hermes ask [options] text"),
    ("up now", "usage: hermes up"),
]


def test_what_was_meant_is_suggested_in_a_plain_sentence(shared: Hermes) -> None:
    for line, suggested in SUGGESTED:
        done = shared.run(*line.split())
        assert done.returncode == 2, line
        assert suggested in done.stderr.splitlines()[1], done.stderr
        for term in ("invalid choice", "unrecognized", "expected one argument", "the following"):
            assert term not in done.stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "coloured"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "xterm", "CLICOLOR": "0"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
        (io.StringIO(), {"CLICOLOR_FORCE": "0", "FORCE_COLOR": "1"}, False),
        (io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colour_is_for_terminals_and_whoever_insists(
    stream: io.StringIO, environ: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "CLICOLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert has_colour(stream) is coloured


def test_colour_is_never_in_a_document(shared: Hermes) -> None:
    forced = {"FORCE_COLOR": "1", "NO_COLOR": ""}
    assert "\x1b[1m" in shared.run("skills", **forced).stdout
    assert "\x1b" not in shared.run("skills", "--json", **forced).stdout


def test_columns_stay_aligned_with_wide_letters() -> None:
    lines = table(
        ("name", "state"), [("日本", "ok"), ("e\u0301a", "ok"), ("🐳", "ok")]
    ).splitlines()
    assert lines == ["name  state", "日本  ok", "e\u0301a    ok", "🐳    ok"]
    assert fitted("日本語テスト", 7) == "日本語…"
    assert fitted("plain", 5) == "plain"


def test_a_long_list_is_paged_on_a_terminal_alone(lived_in: Hermes, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hermes_agent"]
    environ = {**lived_in.environ, "PAGER": "sed 's/^/paged /'", "LINES": "30"}
    assert "paged" not in lived_in.good("help", "--man", PAGER=environ["PAGER"])
    for words, variables, shown in (
        (["help", "task", "add"], {}, "paged usage: hermes task add"),
        (["help", "task", "add", "--no-pager"], {}, "\nusage: hermes task add"),
        (["--no-pager", "help", "task", "add"], {}, "\nusage: hermes task add"),
        (["help", "task", "add"], {"HERMES_PAGER": ""}, "\nusage: hermes task add"),
        (["help", "task", "add"], {"HERMES_PAGER": "/nowhere"}, "\nusage: hermes task add"),
        (["help", "up"], {}, "usage: hermes up"),
    ):
        typed = ["sh", "-c", 'echo; "$@"; echo code $?', "sh", *command, *words]
        pane = Pane(tmp_path, typed, {**environ, **variables})
        try:
            text = pane.shows("code 0")
        finally:
            pane.close()
        assert shown in text
        assert ("paged" in text) == ("paged" in shown)


WORKING = """
from hermes_agent.cli.output.progress import Progress
with Progress("counting sheep") as progress:
    input()
    progress.update(1, 4)
    input()
print("all counted")
"""


def test_progress_is_shown_until_it_ends_and_not_in_a_pipe(tmp_path: Path) -> None:
    pane = Pane(tmp_path, [sys.executable, "-c", WORKING], {**Hermes(tmp_path).environ})
    try:
        pane.shows("counting sheep, ")
        pane.press("Enter")
        pane.shows("counting sheep [#####")
        pane.press("Enter")
        pane.shows("all counted")
        wait_until(pane.has_ended, "the end")
        assert "25 %" not in pane.text().splitlines()[-1]
    finally:
        pane.close()
    done = subprocess.run(
        [sys.executable, "-c", WORKING], input="\n\n", capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("all counted\n", "")
