"""AWS's credentials, compared with what AWS's own library finds in the same place."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import botocore.session
import pytest
from botocore.exceptions import BotoCoreError

from hermes_agent.core.errors import ModelError
from hermes_agent.models.keys.aws import AwsSource, aws_region, aws_source


@dataclass(frozen=True)
class Case:
    environ: dict[str, str] = field(default_factory=dict)
    credentials: str = ""
    config: str = ""


KEYS = "aws_access_key_id = AKIA1\naws_secret_access_key = s/1+a=\n"
KEYS_2 = "aws_access_key_id = AKIA2\naws_secret_access_key = s2\naws_session_token = t2\n"
PROCESS = "credential_process = {python} {folder}/process.py\n"

CASES = {
    "nothing": Case(),
    "variables": Case({"AWS_ACCESS_KEY_ID": "AKIA9", "AWS_SECRET_ACCESS_KEY": "s9"}),
    "variables with a token": Case(
        {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}
    ),
    "the old name of the token": Case(
        {
            "AWS_ACCESS_KEY_ID": "A",
            "AWS_SECRET_ACCESS_KEY": "s",
            "AWS_SESSION_TOKEN": "new",
            "AWS_SECURITY_TOKEN": "old",
        }
    ),
    "half of the variables": Case({"AWS_ACCESS_KEY_ID": "A"}, f"[default]\n{KEYS}"),
    "the other half": Case({"AWS_SECRET_ACCESS_KEY": "s"}, f"[default]\n{KEYS}"),
    "variables before a profile": Case(
        {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "s", "AWS_PROFILE": "work"},
        f"[work]\n{KEYS}",
    ),
    "the credentials file": Case({}, f"[default]\n{KEYS}"),
    "a profile": Case({"AWS_PROFILE": "work"}, f"[default]\n{KEYS}\n[work]\n{KEYS_2}"),
    "both names of the token": Case(
        {}, f"[default]\n{KEYS}aws_session_token = new\naws_security_token = old\n"
    ),
    "half a profile": Case({}, "[default]\naws_access_key_id = AKIA1\n"),
    "the config file": Case({}, "", f"[default]\n{KEYS}"),
    "a profile of the config file": Case({"AWS_PROFILE": "work"}, "", f"[profile work]\n{KEYS_2}"),
    "a profile with a space in its name": Case(
        {"AWS_PROFILE": "my work"}, "", f'[profile "my work"]\n{KEYS_2}'
    ),
    "a section that is no profile": Case({"AWS_PROFILE": "work"}, "", f"[work]\n{KEYS_2}"),
    "credentials before config": Case({}, f"[default]\n{KEYS}", f"[default]\n{KEYS_2}"),
    "a process": Case({}, "", f"[default]\n{PROCESS}"),
    "a process before keys in the config": Case({}, "", f"[default]\n{PROCESS}{KEYS}"),
    "keys before a process": Case({}, f"[default]\n{KEYS}", f"[default]\n{PROCESS}"),
    "a process in the credentials file": Case({}, f"[default]\n{PROCESS}"),
    "a process that fails": Case({}, "", "[default]\ncredential_process = /bin/false\n"),
    "a process that prints nothing of use": Case(
        {}, "", "[default]\ncredential_process = echo {{}}\n"
    ),
    "a profile that is nowhere": Case({"AWS_PROFILE": "gone"}, f"[default]\n{KEYS}"),
    "a damaged file": Case({}, "this is no section\n"),
}


def placed(case: Case, folder: Path, python: str) -> dict[str, str]:
    """The environment of a case, with its files in the folder."""
    (folder / "process.py").write_text(
        "import json\nprint(json.dumps({'Version': 1, 'AccessKeyId': 'AKIAP', "
        "'SecretAccessKey': 'sp', 'SessionToken': 'tp'}))"
    )
    environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin", **case.environ}
    for variable, name, text in (
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", case.credentials),
        ("AWS_CONFIG_FILE", "config", case.config),
    ):
        if text:
            environ[variable] = str(folder / name)
            (folder / name).write_text(text.format(python=python, folder=folder))
    return environ


def use(patch: pytest.MonkeyPatch, environ: Mapping[str, str]) -> None:
    """Make it this process's environment, which is the one that botocore reads."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            patch.delenv(name)
    for name, value in environ.items():
        patch.setenv(name, value)
    # Nothing answers there, and botocore would ask for a while.
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def unheard(label: str, secret: str) -> None:
    """Whoever redacts is not part of the test."""


def theirs(patch: pytest.MonkeyPatch, environ: Mapping[str, str]) -> tuple[str, str, str] | str:
    use(patch, environ)
    try:
        found = botocore.session.Session().get_credentials()
    except (BotoCoreError, ValueError):
        return "trouble"
    if found is None:
        return "nothing"
    frozen = found.get_frozen_credentials()
    return frozen.access_key, frozen.secret_key, frozen.token or ""


async def ours(environ: Mapping[str, str]) -> tuple[str, str, str] | str:
    source = aws_source(environ, unheard, lambda: 0.0)
    if source is None:
        return "nothing"
    try:
        found = await source.credential()
    except ModelError as error:
        return "trouble" if error.kind == "auth" else error.kind
    return found.id, found.secret, found.session


@pytest.mark.parametrize("name", CASES)
async def test_the_same_credentials_are_found_as_by_aws_itself(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = placed(CASES[name], tmp_path, sys.executable)
    assert await ours(environ) == theirs(monkeypatch, environ)


REGIONS = {
    "nothing": Case(),
    "the variable": Case({"AWS_DEFAULT_REGION": "eu-west-1"}, "", "[default]\nregion = x\n"),
    "the config file": Case({}, "", "[default]\nregion = eu-central-1\n"),
    "a profile": Case(
        {"AWS_PROFILE": "w"}, "", "[default]\nregion = a\n[profile w]\nregion = us-west-2\n"
    ),
    "the credentials file": Case({}, "[default]\nregion = ap-south-1\n", "[default]\nregion = b\n"),
}


@pytest.mark.parametrize("name", REGIONS)
def test_the_same_region_is_found_as_by_aws_itself(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = placed(REGIONS[name], tmp_path, "python")
    use(monkeypatch, environ)
    expected = botocore.session.Session().get_config_variable("region")
    assert aws_region(environ) == (expected or "")


def test_the_variable_of_aws_other_libraries_names_the_region_first() -> None:
    assert aws_region({"AWS_REGION": "a", "AWS_DEFAULT_REGION": "b", "HOME": "/nowhere"}) == "a"


def test_the_files_lie_in_the_home_folder_where_no_variable_names_them(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[default]\nregion = eu-north-1\n")
    assert aws_region({"HOME": str(tmp_path)}) == "eu-north-1"
    (tmp_path / "other").write_text("[default]\nregion = eu-south-1\n")
    assert aws_region({"HOME": str(tmp_path), "AWS_CONFIG_FILE": "~/other"}) == "eu-south-1"


def source_of(environ: Mapping[str, str], now: float = 0.0) -> tuple[AwsSource, list[str]]:
    learned: list[str] = []
    return AwsSource(environ, lambda _, secret: learned.append(secret), lambda: now), learned


async def test_every_secret_is_learned_and_none_is_shown(tmp_path: Path) -> None:
    environ = placed(CASES["a profile"], tmp_path, "python")
    source, learned = source_of(environ)
    found = await source.credential()
    assert learned == ["s2", "t2"]
    assert repr(found) == "Credential(\"the AWS profile 'work'\")"


async def test_the_files_are_read_again_after_a_refusal(tmp_path: Path) -> None:
    environ = placed(CASES["the credentials file"], tmp_path, "python")
    source, _ = source_of(environ)
    assert (await source.credential()).id == "AKIA1"
    (tmp_path / "credentials").write_text(f"[default]\n{KEYS_2}")
    assert (await source.credential()).id == "AKIA1"
    source.refused()
    assert (await source.credential()).id == "AKIA2"


async def test_a_process_is_run_again_before_its_credentials_expire(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    said = {
        "Version": 1,
        "AccessKeyId": "A",
        "SecretAccessKey": "s",
        "Expiration": "1970-01-01T01:00:00Z",
    }
    script = tmp_path / "script"
    script.write_text(f"echo x >> {runs}; echo '{json.dumps(said)}'")
    config = f"[default]\ncredential_process = /bin/sh {script}\n"
    (tmp_path / "config").write_text(config)
    now = 0.0
    environ = {"HOME": str(tmp_path), "AWS_CONFIG_FILE": str(tmp_path / "config")}
    source = AwsSource(environ, unheard, lambda: now)
    await source.credential()
    await source.credential()
    assert runs.read_text() == "x\n"
    now = 3550.0
    await source.credential()
    assert runs.read_text() == "x\nx\n"


@pytest.mark.parametrize(
    "config",
    [
        "[default]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = other\n",
        "[default]\nsso_session = mine\n",
    ],
)
async def test_a_profile_that_takes_a_conversation_says_who_can_hold_it(
    tmp_path: Path, config: str
) -> None:
    environ = placed(Case({}, "", config), tmp_path, "python")
    source = aws_source(environ, unheard, lambda: 0.0)
    assert source is not None
    with pytest.raises(ModelError, match="export-credentials --profile default"):
        await source.credential()


async def test_a_damaged_file_is_named_and_not_quoted(tmp_path: Path) -> None:
    environ = placed(Case({}, "aws_secret_access_key = secret-1\n"), tmp_path, "python")
    source, _ = source_of(environ)
    assert source.present()
    with pytest.raises(ModelError) as caught:
        await source.credential()
    assert "secret-1" not in str(caught.value)
    assert str(tmp_path / "credentials") in str(caught.value)
