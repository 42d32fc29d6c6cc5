from pathlib import Path

import pytest

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.policy.secrets import Secrets


def write(home: Path, text: str, mode: int = 0o600) -> Path:
    file = home / ".env"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_secrets_come_from_the_environment_and_the_file(tmp_path: Path) -> None:
    write(tmp_path, "DEPLOY_KEY=from-file\nSITE=anything\nAPI_TOKEN=from-file\n")
    secrets = Secrets({"API_TOKEN": "from-env", "PATH": "/bin", "EMPTY_TOKEN": ""}, tmp_path)
    assert secrets.names() == ("API_TOKEN", "DEPLOY_KEY", "SITE")
    assert secrets.get("API_TOKEN") == "from-env"
    assert secrets.get("DEPLOY_KEY") == "from-file"


def test_without_a_file_there_is_the_environment(tmp_path: Path) -> None:
    assert Secrets({"A_TOKEN": "value"}, tmp_path).names() == ("A_TOKEN",)


def test_an_unknown_secret_is_named_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no secret called 'NOPE'") as caught:
        Secrets({}, tmp_path).get("NOPE")
    assert ".env" in caught.value.hint


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o666])
def test_a_file_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    file = write(tmp_path, "A=b\n", mode)
    with pytest.raises(UsageError, match=f"mode {mode:04o}") as caught:
        Secrets({}, tmp_path)
    assert caught.value.hint == f"chmod 600 {file}"


def test_a_file_only_its_owner_can_read_is_fine(tmp_path: Path) -> None:
    write(tmp_path, "A=b\n", 0o400)
    assert Secrets({}, tmp_path).get("A") == "b"


def test_values_are_read_as_people_write_them(tmp_path: Path) -> None:
    write(
        tmp_path,
        "\ufeff# a comment\n\nA = plain value # with a comment\nexport B='single $HOME \\n'\r\n"
        'C="double \\"quoted\\"\\nlines" # comment\nD=\nE=has#hash=and=equals\nF="${A}"\n',
    )
    secrets = Secrets({}, tmp_path)
    assert {name: secrets.get(name) for name in secrets.names()} == {
        "A": "plain value",
        "B": "single $HOME \\n",
        "C": 'double "quoted"\nlines',
        "D": "",
        "E": "has#hash=and=equals",
        "F": "${A}",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A=b\nhunter2-alone\n", "line 2 of .* is not NAME=value"),
        ('A="open-secret\n', "line 1 of .* has an unclosed quote"),
    ],
)
def test_a_line_that_is_wrong_is_counted_and_not_shown(
    tmp_path: Path, text: str, said: str
) -> None:
    write(tmp_path, text)
    with pytest.raises(UsageError, match=said) as caught:
        Secrets({}, tmp_path)
    assert "hunter2" not in str(caught.value)
    assert "open-secret" not in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "").write_bytes(b"A=\xff\xfe")
    with pytest.raises(UsageError, match="is not UTF-8"):
        Secrets({}, tmp_path)


def test_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir(mode=0o700)
    with pytest.raises(UsageError, match="cannot read"):
        Secrets({}, tmp_path)
