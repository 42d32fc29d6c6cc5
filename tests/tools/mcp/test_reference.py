"""Against the reference servers of npm and PyPI."""

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.protocols import ShellCommand
from hermes_agent.core.settings.root import McpServerSettings
from tests.support.mcp_servers import installed, npm_server
from tests.tools.mcp.conftest import Desk


@pytest.fixture
def everything(desk: Desk) -> Desk:
    desk.settings["all"] = McpServerSettings(command=(npm_server("mcp-server-everything"),))
    return desk


async def test_tools_of_the_everything_server_are_found_and_called(everything: Desk) -> None:
    found = [row.name for row in await everything.servers.search("sum numbers")]
    assert found == ["all__get-sum"]
    result = await everything.call("all__get-sum", a=2, b=3)
    assert '<mcp from="all">\nThe sum of 2 and 3 is 5.\n</mcp>' in result.text
    assert result.data["hints"]["readOnlyHint"] is True


async def test_a_tool_says_where_it_comes_from_and_is_not_taken_for_repeatable(
    everything: Desk,
) -> None:
    tool = await everything.servers.find("all__echo")
    assert tool is not None
    assert (tool.origin, tool.repeatable, tuple(tool.capabilities)) == ("mcp", False, ("process",))
    assert tool.spec.parameters["required"] == ["message"]
    assert '<mcp from="all">' in tool.description


async def test_images_and_structured_content_come_with_the_result(everything: Desk) -> None:
    image = await everything.call("all__get-tiny-image")
    assert [file.type for file in image.files] == ["image/png"]
    weather = await everything.call("all__get-structured-content", location="Chicago")
    assert set(weather.data["structured"]) == {"temperature", "conditions", "humidity"}


async def test_progress_is_shown_while_the_call_runs(everything: Desk) -> None:
    await everything.call("all__trigger-long-running-operation", duration=0.2, steps=2)
    assert everything.caller.heard == ["1 of 2\n", "2 of 2\n"]


async def test_resources_are_listed_with_their_templates_and_read(everything: Desk) -> None:
    listed = await everything.call("all__read_resource")
    assert "demo://resource/static/document/architecture.md" in listed.text
    assert "demo://resource/dynamic/text/{resourceId}" in listed.text
    read = await everything.call("all__read_resource", uri="demo://resource/dynamic/text/7")
    assert "Resource 7" in read.text
    with pytest.raises(ToolError, match="all refused"):
        await everything.call("all__read_resource", uri="demo://nothing")


async def test_prompts_are_listed_with_their_arguments_and_filled_in(everything: Desk) -> None:
    assert "args-prompt(city, state?)" in (await everything.call("all__get_prompt")).text
    given = {"city": "Ulm", "state": "BW"}
    filled = await everything.call("all__get_prompt", name="args-prompt", arguments=given)
    assert "Ulm" in filled.text
    assert "[user]" in filled.text


async def test_the_workspace_is_what_a_server_is_told_when_it_asks_for_roots(
    everything: Desk,
) -> None:
    everything.settings["all"] = McpServerSettings(
        command=(npm_server("mcp-server-everything"),), workspace=True
    )
    told = await everything.call("all__get-roots-list")
    assert everything.caller.workspace.as_uri() in told.text


async def test_the_filesystem_server_reads_in_its_folder_and_nowhere_else(desk: Desk) -> None:
    folder = desk.folder / "docs"
    folder.mkdir()
    command = (npm_server("mcp-server-filesystem"), str(folder))
    desk.settings["files"] = McpServerSettings(command=command)
    (folder / "a.txt").write_text("a good day")
    page = desk.caller.workspace / "b.txt"
    page.write_text("secret")
    await desk.servers.search("")
    read = await desk.call("files__read_text_file", path=str(folder / "a.txt"))
    assert "a good day" in read.text
    with pytest.raises(ToolError, match="Access denied"):
        await desk.call("files__read_text_file", path=str(page))


async def test_a_server_that_is_told_the_workspace_reads_there(desk: Desk) -> None:
    elsewhere = desk.folder / "elsewhere"
    elsewhere.mkdir()
    command = (npm_server("mcp-server-filesystem"), str(elsewhere))
    desk.settings["files"] = McpServerSettings(command=command, workspace=True)
    page = desk.caller.workspace / "a.txt"
    page.write_text("a good day")
    await desk.servers.search("")
    assert "a good day" in (await desk.call("files__read_text_file", path=str(page))).text
    (elsewhere / "b.txt").write_text("secret")
    with pytest.raises(ToolError, match="Access denied"):
        await desk.call("files__read_text_file", path=str(elsewhere / "b.txt"))


async def test_servers_from_pypi_work_too(desk: Desk) -> None:
    repository = desk.caller.workspace
    await desk.caller.terminal.run(ShellCommand("init", "git init -q"))
    desk.settings["time"] = McpServerSettings(command=(installed("mcp-server-time"),))
    desk.settings["git"] = McpServerSettings(command=(installed("mcp-server-git"),))
    rows = {row.name for row in await desk.servers.search("")}
    assert {"time__convert_time", "git__git_log"} <= rows
    assert "git__read_resource" not in rows  # it says that it has resources, and has none
    result = await desk.call("time__get_current_time", timezone="Europe/Berlin")
    assert "Europe/Berlin" in result.text
    assert "No commits yet" in (await desk.call("git__git_status", repo_path=str(repository))).text
