"""Packages against a declared list: the real dpkg, pip's folders, and the logs of apt."""

from pathlib import Path
from typing import Any

from hermes_drift.scopes.packages import declared
from hermes_drift.values import CommandAnswer
from tests.support.drift_repositories import ShellLive, audited, declare, looked

HISTORY = """\
Start-Date: 2025-11-03  06:12:01
Commandline: /usr/bin/unattended-upgrade
Upgrade: libc-bin:amd64 (1.0, 2.0)
End-Date: 2025-11-03  06:12:09

Start-Date: 2025-11-04  11:00:00
Commandline: apt-get install bash
Requested-By: ann (1000)
Upgrade: bash:amd64 (1.0, 2.0)
End-Date: 2025-11-04  11:00:04
"""


def repository(tmp_path: Path, text: str, **more: Any) -> Path:
    (tmp_path / "history.log").write_text(HISTORY)
    logs = {"apt": [str(tmp_path / "history.log")], "dpkg": []}
    drift = {"packages": [{"declared": "packages.txt", **more}], "logs": logs}
    return declare(tmp_path / "repository", drift, {"packages.txt": text})


async def test_packages_of_this_machine_are_compared_with_the_list(tmp_path: Path) -> None:
    text = "bash\nbash-that-is-not  # a comment\n!coreutils\nlibc-bin=0.0.1\n"
    found = await audited(repository(tmp_path, text))
    assert found.keys() == {
        ("bash-that-is-not", "missing"), ("coreutils", "extra"), ("libc-bin", "version"),
    }  # fmt: skip
    missing = found["bash-that-is-not", "missing"]
    assert missing.advice.revert == "apt-get install --allow-downgrades bash-that-is-not"
    assert found["coreutils", "extra"].weight == "dangerous"
    version = found["libc-bin", "version"]
    assert version.declared == "0.0.1"
    assert version.advice.adopt == f"in packages.txt line 4: libc-bin={version.live}"


async def test_security_updates_that_install_themselves_are_harmless(tmp_path: Path) -> None:
    found = await audited(repository(tmp_path, "libc-bin=1.0\nbash=1.0\n"))
    upgrade = found["libc-bin", "version"]
    assert (upgrade.who.kind, upgrade.weight) == ("controller", "harmless")
    assert upgrade.pattern == "unattended-upgrades"
    by_hand = found["bash", "version"]
    assert (by_hand.who.kind, by_hand.who.name, by_hand.who.sure) == ("person", "ann", "certain")
    assert by_hand.weight == "look"
    assert by_hand.advice.why.startswith("ask ann")


async def test_packages_of_a_virtual_environment_are_read_from_its_folders(tmp_path: Path) -> None:
    site = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    for name in ("requests-2.31.0", "PyYAML-6.0.1", "left_pad-1.0"):
        (site / f"{name}.dist-info").mkdir(parents=True)
    text = (
        "requests==2.32.0 --hash=sha256:00\npyyaml==6.0.1 ; python_version > '3'\n-r other.txt\n"
        "left-pad>=0.9\nhttpx[http2]==0.28\n"
    )
    drift = repository(tmp_path, text, manager="pip", folder=str(tmp_path / "venv"))
    found = await audited(drift)
    assert found.keys() == {("requests", "version"), ("httpx", "missing")}
    assert found["httpx", "missing"].advice.revert == "pip install httpx==0.28"


async def test_a_manager_that_is_not_there_is_said(tmp_path: Path) -> None:
    class Without(ShellLive):
        async def ask(self, command: str) -> CommandAnswer:
            return await super().ask("rpm-that-is-not")

    (scope,) = await looked(repository(tmp_path, "bash\n", manager="rpm"), Without())
    assert scope.findings == ()
    assert "not found" in scope.troubles[0]


async def test_an_unknown_manager_is_named(tmp_path: Path) -> None:
    (scope,) = await looked(repository(tmp_path, "bash\n", manager="brew"))
    assert scope.troubles == ("no package manager called 'brew'",)


def test_lines_of_a_list_are_read_with_their_numbers() -> None:
    lines = declared("a\n\n# b\nc:amd64=1.0-1\n!d\n", "dpkg")
    assert [(one.name, one.version, one.wanted, one.number) for one in lines] == [
        ("a", "", True, 1), ("c", "1.0-1", True, 4), ("d", "", False, 5),
    ]  # fmt: skip
