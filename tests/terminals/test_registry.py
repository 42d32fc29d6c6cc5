"""The table of kinds, and what opening a terminal of one leads to."""

import os
import time
from pathlib import Path
from typing import get_args

import pytest

from hermes_agent.core.errors import UsageError
from hermes_agent.core.protocols import ShellCommand
from hermes_agent.core.settings.root import TerminalSettings
from hermes_agent.core.settings.terminals import Limits, PlaceSettings, SandboxPlace, SshPlace
from hermes_agent.terminals.registry import KINDS, check, kind_of, open_terminal


def test_every_kind_of_place_has_a_row() -> None:
    assert {kind.settings for kind in KINDS.values()} == set(get_args(PlaceSettings))
    assert all(kind.summary and kind.name == name for name, kind in KINDS.items())
    assert kind_of(SshPlace("x")).name == "ssh"


@pytest.mark.parametrize("name", KINDS)
async def test_every_kind_says_whether_it_can_be_used(name: str, tmp_path: Path) -> None:
    missing = await check(name, None, {"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    assert missing == missing.strip()
    if name in ("local", "sandbox", "ssh"):
        assert missing == ""


async def test_a_kind_that_is_not_there_is_said() -> None:
    with pytest.raises(UsageError, match="no kind of terminal called 'moon'"):
        await check("moon", None, {})


async def test_no_command_outlives_the_limit_of_its_place(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    terminal = open_terminal(
        SandboxPlace(limits=Limits(seconds=0.5)),
        session="s",
        workspace=str(tmp_path / "work"),
        folder=tmp_path / "home" / "terminals" / "s" / "sandbox",
        settings=TerminalSettings(),
        environ=os.environ,
        clock=time.time,
    )
    try:
        state = await terminal.run(ShellCommand("one", "sleep 60", timeout=50.0))
    finally:
        await terminal.destroy()
    assert state.state == "timeout"
