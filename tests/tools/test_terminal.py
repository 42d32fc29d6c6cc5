import asyncio
from pathlib import Path

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.protocols import CommandState, ShellCommand
from hermes_agent.core.settings.root import TerminalSettings
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.terminals.local.terminal import LocalTerminal
from hermes_agent.tools.terminal import process, show, terminal
from tests.support.calls import Caller
from tests.support.patience import PATIENCE
from tests.support.terminals import until


async def test_a_command_gives_its_output_and_the_shell_stays(here: Caller) -> None:
    (here.workspace / "sub").mkdir()
    first = await here.call(terminal, command="cd sub; N=5; echo hi")
    assert (first.text, first.ok, first.data["code"]) == ("hi", True, 0)
    second = await here.call(terminal, command='echo "$N ${PWD##*/}"')
    assert second.text == "5 sub"


async def test_errors_and_the_exit_code_are_told_apart_from_output(here: Caller) -> None:
    result = await here.call(terminal, command="echo out; echo bad >&2; (exit 3)")
    assert result.text == "out\n[stderr]\nbad\n[exit code 3]"
    assert (result.ok, result.data["code"], result.data["stderr_size"]) == (False, 3, 4)


async def test_a_silent_success_is_said_to_be_one(here: Caller) -> None:
    assert (await here.call(terminal, command="true")).text == "[no output]"


async def test_a_command_past_its_limit_is_stopped_and_says_so(
    here: Caller, tmp_path: Path
) -> None:
    # Somebody with more patience sees it begin, and then its limit is over.
    command, told = "echo begun; sleep 300", []
    patient = LocalTerminal(str(here.workspace), tmp_path / "spool", TerminalSettings())
    running = asyncio.create_task(patient.run(ShellCommand("effect-1", command, 300), told.append))
    await until(lambda: told == ["begun\n"])
    result = await here.call(terminal, "effect-1", command=command, timeout=0.1)
    assert (await running).state == "timeout"
    await patient.close()
    assert result.text.startswith("begun\n")  # bash may add "Terminated" in between
    assert "\n[timed out after " in result.text
    assert result.text.endswith(" s, stopped]")
    assert not result.ok


async def test_output_is_shown_while_the_command_runs(here: Caller) -> None:
    await here.call(terminal, command="echo first; sleep 0.3; echo second")
    assert "".join(here.heard) == "first\nsecond\n"


async def test_a_command_that_ended_is_not_run_again_after_a_restart(here: Caller) -> None:
    given = {"command": "echo once >> log; echo done"}
    await here.call(terminal, "effect-1", **given)
    found = await here.recover(terminal, "effect-1", {}, **given)
    assert isinstance(found, ToolResult)
    assert found.text == "done"
    assert (here.workspace / "log").read_text() == "once\n"


async def test_a_command_that_never_began_is_told_apart_after_a_restart(here: Caller) -> None:
    await here.call(terminal, command="true")
    await here.terminal.close()
    assert await here.recover(terminal, "effect-9", {}, command="echo x", background=True) == (
        "not-run"
    )


async def test_a_background_command_is_followed_fed_and_ended(here: Caller) -> None:
    started = await here.call(
        terminal, "job-1", command="read line; echo got $line; exit 4", background=True
    )
    assert started.text == "[running in the background, id job-1]"
    listed = await here.call(process, action="list")
    assert listed.text.startswith("job-1  running  ")
    assert listed.text.endswith(" s  read line; echo got $line; exit 4")
    sent = await here.call(process, action="send", id="job-1", text="word\n")
    assert sent.data == {"id": "job-1", "sent": 5}
    ended = await here.call(process, action="follow", id="job-1", wait=PATIENCE)
    assert ended.text == "got word\n[exit code 4]"


async def test_a_background_command_is_stopped(here: Caller) -> None:
    await here.call(terminal, "job-1", command="echo up; sleep 600", background=True)
    stopped = await here.call(process, action="stop", id="job-1")
    assert stopped.text.endswith("[stopped]")
    assert stopped.ok
    assert stopped.data["state"] == "stopped"


async def test_no_background_commands_is_said_in_words(here: Caller) -> None:
    assert (await here.call(process, action="list")).text == "no background commands"


@pytest.mark.parametrize("action", ["follow", "stop", "send"])
async def test_a_process_needs_an_id_that_is_known(here: Caller, action: str) -> None:
    with pytest.raises(ToolError, match="needs the id"):
        await here.call(process, action=action)
    with pytest.raises(ToolError, match="nobody"):
        await here.call(process, action=action, id="nobody")


@pytest.mark.parametrize(
    "given", [{"action": "dance"}, {"action": "follow", "id": "a", "wait": -1}]
)
async def test_arguments_of_a_process_are_checked(here: Caller, given: dict[str, object]) -> None:
    with pytest.raises(ToolError, match="bad arguments for process"):
        await here.call(process, **given)


@pytest.mark.parametrize(
    ("action", "known"),
    [("list", "not-run"), ("follow", "not-run"), ("stop", "not-run"), ("send", None)],
)
async def test_only_text_that_was_perhaps_sent_waits_for_a_person(
    here: Caller, action: str, known: str | None
) -> None:
    assert await here.recover(process, "e", {}, action=action, id="a") == known


@pytest.mark.parametrize(
    ("state", "text", "ok"),
    [
        (CommandState("i", "c", "lost"), "[the shell exited; whether", False),
        (CommandState("i", "c", "stopped", code=143), "[stopped]", False),
        (CommandState("i", "c", "exited", code=0, background=True), "[ended, exit code 0]", True),
        (
            CommandState("i", "c", "running", stdout="a\n", seconds=7.2, background=True),
            "a\n[still running after 7 s, id i]",
            True,
        ),
    ],
)
def test_every_end_of_a_command_has_its_words(state: CommandState, text: str, ok: bool) -> None:
    shown = show(state)
    assert shown.text.startswith(text)
    assert shown.ok is ok
