"""What changed on the machine of a session's terminal, without any source."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.tools.sources.changes import what_changed
from hermes_agent.tools.sources.machine_changes import READERS
from tests.support.sources import Observer
from tests.support.systemd import Machine


@pytest.fixture(scope="module")
def changed(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In this namespace alone: files in /etc, packages, a login, a command, jobs."""
    folder = tmp_path_factory.mktemp("changed")
    (folder / "etc").mkdir()
    (folder / "etc/shop.conf").write_text("password=never-shown\n")
    stamp = f"{datetime.now(UTC).astimezone():%Y-%m-%d %H:%M:%S}"
    (folder / "dpkg.log").write_text(
        f"2020-01-01 00:00:00 install old:amd64 <none> 1\n"
        f"{stamp} upgrade libssl3:amd64 3.0.1 3.0.2\n"
        f"{stamp} status installed libssl3:amd64 3.0.2\n"
    )
    machine.run("mount", "--bind", folder / "etc", "/etc/cron.d")
    machine.run("mount", "--bind", folder / "dpkg.log", "/var/log/dpkg.log")
    machine.log("sshd", "info", "Accepted publickey for ann from 10.0.0.9 port 4711 ssh2")
    machine.log("sudo", "notice", "ann : TTY=pts/0 ; USER=root ; COMMAND=/bin/systemctl stop shop")
    for _ in range(3):
        machine.log("CRON", "info", "(root) CMD (backup --all)")
    return folder


@pytest.mark.usefixtures("changed")
async def test_a_machine_needs_no_source(there: Observer) -> None:
    result = await there.call(what_changed, minutes=10)
    for part in (
        "machine: package libssl3:amd64 upgrade 3.0.1 3.0.2",
        "changed /etc/cron.d/shop.conf",
        "sshd: Accepted publickey for ann from 10.0.0.9",
        "sudo: ann : TTY=pts/0 ; USER=root ; COMMAND=/bin/systemctl stop shop",
        "CRON: (root) CMD (backup --all), 3x until",
    ):
        assert part in result.text
    for part in ("never-shown", "old:amd64", "status installed"):
        assert part not in result.text


@pytest.mark.usefixtures("changed")
async def test_only_the_time_around_counts(there: Observer) -> None:
    result = await there.call(what_changed, around="3h ago", minutes=1)
    assert "shop.conf" not in result.text
    assert "sshd" not in result.text


async def test_sources_are_named_and_one_that_fails_does_not_stop_the_others(
    observer: Observer,
) -> None:
    observer.sources["logs"] = SourceSettings(kind="loki", url="http://127.0.0.1:1")
    both = await observer.call(what_changed, minutes=1)
    assert "logs was not searched: cannot reach logs" in both.text
    alone = await observer.call(what_changed, sources=["machine"])
    assert "logs" not in alone.text
    with pytest.raises(ToolError) as caught:
        await observer.call(what_changed, sources=["none"])
    assert caught.value.hint == "sources: machine, logs"
    with pytest.raises(ToolError, match="not a valid time"):
        await observer.call(what_changed, around="2 months ago")


@pytest.mark.parametrize(
    ("tag", "unit", "said", "told"),
    [
        ("unit", "shop.service", "shop.service: Failed with result 'exit-code'.", True),
        ("unit", "shop.service", "Started shop.service - Shop.", True),
        ("unit", "shop.service", "shop.service: Deactivated successfully.", False),
        ("kernel", "kernel", "Out of memory: Killed process 26795 (java)", True),
        ("kernel", "kernel", "eth0: Link is Down", True),
        ("kernel", "kernel", "random: crng init done", False),
    ],
)
def test_the_manager_and_the_kernel_say_what_matters(
    tag: str, unit: str, said: str, told: bool
) -> None:
    line = {"MESSAGE": said, "UNIT": unit, "__REALTIME_TIMESTAMP": "1795098400000000"}
    found = list(READERS[tag]([json.dumps(line)] * 2, 0, 0.0))
    assert [one.what.endswith(said) for one in found] == [True, True] * told
