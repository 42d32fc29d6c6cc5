"""A runbook in the place of a model, as a function of the messages."""

from collections.abc import Sequence
from time import thread_time

import msgspec
import pytest

from hermes_agent.core.command_results import CommandOutcome, difference, seen
from hermes_agent.core.messages import (
    AssistantMessage,
    Message,
    Prompt,
    Reply,
    Request,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from hermes_agent.core.protocols import Model
from hermes_agent.core.skills import Expectation, Runbook
from hermes_agent.learning.skills.runbook import load
from hermes_agent.models.runbook import OPENING, RunbookModel
from hermes_agent.models.scripted import ScriptedModel

BEGIN = UserMessage(f"{OPENING}\n\nRestart the server.")
BOOK = load(
    """
    when: [{run: test -e failed}]
    steps:
      - {name: clear the mark, run: rm failed, verify: {run: test ! -e failed}}
      - {run: echo up > state, timeout: 5}
    verify: [{run: cat state, expect: {output: ^up$}}]
    """,
    {},
)


async def said(model: Model, *messages: Message) -> Reply:
    chunks = [chunk async for chunk in model.stream(Request(Prompt(""), messages))]
    reply = chunks[-1]
    assert isinstance(reply, Reply)
    return reply


async def worked(
    book: Runbook, results: Sequence[str | ToolMessage]
) -> tuple[Reply, list[Message]]:
    """The reply after these results, and the conversation up to it. A text is that of a command;
    one that ends with a code failed."""
    model = RunbookModel(book, "web", None)
    messages: list[Message] = [BEGIN]
    for result in results:
        reply = await said(model, *messages)
        (call,) = reply.calls
        text = result if isinstance(result, str) else result.text
        ok = not text.endswith("]") if isinstance(result, str) else result.ok
        messages += [reply.message, ToolMessage(call.id, call.name, text, ok)]
    return await said(model, *messages), messages


def commands(messages: Sequence[Message]) -> list[str]:
    return [
        call.input()["command"]
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    ]


ALL = ["cat: state: No such file\n[exit code 1]", "", "", "", "", "up"]


async def test_a_runbook_is_worked_through_in_its_order_and_costs_nothing() -> None:
    last, messages = await worked(BOOK, ALL)
    assert commands(messages) == [
        "cat state", "test -e failed", "rm failed", "test ! -e failed", "echo up > state",
        "cat state",
    ]  # fmt: skip
    assert (last.calls, last.stop, last.usage, last.cost) == ((), "end", Usage(), 0.0)
    assert last.model == "runbook/web"
    assert last.text.splitlines() == [
        "done: web",
        "1. clear the mark: exit 0",
        "2. echo up > state: exit 0",
        "verified: `cat state`: exit 0, up",
    ]
    replies = [one for one in messages if isinstance(one, AssistantMessage)]
    assert replies[2].text == "step 1 of 2: clear the mark\nexpected: exit 0"
    assert replies[5].text == ("did web work? check 1 of 1\nexpected: exit 0, output with '^up$'")
    assert replies[4].calls[0].input() == {"command": "echo up > state", "timeout": 5.0}
    ids = [call.id for reply in replies for call in reply.calls]
    assert len(set(ids)) == len(ids)


async def test_the_same_messages_always_get_the_same_bytes() -> None:
    _, messages = await worked(BOOK, ALL)
    for upto in range(1, len(messages) + 1, 2):
        first, second = [
            msgspec.json.encode(await said(RunbookModel(BOOK, "web", None), *messages[:upto]))
            for _ in range(2)
        ]
        assert first == second


async def test_there_is_nothing_to_do_where_all_is_as_it_should_be() -> None:
    last, _ = await worked(BOOK, ["up"])
    assert last.text == "nothing to do: all is as it should be\n`cat state`: exit 0, up"
    assert last.stop == "end"


async def test_a_runbook_without_a_check_of_the_end_begins_with_whether_it_is_for_this() -> None:
    book = msgspec.structs.replace(BOOK, verify=())
    _, messages = await worked(book, [""])
    assert commands(messages) == ["test -e failed"]


async def test_another_case_is_told_with_what_was_run_and_seen() -> None:
    last, _ = await worked(BOOK, ["[exit code 1]", "no such file\n[exit code 1]"])
    assert last.text == (
        "this runbook is not for this case: ran `test -e failed`, saw exit 1, no such file; "
        "it is for exit 0"
    )
    assert last.calls == ()


NOT_DONE = "[exit code 1]"
DIFFERENT: list[tuple[list[str | ToolMessage], str]] = [
    ([NOT_DONE, "", "rm: denied\n[exit code 1]"], "saw exit 1, rm: denied"),
    ([NOT_DONE, "", "", "[exit code 1]"], "did it work?\nran `test ! -e failed`"),
    ([NOT_DONE, "", "[timed out after 5.0 s, stopped]"], "did not come to its end: [timed out"),
    ([NOT_DONE, "", "", "", "", "down"], "saw no such output: exit 0, down"),
    (
        [ToolMessage("", "", "refused by policy: no\nretry: with other arguments", False)],
        "did not come to its end",
    ),
    (
        [NOT_DONE, ToolMessage("", "", "refused: nobody is there to be asked", False)],
        "is web for this case? check 1 of 1\nran `test -e failed`",
    ),
    (
        [NOT_DONE, "", ToolMessage("", "", "the user says that it happened; its output is lost")],
        "did not come to its end",
    ),
    (
        [NOT_DONE, "", ToolMessage("", "", "not run again: its outcome is unknown", False)],
        "did not come to its end: not run again",
    ),
]


@pytest.mark.parametrize(("results", "told"), DIFFERENT)
async def test_without_a_model_a_difference_is_told_and_nobody_is_woken(
    results: list[str | ToolMessage], told: str
) -> None:
    last, _ = await worked(BOOK, results)
    assert last.text.startswith("stopped: ")
    assert told in last.text
    assert last.text.endswith("\nno model is set up to take over")
    assert (last.calls, last.cost) == ((), 0.0)


@pytest.mark.parametrize(("results", "told"), DIFFERENT)
async def test_a_difference_wakes_the_model_with_all_that_was_seen(
    results: list[str | ToolMessage], told: str
) -> None:
    assert told
    _, messages = await worked(BOOK, results)
    requests: list[Request] = []

    def look(request: Request) -> Reply:
        requests.append(request)
        return Reply("I see")

    inner = ScriptedModel(*([look] * 9))
    assert (await said(RunbookModel(BOOK, "web", inner), *messages)).text == "I see"
    assert requests[0].messages == tuple(messages)


async def test_once_the_model_is_awake_it_stays_so() -> None:
    _, messages = await worked(BOOK, [NOT_DONE, "", "[exit code 1]"])
    inner = ScriptedModel(*[Reply(f"reply {number}") for number in range(9)])
    model = RunbookModel(BOOK, "web", inner)
    # The very command of the runbook, by the model and with success.
    call = ToolCall.of("c1", "terminal", command="rm failed")
    messages += [AssistantMessage("again", (call,)), ToolMessage("c1", "terminal", "")]
    assert (await said(model, *messages)).text == "reply 4"


async def test_a_message_of_a_person_hands_over() -> None:
    _, messages = await worked(BOOK, [NOT_DONE])
    inner = ScriptedModel(*[Reply("mine")] * 9)
    steered = [*messages, UserMessage("wait, not now")]
    assert (await said(RunbookModel(BOOK, "web", inner), *steered)).text == "mine"
    alone = await said(RunbookModel(BOOK, "web", None), *steered)
    assert alone.text.startswith("stopped: somebody said: wait, not now")
    last, messages = await worked(BOOK, ["up"])
    after = [*messages, last.message, UserMessage(f"thanks\n\nrecalled: {OPENING}")]
    assert (await said(RunbookModel(BOOK, "web", inner), *after)).text == "mine"


async def test_a_runbook_begins_at_the_last_message_that_says_so() -> None:
    last, messages = await worked(BOOK, ["up"])
    again = await said(RunbookModel(BOOK, "web", None), *messages, last.message, BEGIN)
    (call,) = again.calls
    assert call.input() == {"command": "cat state"}
    before = [one.call_id for one in messages if isinstance(one, ToolMessage)]
    assert call.id not in before


async def test_where_the_beginning_was_summarised_the_model_goes_on() -> None:
    _, messages = await worked(BOOK, [NOT_DONE])
    inner = ScriptedModel(*[Reply("mine")] * 9)
    summary = [UserMessage("[The earlier part of this conversation, summarised]"), *messages[1:]]
    assert (await said(RunbookModel(BOOK, "web", inner), *summary)).text == "mine"


@pytest.mark.parametrize(
    ("text", "ok", "expected"),
    [
        ("[no output]", True, CommandOutcome(0, "")),
        ("a\n[stderr]\nb", True, CommandOutcome(0, "a\n[stderr]\nb")),
        ("a\n[exit code 3]", True, CommandOutcome(0, "a\n[exit code 3]")),
        ("a\n[exit code 3]", False, CommandOutcome(3, "a")),
        ("[exit code 130]", False, CommandOutcome(130, "")),
        ("[exit code 3]\nb", False, CommandOutcome(None, "[exit code 3]\nb")),
        (
            "[timed out after 1.0 s, stopped]",
            False,
            CommandOutcome(None, "[timed out after 1.0 s, stopped]"),
        ),
        (
            "[running in the background, id x]",
            True,
            CommandOutcome(None, "[running in the background, id x]"),
        ),
        ('[a rule changed this call to {"command":"x"}]\na', True, CommandOutcome(0, "a")),
    ],
)
def test_results_of_commands_are_read_as_they_are_shown(
    text: str, ok: bool, expected: CommandOutcome
) -> None:
    assert seen(ToolMessage("1", "terminal", text, ok)) == expected


@pytest.mark.parametrize(
    ("expect", "found", "told"),
    [
        (Expectation(), CommandOutcome(0, "x"), ""),
        (Expectation(exit=2), CommandOutcome(2, ""), ""),
        (Expectation(exit=None), CommandOutcome(7, ""), ""),
        (Expectation(exit=None), CommandOutcome(None, "x"), "it did not come to its end: x"),
        (Expectation(output=r"^b\d$"), CommandOutcome(0, "a\nb1\nc"), ""),
        (Expectation(output="z"), CommandOutcome(0, "a"), "saw no such output: exit 0, a"),
        (Expectation(no_output=r"a\nb"), CommandOutcome(0, "x\na\nb"),
         "saw 'x\\na\\nb' in the output"),
        (Expectation(no_output="err"), CommandOutcome(0, "ok\nan error\nok"),
         "saw 'an error' in the output"),
        (
            Expectation(no_output="err"),
            CommandOutcome(
                0, "a\n[… 12 characters left out; read_on(result=\"e\") shows the whole …]"
                "\nb"),
            "the output is too long to be sure what is not in it",
        ),
    ],
)  # fmt: skip
def test_what_was_seen_is_held_against_what_was_expected(
    expect: Expectation, found: CommandOutcome, told: str
) -> None:
    assert difference(expect, found) == told


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", ".*.*.*.*=", r"(\w+\s?)*:$"])
def test_no_pattern_takes_longer_than_its_text_is_long(pattern: str) -> None:
    book = load(f"steps: [{{run: x, expect: {{output: '{pattern}'}}}}]", {})
    found = CommandOutcome(0, "a" * 100_000 + "!")
    began = thread_time()  # what it works, not how long the machine lets it wait
    assert difference(book.steps[0].expect, found).startswith("saw no such output")
    assert thread_time() - began < 20
