"""The journal of a real journald, through a terminal of the engine for far machines."""

import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.protocols import ShellCommand
from hermes_agent.tools.sources.journal import journal
from tests.support.patience import PATIENCE
from tests.support.sources import Observer
from tests.support.systemd import journal_daemon
from tests.support.terminals import FarPlace
from tests.support.transports import SubprocessTransport

SAID = [
    ("shop", "err", "connection to 10.0.0.1:5432 refused"),
    ("shop", "err", "connection to 10.0.0.2:5432 refused"),
    ("shop", "info", "request 7 done\nin 12 ms"),
    ("web", "warning", "it's $(touch made) `touch made`"),
]


@pytest.fixture(scope="module")
def machine() -> Iterator[list[str]]:
    with journal_daemon() as enter:
        for name, priority, text in SAID:
            command = [*enter, "systemd-cat", "-t", name, "-p", priority, "printf", "%s", text]
            subprocess.run(command, check=True)
        written = [*enter, "journalctl", "--quiet", "--output=cat", "--identifier=web"]
        deadline = time.monotonic() + PATIENCE
        while not subprocess.run(written, capture_output=True, check=True).stdout:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield enter


@pytest.fixture
async def there(observer: Observer, machine: list[str], tmp_path: Path) -> AsyncIterator[Observer]:
    for name in ("far", "far/work"):
        (tmp_path / name).mkdir()
    place = FarPlace(
        lambda: SubprocessTransport(dict(os.environ), prefix=machine),
        str(tmp_path / "far/work"), tmp_path / "far",
    )  # fmt: skip
    observer.terminal = place.open()
    yield observer
    await place.destroy()


async def test_patterns_of_a_journal_have_errors_first(there: Observer) -> None:
    result = await there.call(journal, action="patterns", since="5m", priority="warning")
    assert "error 2x" in result.text
    assert "connection to <ip> refused" in result.text
    assert result.text.index("in shop") < result.text.index("in web")
    assert "request" not in result.text


async def test_lines_are_found_by_their_text(there: Observer, tmp_path: Path) -> None:
    result = await there.call(journal, action="lines", text="It's $(TOUCH", since="5m")
    assert result.data["lines"] == 1
    assert "web it's $(touch made) `touch made`" in result.text
    nothing = await there.call(journal, action="lines", unit="'; touch made; '", since="5m")
    assert nothing.data["lines"] == 0
    assert not list(tmp_path.rglob("made"))


async def test_boots_are_listed(there: Observer) -> None:
    assert "load average" in (await there.call(journal, action="boots")).text


async def test_the_shell_of_the_session_does_not_decide_what_runs(there: Observer) -> None:
    own = 'for name in journalctl env sh; do eval "$name() { echo no; }"; done; PATH=/none'
    await there.context().terminal.run(ShellCommand("own", own))
    result = await there.call(journal, action="lines", since="5m")
    assert result.data["lines"] >= len(SAID)


async def test_a_machine_without_systemd_says_so(observer: Observer) -> None:
    with pytest.raises(ToolError, match=r"(?i)systemd|system has not been booted|bus"):
        await observer.call(journal, action="units")
