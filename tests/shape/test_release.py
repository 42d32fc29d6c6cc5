"""Version, change log, lock files and the README's opening agree with each other."""

import re
import tomllib

from hermes_agent import __version__
from tests.support.source import ROOT


def locked(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / name).read_text()
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", text, re.MULTILINE))


def test_the_newest_heading_of_the_change_log_is_this_version() -> None:
    headings = re.findall(r"^## \[?([^\]\s]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == __version__


def test_the_readme_opens_with_the_two_commands_and_nothing_else() -> None:
    first = re.search(r"```\w*\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert first is not None
    lines = [line.removeprefix("$ ").split("#")[0].strip() for line in first[1].splitlines()]
    assert [line for line in lines if line] == ["make demo", "make test"]


def test_every_dependency_is_locked_and_both_locks_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [
        re.split(r"[<>=]", line)[0].lower().replace(".", "-") for line in project["dependencies"]
    ]
    core, dev = locked("core.lock"), locked("dev.lock")
    assert [name for name in names if name not in core] == []
    assert {name: version for name, version in core.items() if dev.get(name) != version} == {}


def test_every_locked_package_carries_its_hashes() -> None:
    for name in ("core.lock", "dev.lock"):
        text = (ROOT / "requirements" / name).read_text()
        entries = re.split(r"\n(?=\S)", text.strip())
        assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
