"""Arguments become values; values never become commands."""

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.core.errors import UsageError
from hermes_agent.core.skills import Snippet
from hermes_agent.learning.skills.file import parse
from hermes_agent.learning.skills.template import (
    SkillParameter,
    read_arguments,
    read_parameters,
    snippets,
    with_values,
)

TWO = read_parameters("service: the unit to look at\nlines?=200: how many\n")


def test_a_parameter_is_required_optional_or_has_a_default() -> None:
    given = "service: the unit\nnote?:\nlines?=200: how many\nurl=http://x:1/: where\nlone\n"
    assert read_parameters(given) == (
        SkillParameter("service", "the unit"),
        SkillParameter("note", "", required=False),
        SkillParameter("lines", "how many", required=False, default="200"),
        SkillParameter("url", "where", required=False, default="http://x:1/"),
        SkillParameter("lone"),
    )


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ("nginx", {"service": "nginx", "lines": "200"}),
        ("nginx 5", {"service": "nginx", "lines": "5"}),
        ("lines=5 nginx", {"service": "nginx", "lines": "5"}),
        ("service='a b' lines=", {"service": "a b", "lines": ""}),
        ('"a b"', {"service": "a b", "lines": "200"}),
        ("service=x=y", {"service": "x=y", "lines": "200"}),
        ("http://x?a=b", {"service": "http://x?a=b", "lines": "200"}),
        ("don't", {"service": "don't", "lines": "200"}),
    ],
)
def test_arguments_are_words_in_order_or_by_name(arguments: str, values: dict[str, str]) -> None:
    assert read_arguments(TWO, arguments) == values


def test_a_missing_argument_is_named_with_what_it_is() -> None:
    with pytest.raises(UsageError, match=r"needs service \(the unit to look at\)") as caught:
        read_arguments(TWO, "lines=5", "service-down")
    assert caught.value.hint == "usage: /service-down SERVICE [lines=200]"
    with pytest.raises(UsageError, match="'x' is not a parameter"):
        read_arguments(TWO, "x=y")
    with pytest.raises(UsageError, match="'service' is given twice"):
        read_arguments(TWO, "service=a service=b")
    with pytest.raises(UsageError, match="too many arguments: c"):
        read_arguments(TWO, "a b c")


def test_a_skill_without_parameters_takes_any_arguments() -> None:
    assert read_arguments((), "whatever 'it is") == {}
    assert with_values("do $ARGUMENTS now", {}, "a 'b").text == "do a 'b now"


def test_snippets_are_found_where_they_are_and_not_in_code_blocks() -> None:
    body = (
        "a !`date` b\n```sh\n!`no`\n```\n~~~\n!`no`\n~~~\n"
        "\\!`no` !`` !`uptime -p`\n````\n```\n!`no`"
    )
    assert snippets(body) == [
        Snippet(2, 9, "date"),
        Snippet(body.index("!`uptime"), body.index("!`uptime") + 12, "uptime -p"),
    ]


def test_values_are_put_in_and_quoted_in_commands() -> None:
    body = (
        "Look at {{service}} ({{ lines }}): !`tail -n {{lines}} {{service}}.log` {{other}} ${{x}}"
    )
    made = with_values(body, {"service": "a b; rm", "lines": "5"})
    command = "tail -n 5 'a b; rm'.log"
    assert made.text == f"Look at a b; rm (5): !`{command}` {{{{other}}}} ${{{{x}}}}"
    (found,) = made.snippets
    assert found.command == command
    assert made.text[found.start : found.end] == f"!`{command}`"


def test_all_arguments_are_so_many_words_in_a_command() -> None:
    made = with_values("!`grep $ARGUMENTS`", {}, "-r 'a b' $(id)")
    assert made.snippets[0].command == "grep -r 'a b' '$(id)'"


def test_what_a_value_holds_is_never_taken_for_a_command() -> None:
    made = with_values("see {{service}} !`date`", {"service": "!`id`", "lines": ""})
    assert [each.command for each in made.snippets] == ["date"]


@pytest.mark.parametrize(
    "command",
    [
        'grep "{{service}}" x',
        "grep '{{service}}' x",
        'echo "$(cat {{service}})"',
        "echo \\{{service}}",
        "echo $(({{service}} + 1))",
        "ls # {{service}}",
        "(ls)# {{service}}",
        "cat <<E; echo {{service}}",
        "printf $'a\\'b {{service}}'",
        'sh -c "$ARGUMENTS"',
    ],
)
def test_a_value_within_quotes_is_refused(command: str) -> None:
    with pytest.raises(UsageError, match=r"is within (quotes|a |arithmetic)"):
        with_values(f"!`{command}`", {"service": "x", "lines": ""})
    head = "name: a\ndescription: b\nmetadata:\n  hermes-parameters: 'service: x'\n"
    text = f"---\n{head}---\n!`{command}`"
    assert "is within " in parse(text).broken


@settings(max_examples=40, deadline=None)
@given(
    value=st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1)
)
def test_a_value_reaches_the_program_as_one_word(value: str) -> None:
    made = with_values("!`printf %s {{service}}`", {"service": value, "lines": ""})
    command = made.snippets[0].command
    assert shlex.split(command) == ["printf", "%s", value]
    ran = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert ran.stdout.decode() == value
