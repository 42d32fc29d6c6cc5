"""From a call to a permit: what each verdict leads to, and that there is no other way in."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core import events as ev
from hermes_agent.core.effects import ApprovalRequirement, Effect, Gate, Permit, Resolve, Verdict
from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.messages import Reply, ToolCall
from hermes_agent.core.settings.root import Settings
from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.core.tools import Tool, ToolContext
from hermes_agent.host.unavailable import UnavailableTerminal
from hermes_agent.models.scripted import ScriptedModel
from hermes_agent.policy.files.loader import Policies
from hermes_agent.policy.network.egress import guarded_client
from hermes_agent.policy.redaction.redactor import Redactor
from hermes_agent.runtime.tools.builtin import load_tools
from hermes_agent.terminals.local.terminal import LocalTerminal
from tests.support.gates import Says
from tests.support.turns import Bench, bench

ASK = Verdict("ask", "it costs money", "test/pay", grants=("test/pay|pay",), proposal="- id: x")


class Purse:
    def __init__(self) -> None:
        self.paid: list[int] = []

    def tool(self) -> Tool:
        def pay(amount: int) -> str:
            self.paid.append(amount)
            return f"paid {amount}"

        return Tool("pay", pay, "Pay.")


def paying(*amounts: int) -> ScriptedModel:
    replies = [
        Reply("", (ToolCall.of(str(n), "pay", amount=amount),), stop="calls")
        for n, amount in enumerate(amounts)
    ]
    return ScriptedModel(*replies, Reply("ok"))


async def answered(b: Bench, *answers: tuple[str, str], adopt: Any = None) -> list[Any]:
    """Run a turn and give these answers, by whom, to the first question that is put."""
    await b.receive("go", interactive=True)
    worker = await b.worker()
    running = asyncio.create_task(worker.run())
    while not worker.conversation.questions:
        await asyncio.sleep(0.005)
    (question,) = worker.conversation.questions
    told = []
    for answer, by in answers:
        try:
            told.append(await worker.human_input.answer(question, answer, by, adopt))
        except (UsageError, NotFound) as error:
            told.append(error)
    await running
    return told


@pytest.mark.parametrize("action", ["deny", "ask"])
async def test_no_tool_runs_when_the_gate_does_not_allow_it(tmp_path: Path, action: str) -> None:
    """Every built-in tool, called by a turn whose user cannot be asked."""
    inputs = {
        "terminal": {"command": "touch made"},
        "process": {"action": "list"},
        "read_file": {"path": "seen"},
        "write_file": {"path": "made", "content": "x"},
        "patch": {"path": "seen", "old": "a", "new": "b"},
        "search_files": {"pattern": "a"},
        "ask_user": {"question": "well?"},
        "read_on": {"result": "seen"},
        "todo": {"items": [{"text": "look"}]},
        "web_search": {"query": "a"},
        "web_fetch": {"url": "https://example.com"},
        "browser": {"action": "open", "url": "https://example.com"},
        "browser_act": {"page": "example.com", "action": "click", "ref": "1"},
        "execute_code": {"code": "open('made', 'w')"},
        "delegate": {"tasks": [{"task": "touch made"}]},
        "find_tools": {"query": "a"},
        "use_tool": {"name": "write_file", "arguments": {"path": "made", "content": "x"}},
        "make_tool": {"name": "made", "code": "def made(): ..."},
        "memory": {"action": "add", "text": "made"},
        "skill": {"name": "made"},
        "write_skill": {"name": "made", "files": {"SKILL.md": "made"}, "why": "made"},
        "recall": {"query": "made"},
        "incident": {"action": "verify"},
        "task": {"action": "add", "when": "30m", "prompt": "made"},
        "send_message": {"text": "made", "target": "all"},
        "what_changed": {"around": "now"},
        "prometheus": {"action": "alerts"},
        "kubernetes": {"action": "overview"},
        "containers": {"action": "list"},
        "git_host": {"action": "recent"},
        "open_pull_request": {"title": "made", "head": "fix"},
        "argocd": {"action": "applications"},
        "postgresql": {"action": "overview"},
        "mysql": {"action": "overview"},
        "redis": {"action": "overview"},
        "probe": {"target": "https://example.com"},
        "remind": {"when": "30m", "text": "made"},
        "make_image": {"prompt": "made", "path": "made"},
        "speak": {"text": "made", "path": "made"},
        "transcribe": {"path": "seen"},
        "read_feed": {"url": "https://example.com/feed"},
        "calendar": {"url": "https://example.com/team.ics"},
        "alertmanager": {"action": "alerts"},
        "silence_alerts": {"action": "create", "matchers": ["a=b"], "comment": "made"},
        "journal": {"action": "lines"},
        "log_files": {"action": "lines", "path": "seen"},
        "loki": {"action": "labels"},
        "opensearch": {"action": "fields"},
    }
    # What must come before is another question.
    tools = [replace(tool, function=tool._bare, after=()) for tool in load_tools()]
    assert {tool.name for tool in tools} == set(inputs)
    replies = [
        Reply("", (ToolCall.of(tool.name, tool.name, **inputs[tool.name]),), stop="calls")
        for tool in tools
    ]
    async with bench(tmp_path, ScriptedModel(*replies, Reply("ok")), tools=tools) as b:
        (tmp_path / "work" / "seen").write_text("a")
        b.gate = Says(Verdict(action, "not today", "test/no"))  # type: ignore[arg-type]
        assert (await b.say("go")).text == "ok"
        finished = await b.events(ev.CallFinished)
        intended = await b.events(ev.CallIntended)
    assert len(b.gate.seen) == len(tools)
    assert intended == []
    assert [event.ok for event in finished] == [False] * len(tools)
    assert all("not today" in event.text for event in finished)
    assert (tmp_path / "work" / "seen").read_text() == "a"
    assert not (tmp_path / "work" / "made").exists()


async def test_a_tool_cannot_be_run_without_a_permit_for_this_very_call() -> None:
    reservations = Purse()
    tool = reservations.tool()
    context = ToolContext("e", "s", None, None, print)  # type: ignore[arg-type]
    assert not hasattr(tool, "function")
    for permit in (
        Permit("e", "other", {"amount": 1}),
        Permit("e", "pay", {"amount": 2}),
    ):
        with pytest.raises(PermissionError):
            await tool.run(permit, context, {"amount": 1})
    permit = Permit("e", "pay", {"amount": 1})
    await tool.run(permit, context, {"amount": 1})
    with pytest.raises(PermissionError):
        await tool.run(permit, context, {"amount": 1})
    assert reservations.paid == [1]


async def test_two_different_people_must_agree_where_a_rule_says_so(tmp_path: Path) -> None:
    reservations = Purse()
    async with bench(tmp_path, paying(7), tools=[reservations.tool()]) as b:
        b.gate = Says(
            Verdict("ask", "dear", "r", ApprovalRequirement(("ann", "b*"), 2), grants=("k",))
        )
        told = await answered(
            b, ("yes", "eve"), ("yes", "ann"), ("yes", "ann"), ("session", "bob"), ("yes", "bob")
        )
        last = (await b.events(ev.QuestionAnswered))[-1]
    assert [type(one).__name__ for one in told] == [
        "UsageError", "NoneType", "UsageError", "UsageError", "NoneType",
    ]  # fmt: skip
    assert (last.answer, last.by) == ("yes", "ann, bob")
    assert reservations.paid == [7]


async def test_people_who_agree_at_the_same_moment_are_both_counted(tmp_path: Path) -> None:
    reservations = Purse()
    async with bench(tmp_path, paying(7), tools=[reservations.tool()]) as b:
        b.gate = Says(Verdict("ask", "dear", "r", ApprovalRequirement(count=2)))
        await b.receive("go", interactive=True)
        worker = await b.worker()
        running = asyncio.create_task(worker.run())
        while not worker.conversation.questions:
            await asyncio.sleep(0.005)
        (id,) = worker.conversation.questions
        await asyncio.gather(*(worker.human_input.answer(id, "yes", by) for by in ("ann", "bob")))
        await running
    assert reservations.paid == [7]


async def test_one_no_refuses_though_somebody_has_agreed(tmp_path: Path) -> None:
    reservations = Purse()
    async with bench(tmp_path, paying(7), tools=[reservations.tool()]) as b:
        b.gate = Says(Verdict("ask", "dear", "r", ApprovalRequirement(count=2)))
        await answered(b, ("yes", "ann"), ("no", "bob"))
    assert reservations.paid == []


async def test_an_agreement_survives_the_death_of_the_runtime(tmp_path: Path) -> None:
    reservations = Purse()
    async with bench(tmp_path, paying(7), tools=[reservations.tool()]) as b:
        b.gate = Says(Verdict("ask", "dear", "r", ApprovalRequirement(count=2)))
        await b.receive("go", interactive=True)
        worker = await b.worker()
        running = asyncio.create_task(worker.run())
        while not worker.conversation.questions:
            await asyncio.sleep(0.005)
        (id,) = worker.conversation.questions
        await worker.human_input.answer(id, "yes", "ann")
        running.cancel()
        await asyncio.wait({running})
        (turn,) = await b.store.claim_unfinished()
        again = await b.worker(turn)
        running = asyncio.create_task(again.run())
        with pytest.raises(UsageError):
            await again.human_input.answer(id, "yes", "ann")
        await again.human_input.answer(id, "yes", "bob")
        await running
    assert reservations.paid == [7]


async def test_whom_a_rule_names_is_asked_though_the_sender_is_not_there(tmp_path: Path) -> None:
    reservations = Purse()
    async with bench(tmp_path, paying(7), tools=[reservations.tool()]) as b:
        b.gate = Says(Verdict("ask", "dear", "r", ApprovalRequirement(("ann",), seconds=60.0)))
        await b.receive("go", interactive=False)
        worker = await b.worker()
        running = asyncio.create_task(worker.run())
        while not worker.conversation.questions:
            await asyncio.sleep(0.005)
        (question,) = worker.conversation.questions.values()
        await worker.human_input.answer(question.id, "yes", "ann")
        await running
    assert reservations.paid == [7]


async def test_a_question_expires_closed_after_the_time_that_the_rule_gives(
    tmp_path: Path,
) -> None:
    reservations = Purse()
    async with bench(tmp_path, paying(7), tools=[reservations.tool()]) as b:
        b.gate = Says(Verdict("ask", "dear", "r", ApprovalRequirement(seconds=0.05)))
        await b.say("go", interactive=True)
        (finished,) = await b.events(ev.CallFinished)
    assert "nobody answered in time" in finished.text
    assert reservations.paid == []


async def test_yes_for_the_session_is_handed_to_the_gate_from_then_on(tmp_path: Path) -> None:
    reservations = Purse()

    def once(effect: Effect) -> Verdict:
        return Verdict("allow", "granted") if b.gate.granted[-1] else ASK

    async with bench(tmp_path, paying(1, 2), tools=[reservations.tool()]) as b:
        b.gate = Says(once)
        await answered(b, ("session", "ann"))
        first = list(b.gate.granted)
        b.model = ScriptedModel(
            *[Reply("ok")] * 3,
            Reply("", (ToolCall.of("9", "pay", amount=3),), stop="calls"),
            Reply("ok"),
        )
        await b.say("and once more")
    assert first[0] == frozenset()
    assert set(first[1:]) == {frozenset({"test/pay|pay"})}
    assert b.gate.granted[-1] == frozenset({"test/pay|pay"})
    assert reservations.paid == [1, 2, 3]


async def test_always_adopts_the_proposed_rule_before_the_call_runs(tmp_path: Path) -> None:
    reservations = Purse()
    adopted: list[tuple[str, str, list[int]]] = []
    async with bench(tmp_path, paying(7), tools=[reservations.tool()]) as b:
        b.gate = Says(ASK)
        await answered(
            b,
            ("always", "ann"),
            adopt=lambda rule, by: adopted.append((rule, by, list(reservations.paid))),
        )
    assert adopted == [("- id: x", "ann", [])]
    assert reservations.paid == [7]


async def test_a_rule_that_cannot_be_adopted_leaves_the_question_open(tmp_path: Path) -> None:
    reservations = Purse()

    def refuse(_rule: str, _by: str) -> None:
        raise UsageError("the disk is full")

    async with bench(tmp_path, paying(7), tools=[reservations.tool()]) as b:
        b.gate = Says(ASK)
        told = await answered(b, ("always", "ann"), ("yes", "ann"), adopt=refuse)
    assert [type(one).__name__ for one in told] == ["UsageError", "NoneType"]
    assert reservations.paid == [7]


async def test_a_rewritten_call_runs_as_rewritten_and_the_model_is_told(tmp_path: Path) -> None:
    reservations = Purse()
    async with bench(tmp_path, paying(7), tools=[reservations.tool()]) as b:
        b.gate = Says(Verdict("allow", "less", "r", input={"amount": 3}))
        await b.say("go")
        (finished,) = await b.events(ev.CallFinished)
    assert reservations.paid == [3]
    assert finished.text == '[a rule changed this call to {"amount":3}]\npaid 3'


async def test_only_the_granted_secret_reaches_the_tool_and_only_this_call(
    tmp_path: Path,
) -> None:
    seen: list[dict[str, str]] = []

    def act(context: ToolContext, n: int) -> str:
        seen.append(dict(context.secrets))
        return f"used {dict(context.secrets)}"

    values = {"A_TOKEN": "aaaaaaaaaaaa-1", "B_TOKEN": "bbbbbbbbbbbb-2"}
    replies = [Reply("", (ToolCall.of(str(n), "act", n=n),), stop="calls") for n in (1, 2)]
    model = ScriptedModel(*replies, Reply("ok"))
    async with bench(tmp_path, model, tools=[Tool("act", act, "Act.")]) as b:
        b.secret = values.__getitem__
        b.redact = Redactor(values)
        b.gate = Says(
            lambda effect: Verdict(
                "allow", "ok", secrets=("A_TOKEN",) if effect.input["n"] == 1 else ()
            )
        )
        await b.say("go")
        whole = str(await b.store.events(b.session.id))
    assert seen == [{"A_TOKEN": values["A_TOKEN"]}, {}]
    assert values["A_TOKEN"] not in whole


async def test_a_granted_secret_that_is_not_there_is_said_and_nothing_runs(
    tmp_path: Path,
) -> None:
    reservations = Purse()
    async with bench(tmp_path, paying(7), tools=[reservations.tool()]) as b:
        b.gate = Says(Verdict("allow", "ok", secrets=("A_TOKEN",)))
        await b.say("go")
        (finished,) = await b.events(ev.CallFinished)
    assert "A_TOKEN" in finished.text
    assert reservations.paid == []


async def test_a_call_that_carries_a_known_secret_is_refused_and_not_kept(
    tmp_path: Path,
) -> None:
    heard: list[str] = []

    def send(text: str) -> str:
        heard.append(text)
        return "sent"

    secret = "hunter2-very-secret-value"
    model = ScriptedModel(
        Reply("", (ToolCall.of("1", "send", text=f"psst {secret}"),), stop="calls"), Reply("ok")
    )
    async with bench(tmp_path, model, tools=[Tool("send", send, "Send.")]) as b:
        b.redact = Redactor({"DB_PASSWORD": secret})
        await b.say("go")
        (finished,) = await b.events(ev.CallFinished)
        whole = str(await b.store.events(b.session.id))
    assert "contains a secret" in finished.text
    assert heard == []
    assert secret not in whole


async def test_the_gate_is_told_which_terminal_and_where_its_shell_stands(
    tmp_path: Path,
) -> None:
    (tmp_path / "far" / "sub").mkdir(parents=True)
    cd = ToolCall.of("1", "terminal", command="cd sub", at="far")
    look = ToolCall.of("2", "terminal", command="pwd", at="far")
    wrong = ToolCall.of("3", "terminal", command="pwd", at="moon")
    model = ScriptedModel(*(Reply("", (c,), stop="calls") for c in (cd, look, wrong)), Reply("ok"))
    async with bench(tmp_path, model) as b:
        far = LocalTerminal(str(tmp_path / "far"), tmp_path / "farspool", b.settings.terminal)
        b.more = {"far": far}
        b.gate = Says(Verdict("allow", "ok"))
        await b.say("go")
        finished = await b.events(ev.CallFinished)
        await far.destroy()
    first, second = b.gate.seen
    assert (first.terminal, first.terminal_kind, first.command) == ("far", "ssh", "cd sub")
    assert first.workspace == first.folder == str(tmp_path / "far")
    assert second.folder == str(tmp_path / "far" / "sub")
    assert finished[1].text.strip() == str(tmp_path / "far" / "sub")
    assert "no terminal called 'moon'" in finished[2].text


async def test_a_tool_reaches_a_private_address_only_where_a_rule_allows_it(
    tmp_path: Path,
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi")
        await writer.drain()
        writer.close()

    async def fetch(context: ToolContext, url: str) -> str:
        assert context.http is not None
        async with context.http() as client:
            return str((await client.get(url)).text)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    reply = Reply("", (ToolCall.of("1", "fetch", url=url),), stop="calls")
    tool = Tool("fetch", fetch, "Fetch.")
    async with server:
        for reach, expected in (("deny", "127.0.0.1"), ("ask", "127.0.0.1"), ("allow", "hi")):
            folder = tmp_path / reach
            folder.mkdir()
            async with bench(folder, ScriptedModel(reply, Reply("ok")), tools=[tool]) as b:
                b.http = guarded_client
                b.gate = Says(
                    lambda effect, reach=reach: Verdict(reach if effect.hosts else "allow", "")
                )
                await b.say("go")
                (finished,) = await b.events(ev.CallFinished)
            assert finished.ok is (reach == "allow")
            assert expected in finished.text


@pytest.mark.parametrize(
    ("rule", "otherwise", "reached"),
    [
        ("host: evil.test", "ask", ["good.test", "other.test"]),
        ("host: 203.0.113.0/24", "ask", ["good.test", "other.test"]),
        (
            "host: [evil.test, other.test], tool: other",
            "ask",
            ["good.test", "evil.test", "other.test"],
        ),
        ("host: evil.test", "deny", ["good.test", "other.test"]),
        ("host: evil.test, input: {url: 'https://good*'}", "deny", ["good.test", "other.test"]),
        ("host: evil.test, place: local", "ask", ["good.test", "other.test"]),
    ],
)
async def test_a_public_host_is_out_of_reach_only_where_a_rule_denies_it(
    tmp_path: Path, rule: str, otherwise: str, reached: list[str]
) -> None:
    """Wherever a page leads to, and whatever holds where no rule does."""
    addresses = {"good.test": "8.8.8.8", "evil.test": "203.0.113.9", "other.test": "9.9.9.9"}

    async def fetch(context: ToolContext, url: str) -> str:
        reach = context.reach
        assert reach is not None
        return " ".join(host for host, at in addresses.items() if reach(host, at, True))

    call = ToolCall.of("1", "fetch", url="https://good.test/")
    tool = Tool("fetch", fetch, "Fetch.", hosts=("url",))
    model = ScriptedModel(Reply("", (call,), stop="calls"), Reply("ok"))
    async with bench(tmp_path, model, tools=[tool]) as b:
        policies = tmp_path / "home" / "policies"
        policies.mkdir()
        (policies / "mine.yaml").write_text(
            f"version: 1\nname: mine\nprofile: mine\notherwise: {otherwise}\nrules:\n"
            f"  - {{id: no, match: {{{rule}}}, then: deny}}\n"
            "  - {id: yes, match: {host: good.test}, then: allow}\n"
        )
        b.gate = Policies.of_home(tmp_path / "home", Path.home()).gate("mine")
        await b.say("go")
        (finished,) = await b.events(ev.CallFinished)
    assert finished.text.split() == reached


async def test_only_the_socket_of_a_source_of_the_tools_kind_is_in_reach(tmp_path: Path) -> None:
    """Not another socket, not a host that its path looks like, and not for another tool."""

    async def engine(context: ToolContext) -> str:
        reach = context.reach
        assert reach is not None
        hosts = ("unix:///run/engine.sock", "unix:///run/other.sock", "run", "engine.sock")
        return " ".join(host for host in hosts if reach(host, host, False))

    tools = [
        Tool("engine", engine, "Look.", origin="builtin", sources=("containers",)),
        Tool("other", engine, "Look.", origin="builtin"),
    ]
    calls = tuple(ToolCall.of(tool.name, tool.name) for tool in tools)
    model = ScriptedModel(Reply("", calls, stop="calls"), Reply("ok"))
    source = SourceSettings(kind="containers", url="unix:///run/engine.sock")
    async with bench(tmp_path, model, tools=tools, settings=Settings(sources={"e": source})) as b:
        policies = tmp_path / "home" / "policies"
        policies.mkdir()
        (policies / "mine.yaml").write_text(
            "version: 1\nname: mine\nprofile: mine\notherwise: ask\n"
            "rules: [{id: calls, match: {kind: call}, then: allow}]\n"
        )
        b.gate = Policies.of_home(tmp_path / "home", Path.home()).gate("mine")
        await b.say("go")
        finished = {event.call_id: event.text for event in await b.events(ev.CallFinished)}
    assert finished == {"engine": "unix:///run/engine.sock", "other": ""}


async def test_a_public_host_is_judged_once_in_a_call(tmp_path: Path) -> None:
    async def fetch(context: ToolContext) -> str:
        reach = context.reach
        assert reach is not None
        return str([reach("a.test", "8.8.8.8", True) for _ in range(5)])

    tool = Tool("fetch", fetch, "Fetch.")
    model = ScriptedModel(Reply("", (ToolCall.of("1", "fetch"),), stop="calls"), Reply("ok"))
    async with bench(tmp_path, model, tools=[tool]) as b:
        b.gate = Says(Verdict("allow", "ok"))
        await b.say("go")
    assert [effect.hosts for effect in b.gate.seen] == [(), ("a.test",), ("8.8.8.8",)]


async def test_a_path_that_was_left_out_is_not_judged_and_an_empty_one_is(tmp_path: Path) -> None:
    def look(path: str = "") -> str:
        return path or "nothing"

    def search(path: str = ".") -> str:
        return path or "all"

    tools = [Tool(one.__name__, one, "Look.", paths={"path": "read"}) for one in (look, search)]
    calls = [
        ToolCall.of("1", "look"),
        ToolCall.of("2", "look", path="x"),
        ToolCall.of("3", "search"),
        ToolCall.of("4", "search", path=""),
    ]
    model = ScriptedModel(*(Reply("", (c,), stop="calls") for c in calls), Reply("ok"))
    async with bench(tmp_path, model, tools=tools) as b:
        b.gate = Says(Verdict("allow", "ok"))
        await b.say("go")
    judged = [[path for _, path in effect.paths] for effect in b.gate.seen]
    assert judged == [[], ["x"], ["."], [""]]


async def test_what_the_rules_deny_by_the_time_somebody_agrees_is_denied(tmp_path: Path) -> None:
    reservations = Purse()
    verdicts = [ASK, Verdict("deny", "not any more", "test/late")]
    async with bench(tmp_path, paying(7), tools=[reservations.tool()]) as b:
        b.gate = Says(lambda _effect: verdicts.pop(0))
        await answered(b, ("yes", "ann"))
        (finished,) = await b.events(ev.CallFinished)
        judged = await b.events(ev.CallJudged)
    assert finished.data["error"] == "refused by policy: not any more"
    assert [one.action for one in judged] == ["ask", "deny"]
    assert reservations.paid == []


async def test_a_tool_that_uses_no_terminal_is_judged_where_it_runs(tmp_path: Path) -> None:
    def look(path: str) -> str:
        return Path(path).read_text()

    tool = Tool("look", look, "Look.", paths={"path": "read"})
    reply = Reply("", (ToolCall.of("1", "look", path="x"),), stop="calls")
    async with bench(tmp_path, ScriptedModel(reply, Reply("ok")), tools=[tool]) as b:
        b.terminal, here = UnavailableTerminal("/far", NotFound("out of reach")), b.terminal
        b.gate = Says(Verdict("deny", "no"))
        await b.say("go")
        await here.destroy()
    (effect,) = b.gate.seen
    assert (effect.terminal, effect.workspace) == ("local", str(tmp_path / "work"))


async def test_a_host_is_judged_from_where_the_call_itself_was(tmp_path: Path) -> None:
    async def fetch(context: ToolContext) -> str:
        assert context.reach is not None
        return str(context.reach("a.test", "8.8.8.8", True))

    tool = Tool("fetch", fetch, "Fetch.", ("network",))
    model = ScriptedModel(Reply("", (ToolCall.of("1", "fetch"),), stop="calls"), Reply("ok"))
    async with bench(tmp_path, model, tools=[tool]) as b:
        b.terminal, here = UnavailableTerminal("/far", NotFound("out of reach")), b.terminal
        b.gate = Says(Verdict("allow", "ok"))
        await b.say("go")
        await here.destroy()
    places = {(one.terminal, one.workspace, one.capabilities) for one in b.gate.seen}
    assert places == {("local", str(tmp_path / "work"), ("network",))}


CALLS = {
    "write_file": {"content": "lost"},
    "patch": {"old": "kept", "new": "lost"},
    "read_file": {},
    "search_files": {"pattern": "kept"},
}


class SwapsAfterwards:
    """Judges by the real rules, then moves what was judged away and puts a link there."""

    def __init__(self, gate: Gate, place: Path, link: Path) -> None:
        self._gate = gate
        self._place = place
        self._link = link

    def outside(self) -> frozenset[str]:
        return self._gate.outside()

    async def judge(
        self, effect: Effect, resolve: Resolve, granted: frozenset[str] = frozenset()
    ) -> Verdict:
        verdict = await self._gate.judge(effect, resolve, granted)
        self._place.rename(self._place.with_name("moved"))
        self._place.symlink_to(self._link)
        return verdict


@pytest.mark.parametrize("swapped", ["sub", "sub/file"])
@pytest.mark.parametrize("tool", CALLS)
async def test_a_link_that_comes_after_the_judgement_leads_nowhere(
    tmp_path: Path, tool: str, swapped: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    call = ToolCall.of("1", tool, path="sub/file", **CALLS[tool])
    model = ScriptedModel(Reply("", (call,), stop="calls"), Reply("ok"))
    async with bench(tmp_path, model) as b:
        sub = tmp_path / "work" / "sub"
        sub.mkdir()
        (sub / "file").write_text("kept")
        place = tmp_path / "work" / swapped
        link = outside if swapped == "sub" else outside / "file"
        b.gate = SwapsAfterwards(b.gate, place, link)
        assert (await b.say("go")).text == "ok"
        (finished,) = await b.events(ev.CallFinished)
    assert not finished.ok
    assert "led elsewhere when this call was judged" in finished.text
    assert (outside / "file").read_text() == "kept"


async def test_whatever_a_tool_raises_before_it_runs_is_its_result(tmp_path: Path) -> None:
    async def fails(context: ToolContext, path: str) -> dict[str, Any]:
        raise RuntimeError(f"odd: {path}")

    def look(path: str) -> str:
        return path

    odd = os.fsdecode(b"\xff")
    tools = [Tool("look", look, "Look.", prepare=fails), *load_tools(("files",))]
    calls = (
        ToolCall.of("1", "look", path="x"),
        ToolCall.of("2", "write_file", path="link/x", content="x"),
        ToolCall.of("3", "read_file", path="loop/" * 2000),
    )
    model = ScriptedModel(Reply("", calls, stop="calls"), Reply("ok"))
    async with bench(tmp_path, model, tools=tools) as b:
        (tmp_path / odd).mkdir()
        (tmp_path / "work" / "link").symlink_to(tmp_path / odd)
        assert (await b.say("go")).text == "ok"
        finished = await b.events(ev.CallFinished)
    assert [one.ok for one in finished] == [False] * 3
    assert "RuntimeError: odd: x" in finished[0].text
    assert not any((tmp_path / odd).iterdir())
