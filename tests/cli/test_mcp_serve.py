"""`hermes mcp serve`, seen by the official client over both transports and both protocols."""

import asyncio
import json
import subprocess
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitResult, Implementation, TextResourceContents

from hermes_agent.cli.client.follower import TurnFollower
from hermes_agent.cli.mcp.serve.server import TokenOnly
from hermes_agent.cli.mcp.serve.text import answer_of
from hermes_agent.cli.mcp.serve.turn import LiveEvents
from tests.support.cli import PATIENCE, Hermes
from tests.support.mcp_client import (
    COMMAND,
    WAYS,
    connected,
    data_of,
    eventually,
    http_transport,
    inspector,
    never,
    saying,
    served,
    text_of,
)
from tests.support.policies import file_of

pytestmark = pytest.mark.sample_file(10)

FEW = [
    pytest.param(way, marks=[] if way in ("stdio", "http with handshake") else [pytest.mark.slow])
    for way in WAYS
]
"""Both transports and both kinds of asking, each once; the first test below sees all four."""


@pytest.fixture
def careful(shared: Hermes) -> Hermes:
    """Where writing a file needs approval."""
    shared.environ["HERMES_POLICY"] = "careful"
    return shared


def the_session(hermes: Hermes) -> dict[str, Any]:
    (row,) = hermes.sessions()
    return row


async def at_work(hermes: Hermes) -> str:
    """The session whose long command has begun."""
    await eventually(lambda: hermes.api.is_up() and hermes.sessions(), "the session")
    session = str(the_session(hermes)["id"])
    await asyncio.to_thread(hermes.wait_for_command, session)
    return session


def questions(hermes: Hermes) -> list[dict[str, Any]]:
    ours = {row["id"] for row in hermes.sessions()}
    return [row for row in hermes.api.get("/v1/questions") if row["session"] in ours]


async def idle(hermes: Hermes) -> None:
    await eventually(lambda: the_session(hermes)["state"] == "idle", "the turn to end")


@pytest.mark.parametrize("way", WAYS)
async def test_work_is_answered_with_consent_asked_for_and_each_step_told(
    careful: Hermes, way: str
) -> None:
    steps: list[tuple[float, str | None]] = []

    async def step(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, message))

    async with connected(careful, way, answer="yes") as client:
        told = await client.call_tool("ask", {"prompt": "write a file"}, progress_callback=step)
        again = await client.call_tool("ask", {"prompt": "hi", "session": data_of(told)["session"]})
    assert not told.is_error
    assert text_of(told).startswith("The file is **written**.\n[session ")
    assert data_of(told)["cost"] > 0
    assert data_of(told)["refused"] == []
    assert (careful.work / "made.txt").read_text() == "written\n"
    assert [number for number, _ in steps] == list(range(1, len(steps) + 1))
    said = [message or "" for _, message in steps]
    assert [words.split(" ")[0] for words in said] == ["step", "$", "waiting", "step"]
    assert data_of(again)["text"] == "Good day to you."
    assert the_session(careful)["turns"] == 2
    assert the_session(careful)["source"] == "mcp"


ONLY_ALICE = file_of("- {id: ours, match: {tool: terminal}, then: {ask: {by: [alice]}}}")


def answers(hermes: Hermes) -> list[str]:
    """Who has answered, as it is recorded."""
    path = f"/v1/sessions/{the_session(hermes)['id']}/journal"
    events = [one["event"] for one in hermes.api.get(path)]
    return [event["by"] for event in events if event["kind"] == "question_answered"]


async def test_consent_is_recorded_as_that_of_the_client(careful: Hermes) -> None:
    client_info = Implementation(name="An Editor\n(of alice)", version="1")
    async with connected(careful, answer="yes", client_info=client_info) as client:
        await client.call_tool("ask", {"prompt": "write a file"})
    assert answers(careful) == ["mcp:An-Editor-of-alice"]


async def test_a_client_cannot_answer_for_a_person(hermes: Hermes) -> None:
    (hermes.home / "policies").mkdir(parents=True)
    (hermes.home / "policies" / "mine.yaml").write_text(ONLY_ALICE)
    hermes.environ["SUDO_USER"] = "alice"
    said: list[str | None] = []

    async def step(progress: float, total: float | None, message: str | None) -> None:
        said.append(message)

    alice = Implementation(name="alice", version="1")
    async with connected(hermes, "stdio", answer="yes", client_info=alice) as client:
        asking = asyncio.create_task(
            client.call_tool("ask", {"prompt": "write a file"}, progress_callback=step)
        )
        await eventually(
            lambda: any("'mcp:alice' may not answer" in (line or "") for line in said), "a refusal"
        )
        (question,) = hermes.api.get("/v1/questions")
        assert not (hermes.work / "made.txt").exists()
        await asyncio.to_thread(hermes.good, "approvals", "answer", question["id"], "yes")
        told = await asking
    assert data_of(told)["text"] == "The file is **written**."
    assert answers(hermes) == ["alice"]


async def test_a_user_who_declines_has_said_no(careful: Hermes) -> None:
    async with connected(careful, answer="-") as client:
        await client.call_tool("ask", {"prompt": "write a file"})
    assert not (careful.work / "made.txt").exists()
    assert questions(careful) == []


@pytest.mark.parametrize("purpose", ["approval", "budget"])
def test_whatever_is_not_a_clear_yes_is_a_no(purpose: str) -> None:
    asked = {"purpose": purpose, "choices": ["yes", "no", "session", "always"]}

    def meant(action: Any, content: Any) -> str:
        return answer_of(asked, ElicitResult(action=action, content=content))

    assert meant("accept", {"answer": "yes"}) == "yes"
    assert meant("accept", {"answer": "session"}) == "session"
    for given in ("always", "perhaps", "YES", "", True, 1, ["yes"], None):
        assert meant("accept", {"answer": given}) == "no"
    assert meant("accept", None) == meant("accept", {}) == "no"
    assert meant("decline", {"answer": "yes"}) == meant("cancel", {"answer": "yes"}) == "no"


async def test_a_client_that_cannot_ask_is_told_what_was_refused(careful: Hermes) -> None:
    async with connected(careful) as client:
        told = await client.call_tool("ask", {"prompt": "write a file"})
    assert not (careful.work / "made.txt").exists()
    (refused,) = data_of(told)["refused"]
    assert "echo written" in refused
    assert "needs approval, which this client cannot ask for" in refused
    assert f"refused: {refused}" in text_of(told)


async def test_the_form_shows_the_whole_question_and_offers_no_rule_for_good(
    careful: Hermes,
) -> None:
    seen: list[Any] = []
    ask = saying("session", seen)
    async with connected(careful, elicitation_callback=ask) as client:
        told = await client.call_tool("ask", {"prompt": "write a file"})
        session = data_of(told)["session"]
        await client.call_tool("ask", {"prompt": "write a file", "session": session})
    assert (careful.work / "made.txt").read_text() == "written\nwritten\n"
    (form,) = seen
    assert f"? Run this command in {careful.work}?" in form.message
    assert "echo written >> made.txt; echo shown" in form.message
    assert "allows for this session: " in form.message
    assert "always" not in form.message
    assert form.requested_schema["properties"]["answer"]["enum"] == ["no", "yes", "session"]


async def test_a_question_of_the_model_is_put_too(shared: Hermes) -> None:
    async with connected(shared, answer="2") as client:
        told = await client.call_tool("ask", {"prompt": "which colour"})
        page = await client.call_tool("session", {"id": data_of(told)["session"]})
    assert data_of(told)["text"] == "A fine colour."
    assert data_of(page)["messages"][1]["text"] == "blue"


async def test_a_question_that_is_answered_elsewhere_is_taken_back(careful: Hermes) -> None:
    async with connected(careful, WAYS[1], elicitation_callback=never) as client:
        asking = asyncio.create_task(client.call_tool("ask", {"prompt": "write a file"}))
        await eventually(careful.api.is_up, "the runtime")
        (question,) = await eventually(lambda: questions(careful), "a question")
        await asyncio.to_thread(careful.good, "approvals", "answer", question["id"], "yes")
        told = await asking
    assert data_of(told)["text"] == "The file is **written**."


DELEGATING = """
turns:
  - when: hand it on
    replies:
      - calls: [{tool: delegate, with: {tasks: [{task: please write a file}]}}]
      - say: It was handed on.
  - when: please write a file
    replies:
      - calls: [{tool: terminal, with: {command: "echo written >> made.txt"}}]
      - say: Written by a child.
"""


async def test_a_childs_question_is_put_too(careful: Hermes) -> None:
    careful.script.write_text(DELEGATING)
    seen: list[Any] = []
    async with connected(careful, elicitation_callback=saying("yes", seen)) as client:
        told = await client.call_tool("ask", {"prompt": "hand it on"})
    assert data_of(told)["text"] == "It was handed on."
    assert "echo written" in seen[-1].message
    assert (careful.work / "made.txt").read_text() == "written\n"


async def test_children_are_not_listed(shared: Hermes) -> None:
    shared.script.write_text(DELEGATING)
    async with connected(shared) as client:
        told = await client.call_tool("ask", {"prompt": "hand it on"})
        rows = data_of(await client.call_tool("sessions"))["sessions"]
        (read,) = (await client.read_resource("hermes://sessions")).contents
    assert len(shared.sessions()) == 2
    assert data_of(told)["session"] in {row["id"] for row in rows}
    assert [row["parent"] for row in rows] == [""] * len(rows)
    assert isinstance(read, TextResourceContents)
    assert {row["parent"] for row in json.loads(read.text)} == {""}


async def test_a_turn_that_nobody_waits_for_any_more_is_no_longer_listened_to(
    shared: Hermes,
) -> None:
    session = await asyncio.to_thread(shared.send, "which colour", interactive=True)
    live = LiveEvents(TurnFollower(shared.api, session, "another", 0))
    while (item := await live.next()) is not None and item[0]["kind"] != "question_asked":
        pass
    live.leave()  # nothing more happens in the session
    while await asyncio.wait_for(live.next(), PATIENCE) is not None:
        pass  # what had arrived before
    assert shared.api.get(f"/v1/sessions/{session}")["state"] == "waiting"


@pytest.mark.parametrize("way", FEW)
async def test_a_request_that_is_taken_back_interrupts_the_turn(shared: Hermes, way: str) -> None:
    async with connected(shared, way) as client:
        asking = asyncio.create_task(client.call_tool("ask", {"prompt": "work long"}))
        session = await at_work(shared)
        asking.cancel()
        await idle(shared)
        told = await client.call_tool("answer", {"session": session})
    assert told.is_error
    assert data_of(told)["state"] == "interrupted"


async def test_a_client_that_goes_away_leaves_the_turn_at_work(shared: Hermes) -> None:
    async with connected(shared, "stdio") as client:
        asking = asyncio.create_task(client.call_tool("ask", {"prompt": "work long"}))
        session = await at_work(shared)
    with pytest.raises(MCPError):
        await asking
    async with connected(shared) as client:
        told = await client.call_tool("answer", {"session": session})
    assert data_of(told) == {"session": session, "state": "running"}
    shared.good("interrupt", session)


async def test_a_server_that_is_stopped_leaves_the_turn_at_work(shared: Hermes) -> None:
    with served(shared) as server:
        async with Client(http_transport(server)) as client:
            asking = asyncio.create_task(client.call_tool("ask", {"prompt": "work long"}))
            session = await at_work(shared)
            server.process.terminate()
            await asyncio.to_thread(server.process.wait, PATIENCE)
            with pytest.raises(MCPError):
                await asking
    assert server.process.returncode in (0, -15)
    assert the_session(shared)["state"] == "running"
    shared.good("interrupt", session)


@pytest.mark.parametrize("end", ["kill", pytest.param("restart", marks=pytest.mark.slow)])
async def test_the_answer_comes_over_a_restart_of_the_runtime(hermes: Hermes, end: str) -> None:
    async with connected(hermes, "stdio") as client:
        asking = asyncio.create_task(client.call_tool("ask", {"prompt": "work a little"}))
        await at_work(hermes)
        if end == "kill":
            await asyncio.to_thread(hermes.kill_runtime)
        else:
            await asyncio.to_thread(hermes.good, "restart")
        told = await asking
    assert data_of(told)["text"] == "A little work was done."
    assert (hermes.work / "little.txt").read_text() == "once\n"


async def test_an_answer_counts_when_the_runtime_died_while_it_was_thought_of(
    careful: Hermes,
) -> None:
    async def kill_first(context: Any, params: Any) -> Any:
        await asyncio.to_thread(careful.kill_runtime)
        return await saying("yes")(context, params)

    async with connected(careful, "stdio", elicitation_callback=kill_first) as client:
        told = await client.call_tool("ask", {"prompt": "write a file"})
    assert data_of(told)["text"] == "The file is **written**."
    assert (careful.work / "made.txt").read_text() == "written\n"


HELD = """
turns:
  - when: work long
    replies:
      - calls: [{tool: terminal, with: {command: "echo begun; sleep 300"}}]
  - when: work until told
    replies:
      - calls: [{tool: terminal, with: {command: "while [ ! -e go ]; do sleep 0.1; done"}}]
      - say: The work was done.
"""


async def test_taking_one_request_back_leaves_the_others(shared: Hermes) -> None:
    shared.script.write_text(HELD)
    with served(shared) as server:
        async with Client(http_transport(server)) as one, Client(http_transport(server)) as other:
            asking = asyncio.create_task(one.call_tool("ask", {"prompt": "work long"}))
            session = await at_work(shared)
            held = asyncio.create_task(other.call_tool("ask", {"prompt": "work until told"}))
            await eventually(
                lambda: len([one for one in shared.sessions() if one["state"] == "running"]) == 2,
                "both",
            )
            asking.cancel()
            await eventually(
                lambda: shared.api.get(f"/v1/sessions/{session}")["state"] == "idle", "the end"
            )
            assert not held.done()
            (shared.work / "go").touch()
            told = await held
    assert data_of(told)["text"] == "The work was done."


async def test_work_goes_on_without_being_waited_for(shared: Hermes) -> None:
    async with connected(shared) as client:
        sent = await client.call_tool("ask", {"prompt": "write a file", "wait": False})
        session = data_of(sent)["session"]
        assert data_of(sent)["state"] == "running"
        await idle(shared)
        told = await client.call_tool("answer", {"session": session})
    assert data_of(told)["text"] == "The file is **written**."


async def test_what_was_said_is_searched_listed_paged_and_counted(lived_in: Hermes) -> None:
    async with connected(lived_in) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        found = await client.call_tool("search", {"query": "zebra", "since": "1h"})
        rows = data_of(await client.call_tool("sessions", {"limit": 5}))["sessions"]
        first = await client.call_tool("session", {"id": "papers", "limit": 2})
        after = data_of(first)["next"]
        rest = await client.call_tool("session", {"id": "papers", "after": after})
        cost = await client.call_tool("cost", {"by": "session"})
    assert set(tools) == {"ask", "answer", "search", "sessions", "session", "skills", "cost"}
    assert set(tools["ask"].input_schema["properties"]) == {
        "prompt", "session", "workspace", "model", "wait",
    }  # fmt: skip
    assert "«zebra»" in data_of(found)["found"][0]["snippet"]
    assert [row["name"] or row["title"] for row in rows] == ["good morning, zebra", "papers"]
    pages = [data_of(first)["messages"], data_of(rest)["messages"]]
    assert [one["role"] for one in pages[0]] == ["user", "assistant"]
    assert [one["role"] for one in pages[1]] == ["tool", "assistant"]
    assert f"continue with after={after}" in text_of(first)
    assert data_of(rest)["next"] is None
    assert {row["name"] for row in data_of(cost)["costs"]} == {row["id"] for row in rows}


async def test_skills_are_listed_and_read(lived_in: Hermes) -> None:
    async with connected(lived_in) as client:
        rows = data_of(await client.call_tool("skills", {}))["skills"]
        page = await client.call_tool("skills", {"name": "disk-full"})
        missing = await client.call_tool("skills", {"name": "feed-goats"})
    assert {"disk-full", "service-crash"} <= {row["name"] for row in rows}
    assert "## Procedure" in text_of(page)
    assert missing.is_error
    assert "no skill" in text_of(missing)


async def test_sessions_are_resources(lived_in: Hermes) -> None:
    async with connected(lived_in) as client:
        (listed,) = (await client.list_resources()).resources
        (template,) = (await client.list_resource_templates()).resource_templates
        (rows,) = (await client.read_resource("hermes://sessions")).contents
        (page,) = (await client.read_resource("hermes://sessions/papers")).contents
        with pytest.raises(MCPError, match="no session 'nowhere'\nhint: "):
            await client.read_resource("hermes://sessions/nowhere")
    assert str(listed.uri) == "hermes://sessions"
    assert template.uri_template == "hermes://sessions/{id}"
    assert isinstance(rows, TextResourceContents)
    assert len(json.loads(rows.text)) == 2
    assert isinstance(page, TextResourceContents)
    assert page.text.startswith("# papers\n")
    assert "The file is **written**." in page.text


WRONG: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("ask", {"prompt": " "}, "the message is empty"),
    ("ask", {"prompt": "x", "session": "nowhere"}, "no session 'nowhere'"),
    ("ask", {"prompt": "x", "session": "papers", "model": "y/z"}, "a session keeps"),
    ("ask", {"prompt": "x", "workspace": "here"}, "not an absolute path"),
    ("ask", {"prompt": "x", "workspace": "/no/such/folder"}, "no folder at"),
    ("answer", {"session": "nowhere"}, "no session 'nowhere'"),
    ("session", {"id": ""}, "name a session"),
    ("search", {"query": " "}, "nothing to search for"),
    ("cost", {"since": "lately"}, "not a valid time: 'lately'"),
)


async def test_what_is_wrong_is_said_with_a_way_out(lived_in: Hermes) -> None:
    async with connected(lived_in) as client:
        for tool, given, words in WRONG:
            told = await client.call_tool(tool, given)
            assert told.is_error
            assert words in text_of(told)
            assert "\nhint: " in text_of(told)
            assert data_of(told)["hint"]


async def test_a_turn_that_fails_says_why(shared: Hermes) -> None:
    shared.script.write_text(
        "turns: [{replies: [{say: Half., calls: [{tool: terminal, with: {command: 'true'}}]}]}]"
    )
    async with connected(shared) as client:
        told = await client.call_tool("ask", {"prompt": "hello"})
    assert told.is_error
    assert data_of(told)["state"] == "failed"
    assert "is used up" in data_of(told)["error"]
    assert "Half." not in text_of(told)
    assert data_of(told)["session"] in text_of(told)


async def test_only_the_token_opens_the_door(hermes: Hermes) -> None:
    own = "a-token-of-my-own-choosing"
    with served(hermes, HERMES_MCP_TOKEN=own) as server:
        async with httpx2.AsyncClient(timeout=PATIENCE) as plain:
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": own}):
                answer = await plain.post(server.url, headers=headers, json={})
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == "Bearer"
                assert answer.json()["hint"]
            foreign = {"authorization": f"Bearer {own}", "host": "evil.example"}
            assert (await plain.post(server.url, headers=foreign, json={})).status_code == 421
        async with Client(http_transport(server)) as client:
            assert (await client.list_tools()).tools
        server.process.terminate()
        assert server.process.stderr is not None
        assert own not in server.process.stderr.read()
    assert not hermes.home.exists() or not (hermes.home / "state.db").exists()


async def test_whatever_is_no_request_has_no_way_past_the_token() -> None:
    passed: list[str] = []
    sent: list[Any] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        passed.append(scope["type"])

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    door = TokenOnly(app, "a-token-of-my-own-choosing")
    shown = [(b"authorization", b"Bearer a-token-of-my-own-choosing")]
    for headers in ([], shown):
        await door({"type": "websocket", "headers": headers}, receive, send)
    await door({"type": "http", "headers": shown}, receive, send)
    await door({"type": "lifespan"}, receive, send)
    assert passed == ["http", "lifespan"]
    assert sent == [{"type": "websocket.close"}] * 2


IMPOSSIBLE = {
    "--http 0.0.0.0:0": "no token is set",
    "--http 0 --token short": "at least 16",
    "--http door": "not a valid address: 'door'",
    "--http 70000": "not a valid address: '70000'",
    "--token long-enough-to-be-one": "--token needs --http",
    "--workspace /no/such/folder": "no folder at",
}


def test_a_server_that_cannot_be_is_refused_with_a_hint(shared: Hermes) -> None:
    for words, said in IMPOSSIBLE.items():
        done = shared.run("mcp", "serve", *words.split())
        assert done.returncode == 2
        assert said in done.stderr
        assert "\nhint: " in done.stderr
        assert done.stdout == ""


def test_a_port_that_is_taken_is_said(shared: Hermes) -> None:
    with served(shared) as server:
        port = server.url.split(":")[2].split("/")[0]
        done = shared.run("mcp", "serve", "--http", port)
    assert done.returncode == 1
    assert "cannot listen at 127.0.0.1" in done.stderr


def test_the_root_of_the_machine_is_no_workspace_by_default(shared: Hermes) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        COMMAND, cwd="/", env=shared.environ, stdin=pipe, stdout=pipe, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(json.dumps(line) + "\n" for line in BY_HAND))
        process.stdin.flush()  # and kept open: a client that goes is not answered
        lines = map(json.loads, process.stdout)
        told = next(one for one in lines if one.get("id") == 2)["result"]
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    assert told["isError"]
    assert "started in /" in told["content"][0]["text"]


BY_HAND: list[dict[str, Any]] = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "hand", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "ask", "arguments": {"prompt": "hi"}},
    },
]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_inspector_lists_calls_and_reads(hermes: Hermes) -> None:
    program = inspector()

    def inspect(*words: str) -> Any:
        command = [program, "--cli", *COMMAND, *words]
        done = subprocess.run(
            command,
            cwd=hermes.work,
            env=hermes.environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    names = {tool["name"] for tool in inspect("--method", "tools/list")["tools"]}
    assert names >= {"ask", "answer", "search", "sessions", "session", "skills", "cost"}
    asked = ("--method", "tools/call", "--tool-name", "ask", "--tool-arg", "prompt=good day")
    told = inspect(*asked)["structuredContent"]
    assert told["text"] == "Good day to you."
    (page,) = inspect(
        "--method", "resources/read", "--uri", f"hermes://sessions/{told['session']}"
    )["contents"]
    assert "good day" in page["text"]
