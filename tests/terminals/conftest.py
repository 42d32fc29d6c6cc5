from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_agent.core.settings.root import TerminalSettings
from hermes_agent.terminals.local.terminal import LocalTerminal
from tests.support.terminals import LocalPlace, Shell


@pytest.fixture
def settings() -> TerminalSettings:
    """Tests that want others name them: `@pytest.mark.parametrize("settings", [...])`."""
    return TerminalSettings()


@pytest.fixture
async def place(tmp_path: Path, settings: TerminalSettings) -> AsyncIterator[LocalPlace]:
    made = LocalPlace(tmp_path, settings)
    yield made
    await made.destroy()


@pytest.fixture
def terminal(place: LocalPlace) -> LocalTerminal:
    return place.open()


@pytest.fixture
def shell(terminal: LocalTerminal) -> Shell:
    return Shell(terminal)
