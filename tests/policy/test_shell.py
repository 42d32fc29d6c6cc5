"""Shell text as acts: the cases, and what must hold for any text."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.core.effects import Operation
from hermes_agent.policy.shell import read
from hermes_agent.policy.shell.programs.program_call import ROLES
from hermes_agent.policy.shell.programs.table import spec, table
from tests.support.shell_lines import Lines

CASES = yaml.safe_load((Path(__file__).parent / "cases" / "shell-acts.yaml").read_text())


def acts_of(text: str) -> tuple[Operation, ...]:
    return read(text, folder="/w", home="/home/me")


def programs(acts: tuple[Operation, ...]) -> list[str]:
    return list(dict.fromkeys(act.program for act in acts if act.kind == "program"))


def last_activity(acts: tuple[Operation, ...], *accesses: str) -> set[str]:
    return {
        f"{place.access} {place.named or '?'}" if len(accesses) > 1 else place.named or "?"
        for act in acts
        if act.kind == "path"
        for place in act.places
        if place.access in accesses
    }


def unknown(acts: tuple[Operation, ...]) -> bool:
    return any(act.kind == "unknown" for act in acts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: json.dumps(case["run"])[1:60])
def test_a_text_does_what_its_case_says(case: dict[str, Any]) -> None:
    acts = acts_of(case["run"])
    assert programs(acts) == case["programs"]
    assert unknown(acts) == case.get("unknown", False), [act.reason for act in acts]
    assert last_activity(acts, "write", "delete") == set(case.get("touches", []))
    assert set(case.get("reads", [])) <= last_activity(acts, "read")
    assert set(case.get("hosts", [])) <= {act.text for act in acts if act.kind == "host"}
    if "verb" in case:
        assert next(act.verb for act in acts if act.kind == "program") == case["verb"]


def test_a_program_stands_where_its_span_says() -> None:
    text = "sudo kubectl delete pod x && (ls -l; cat 'a b') > out; eval 'rm x'"
    spans = {act.program: act.span for act in acts_of(text) if act.kind == "program"}
    found = {name: text[slice(*span)] if span else None for name, span in spans.items()}
    assert found == {
        "kubectl": "kubectl delete pod x", "ls": "ls -l", "cat": "cat 'a b'", "rm": None,
    }  # fmt: skip


def test_a_wrapped_program_is_told_with_what_it_runs_through() -> None:
    acts = acts_of("sudo ssh h 'timeout 5 sh -c \"rm -rf /x\"'")
    removed = next(act for act in acts if act.program == "rm")
    assert removed.via == ("sudo", "ssh", "timeout", "sh")
    assert removed.flags == ("-r", "-f")
    assert removed.arguments == ("-rf", "/x")


def test_each_place_and_host_of_a_program_is_an_act_of_its_own() -> None:
    whole, *single = acts_of("curl -o out -d @data https://a.b")
    assert [place.named for place in whole.places] == ["/w/out", "/w/data"]
    assert whole.hosts == ("a.b",)
    assert [(act.kind, act.text, act.program) for act in single] == [
        ("path", "/w/out", "curl"), ("path", "/w/data", "curl"), ("host", "a.b", "curl"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000, "$(" * 3000, "`" * 999, "{" * 4000 + "a,b" + "}" * 4000, "[[ (" * 900,
        "{a,b}" * 60, "{1..99999999}", "f(){ f|f& }; f", "a=x;" + "a=$a$a;" * 60,
        "for a in 1 2 3 4 5 6 7 8; do " * 8 + "x;" + "done;" * 8, "$((" * 2000, "x;" * 30_000,
        "cat <<E\n" * 500, "eval " * 900, "a" * 200_000, "a\0b", "\ud800", "\x01", "sh -c '" * 50,
        "if a; then " * 500, "case x in a) " * 400, "${x:-" * 3000, "x" + " | x" * 20_000,
        "! " * 50_000, "a=(" * 3000, "[[ a =~ " + "(" * 3000, "env " * 3000 + "x",
        "sudo " * 3000 + "x", "<(" * 2000, "find " + "-exec " * 3000, "x " + "{} " * 20_000,
        "sed '" + "s/[/]/" * 999 + "'", "awk '" + "/" * 2001 + "'",
    ],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_too_much_of_anything_is_read_or_unknown_and_does_no_harm(text: str) -> None:
    acts = acts_of(text)
    assert len(acts) <= 2000


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_no_text_is_too_strange_to_be_read(text: str) -> None:
    assert acts_of(text) == acts_of(text)


@given(st.integers(0, 10**9))
@settings(max_examples=300, deadline=None)
def test_damaged_lines_are_read_without_trouble(seed: int) -> None:
    text = Lines(seed).damaged()
    assert acts_of(text) == acts_of(text)


PREFIXES = (
    "sudo @",
    "env A=1 @",
    "timeout 5 @",
    "nice -n 3 @",
    "xargs @",
    "command @",
    "setsid @",
    "stdbuf -o0 @",
    "strace -f @",
    "doas @",
    "exec @",
    "unshare -r @",
    "nohup @",
)
LAYERS = (
    "bash -c 'Q'",
    "sh -c 'Q'",
    "eval 'Q'",
    "ssh h 'Q'",
    "docker exec c sh -c 'Q'",
    "( @ )",
    "{ @; }",
    "if @; then :; fi",
    "while @; do :; done",
    "for x in 1; do @; done",
    "f() { @; }",
    "echo $( @ )",
    "cat <(@)",
    "a=$( @ )",
    ": && @",
    "! @",
    "time @",
    "@ | cat",
    "cat | @",
    "@ > out",
    "kubectl exec p -- sh -c 'Q'",
    "su -c 'Q'",
    "watch 'Q'",
    "bash <<'EOT'\n@\nEOT\n",
    "case x in x) @;; esac",
    "[[ x ]] && @",
    "coproc @",
    "trap 'Q' EXIT",
    "alias x='Q'",
    "echo 'Q' | sh",
    "find . -exec sh -c 'Q' \\;",
    "flock l -c 'Q'",
    'echo "$( @ )"',
    "\\\n@",
    "script -c 'Q'",
    "@ &",
)


@given(
    st.lists(st.sampled_from(PREFIXES), max_size=3), st.lists(st.sampled_from(LAYERS), max_size=4)
)
@settings(max_examples=300, deadline=None)
def test_no_wrapping_hides_a_program(prefixes: list[str], layers: list[str]) -> None:
    text = "MARK a"
    for layer in prefixes + layers:
        text = layer.replace("Q", text.replace("'", "'\\''")).replace("@", text)
    acts = acts_of(text)
    assert "MARK" in programs(acts) or unknown(acts), text


def test_every_line_of_the_table_can_be_used() -> None:
    names = [name for name in table() if spec(name) is not None]
    assert len(names) > 500
    for name in names:
        line = spec(name)
        assert line is not None
        wanted = {role.rstrip("*") for role in line.operands}
        wanted |= {option.role for option in line.options.values()}
        wanted |= {option.operands[1:] for option in line.options.values() if option.operands}
        assert wanted <= {".", "run", "shells", *ROLES}, name
        assert name.split()[0] in table(), f"{name} has no line without a verb"
