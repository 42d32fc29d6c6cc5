"""Compaction keeps the prompt, the task and the latest messages, and never loops."""

from pathlib import Path

from hermes_agent.core import events as ev
from hermes_agent.core.errors import ModelError
from hermes_agent.core.messages import (
    ModelFacts,
    Reply,
    Request,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_agent.core.settings.root import LoopSettings, Settings
from hermes_agent.core.tools import Tool
from hermes_agent.models.scripted import ScriptedModel
from tests.support.turns import bench

SMALL = ModelFacts(context=3000)
SETTINGS = Settings(loop=LoopSettings(keep_first=1, keep_last=4))


def read(part: str) -> str:
    return f"part {part}: " + "words and numbers " * 60


READ = Tool("read", read, "Read a part", repeatable=True)


class Reader:
    """Reads parts until it has asked for enough, and can write a summary when told to."""

    def __init__(self, parts: int) -> None:
        self.requests: list[Request] = []
        self.summaries = 0
        self._parts = parts

    def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        last = request.messages[-1]
        if isinstance(last, UserMessage) and "Write a summary" in last.text:
            self.summaries += 1
            return Reply(f"summary {self.summaries}: the task is to read all parts")
        done = sum(is_step(r) for r in self.requests)
        if done > self._parts:
            return Reply("all read")
        return Reply("", (ToolCall.of(f"c{done}", "read", part=str(done)),))


def is_step(request: Request) -> bool:
    last = request.messages[-1]
    return not (isinstance(last, UserMessage) and "Write a summary" in last.text)


class Always(ScriptedModel):
    """Asks the same function for every reply."""

    def __init__(self, answer, **options) -> None:
        super().__init__(answer, **options)

    def _next(self, request: Request) -> tuple[Reply, float]:
        return self._replies[0](request), 0.0


async def test_the_middle_is_summarised_and_the_task_and_the_end_stay(tmp_path: Path) -> None:
    reader = Reader(20)
    model = Always(reader, facts=SMALL)
    async with bench(tmp_path, model, tools=[READ], settings=SETTINGS) as b:
        end = await b.say("read all parts, please")
        compactions = await b.events(ev.Compacted)
    assert (end.reason, end.text) == ("done", "all read")
    assert len(compactions) >= 2
    steps = [request for request in reader.requests if is_step(request)]
    for request in steps:
        assert request.messages[0] == UserMessage("read all parts, please")
    after = steps[-1].messages
    assert any("summary" in m.text for m in after if isinstance(m, UserMessage))
    assert isinstance(after[-1], ToolMessage)


async def test_results_are_never_parted_from_the_call_that_asked_for_them(tmp_path: Path) -> None:
    reader = Reader(20)
    async with bench(tmp_path, Always(reader, facts=SMALL), tools=[READ], settings=SETTINGS) as b:
        await b.say("read all parts, please")
    for request in reader.requests:
        asked: set[str] = set()
        for message in request.messages:
            asked |= {call.id for call in getattr(message, "calls", ())}
            if isinstance(message, ToolMessage):
                assert message.call_id in asked


async def test_the_summary_request_begins_with_what_the_model_has_seen(tmp_path: Path) -> None:
    reader = Reader(20)
    async with bench(tmp_path, Always(reader, facts=SMALL), tools=[READ], settings=SETTINGS) as b:
        await b.say("read all parts, please")
    for before, summary in zip(reader.requests, reader.requests[1:], strict=False):
        if not is_step(summary):
            shared = len(summary.messages) - 1
            assert summary.prompt == before.prompt
            together = min(shared, len(before.messages))
            assert summary.messages[:together] == before.messages[:together]


async def test_a_summary_that_fails_is_said_and_does_not_end_the_turn(tmp_path: Path) -> None:
    reader = Reader(12)

    def answer(request: Request) -> Reply:
        if not is_step(request):
            raise ModelError("overload", "too busy for a summary")
        return reader(request)

    async with bench(tmp_path, Always(answer, facts=SMALL), tools=[READ], settings=SETTINGS) as b:
        end = await b.say("read all parts, please")
        notes = await b.events(ev.NoticeIssued)
    assert end.reason == "done"
    assert len(notes) == 1
    assert "cannot summarise" in notes[0].text


async def test_a_window_smaller_than_believed_is_met_by_compaction(tmp_path: Path) -> None:
    reader = Reader(12)
    refused = []

    def answer(request: Request) -> Reply:
        size = sum(len(message.text) for message in request.messages)
        if is_step(request) and size > 9000:
            refused.append(size)
            raise ModelError("context_too_long", "too long")
        return reader(request)

    async with bench(tmp_path, Always(answer), tools=[READ], settings=SETTINGS) as b:
        end = await b.say("read all parts, please")
        compactions = await b.events(ev.Compacted)
    assert end.reason == "done"
    assert refused
    assert len(compactions) == len(refused)


async def test_nothing_is_gained_by_compaction_when_the_task_itself_is_too_long(
    tmp_path: Path,
) -> None:
    def refuse(request: Request) -> Reply:
        raise ModelError("context_too_long", "too long", "use a model with a larger window")

    async with bench(tmp_path, Always(refuse), tools=[READ], settings=SETTINGS) as b:
        end = await b.say("x" * 20_000)
    assert (end.reason, end.hint) == ("failed", "use a model with a larger window")
