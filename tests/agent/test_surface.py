"""What every tool has: one shape of failure, advice, prerequisites, results in two halves."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hermes_agent.cli.decide.policy import effect_of
from hermes_agent.core import events as ev
from hermes_agent.core.errors import HermesError, Retry, ToolError
from hermes_agent.core.messages import (
    Message,
    ModelFacts,
    Reply,
    Request,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_agent.core.settings.root import LoopSettings, Settings
from hermes_agent.core.tool_results import ADVICE, ToolResult
from hermes_agent.core.tools import Tool, ToolContext, ToolListing, ToolServices
from hermes_agent.models.scripted import ScriptedModel
from hermes_agent.policy.files.loader import Policies
from hermes_agent.policy.path_resolvers import on_disk
from hermes_agent.runtime.tools.builtin import load_tools
from tests.agent.test_compaction import Always, is_step
from tests.support.turns import Bench, bench

BASE = load_tools(["base"])


def calls(*steps: tuple[str, dict[str, Any]]) -> list[Reply]:
    """A reply for each call, and a last one that only speaks."""
    made = [
        Reply("", (ToolCall.of(f"c{at}", name, **given),), stop="calls")
        for at, (name, given) in enumerate(steps)
    ]
    return [*made, Reply("done")]


def failing(ran: list[str], retry: Retry, name: str = "act") -> Tool:
    async def act(line: str) -> str:
        ran.append(line)
        raise ToolError("it is in the way", "move it", retry)

    return Tool(name, act, "Act")


def working(ran: list[str], name: str = "act", **options: Any) -> Tool:
    async def act(line: str) -> ToolResult:
        ran.append(line)
        return ToolResult(f"did {line}", {"line": line})

    return Tool(name, act, "Act", **options)


async def finished(b: Bench) -> list[ev.CallFinished]:
    return [one for one in await b.events(ev.CallFinished) if isinstance(one, ev.CallFinished)]


# failures


@pytest.mark.parametrize("retry", list(ADVICE))
async def test_a_failure_says_what_is_wrong_a_way_out_and_whether_to_try_again(
    tmp_path: Path, retry: Retry
) -> None:
    model = ScriptedModel(*calls(("act", {"line": "x"})))
    async with bench(tmp_path, model, tools=[failing([], retry)]) as b:
        await b.say("go")
        (done,) = await finished(b)
    advice = [f"retry: {ADVICE[retry]}"] if retry else []
    assert done.text.splitlines() == ["it is in the way", "hint: move it", *advice]
    assert done.data == {"error": "it is in the way", "hint": "move it", "retry": retry}
    assert not done.ok


@pytest.mark.parametrize(
    ("call", "said", "retry"),
    [
        (("act", {"lime": "x"}), "bad arguments for act", "changed"),
        (("process", {"action": "stp"}), "; action takes ", "changed"),
        (("atc", {"line": "x"}), "no tool called 'atc'", "changed"),
        (("terminal", {"command": "rm -rf /"}), "refused by policy", "changed"),
        (("broken", {}), "broken failed: KeyError", ""),
    ],
)
async def test_whatever_goes_wrong_has_the_same_shape(
    tmp_path: Path, call: tuple[str, dict[str, Any]], said: str, retry: str
) -> None:
    async def broken() -> str:
        raise KeyError("x")

    tools = [working([]), Tool("broken", broken, "Break"), *load_tools(["terminal", "process"])]
    async with bench(tmp_path, ScriptedModel(*calls(call)), tools=tools) as b:
        await b.say("go")
        (done,) = await finished(b)
    assert said in done.data["error"]
    assert (done.data["retry"], done.ok) == (retry, False)


async def test_people_get_the_data_and_the_model_the_text(tmp_path: Path) -> None:
    model = ScriptedModel(*calls(("act", {"line": "x"})))
    async with bench(tmp_path, model, tools=[working([])]) as b:
        worker = await b.worker_for("go")
        await worker.run()
        (done,) = await finished(b)
    (told,) = [one for one in worker.conversation.messages if isinstance(one, ToolMessage)]
    assert told.text == "did x"
    assert done.data == {"line": "x"}


# the same call in vain


async def test_the_same_call_in_vain_is_made_three_times_and_after_six_the_turn_ends(
    tmp_path: Path,
) -> None:
    ran: list[str] = []
    model = ScriptedModel(*calls(*[("act", {"line": "x"})] * 9))
    async with bench(tmp_path, model, tools=[failing(ran, "changed")]) as b:
        end = await b.say("go")
        done = await finished(b)
    assert ran == ["x"] * 3
    assert [one.data["retry"] for one in done] == ["changed"] * 3 + ["never"] * 3
    assert "failed 3 times in this turn; it was not made again" in done[3].text
    assert (end.reason, end.steps) == ("failed", 6)
    assert "the same call to act 6 times without success" in end.error
    assert end.hint


async def test_a_refused_call_is_in_vain_too(tmp_path: Path) -> None:
    model = ScriptedModel(*calls(*[("terminal", {"command": "rm -rf /"})] * 9))
    async with bench(tmp_path, model, tools=load_tools(["terminal"])) as b:
        end = await b.say("go")
        judged = await b.events(ev.CallJudged)
    assert (end.reason, end.steps, len(judged)) == ("failed", 6, 3)


async def test_a_command_that_fails_is_not_made_a_fourth_time_in_a_row(tmp_path: Path) -> None:
    """In a row: after another call, it may come out differently."""
    lines = ["false"] * 3 + ["true"] + ["false"] * 4
    model = ScriptedModel(*calls(*[("terminal", {"command": line}) for line in lines]))
    async with bench(tmp_path, model, tools=load_tools(["terminal"])) as b:
        end = await b.say("go")
        done = await finished(b)
    assert [one.data.get("retry", "") for one in done] == [""] * 7 + ["never"]
    assert "this exact call has failed 3 times" in done[-1].text
    assert end.reason == "done"


async def test_a_command_that_fails_six_times_in_a_row_ends_the_turn(tmp_path: Path) -> None:
    model = ScriptedModel(*calls(*[("terminal", {"command": "false"})] * 9))
    async with bench(tmp_path, model, tools=load_tools(["terminal"])) as b:
        end = await b.say("go")
    assert (end.reason, end.steps) == ("failed", 6)


async def test_trouble_that_may_pass_can_be_tried_as_often_as_it_takes(tmp_path: Path) -> None:
    ran: list[str] = []
    model = ScriptedModel(*calls(*[("act", {"line": "x"})] * 8))
    async with bench(tmp_path, model, tools=[failing(ran, "same")]) as b:
        end = await b.say("go")
    assert (end.reason, len(ran)) == ("done", 8)


async def test_other_arguments_and_a_new_turn_begin_anew(tmp_path: Path) -> None:
    ran: list[str] = []
    wrong = [("act", {"line": line}) for line in "xyxyxyy"]
    model = ScriptedModel(*calls(*wrong), *calls(("act", {"line": "y"})))
    async with bench(tmp_path, model, tools=[failing(ran, "changed")]) as b:
        first = await b.say("go")
        second = await b.say("once more")
    assert (first.reason, second.reason) == ("done", "done")
    assert ran == ["x", "y", "x", "y", "x", "y", "y"]


# prerequisites


async def test_a_tool_that_needs_another_first_says_so_until_that_has_worked(
    tmp_path: Path,
) -> None:
    ran: list[str] = []
    tries: list[str] = []

    async def look() -> str:
        tries.append("look")
        if len(tries) == 1:
            raise ToolError("too dark")
        return "seen"

    tools = [Tool("look", look, "Look"), working(ran, after=["look"])]
    steps = [("act", {"line": "a"}), ("look", {}), ("act", {"line": "b"})]
    model = ScriptedModel(*calls(*steps, ("look", {}), ("act", {"line": "c"})))
    async with bench(tmp_path, model, tools=tools) as b:
        await b.say("go")
        done = [one for one in await finished(b) if one.tool == "act"]
        judged = [one.tool for one in await b.events(ev.CallJudged)]
    assert ran == ["c"]
    assert [one.ok for one in done] == [False, False, True]
    assert done[0].data["error"] == "act needs look first"
    assert judged == ["look", "look", "act"]


async def test_what_has_worked_counts_in_later_turns_and_after_a_restart(tmp_path: Path) -> None:
    ran: list[str] = []
    tools = [working(ran, "look"), working(ran, after=["look"])]
    model = ScriptedModel(*calls(("look", {"line": "a"})), *calls(("act", {"line": "b"})))
    async with bench(tmp_path, model, tools=tools) as b:
        await b.say("look")
        await b.say("act")  # by another worker, which reads the journal
    assert ran == ["a", "b"]


# twins


async def test_the_same_look_twice_in_a_step_is_taken_once(tmp_path: Path) -> None:
    ran: list[str] = []
    seen: list[Message] = []

    def last(request: Request) -> Reply:
        seen.extend(request.messages)
        return Reply("done")

    reply = Reply("", tuple(ToolCall.of(id, "act", line="x") for id in "abc"), stop="calls")
    async with bench(
        tmp_path, ScriptedModel(reply, last), tools=[working(ran, repeatable=True)]
    ) as b:
        await b.say("go")
        done = await finished(b)
    assert ran == ["x"]
    # Twins may end in any order; the model gets them in that of its calls.
    assert sorted((one.call_id, one.text, one.data["line"]) for one in done) == [
        (id, "did x", "x") for id in "abc"
    ]
    results = [one for one in seen if isinstance(one, ToolMessage)]
    assert [(one.call_id, one.text) for one in results] == [(id, "did x") for id in "abc"]


async def test_what_changes_something_is_done_as_often_as_it_is_asked_for(tmp_path: Path) -> None:
    ran: list[str] = []
    reply = Reply("", tuple(ToolCall.of(id, "act", line="x") for id in "ab"), stop="calls")
    async with bench(tmp_path, ScriptedModel(reply, Reply("done")), tools=[working(ran)]) as b:
        await b.say("go")
    assert ran == ["x", "x"]


async def test_the_twin_of_a_large_result_can_be_read_whole(tmp_path: Path) -> None:
    reply = Reply("", tuple(ToolCall.of(id, "look") for id in "ab"), stop="calls")
    tools = [Tool("look", lambda: "x" * 50_000, "Look", repeatable=True)]
    async with bench(tmp_path, ScriptedModel(reply, Reply("done")), tools=tools) as b:
        await b.say("go")
        kept = [(tmp_path / "results" / f"{one.effect}.txt") for one in await finished(b)]
    assert [path.read_text() for path in kept] == ["x" * 50_000] * 2


async def test_a_look_that_failed_is_not_the_answer_to_its_twin(tmp_path: Path) -> None:
    ran: list[str] = []

    async def look() -> str:
        ran.append("look")
        if len(ran) == 1:
            raise ToolError("too dark", retry="same")
        return "seen"

    reply = Reply("", tuple(ToolCall.of(id, "look") for id in "ab"), stop="calls")
    tools = [Tool("look", look, "Look", repeatable=True)]
    async with bench(tmp_path, ScriptedModel(reply, Reply("done")), tools=tools) as b:
        await b.say("go")
        done = await finished(b)
    assert [one.ok for one in done] == [False, True]


# large results


class Reading:
    """Asks for a report, and then for the rest of it until all has been read."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def __call__(self, request: Request) -> Reply:
        told = [one.text for one in request.messages if isinstance(one, ToolMessage)]
        number = len(told)
        if not told:
            return Reply("", (ToolCall.of("c0", "report"),))
        self.pages = told[1:]
        result = told[0].partition('read_on(result="')[2].partition('"')[0]
        on = told[-1].rpartition("continue with start=")[2].partition("]")[0] if number > 1 else "1"
        if number > 1 and not on.isdigit():
            return Reply("all read")
        return Reply("", (ToolCall.of(f"c{number}", "read_on", result=result, start=int(on)),))


@pytest.mark.parametrize("limit", [500, 16_000])
@pytest.mark.parametrize(
    "whole",
    [
        "\n".join(f"line {number} of the report" for number in range(1_200)),
        "0123456789" * 1_800,
        "short\n" + "long " * 4_000 + "\nshort",
    ],
)
async def test_a_large_result_is_shown_in_part_and_can_be_read_to_its_end(
    tmp_path: Path, whole: str, limit: int
) -> None:
    async def report() -> str:
        return whole

    reading = Reading()
    settings = Settings(loop=LoopSettings(result_chars=limit, max_steps=1_000))
    model = Always(reading, facts=ModelFacts(context=10_000_000))
    tools = [Tool("report", report, "Report", repeatable=True), *BASE]
    async with bench(tmp_path, model, tools=tools, settings=settings) as b:
        end = await b.say("read it all")
        done = await finished(b)
    assert end.text == "all read"
    assert "characters left out" in done[0].text
    assert done[0].text.startswith(whole[:100])
    assert all(len(page) <= limit for page in reading.pages)
    read = "".join(line for page in reading.pages for line in page.splitlines()[:-1])
    assert read == whole.replace("\n", "")


@pytest.mark.parametrize("name", ["../secret", "nothing", "a/b", "..", "\0"])
async def test_only_results_of_the_session_can_be_read_on(tmp_path: Path, name: str) -> None:
    model = ScriptedModel(*calls(("read_on", {"result": name})))
    (tmp_path / "secret.txt").write_text("secret")
    async with bench(tmp_path, model, tools=BASE) as b:
        await b.say("go")
        (done,) = await finished(b)
    assert (done.ok, done.data["retry"]) == (False, "changed")
    assert "secret" not in done.text.replace(repr(name), "")


async def test_a_page_after_the_last_one_says_how_many_lines_there_are(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "one.txt").write_text("a\nb\nc")
    steps = [("read_on", {"result": "one", "start": start}) for start in (3, 4)]
    async with bench(tmp_path, ScriptedModel(*calls(*steps)), tools=BASE) as b:
        await b.say("go")
        last, after = await finished(b)
    assert last.text == "c\n[lines 3 to 3 of 3]"
    assert "it has 3 lines" in after.text


# the list


async def test_the_list_of_what_is_to_be_done_outlives_a_summary(tmp_path: Path) -> None:
    items = [{"text": "read all", "state": "doing"}, {"text": "tell the user"}]
    seen: list[Request] = []

    def answer(request: Request) -> Reply:
        if not is_step(request):
            return Reply("much was read")
        seen.append(request)
        if len(seen) == 1:
            return Reply("", (ToolCall.of("t", "todo", items=items),))
        if len(seen) > 15:
            return Reply("all read")
        return Reply("", (ToolCall.of(f"c{len(seen)}", "read", part=str(len(seen))),))

    def read(part: str) -> str:
        return f"part {part}: " + "words and numbers " * 60

    settings = Settings(loop=LoopSettings(keep_first=1, keep_last=4))
    model = Always(answer, facts=ModelFacts(context=3_000))
    tools = [Tool("read", read, "Read", repeatable=True), *load_tools(["todo"])]
    async with bench(tmp_path, model, tools=tools, settings=settings) as b:
        end = await b.say("read all parts")
        compacted = await b.events(ev.Compacted)
    assert end.text == "all read"
    assert compacted
    (summary,) = [
        one.text
        for one in seen[-1].messages
        if isinstance(one, UserMessage) and "much was read" in one.text
    ]
    assert summary.endswith("[>] read all\n[ ] tell the user")


async def test_the_list_says_how_much_is_left(tmp_path: Path) -> None:
    states = ["done", "doing", "open", "dropped"]
    items = [{"text": f"step {state}", "state": state} for state in states]
    model = ScriptedModel(*calls(("todo", {"items": items})))
    async with bench(tmp_path, model, tools=BASE) as b:
        await b.say("go")
        (done,) = await finished(b)
    assert done.text == "2 of 4 left"
    assert done.data["list"].splitlines() == [
        "[x] step done", "[>] step doing", "[ ] step open", "[-] step dropped",
    ]  # fmt: skip


# undoing


async def test_how_a_call_is_undone_is_kept_with_it(tmp_path: Path) -> None:
    async def prepare(context: ToolContext, line: str) -> dict[str, Any]:
        return {"before": f"{context.effect} was not {line}"}

    def undo(note: dict[str, Any], given: Any, result: ToolResult) -> str:
        return f"{note['before']}; {given['line']}; {result.text}"

    ran: list[str] = []
    tools = [working(ran, prepare=prepare, inverse=undo)]
    async with bench(tmp_path, ScriptedModel(*calls(("act", {"line": "x"}))), tools=tools) as b:
        await b.say("go")
        (done,) = await finished(b)
    assert done.inverse == f"{done.effect} was not x; x; did x"


async def test_a_call_that_failed_has_nothing_to_be_undone(tmp_path: Path) -> None:
    async def act(line: str) -> str:
        raise ToolError(f"no {line}")

    tools = [Tool("act", act, "Act", inverse=lambda *_: "put it back")]
    async with bench(tmp_path, ScriptedModel(*calls(("act", {"line": "x"}))), tools=tools) as b:
        await b.say("go")
        (done,) = await finished(b)
    assert (done.ok, done.inverse) == (False, "")


async def test_how_it_is_undone_holds_no_secret(tmp_path: Path) -> None:
    tools = [working([], inverse=lambda *_: "log in with hunter2hunter2")]
    async with bench(tmp_path, ScriptedModel(*calls(("act", {"line": "x"}))), tools=tools) as b:
        b.redact.learn("password", "hunter2hunter2")
        await b.say("go")
        (done,) = await finished(b)
    assert "hunter2" not in done.inverse
    assert "[redacted:" in done.inverse


# tools that are not in the prompt


class Shelf:
    """A source with tools of its own."""

    def __init__(self, *tools: Tool, trouble: str = "") -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.trouble = trouble

    def about(self) -> str:
        return f"{len(self.tools)} more tools"

    async def search(self, query: str) -> Sequence[ToolListing]:
        if self.trouble:
            raise HermesError(self.trouble)
        words = query.lower().split()
        return [
            ToolListing(tool.name, tool.description)
            for tool in self.tools.values()
            if all(word in f"{tool.name} {tool.description}".lower() for word in words)
        ]

    async def find(self, name: str) -> Tool | None:
        return self.tools.get(name)


def far(ran: list[str], name: str = "far__ping", **options: Any) -> Tool:
    async def ping(_context: ToolContext, given: dict[str, Any]) -> str:
        ran.append(f"{name} {given['host']}")
        return f"pong of {given['host']}"

    schema = {
        "type": "object",
        "properties": {"host": {"type": "string"}},
        "required": ["host"],
    }
    return Tool(name, ping, "Ping a host", schema=schema, origin="mcp", **options)


def use(name: str, /, **given: Any) -> tuple[str, dict[str, Any]]:
    return "use_tool", {"name": name, "arguments": given}


def offer(b: Bench, *sources: Shelf) -> None:
    b.services = replace(ToolServices(), providers=sources)


async def test_tools_are_found_by_words_described_by_name_and_called(tmp_path: Path) -> None:
    ran: list[str] = []
    steps = [
        ("find_tools", {"query": "PING host"}),
        ("find_tools", {"query": "nothing like it"}),
        ("find_tools", {"names": ["far__ping", "far__pong"]}),
        use("far__ping", host="a"),
    ]
    async with bench(tmp_path, ScriptedModel(*calls(*steps)), tools=BASE) as b:
        offer(b, Shelf(far(ran)), Shelf(far(ran, "far__trace")))
        await b.say("go")
        found, nothing, shown, called = await finished(b)
        judged = (await b.events(ev.CallJudged))[-1]
    assert "content from elsewhere" in found.text
    rows = [line for line in found.text.splitlines() if line.startswith("far__")]
    assert rows == ["far__ping: Ping a host", "far__trace: Ping a host"]
    assert nothing.text == "no tool matches"
    assert '"required":["host"]' in shown.text
    assert "far__pong: no such tool" in shown.text
    assert (called.tool, called.text, ran) == ("far__ping", "pong of a", ["far__ping a"])
    assert (judged.tool, judged.facts.origin) == ("far__ping", "mcp")


@pytest.mark.parametrize("written", [use("far__ping", host="a"), ("far__ping", {"host": "a"})])
async def test_a_session_without_the_tool_for_them_has_no_found_tools(
    tmp_path: Path, written: tuple[str, dict[str, Any]]
) -> None:
    ran: list[str] = []
    model = ScriptedModel(*calls(written))
    async with bench(tmp_path, model, tools=load_tools(["files"])) as b:
        offer(b, Shelf(far(ran)))
        await b.say("go")
        (done,) = await finished(b)
    assert (done.ok, ran) == (False, [])
    assert "no tool called 'far__ping'" in done.text


async def test_a_source_that_cannot_be_searched_does_not_hide_the_others(tmp_path: Path) -> None:
    model = ScriptedModel(*calls(("find_tools", {})))
    async with bench(tmp_path, model, tools=BASE) as b:
        offer(b, Shelf(trouble="the server is down"), Shelf(far([])))
        await b.say("go")
        (done,) = await finished(b)
    assert "far__ping: Ping a host" in done.text.splitlines()
    assert done.text.splitlines()[-1] == "[not searched: the server is down]"


async def test_a_search_that_finds_too_many_says_so(tmp_path: Path) -> None:
    many = Shelf(*[far([], f"far__{number}") for number in range(100)])
    model = ScriptedModel(*calls(("find_tools", {})))
    async with bench(tmp_path, model, tools=BASE) as b:
        offer(b, many)
        await b.say("go")
        (done,) = await finished(b)
    assert "[60 more; narrow the search]" in done.text.splitlines()
    assert len(done.data["found"]) == 100


async def test_wrong_uses_of_a_found_tool_are_told(tmp_path: Path) -> None:
    ran: list[str] = []
    steps = [
        use("far__pnig", host="a"),
        use("far__ping", hots="a"),
        ("use_tool", {"name": "far__ping", "arguments": "a"}),
        use("use_tool", name="far__ping"),
        ("use_tool", {"name": "far__ping", "input": {"host": "a"}}),
    ]
    async with bench(tmp_path, ScriptedModel(*calls(*steps)), tools=BASE) as b:
        offer(b, Shelf(far(ran)))
        end = await b.say("go")
        unknown, missing, no_object, itself, elsewhere = await finished(b)
    assert end.reason == "done"
    assert "no tool called 'far__pnig'" in unknown.text
    assert "find_tools searches more" in unknown.text
    assert "far__ping needs host" in missing.text
    assert "arguments as an object" in no_object.text
    assert not itself.ok
    assert "put the arguments of far__ping into `arguments`" in elsewhere.text
    assert ran == []


async def test_a_tool_that_has_gone_is_not_run(tmp_path: Path) -> None:
    ran: list[str] = []
    steps = [use("far__ping", host="a"), use("far__ping", host="b")]

    async with bench(tmp_path, ScriptedModel(*calls(*steps)), tools=BASE) as b:
        shelf = Shelf()

        async def ping(_context: ToolContext, given: dict[str, Any]) -> str:
            ran.append(given["host"])
            shelf.tools.clear()
            return "pong"

        schema = {"type": "object"}
        shelf.tools["far__ping"] = Tool("far__ping", ping, "Ping", schema=schema, origin="mcp")
        offer(b, shelf)
        await b.say("go")
        first, second = await finished(b)
    assert (first.ok, second.ok, ran) == (True, False, ["a"])


async def test_a_found_tool_is_judged_as_itself_and_can_be_judged_again(tmp_path: Path) -> None:
    """Rules see its own name and arguments, at the time and when they are tried on the past."""
    rules = (
        "version: 1\nrules:\n"
        "  - {id: far, match: {tool: far__ping, origin: mcp}, then: deny, reason: too far}\n"
    )
    ran: list[str] = []
    model = ScriptedModel(*calls(use("far__ping", host="a")))
    folder = tmp_path / "home" / "policies"
    async with bench(tmp_path, model, tools=BASE) as b:
        offer(b, Shelf(far(ran)))
        await b.say("go")
        (past,) = await b.store.judgements()
        folder.mkdir(parents=True)
        (folder / "far.yaml").write_text(rules)
        gate = Policies.of_home(tmp_path / "home", tmp_path).gate("sandbox", None)
        again = await gate.judge(effect_of(past), on_disk)
    assert past.input == '{"host":"a"}'
    assert (past.judged.action, again.action) == ("allow", "deny")
    assert again.reason.startswith("too far")
    assert ran == ["far__ping a"]
