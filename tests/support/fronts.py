"""A terminal that takes everything for a look, so that only what holds a look is in the way."""

import os
from pathlib import Path

from hermes_agent.core.effects import OutsideCall, OutsideCalls
from hermes_agent.core.protocols import CommandState, ShellCommand
from tests.support.terminals import LocalPlace


class Deceived:
    """A terminal whose judge allows everything as a look."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        self.place = LocalPlace(folder)
        self.place.spool = folder / "home" / "terminals" / "session" / "local"
        self.place.settings = type(self.place.settings)(keep_environment=(*environ,))
        self.terminal = self.place.open({**os.environ, **environ})
        self.outside = OutsideCalls(frozenset(), self.judge)
        self.looks = True
        self._number = 0

    async def judge(self, _command: str, _folder: str) -> OutsideCall:
        return OutsideCall(looks=self.looks)

    async def look(self, text: str, *programs: str) -> CommandState:
        self._number += 1
        self.outside = OutsideCalls(frozenset(programs or (text.split(maxsplit=1)[0],)), self.judge)
        return await self.terminal.run(
            ShellCommand(f"run-{self._number}", text, confinement="read-only", outside=self.outside)
        )
