"""What the journal keeps of a reply."""

import json
from pathlib import Path

import pytest

from hermes_agent.agent.journal_redaction import redact_call, redact_thoughts
from hermes_agent.core import events as ev
from hermes_agent.core.messages import ReasoningBlock, Reply, Request, ToolCall
from hermes_agent.models.scripted import ScriptedModel
from hermes_agent.policy.redaction.redactor import Redactor
from tests.support.turns import bench

SECRET = "orange-Penguin-77-xyz"


@pytest.fixture
def redact() -> Redactor:
    redactor = Redactor({})
    redactor.learn("OUR_KEY", SECRET)
    return redactor


def test_a_secret_is_found_behind_the_escapes_of_json(redact: Redactor) -> None:
    hidden = "".join(f"\\u{ord(letter):04x}" for letter in SECRET)
    call = ToolCall("c1", "write", f'{{"text": ["{hidden}"], "{hidden}": 1, "n": 2}}')
    kept = redact_call(call, redact)
    assert SECRET not in kept.arguments
    assert SECRET not in json.dumps(json.loads(kept.arguments))
    assert json.loads(kept.arguments)["n"] == 2


def test_arguments_without_secrets_stay_byte_for_byte(redact: Redactor) -> None:
    for text in ('{"a":  "\\u00e9\\n" }', '{"half": "\\u00', "[" * 100_000 + "\\", "{}"):
        assert redact_call(ToolCall("c", "t", text), redact).arguments == text


def test_a_secret_in_an_id_or_a_name_is_not_kept(redact: Redactor) -> None:
    kept = redact_call(ToolCall(f"c-{SECRET}", f"t-{SECRET}", "{}"), redact)
    assert SECRET not in kept.id + kept.name


@pytest.mark.parametrize(
    "name", ["functions.terminal", "multi_tool_use.parallel", "résumé", "x" * 1_000_000, "", "a b"]
)
def test_a_name_that_no_service_takes_back_is_kept_as_one_that_it_does(
    redact: Redactor, name: str
) -> None:
    kept = redact_call(ToolCall("c", name, "{}"), redact).name
    assert kept
    assert len(kept) <= 64
    assert all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in kept)


def test_a_thought_that_held_a_secret_loses_its_seal(redact: Redactor) -> None:
    thoughts = (
        ReasoningBlock("a/b", f"it is {SECRET}", '"seal"'),
        ReasoningBlock("a/b", "plain", '"seal"'),
    )
    kept = redact_thoughts(Reply("x", thoughts=thoughts), redact)
    assert [thought.body for thought in kept] == ["", '"seal"']
    assert SECRET not in "".join(thought.text for thought in kept)
    assert redact_thoughts(Reply(f"x {SECRET}", thoughts=thoughts), redact) == ()


async def test_a_model_that_invents_a_tool_is_told_so_and_the_session_goes_on(
    tmp_path: Path,
) -> None:
    seen: list[Request] = []

    def after(request: Request) -> Reply:
        seen.append(request)
        return Reply("well then")

    model = ScriptedModel(Reply("", (ToolCall("1", "functions.terminal", "{}"),)), after)
    async with bench(tmp_path, model) as b:
        end = await b.say("go")
        finished = await b.events(ev.CallFinished)
    assert end.reason == "done"
    assert [(one.tool, one.ok) for one in finished] == [("functions_terminal", False)]
    assert seen[0].messages[1].calls[0].name == "functions_terminal"
