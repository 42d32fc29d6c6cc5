import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.core.errors import UsageError
from hermes_agent.core.skills import Check, Expectation, Runbook, RunStep
from hermes_agent.learning.skills.runbook import load

WHOLE = r"""
when:
  - run: systemctl is-failed {{unit}}
    expect: {exit: 0, output: 'failed|{{ unit }}'}
steps:
  - name: restart {{unit}}
    run: systemctl restart {{unit}}
    timeout: 60
    expect: {exit: null, no_output: error}
    verify: {run: "systemctl is-active {{unit}}"}
  - run: docker inspect -f '{{.State.Status}}' web
verify:
  - run: test -e /run/{{unit}}.pid
    timeout: 2.5
    expect: {exit: 1}
"""


def test_a_runbook_is_read_with_its_placeholders_filled() -> None:
    unit = "a b.service"
    assert load(WHOLE, {"unit": unit, "unused": "x"}) == Runbook(
        steps=(
            RunStep(
                "systemctl restart 'a b.service'",
                Expectation(None, "", "error"),
                60.0,
                Check("systemctl is-active 'a b.service'"),
                "restart a b.service",
            ),
            RunStep("docker inspect -f '{{.State.Status}}' web"),
        ),
        when=(
            Check("systemctl is-failed 'a b.service'", Expectation(0, r"failed|a\ b\.service")),
        ),
        verify=(Check("test -e /run/'a b.service'.pid", Expectation(1), 2.5),),
    )  # fmt: skip


def test_what_a_runbook_defines_stands_before_each_of_its_commands() -> None:
    text = "define: |\n  up() ( pgrep -x {{unit}} )\nsteps: [{run: up}]\nverify: [{run: up; date}]"
    book = load(text, {"unit": "a b"}).with_define()
    assert book.steps == (RunStep("up() ( pgrep -x 'a b' )\nup"),)
    assert book.verify == (Check("up() ( pgrep -x 'a b' )\nup; date"),)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "the runbook is empty", "it needs steps"),
        ("steps: []", "line 1, column 8: there are no steps", "at least one"),
        ("when: []", "line 1, column 1: a runbook needs steps", "steps: a list"),
        ("- a", "line 1, column 1: a runbook must be a mapping", ""),
        ("steps: x", "line 1, column 8: steps must be a list", ""),
        ("steps: [x]", "line 1, column 9: a step must be a mapping", ""),
        ("steps: [{rn: x}]", "line 1, column 10: a step has no key 'rn'", "did you mean 'run'?"),
        ("step: []", "line 1, column 1: a runbook has no key 'step'", "did you mean 'steps'?"),
        ("steps: [{name: x}]", "line 1, column 9: a step needs a command", "run: the command"),
        ("steps: [{run: ' '}]", "line 1, column 15: the command is empty", "to run"),
        ("steps: [{run: }]", "line 1, column 15: run must be text", "quote it"),
        (
            "steps: [{run: x, expect: {exti: 1}}]",
            "line 1, column 27: expect has no key 'exti'",
            "did you mean 'exit'?",
        ),
        ("steps: [{run: x, expect: {exit: 256}}]", "line 1, column 33: exit must be a code", ""),
        ("steps: [{run: x, expect: {exit: yes}}]", "line 1, column 33: exit must be a code", ""),
        ("steps: [{run: x, timeout: 0}]", "line 1, column 27: timeout must be a number", ""),
        ("steps: [{run: x, timeout: 5m}]", "line 1, column 27: timeout must be a number", ""),
        (
            "steps: [{run: x, expect: {output: '(['}}]",
            "line 1, column 35: output: not a valid regular expression: '([': missing ]",
            "literally",
        ),
        (
            "steps: [{run: x, expect: {no_output: '(?=x)'}}]",
            "line 1, column 38: no_output: not a valid regular expression: '(?=x)'",
            "no lookahead or lookbehind",
        ),
        (
            "steps:\n  - run: x {{unti}}\n",
            "line 2, column 10: no parameter is called 'unti'",
            "did you mean 'unit'?",
        ),
        (
            "steps: [{run: x, expect: {output: '{{far}}'}}]",
            "line 1, column 35: no parameter is called 'far'",
            "available: unit",
        ),
        ("steps:\n\t- run: x", "line 2, column 1: this is not YAML", "spaces"),
        ("steps: [{run: x {{unit}}}]", "this is not YAML", "quote values that contain {{…}}"),
        ("steps: [{run: x, run: y}]", "line 1, column 18: 'run' is given twice", "remove one"),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_a_way_out(
    text: str, message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as error:
        load(text, {"unit": "nginx"})
    assert message in error.value.message
    assert hint in error.value.hint


WITHIN = [
    ("echo '{{x}}'", "quotes"),
    ('echo "{{x}}"', "quotes"),
    ("echo $'{{x}}'", "quotes"),
    (r"echo $'a\' {{x}} b'", "quotes"),
    ('echo "$(echo "{{x}}")"', "a substitution in quotes"),
    ('echo "${A:-"{{x}}"}"', "a substitution in quotes"),
    ("echo `echo {{x}}`", "backticks"),
    ("cat <<E\n{{x}}\nE", "a command with a here-document"),
    ("echo $(( {{x}} ))", "arithmetic"),
    ("# '\necho '{{x}}'", "quotes"),
    (r"echo \{{x}}", "a comment or behind a backslash"),
    ("echo a ># {{x}}", "a comment or behind a backslash"),
    ("(ls)# {{x}}", "a comment or behind a backslash"),
]


@pytest.mark.parametrize(("command", "within"), WITHIN)
def test_a_placeholder_stands_where_a_quoted_value_stays_one(command: str, within: str) -> None:
    book = f"steps:\n  - run: |\n      {command.replace(chr(10), chr(10) + '      ')}\n"
    with pytest.raises(UsageError) as error:
        load(book, {"x": "a"})
    assert f"is within {within}" in error.value.message


@pytest.mark.parametrize("value", ["a\nb", "a\0b", "a\x1bb", "\r"])
def test_a_value_is_one_line(value: str) -> None:
    with pytest.raises(UsageError, match="the value of x contains a line break"):
        load("steps: [{run: 'echo {{x}}'}]", {"x": value})


PLAIN = [
    "printf '%s|' {{x}}",
    "A=$(printf '%s' {{x}}); printf '%s|' \"$A\"",
    "A={{x}}; printf '%s|' \"$A\"",
    "printf '%s|' \"\"{{x}}''",
    "# it's\nprintf '%s|' {{x}}",
    "cat <<< {{x}} | tr '\\n' '|'",
    "printf '%s|' $'a\\'b' {{x}} | cut -d'|' -f2- | tr -d '\\n'",
]


values = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12)
odd = st.sampled_from(["'; id; '", '"; id; "', "$(id)", "`id`", "\\", "-n", "a' b", "*", "~"])


@settings(max_examples=15, deadline=None, database=None)
@given(values | odd)
def test_a_value_stays_one_word_wherever_it_may_stand(value: str) -> None:
    book = "steps:\n" + "".join(
        f"  - run: |\n      {one.replace(chr(10), chr(10) + '      ')}\n" for one in PLAIN
    )
    script = "\n".join(f"( {step.run}\n)" for step in load(book, {"x": value}).steps)
    ran = subprocess.run(
        ["bash", "-c", script], capture_output=True, env={"LC_ALL": "C.UTF-8"}, check=True
    )
    assert ran.stdout.decode() == f"{value}|" * len(PLAIN)
