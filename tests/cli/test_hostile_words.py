"""What a service puts into its words does not drive a terminal."""

import json

from hermes_agent.cli.output.events import call_line
from tests.support.cli import Hermes
from tests.support.openai_server import OpenAIServer, Raw

ESCAPES = "\x1b]52;c;ZXZpbA==\x07\x1b[2J"


def test_escapes_in_an_error_reach_neither_the_answer_nor_the_log(hermes: Hermes) -> None:
    with OpenAIServer([]) as server:
        refused = Raw.json({"error": {"message": f"no {ESCAPES} way"}}, 400)
        server.answer_next(refused, 9)
        hermes.environ["OPENAI_BASE_URL"] = server.url
        done = hermes.run("ask", "hi", "--model", "openai/x")
        log = hermes.run("logs")
    assert done.returncode == 1
    assert "way" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr + log.stdout


def test_a_call_nested_beyond_reason_is_shown_as_it_stands() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    line = call_line({"name": "look", "arguments": json.dumps({"a": 1})[:-2] + deep + "}"})
    assert line.startswith("look ")
    assert len(line) <= 100
