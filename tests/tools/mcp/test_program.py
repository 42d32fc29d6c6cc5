"""Programs leave nothing behind, whatever becomes of them or of us."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.mcp_servers import odd
from tests.support.patience import PATIENCE
from tests.tools.mcp.conftest import Desk

OWNER = """
import asyncio, os, sys, time
from pathlib import Path
from hermes_agent.core.settings.root import McpServerSettings
from hermes_agent.tools.mcp.provider import Servers

async def main():
    settings = {"odd": McpServerSettings(command=tuple(sys.argv[2:]))}
    servers = Servers(lambda: settings, Path(sys.argv[1]), str, os.environ, time.time)
    await servers.meet("odd")
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def pids(notes: str) -> list[int]:
    words = [line.split() for line in notes.splitlines()]
    return [int(each[1]) for each in words if each[0] in ("started", "child")]


def runs(pid: int) -> bool:
    """Whether it does; the dead that nobody has buried yet do not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def expect_gone(found: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE
    while any(runs(pid) for pid in found):
        assert time.monotonic() < deadline, f"still there: {found}"
        time.sleep(0.02)


async def test_a_program_that_will_not_end_is_made_to_with_all_it_started(desk: Desk) -> None:
    desk.odd("stubborn")
    await desk.call("odd__plain")
    found = pids(desk.file.read_text())
    assert len(found) == 2
    await desk.servers.close()
    expect_gone(found)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_programs_do_not_outlive_us_however_we_end(tmp_path: Path, number: signal.Signals) -> None:
    notes = tmp_path / "notes"
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path), *odd("stubborn", notes)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "ready\n"
    found = pids(notes.read_text())
    assert all(runs(pid) for pid in found)
    os.kill(owner.pid, number)
    owner.wait(PATIENCE)
    owner.stdout.close()
    expect_gone(found)
