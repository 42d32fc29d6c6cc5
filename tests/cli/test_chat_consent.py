"""Where a question is answered in the chat: only where its keys can be seen."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.talk.chat.consent import QUIET_SECONDS
from hermes_agent.cli.talk.chat.screen import Screen
from hermes_agent.cli.talk.chat.session import ChatSession

QUESTION = {
    "kind": "question_asked", "id": "q", "purpose": "approval", "reason": "it deletes",
    "text": 'terminal {"command": "rm -rf a"}\nit deletes', "choices": ["yes", "no", "session"],
    "grants": ["careful/x|=rm -rf a|local"], "expires": 0.0,
}  # fmt: skip


class Answers(RuntimeClient):
    def __init__(self) -> None:
        super().__init__("/nowhere")
        self.given: list[str] = []

    def answer(self, question: str, answer: str, by: str = "") -> dict[str, Any]:
        self.given.append(answer)
        return {}


class Terminal(DummyOutput):
    def __init__(self, rows: int, columns: int) -> None:
        self.size = Size(rows, columns)

    def get_size(self) -> Size:
        return self.size


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("rows", "columns", "given", "typed"),
    [(24, 80, ["yes"], ""), (14, 24, ["yes"], ""), (7, 24, [], "y"), (5, 80, [], "y")],
)
async def test_a_letter_answers_only_where_all_keys_can_be_seen(
    rows: int, columns: int, given: list[str], typed: str
) -> None:
    api = Answers()
    talk = ChatSession(api, {"model": "some/model"}, session=None, interactive=True)
    with create_pipe_input() as keys, create_app_session(keys, Terminal(rows, columns)):
        screen = Screen(talk, "")
        running = asyncio.ensure_future(screen._run())
        screen._items.put_nowait((0, QUESTION))
        since = time.monotonic()  # from then on, keys may answer if they are drawn
        await until(lambda: time.monotonic() - since > 3 * QUIET_SECONDS)
        keys.send_text("y")
        await until(lambda: bool(api.given or screen._buffer.text))
        screen._app.exit()
        await running
    assert (api.given, screen._buffer.text) == (given, typed)
