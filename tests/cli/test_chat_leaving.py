"""Leaving the chat on a terminal: what was asked for before is shown first."""

import asyncio
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.talk.chat.screen import LEAVE_SECONDS, Screen
from hermes_agent.cli.talk.chat.session import ChatSession
from hermes_agent.cli.talk.chat.view import ViewPiece
from tests.support.awake_loop import no_time, stand_still


class Standing(ChatSession):
    """All stand still in the moment in which the chat is left and something is to be shown yet."""

    screen: Screen

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name == "leaving" and value:
            for number in range(50):
                self.screen._print(ViewPiece("quiet", f"the last words {number}"))
            asyncio.get_running_loop().call_soon(stand_still, LEAVE_SECONDS + 1)
        return value


async def test_what_is_still_to_be_shown_is_not_lost_because_all_stood_still(
    capsys: pytest.CaptureFixture[str],
) -> None:
    talk = Standing(
        RuntimeClient("/nowhere"), {"model": "some/model"}, session=None, interactive=True
    )
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        talk.screen = Screen(talk, "")
        typed.send_text("/quit\r")
        with no_time():
            await talk.screen._run()
    assert "the last words 49" in capsys.readouterr().out
