"""Recordings that are no recordings."""

import os

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.media import transcribe
from tests.support.calls import Caller


async def test_a_file_larger_than_the_memory_is_not_read(here: Caller) -> None:
    path = here.workspace / "memo.ogg"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(ToolError, match="has more than 20 MB"):
        await here.call(transcribe, path="memo.ogg")
    with pytest.raises(ToolError, match="no file at"):
        await here.call(transcribe, path="none.ogg")
