"""Servers that are reached over HTTP."""

import asyncio
from collections.abc import Iterator

import pytest
from mcp.server.mcpserver import Context, MCPServer

from hermes_agent.core.errors import OutcomeUnknown, ToolError
from hermes_agent.core.settings.root import McpServerSettings
from tests.support.mcp_servers import Door, OddHttp, free_port, guarded, over_http
from tests.support.patience import PATIENCE
from tests.tools.mcp.conftest import Desk


@pytest.fixture
def far(desk: Desk) -> Iterator[OddHttp]:
    with OddHttp() as server:
        desk.settings["far"] = McpServerSettings(url=server.url, timeout_seconds=PATIENCE)
        yield server


def modern() -> MCPServer:
    """One of the SDK; with its own client it speaks the newest protocol."""
    server = MCPServer("modern")

    @server.tool()
    async def grow(context: Context) -> str:
        """Get another tool."""
        server.add_tool(lambda: "sprouted", name="sprout", description="New.")
        await context.notify_tools_changed()
        return "grown"

    @server.tool()
    async def step(context: Context) -> str:
        """Tell of progress."""
        await context.report_progress(1, 2, "half way")
        return "done"

    @server.tool()
    async def ask(context: Context) -> str:
        """Ask the user."""
        answer = await context.elicit_url("Sign here", "https://example.org", "one")
        return str(answer)

    @server.resource("note://{name}")
    def note(name: str) -> str:
        return f"a note called {name}"

    @server.prompt()
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Good day, {name}"

    return server


async def test_a_remote_tool_is_called_with_the_headers_it_wants(desk: Desk, far: OddHttp) -> None:
    desk.secrets = {"KEY": "sesame"}
    headers = {"Authorization": "Bearer secret:KEY"}
    desk.settings["far"] = McpServerSettings(url=far.url, headers=headers)
    tool = await desk.servers.find("far__plain")
    assert tool is not None
    assert tuple(tool.capabilities) == ("network",)
    assert "here" in (await desk.caller.call(tool)).text
    assert all(each["authorization"] == "Bearer sesame" for each in far.headers)


async def test_a_session_that_the_server_forgot_is_begun_again_for_the_same_call(
    desk: Desk, far: OddHttp
) -> None:
    await desk.call("far__plain")
    far.sessions.clear()
    assert "here" in (await desk.call("far__plain")).text
    assert far.calls == ["echo", "echo"]


@pytest.mark.parametrize("act", ["cut", "half"])
async def test_a_call_whose_answer_is_cut_off_is_not_made_again(
    desk: Desk, far: OddHttp, act: str
) -> None:
    with pytest.raises(OutcomeUnknown, match="far closed the connection while plain ran"):
        await desk.call("far__plain", act=act)
    assert far.calls == [act]
    assert "here" in (await desk.call("far__plain")).text


@pytest.mark.parametrize("act", ["odd", "odd event"])
async def test_an_answer_that_is_no_text_is_an_error_at_once(
    desk: Desk, far: OddHttp, act: str
) -> None:
    with pytest.raises(ToolError, match="answered plain, but not as valid text") as caught:
        await desk.call("far__plain", act=act)
    assert caught.value.retry == "never"
    assert "here" in (await desk.call("far__plain")).text
    assert far.calls == [act, "echo"]


@pytest.mark.parametrize("act", ["cut", "half", "500"])
async def test_the_trouble_of_one_call_is_not_that_of_another(
    desk: Desk, far: OddHttp, act: str
) -> None:
    held = asyncio.create_task(desk.call("far__plain", act="hold"))
    assert await asyncio.to_thread(far.arrived.wait, PATIENCE)
    with pytest.raises((OutcomeUnknown, ToolError)):
        await desk.call("far__plain", act=act)
    far.held.set()
    assert "held" in (await held).text


@pytest.mark.parametrize(
    ("act", "said", "retry"),
    [
        ("403", "far refused: HTTP 403", ""),
        ("500", "far refused: HTTP 500", ""),
        ("503", r"far is busy \(HTTP 503\)", "same"),
    ],
)
async def test_a_status_is_told(desk: Desk, far: OddHttp, act: str, said: str, retry: str) -> None:
    with pytest.raises(ToolError, match=said) as caught:
        await desk.call("far__plain", act=act)
    assert caught.value.retry == retry


async def test_a_server_that_is_not_there_is_worth_another_try_and_found_when_it_is(
    desk: Desk,
) -> None:
    port = free_port()
    desk.settings["new"] = McpServerSettings(url=f"http://127.0.0.1:{port}/mcp")
    with over_http(modern().streamable_http_app(), port):
        tool = await desk.servers.find("new__step")
    assert tool is not None
    with pytest.raises(ToolError, match="new cannot be reached") as caught:
        await desk.caller.call(tool)
    assert caught.value.retry == "same"
    desk.now += 60
    with over_http(modern().streamable_http_app(), port):
        assert "done" in (await desk.caller.call(tool)).text


async def test_a_server_that_wants_a_login_says_how(desk: Desk) -> None:
    with guarded(Door(lambda: desk.now)) as url:
        desk.settings["kept"] = McpServerSettings(url=url)
        desk.settings["known"] = McpServerSettings(url=url, oauth=True)
        for name in ("kept", "known"):
            with pytest.raises(ToolError, match=f"{name} requires a login") as caught:
                await desk.call(f"{name}__whisper")
            assert caught.value.hint == f"`hermes mcp login {name}`"


async def test_a_server_of_the_newest_protocol_tells_of_changes_and_progress(desk: Desk) -> None:
    with over_http(modern().streamable_http_app()) as address:
        desk.settings["new"] = McpServerSettings(url=f"{address}/mcp")
        await desk.call("new__step")
        assert desk.caller.heard == ["1 of 2 half way\n"]
        facts = desk.servers.known("new")
        assert facts is not None
        assert facts.version >= "2026"
        await desk.call("new__grow")
        while await desk.servers.find("new__sprout") is None:
            await asyncio.sleep(0.01)
        assert "sprouted" in (await desk.call("new__sprout")).text
        note = await desk.call("new__read_resource", uri="note://blue")
        assert "a note called blue" in note.text
        greeting = await desk.call("new__get_prompt", name="greet", arguments={"name": "Ada"})
        assert "Good day, Ada" in greeting.text


async def test_a_question_to_the_user_of_the_newest_protocol_is_refused(desk: Desk) -> None:
    with over_http(modern().streamable_http_app()) as address:
        desk.settings["new"] = McpServerSettings(url=f"{address}/mcp")
        with pytest.raises(ToolError):
            await desk.call("new__ask")


async def test_proxies_of_the_environment_are_not_asked(
    desk: Desk, far: OddHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert "here" in (await desk.call("far__plain")).text
    assert far.calls == ["echo"]


async def test_an_address_that_is_no_server_is_told(desk: Desk) -> None:
    desk.settings["odd"] = McpServerSettings(url="ftp://127.0.0.1/mcp")
    with pytest.raises(ToolError, match="odd cannot be reached"):
        await desk.call("odd__anything")
