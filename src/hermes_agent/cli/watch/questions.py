"""Asks the open questions of the runs that are followed, while their events keep being printed."""

import os
import select
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from hermes_agent.cli.client.api import RuntimeClient, session_path
from hermes_agent.cli.client.questions import (
    answer_or_show,
    drop_question,
    print_prompt,
    print_question,
)
from hermes_agent.cli.client.stream import TERMINAL
from hermes_agent.cli.output.formatting import one_line
from hermes_agent.core.errors import NotFound, UsageError

Row = dict[str, Any]


class FollowedQuestions:
    """The questions of some sessions and their children, one at a time. Without a terminal, it
    prints how to answer them."""

    def __init__(self, api: RuntimeClient, followed: Callable[[], Collection[str]]) -> None:
        self._api = api
        self._followed = followed
        self._roots: dict[str, str] = {}
        self._told: set[str] = set()
        self._terminal = os.isatty(TERMINAL) and sys.stdout.isatty()
        self.asking: Row | None = None
        """The question at whose prompt the cursor stands."""

    def poll(self, clear: Callable[[], None]) -> None:
        """Ask what is new, and pass on what was typed. `clear` takes a status line away."""
        followed = self._followed()
        found = [row for row in self._api.get("/v1/questions") if self._root(row) in followed]
        if self.asking and all(row["id"] != self.asking["id"] for row in found):
            self.asking = None
            drop_question(None)
        if not self._terminal:
            for row in found:
                self._tell(row, clear)
        elif self.asking is None and found:
            clear()
            self.asking = found[0]
            if len(found) > 1:
                print(f"question 1 of {len(found)}", file=sys.stderr)
            print_question(found[0])
        elif self.asking is not None:
            self._read(self.asking)

    def interrupt(self) -> None:
        """Leave the line of the prompt: something else is printed."""
        if self.asking is not None:
            print(file=sys.stderr, flush=True)

    def resume(self) -> None:
        """Print the prompt again."""
        if self.asking is not None:
            print_prompt(self.asking)

    def _root(self, row: Row) -> str:
        """The session that a question's session works for."""
        id = row["session"]
        if id not in self._roots:
            self._roots[id] = id
            with suppress(NotFound):
                while parent := self._api.get(session_path(self._roots[id]))["parent"]:
                    self._roots[id] = parent
        return self._roots[id]

    def _tell(self, row: Row, clear: Callable[[], None]) -> None:
        if row["id"] not in self._told:
            self._told.add(row["id"])
            clear()
            print(f"? {one_line(row['text'], 200)}")
            print(f"hint: `hermes approvals show {row['id']}` shows all of it;", end=" ")
            print(f"`hermes approvals answer {row['id']} yes|no` answers", flush=True)

    def _read(self, question: Row) -> None:
        if not select.select([TERMINAL], [], [], 0)[0]:
            return
        typed = os.read(TERMINAL, 4096)
        if not typed:  # the end of the input is no answer
            self._terminal, self.asking = False, None
            return
        answer = answer_or_show(question, typed.decode(errors="replace").strip())
        if answer is None:
            return
        self.asking = None
        try:
            self._api.answer(question["id"], answer)
        except NotFound:
            drop_question(None)
        except UsageError as error:
            print(error, file=sys.stderr, flush=True)
