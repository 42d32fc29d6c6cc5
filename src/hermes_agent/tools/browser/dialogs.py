"""Dialogs that pages open. They stop the page, and whatever else its process shows, until somebody
answers; so whoever waits for an answer of the browser is told that there will be none."""

import asyncio
from dataclasses import dataclass
from typing import Any


class Halted(Exception):
    """A dialog opened while something was under way."""


@dataclass(frozen=True)
class Dialog:
    session: str
    kind: str
    """alert, confirm, prompt or beforeunload."""
    message: str
    default: str
    url: str


class Dialogs:
    def __init__(self) -> None:
        self._open: dict[str, Dialog] = {}
        self._opened = asyncio.Event()

    @property
    def first(self) -> Dialog | None:
        return next(iter(self._open.values()), None)

    def opened(self, dialog: Dialog) -> None:
        self._open[dialog.session] = dialog
        self._opened.set()

    def closed(self, session: str) -> None:
        self._open.pop(session, None)
        if not self._open:
            self._opened.clear()

    async def unless(self, answer: "asyncio.Future[dict[str, Any]]") -> dict[str, Any]:
        """The answer; `Halted` where a dialog is open before it comes."""
        opened = asyncio.ensure_future(self._opened.wait())
        try:
            await asyncio.wait((answer, opened), return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            raise Halted
        finally:
            opened.cancel()
            answer.cancel()
