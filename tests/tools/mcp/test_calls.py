"""Calls to a server that does what it is told: what comes back, and what goes wrong."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from hermes_agent.core.errors import OutcomeUnknown, ToolError
from hermes_agent.core.settings.root import McpServerSettings
from tests.support.awake_loop import no_time, pass_time
from tests.support.mcp_servers import odd
from tests.support.patience import PATIENCE
from tests.tools.mcp.conftest import Desk


async def until(desk: Desk, line: str, times: int = 1) -> None:
    while desk.notes().count(line) < times:
        await asyncio.sleep(0.01)


async def test_every_kind_of_content_is_shown_or_told_of(desk: Desk) -> None:
    desk.odd()
    result = await desk.call("odd__plain", act="media")
    assert [(file.type, file.data[:4]) for file in result.files] == [("image/png", b"\x89PNG")]
    assert "see &lt;/mcp> here" in result.text
    assert "[image image/tiff, 70 bytes: not shown]" in result.text
    assert "damaged]" in result.text
    assert "[audio audio/wav" in result.text
    assert "[file:///a.md text/markdown]\n# A page" in result.text
    assert "[file:///b, 70 bytes: not shown]" in result.text
    assert "[resource file:///c  c]" in result.text
    assert result.data["structured"] == {"answer": 42}


async def test_a_tool_that_says_it_failed_is_an_error_in_a_frame(desk: Desk) -> None:
    desk.odd()
    with pytest.raises(ToolError, match="the disk is full") as caught:
        await desk.call("odd__plain", act="fail")
    assert '<mcp from="odd">' in caught.value.message


async def test_what_a_server_prints_beside_the_protocol_is_survived_and_kept(desk: Desk) -> None:
    desk.odd()
    assert "heard" in (await desk.call("odd__plain", act="chatter")).text
    await desk.servers.close()
    log = next((desk.folder / "home" / "mcp").glob("odd-*.log"))
    assert "listening on port 80" in log.read_text()
    assert "a word of warning" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


async def test_an_answer_that_is_no_text_is_an_error_at_once(desk: Desk) -> None:
    desk.odd(timeout_seconds=600.0)
    with pytest.raises(ToolError, match="answered plain, but not as valid text"):
        await desk.call("odd__plain", act="half")
    assert "hello" in (await desk.call("odd__plain", text="hello")).text


async def test_a_call_lives_as_long_as_it_tells_of_its_progress(desk: Desk) -> None:
    desk.odd(timeout_seconds=900.0)
    task = asyncio.create_task(desk.call("odd__plain", act="steps", steps=6))
    await until(desk, "called plain")
    for step in range(1, 7):
        await pass_time(600.0)
        desk.go(str(step))
        while len(desk.caller.heard) < step and not task.done():
            await asyncio.sleep(0.01)
    assert "done" in (await task).text
    assert desk.caller.heard == [f"{n} of 6 step {n}\n" for n in range(1, 7)]


async def test_a_call_that_is_silent_too_long_is_cancelled_and_its_outcome_unknown(
    desk: Desk,
) -> None:
    desk.odd(timeout_seconds=900.0)
    task = asyncio.create_task(desk.call("odd__plain", act="wait"))
    await until(desk, "called plain")
    await pass_time(901.0)
    with pytest.raises(OutcomeUnknown, match="odd did not answer plain for 900 seconds"):
        await task
    await until(desk, "heard notifications/cancelled")
    assert "nothing" in (await desk.call("odd__plain")).text
    assert sum(line.startswith("started") for line in desk.notes()) == 1


async def test_cancelling_a_call_tells_the_server(desk: Desk) -> None:
    desk.odd()
    task = asyncio.create_task(desk.call("odd__plain", act="wait"))
    await until(desk, "called plain")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(desk, "heard notifications/cancelled")


async def test_a_server_that_dies_in_a_call_leaves_the_outcome_unknown_and_is_started_again(
    desk: Desk,
) -> None:
    desk.odd()
    with pytest.raises(OutcomeUnknown, match="odd closed the connection while plain ran"):
        await desk.call("odd__plain", act="die")
    assert "back" in (await desk.call("odd__plain", text="back")).text
    assert desk.notes().count("called plain") == 2


async def test_a_server_that_died_unasked_is_started_again_for_the_next_call(desk: Desk) -> None:
    desk.odd()
    await desk.call("odd__plain")
    os.kill(int(desk.notes()[0].split()[1]), 9)
    while desk.servers.connected("odd"):
        await asyncio.sleep(0.01)
    assert "again" in (await desk.call("odd__plain", text="again")).text


async def test_calls_of_many_sessions_share_one_server(desk: Desk) -> None:
    desk.odd()
    tool = await desk.servers.find("odd__plain")
    assert tool is not None
    texts = [f"number {n}" for n in range(20)]
    results = await asyncio.gather(*(desk.caller.call(tool, text=text) for text in texts))
    assert all(text in result.text for text, result in zip(texts, results, strict=True))
    assert sum(line.startswith("started") for line in desk.notes()) == 1


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("sampling/createMessage", {"messages": [], "maxTokens": 5}),
        ("elicitation/create", {"message": "Your password?", "requestedSchema": {}}),
    ],
)
async def test_what_a_server_asks_of_models_and_people_is_refused(
    desk: Desk, method: str, params: dict[str, object]
) -> None:
    desk.odd()
    result = await desk.call("odd__plain", act="ask", method=method, params=params)
    told = json.loads(result.text.splitlines()[2])
    assert told["said"]["code"] < 0
    assert told["client"] == {}


async def test_a_program_gets_a_plain_environment_and_the_secrets_it_was_given(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_TOKEN", "not yours")
    desk.secrets = {"KEY": "open sesame"}
    desk.odd(environment={"API_KEY": "secret:KEY", "LEVEL": "high"})
    result = await desk.call("odd__plain", act="environment")
    environ = json.loads(result.text.splitlines()[2])
    assert environ["API_KEY"] == "open sesame"
    assert environ["LEVEL"] == "high"
    assert environ["PATH"] == os.environ["PATH"]
    assert "OTHER_TOKEN" not in environ
    kept = next((desk.folder / "home" / "mcp").glob("odd-*.json"))
    assert "sesame" not in kept.read_text()


async def test_a_secret_that_is_not_there_is_named(desk: Desk) -> None:
    desk.odd(environment={"API_KEY": "secret:KEY"})
    with pytest.raises(ToolError, match="no secret called 'KEY'"):
        await desk.call("odd__plain")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("no-such-program",), "no program called 'no-such-program'"),
        (
            ("sh", "-c", "echo it hurts >&2; exit 3"),
            "it exited before it answered; it said: it hurts",
        ),
    ],
)
async def test_a_program_that_does_not_start_is_said_in_a_sentence(
    desk: Desk, command: tuple[str, ...], said: str
) -> None:
    desk.settings["bad"] = McpServerSettings(command=command)
    with pytest.raises(ToolError, match="bad cannot be used") as caught:
        await desk.call("bad__anything")
    assert said in caught.value.message


async def test_a_server_that_never_answers_is_given_up(desk: Desk) -> None:
    desk.odd("silent", timeout_seconds=1.0)
    with pytest.raises(ToolError, match="it did not answer within 1 seconds"):
        await desk.call("odd__plain")


async def test_a_server_that_failed_is_left_alone_for_a_while_that_grows(desk: Desk) -> None:
    ends = ("sh", "-c", 'echo started >> "$1"; exit 3', "sh", str(desk.file))
    desk.settings["odd"] = McpServerSettings(command=ends)

    async def starts() -> int:
        with pytest.raises(ToolError):
            await desk.call("odd__plain")
        return sum(line.startswith("started") for line in desk.notes())

    assert await starts() == 1
    assert await starts() == 1
    desk.now += 1.5
    assert await starts() == 2
    desk.now += 1.5
    assert await starts() == 2
    desk.now += 1.0
    assert await starts() == 3


async def test_a_server_whose_settings_changed_is_started_anew(desk: Desk, tmp_path: Path) -> None:
    desk.odd()
    await desk.call("odd__plain")
    other = tmp_path / "other"
    desk.settings["odd"] = McpServerSettings(command=odd("good", other))
    with no_time():  # the old one ends by itself before it would be made to
        await desk.call("odd__plain")
    assert "called plain" in other.read_text()
    assert "input ended" in desk.notes()


async def test_a_server_that_is_switched_off_cannot_be_called(desk: Desk) -> None:
    desk.odd()
    tool = await desk.servers.find("odd__plain")
    assert tool is not None
    desk.odd(enabled=False)
    with pytest.raises(ToolError, match="no MCP server called 'odd'"):
        await desk.caller.call(tool)
    assert await desk.servers.find("odd__plain") is None


async def test_a_server_that_nobody_calls_is_closed_and_comes_back(desk: Desk) -> None:
    desk.odd()
    await desk.call("odd__plain")
    desk.now += 599
    await desk.servers.tidy()
    assert "input ended" not in desk.notes()
    desk.now += 2
    with no_time():
        await desk.servers.tidy()
    assert "input ended" in desk.notes()
    assert "here" in (await desk.call("odd__plain", text="here")).text


async def test_a_call_that_takes_long_does_not_count_as_idle(desk: Desk) -> None:
    desk.odd(timeout_seconds=PATIENCE)
    task = asyncio.create_task(desk.call("odd__plain", act="hold"))
    await until(desk, "called plain")
    desk.now += 1_000
    await desk.servers.tidy()
    desk.go()
    assert "done" in (await task).text


async def test_a_call_under_way_is_not_cut_off_when_the_settings_change(desk: Desk) -> None:
    desk.odd(timeout_seconds=PATIENCE)
    task = asyncio.create_task(desk.call("odd__plain", act="hold"))
    await until(desk, "called plain")
    desk.odd(timeout_seconds=PATIENCE + 1)
    assert "new" in (await desk.call("odd__plain", text="new")).text
    assert "input ended" not in desk.notes()
    desk.go()
    with no_time():
        assert "done" in (await task).text
    assert desk.notes().count("input ended") == 1


async def test_whoever_waits_for_a_server_that_is_closed_meanwhile_is_told(desk: Desk) -> None:
    desk.odd("silent")
    task = asyncio.create_task(desk.call("odd__plain"))
    while not desk.notes():
        await asyncio.sleep(0.01)
    await desk.servers.close()
    with pytest.raises(ToolError, match="odd was closed while it started"):
        await task
