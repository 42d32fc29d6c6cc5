"""The programs that the guides show do what the guides say."""

import json
import re
from pathlib import Path

from hermes_agent.core import events as ev
from tests.support.runtime_fixture import open_runtime
from tests.support.source import ROOT


def program_of(guide: str) -> str:
    """The first Python that a guide shows."""
    text = (ROOT / "docs" / "guides" / guide).read_text()
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found.group(1)


async def test_the_tool_and_the_program_of_the_guides_work(tmp_path: Path) -> None:
    calls = [
        {"tool": "make_tool", "with": {"name": "fullest_disk", "code": program_of("own-tools.md")}},
        {"tool": "use_tool", "with": {"name": "fullest_disk", "arguments": {"least": 0}}},
        {"tool": "execute_code", "with": {"code": program_of("tools.md")}},
    ]
    script = tmp_path / "script.json"
    replies = [{"calls": [call]} for call in calls]
    script.write_text(json.dumps({"turns": [{"replies": [*replies, {"say": "done"}]}]}))
    async with open_runtime(tmp_path) as h:
        session = await h.open(f"scripted/{script}")
        events = await h.say(session, "go")
    finished = [one for one in events if isinstance(one, ev.CallFinished)]
    made, used, ran = [one for one in finished if "." not in one.effect]
    assert [one.tool for one in (made, used, ran)] == ["make_tool", "fullest_disk", "execute_code"]
    assert all(one.ok for one in (made, used, ran)), [made.text, used.text, ran.text]
    assert "% /" in used.text
    assert ran.text.count("$ ") >= 5
