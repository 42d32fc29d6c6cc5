"""Tab in bash, zsh and fish: words that fit, from what the home has, without a runtime."""

import subprocess
import sys
from argparse import _SubParsersAction
from pathlib import Path

import pytest

from hermes_agent.cli.commands import COMMANDS
from hermes_agent.cli.help import values
from hermes_agent.core.settings.root import Settings
from hermes_agent.host.config import flatten
from hermes_agent.host.inspect import lock_owner
from tests.support.cli import Hermes, Pane


def offered(hermes: Hermes, *words: str) -> dict[str, str]:
    """What may come next, and what is said about it."""
    lines = hermes.good("completion", "--words", *words).splitlines()
    return dict(line.partition("\t")[::2] for line in lines)


FITTING: list[tuple[tuple[str, ...], set[str]]] = [
    (("se",), {"sessions", "send", "search", "serve", "setup"}),
    (("--v",), {"--version"}),
    (("nonsense", ""), set()),
    (("help", "comp"), {"completion"}),
    (("help", "sessions", "re"), {"resume", "rename", "rewind"}),
    (("sessions", "e"), {"export"}),
    (("sessions", "export", "--f"), {"--format"}),
    (("sessions", "export", "--format", "m"), {"markdown"}),
    (("sessions", "export", "--format=m"), {"--format=markdown"}),
    (("sessions", "export", "--format", "openai", "--f"), set()),
    (("sessions", "export", "--out", "x"), {":files"}),
    (("sessions", "show", "pap"), {"papers"}),
    (("sessions", "show", "--", "pap"), {"papers"}),
    (("sessions", "--json", "sho"), {"show"}),
    (("ask", "--session", "pap"), {"papers"}),
    (("ask", "--workspace", ""), {":folders"}),
    (("ask", "--policy", "o"), {"observe", "operate"}),
    (("ask", ""), set()),
    (("audit", "--session", "papers", "v"), {"verify"}),
    (("skills", "show", "disk"), {"disk-full"}),
    (("skills", "new", "disk"), set()),
    (("model", "serv"), {"services"}),
    (("gateway", "setup", "tele"), {"telegram"}),
    (("config", "get", "models.fall"), {"models.fallbacks"}),
    (("add", "tele"), {"telegram"}),
    (("completion", ""), {"bash", "zsh", "fish"}),
]


def test_what_fits_is_offered(lived_in: Hermes) -> None:
    for words, expected in FITTING:
        assert set(offered(lived_in, *words)) == expected, words
    assert "anthropic/" in " ".join(offered(lived_in, "ask", "--model", "anth"))


def test_every_setting_is_offered_with_what_it_is_for(hermes: Hermes) -> None:
    found = offered(hermes, "config", "set", "")
    assert found.keys() == flatten(Settings()).keys()
    assert found["models.keys"].startswith("Where each service's keys come from")
    assert all(found.values())


def test_a_line_of_bash_is_completed_from_where_bash_splits_it(lived_in: Hermes) -> None:
    for line, current, expected in (
        ("hermes sessions show pap", "pap", "papers"),
        ('hermes sessions show "pap', "pap", "papers"),
        ("hermes sessions export --format=m", "m", "markdown"),
        ("hermes sessions export --format=", "", "journal"),
    ):
        found = lived_in.good("completion", "--line", line, current)
        assert expected in [row.partition("\t")[0] for row in found.splitlines()], line


def test_a_session_is_offered_after_its_runtime_was_killed_and_nothing_is_started(
    hermes: Hermes,
) -> None:
    assert offered(hermes, "sessions", "show", "") == {}
    assert not hermes.home.exists()
    session = hermes.ask("good morning", "--name", "blue whale")
    hermes.kill_runtime()
    kept = {path.name for path in hermes.home.iterdir()}
    assert offered(hermes, "sessions", "show", "")[session] == "blue whale"
    hermes.good("up")
    hermes.good("down")
    kept = {path.name for path in hermes.home.iterdir()}
    assert offered(hermes, "sessions", "show", "bl") == {"blue whale": session}
    assert {path.name for path in hermes.home.iterdir()} == kept
    assert lock_owner(str(hermes.home)) is None


def test_every_source_of_values_belongs_to_an_argument() -> None:
    known: set[str] = set()
    for command in COMMANDS:
        ahead = [(command.name, command.parser()[1])]
        while ahead:
            path, parser = ahead.pop()
            for action in parser._actions:
                if isinstance(action, _SubParsersAction):
                    ahead += [(f"{path} {word}", below) for word, below in action.choices.items()]
                else:
                    known |= {action.dest, f"{command.name} {action.dest}", f"{path} {action.dest}"}
    assert set(values.SOURCES) - known == set()


# the shells themselves

SHELLS = {
    "bash": ("bash", "--norc", "--noprofile"),
    "zsh": ("zsh", "-f"),
    "fish": ("fish", "--no-config"),
}
FIRST = {
    "bash": "PS1='ready> '; source <(hermes completion bash)",
    "zsh": "PS1='ready> '; autoload -Uz compinit && compinit -u -D && "
    "source <(hermes completion zsh)",
    "fish": "function fish_prompt; echo 'ready> '; end; hermes completion fish | source",
}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with `hermes` alone, as an installation puts it on the PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "hermes").symlink_to(Path(sys.executable).with_name("hermes"))
    return tmp_path / "bin"


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes_in_a_real_shell(
    shell: str, lived_in: Hermes, program: Path, tmp_path: Path
) -> None:
    script = lived_in.good("completion", shell)
    checked = subprocess.run([shell, "-n", "-c", script], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    (tmp_path / "a file.txt").touch()
    environ = {**lived_in.environ, "HOME": str(tmp_path)}
    environ["PATH"] = f"{program}:{environ['PATH']}"
    pane = Pane(tmp_path, [*SHELLS[shell]], environ)
    try:
        pane.enter(FIRST[shell])
        pane.shows("ready> ", times=2 if shell == "bash" else 1)
        for typed, completed in (
            ("hermes interr", "hermes interrupt "),
            ("hermes sessions export --format=mark", "--format=markdown "),
            ('hermes sessions show "pap', 'show "papers" '),
            ("hermes restore 'a fi", "'a file.txt' "),
        ):
            pane.type(typed)
            pane.press("Tab")
            pane.type("#")  # what follows shows that Tab is done
            pane.shows(f"{completed}#")
            pane.press("C-u")
    finally:
        pane.close()
