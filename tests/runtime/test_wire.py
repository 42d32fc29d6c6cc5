"""The runtime over the OpenAI wire: real requests, byte for byte, also across a death."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_agent.core.messages import Reply, ToolCall
from tests.faults.harness import Case, ForkServer, wait_until
from tests.support.openai_server import OpenAIServer

COMMANDS = 4


def replies() -> list[Reply]:
    steps = [
        Reply(f"step {n}", (ToolCall(f"c{n}", "terminal", f'{{ "command":"echo {n} >> log" }}'),))
        for n in range(COMMANDS)
    ]
    return [*steps, Reply("all done"), Reply("once more")]


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    with OpenAIServer(replies()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key-0123456789")
        fork_server = ForkServer()
        made = Case(tmp_path, fork_server, 1)
        made.script = "not used"
        made.server = server
        yield made
        made.close()
        fork_server.close()


def ask(one: Case, text: str) -> None:
    message = {"text": text, "session": one.session, "workspace": str(one.work)}
    sent = one.api.post("/v1/messages", {**message, "model": "openai/test", "policy": "sandbox"})
    one.session = sent["session"]
    wait_until(lambda: one.state() == "idle", "the turn to end")


def test_every_request_begins_with_the_last_one_across_turns_and_a_restart(one: Case) -> None:
    one.start()
    ask(one, "go")
    one.kill()
    one.start()
    ask(one, "and once more")
    one.server.assert_prefix_stable()
    assert len(one.server.requests) == COMMANDS + 2
    assert (one.work / "log").read_text().split() == ["0", "1", "2", "3"]


def test_a_turn_killed_while_the_model_answers_goes_on_with_the_same_bytes(one: Case) -> None:
    one.server.fail_next("silent")
    one.start()
    message = {"text": "go", "workspace": str(one.work), "model": "openai/test"}
    sent = one.api.post("/v1/messages", {**message, "policy": "sandbox"})
    one.session = sent["session"]
    wait_until(lambda: len(one.server.requests) == 1, "the first request")
    one.kill()
    one.start()
    wait_until(lambda: one.state() == "idle", "the turn to end")
    one.server.assert_prefix_stable()
    assert one.server.requests[0].body == one.server.requests[1].body
    ends = [e["event"] for e in one.journal() if e["event"]["kind"] == "turn_finished"]
    assert [end["text"] for end in ends] == ["all done"]


@pytest.mark.parametrize("trouble", ["429", "500", "cut", "garbage", "reset"])
def test_passing_trouble_of_the_service_does_not_end_a_turn(one: Case, trouble: str) -> None:
    (one.home / "config.yaml").write_text("models: {retry_seconds: 0.01}\n")
    one.start()
    one.server.fail_next(trouble)
    ask(one, "go")
    events = [e["event"] for e in one.journal()]
    assert [e["text"] for e in events if e["kind"] == "turn_finished"] == ["all done"]
    assert any(e["kind"] == "model_retried" for e in events)
    one.server.assert_prefix_stable()


def test_the_key_is_nowhere_in_the_home(one: Case) -> None:
    key = b"sk-test-key-0123456789"
    one.server.fail_next("401")
    one.start()
    ask(one, "hello")
    ends = [e["event"] for e in one.journal() if e["event"]["kind"] == "turn_finished"]
    assert [end["reason"] for end in ends] == ["failed"]
    ask(one, "go")
    one.kill()
    files = [path for path in one.home.rglob("*") if path.is_file()]
    assert (one.home / "state.db") in files
    assert [path.name for path in files if key in path.read_bytes()] == []
    assert any(key in request.headers["authorization"].encode() for request in one.server.requests)
