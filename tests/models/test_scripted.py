import json
from pathlib import Path

import pytest

from hermes_agent.core.errors import ModelError, UsageError
from hermes_agent.core.messages import (
    AssistantMessage,
    Delta,
    Message,
    ModelFacts,
    Rates,
    Reply,
    Request,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_agent.core.settings.root import ModelSettings, Price
from hermes_agent.models.scripted import ScriptedModel, load_script
from tests.models.helpers import chunks, reply, request

CALL = ToolCall.of("c1", "find", pattern="*.py")


def script(tmp_path: Path, text: str, name: str = "script.yaml") -> ScriptedModel:
    path = tmp_path / name
    path.write_text(text)
    return load_script(path)


async def talk(model: ScriptedModel, *said: str) -> list[str]:
    """What the model answers when a user says these things, tools answering at once."""
    messages: list[Message] = []
    answers = []
    for text in said:
        messages.append(UserMessage(text))
        while True:
            answer = await reply(model, request(*messages))
            messages.append(answer.message)
            answers.append(answer.text)
            if not answer.calls:
                break
            messages += [ToolMessage(call.id, call.name, "result") for call in answer.calls]
    return answers


async def test_the_number_of_replies_in_the_request_picks_the_next_one() -> None:
    model = ScriptedModel(Reply("one", (CALL,)), Reply("two"))
    so_far = (UserMessage("go"), AssistantMessage("one", (CALL,)), ToolMessage("c1", "find", "x"))
    assert (await reply(model, request(*so_far))).text == "two"
    assert (await reply(model, request("go"))).text == "one"


async def test_text_arrives_in_pieces_of_a_few_words_and_loses_nothing() -> None:
    text = "  one two three\n\nfour  five six seven\n"
    arrived = await chunks(ScriptedModel(Reply(text)), request("go"))
    pieces = [chunk.text for chunk in arrived if isinstance(chunk, Delta)]
    assert len(pieces) > 1
    assert "".join(pieces) == text


async def test_a_reply_may_be_made_from_the_request() -> None:
    def shout(asked: Request) -> Reply:
        return Reply(asked.messages[-1].text.upper())

    assert (await reply(ScriptedModel(shout), request("hi"))).text == "HI"


async def test_tokens_are_estimated_and_priced_where_the_script_gives_none() -> None:
    facts = ModelFacts(rates=(Rates(1.0, 2.0),))
    answer = await reply(ScriptedModel(Reply("12345678"), facts=facts), request("go"))
    assert answer.usage.output == 2
    assert answer.usage.input > 10
    assert answer.cost == pytest.approx((answer.usage.input + 4) / 1_000_000)
    assert answer.model == "scripted/test"


async def test_a_script_that_is_used_up_says_so() -> None:
    with pytest.raises(ModelError, match="used up") as raised:
        await reply(ScriptedModel(Reply("only")), request("a", AssistantMessage("only"), "b"))
    assert raised.value.kind == "bad_request"
    assert not raised.value.passing


LINEAR = """
name: scripted/tour
context: 9000
price: {input: 1, output: 2}
turns:
  - replies:
      - say: looking
        calls: [{tool: find, with: {pattern: "*.py"}}, {tool: find}]
      - say: found
  - replies:
      - {say: cut, stop: length, wait: 0.001}
"""


async def test_a_linear_script_answers_turn_by_turn(tmp_path: Path) -> None:
    model = script(tmp_path, LINEAR)
    assert await talk(model, "whatever", "else") == ["looking", "found", "cut"]
    assert model.name == "scripted/tour"
    assert model.facts == ModelFacts(context=9000, rates=(Rates(1.0, 2.0),))
    with pytest.raises(ModelError, match="2 turns and this is turn 3"):
        await talk(model, "one", "two", "three")


async def test_calls_of_a_script_file_have_ids_of_their_own(tmp_path: Path) -> None:
    model = script(tmp_path, LINEAR)
    calls = (await reply(model, request("go"))).calls
    assert [json.loads(call.arguments) for call in calls] == [{"pattern": "*.py"}, {}]
    later = request(AssistantMessage("", calls), ToolMessage(calls[0].id, "find", ""), "again")
    again = (await reply(script(tmp_path, REPEATING), later)).calls
    assert len({call.id for call in (*calls, *again)}) == 4
    assert (await reply(model, request("go"))).calls == calls


REPEATING = """
turns:
  - when: again
    replies: [{calls: [{tool: find}, {tool: find}]}]
"""
BY_PATTERN = """
turns:
  - when: ^disk
    replies: [{say: looking, calls: [{tool: find}]}, {say: plenty}]
  - when: ^disk
    replies: [{say: still plenty}]
  - when: bye
    replies: [{say: farewell}]
  - replies: [{say: pardon}]
"""


async def test_a_script_by_pattern_answers_what_fits(tmp_path: Path) -> None:
    model = script(tmp_path, BY_PATTERN)
    said = await talk(model, "Bye", "hm", "disk?", "disk?", "what", "disk", "bye")
    assert said == [
        "farewell", "pardon", "looking", "plenty", "still plenty", "pardon", "still plenty",
        "farewell",
    ]  # fmt: skip


async def test_a_steering_message_does_not_disturb_the_turn(tmp_path: Path) -> None:
    model = script(tmp_path, BY_PATTERN)
    started = (UserMessage("disk"), AssistantMessage("looking", (CALL,)))
    result = ToolMessage("c1", "find", "")
    assert (await reply(model, request(*started, result, "be quick", "please"))).text == "plenty"
    assert (await reply(model, request(*started, result, "no, goodbye"))).text == "farewell"


async def test_messages_that_arrive_together_begin_one_turn(tmp_path: Path) -> None:
    assert (await reply(script(tmp_path, LINEAR), request("a", "b"))).text == "looking"
    assert (await reply(script(tmp_path, BY_PATTERN), request("a", "disk"))).text == "looking"


async def test_a_message_that_no_turn_fits_is_said(tmp_path: Path) -> None:
    model = script(tmp_path, REPEATING)
    with pytest.raises(ModelError, match="no turn matches 'hello'"):
        await reply(model, request("hello"))


async def test_a_turn_without_more_replies_is_said(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="turn 1 has only 1 replies"):
        await talk(script(tmp_path, REPEATING), "again")


async def test_a_script_may_be_json(tmp_path: Path) -> None:
    model = script(tmp_path, '{"turns": [{"replies": [{"say": "hi"}]}]}', "script.json")
    assert await talk(model, "hello") == ["hi"]


def test_settings_go_before_the_window_and_price_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(LINEAR)
    settings = ModelSettings(
        context_tokens={"scripted/x": 50}, prices={"scripted/x": Price(3.0, 4.0, 1.0)}
    )
    facts = load_script(tmp_path / "s.yaml", "scripted/x", settings).facts
    assert facts == ModelFacts(50, rates=(Rates(3.0, 4.0, 1.0),))


@pytest.mark.parametrize(
    "text",
    [
        "turns: 3",
        "turns: [{replies: [{sya: hi}]}]",
        "turns: [",
        "turns: [{when: '(', replies: []}]",
    ],
)
def test_a_script_that_is_not_well_formed_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"script\.yaml is not well formed"):
        script(tmp_path, text)
