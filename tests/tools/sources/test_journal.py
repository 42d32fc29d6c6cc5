"""The journal of a real journald, through a terminal of the engine for far machines."""

from pathlib import Path

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.protocols import ShellCommand
from hermes_agent.tools.sources.journal import journal
from tests.support.sources import Observer
from tests.support.systemd import Machine

SAID = [
    ("shop", "err", "connection to 10.0.0.1:5432 refused"),
    ("shop", "err", "connection to 10.0.0.2:5432 refused"),
    ("shop", "info", "request 7 done\nin 12 ms"),
    ("web", "warning", "it's $(touch made) `touch made`"),
]


@pytest.fixture(scope="module", autouse=True)
def lines(machine: Machine) -> None:
    for name, priority, text in SAID:
        machine.log(name, priority, text)


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
    last = await there.call(journal, action="lines", text="connection", since="5m", limit=1)
    assert "10.0.0.2:5432" in last.text
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
