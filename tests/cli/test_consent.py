"""A question on a terminal: what is hidden of it is counted, and what is dangerous never is."""

import json
from typing import Any

import pytest

from hermes_agent.cli.output.consent import (
    Fold,
    answer_rows,
    expiry,
    question_lines,
    rows,
    rule_rows,
)
from hermes_agent.cli.output.formatting import cells
from hermes_agent.core.text.consent import consent_view, grant_words, rule_words

RULE = """- id: allow-git-push-1
  match:
    kind: "program"
    program: "git"
    verb: "push"
    no_via: "*"
    terminal: "local"
  then: allow
"""


def asked(shown: str, **more: Any) -> dict[str, Any]:
    question = {
        "id": "q", "purpose": "approval", "text": f"{shown}\nit deletes", "reason": "it deletes",
        "choices": ["yes", "no", "session", "always"], "grants": ["careful/x|git push|local"],
        "proposal": RULE, "expires": 1_000.0,
    }  # fmt: skip
    return question | more


def written(lines: int) -> dict[str, Any]:
    body = [f"| echo {n}" for n in range(1, lines + 1)]
    body[214] = "| rm -rf ~/important"
    risk = {
        "what": "deletes files",
        "argument": "content",
        "text": "rm -rf ~/important",
        "line": 215,
    }
    text = "\n".join(['write_file {"path":"a.sh"}', "content:", *body])
    return asked(text, risks=[risk])


def test_a_danger_is_said_first_and_marked_where_it_is_even_if_the_rest_is_folded() -> None:
    view = consent_view(written(400))
    folded = [row.text for row in rows(view, 80, Fold(10))]
    assert folded[:3] == [
        "? Write the file a.sh?",
        "  dangerous",
        "  ! deletes files: rm -rf ~/important (in content, line 215)",
    ]
    assert "!  215 │ rm -rf ~/important   ← deletes files" in folded
    assert "    … 389 more lines, `v` shows all" in folded
    whole = [row.text for row in rows(view, 80)]
    assert sum(" │ " in line for line in whole) == 400


@pytest.mark.parametrize("width", [20, 80, 120])
@pytest.mark.parametrize("text", ["x" * 6_000, "rm 重要な" * 300, "a\tb " * 500])
def test_every_row_fits_and_no_letter_is_lost(width: int, text: str) -> None:
    view = consent_view(asked(f"terminal {json.dumps({'command': text})}"))
    found = [row.text for row in rows(view, width)]
    assert all(cells(line) <= width for line in found)
    effect = "".join(line.split(" │ ", 1)[1] for line in found if " │ " in line)
    assert effect == text.expandtabs(4)


def test_what_cannot_be_seen_is_written_out() -> None:
    hidden = "rm \\u202e\\u200b\\u001b[2Ka\\u00ad\\n? Allow nothing?"
    shown = "\n".join(question_lines(asked(f'terminal {{"command":"{hidden}"}}')))
    assert "rm \\u202e\\u200b\\x1b[2Ka\\xad" in shown
    assert [line for line in shown.splitlines() if line.startswith("?")] == ["? Run this command?"]


def test_no_argument_is_hidden_or_looks_like_a_line_of_the_view() -> None:
    path = f"reboot {'':99}? Allow a"
    given = {"path": path, "again": path, "run\n? Allow c": "d\xa0\ufe0fe"}
    shown = [row.text for row in rows(consent_view(asked(f"x {json.dumps(given)}")), 40)]
    assert [line for line in shown if "? " in line[:6]] == [shown[0]]
    assert "       │ run\\n? Allow c: d\\xa0\\ufe0fe" in shown
    assert any("again: reboot" in line for line in shown)


def test_what_looks_like_a_secret_hides_nothing_without_a_mark() -> None:
    hidden = "[redacted:private-key]"
    change = f"changes\n@@ -1 +1 @@\n {hidden}"
    shown = question_lines(asked(f'terminal {{"command":": {hidden}"}}'))
    assert "  ! a part looks like a secret and is NOT shown" in shown
    question = asked('patch {"path":"a"}\nnew:\n| x\n| y', change=change)
    assert "     2 │ y" in [row.text for row in rows(consent_view(question), 80, Fold(10))]


def test_a_reason_that_differs_in_the_text_is_shown_all_the_same() -> None:
    shown = question_lines(asked('terminal {"command":"a"}', reason="a [redacted] part"))
    assert {"  it deletes", "    a [redacted] part"} < set(shown)


def test_a_change_of_a_file_is_a_diff_and_its_dangers_are_marked_in_it() -> None:
    question = written(400) | {
        "change": "changes an existing file of 9 lines: 1 added, 1 removed\n"
        "@@ -214,2 +214,2 @@\n echo 214\n-echo 215\n+rm -rf ~/important"
    }
    view = consent_view(question)
    shown = [row.text for row in rows(view, 80, Fold(10))]
    assert "  changes an existing file of 9 lines: 1 added, 1 removed" in shown
    assert "       │ -echo 215" in shown
    assert "!  215 │ +rm -rf ~/important   ← deletes files" in shown
    assert "  content · 400 lines, as changed by the lines above: `v` shows all" in shown


def test_the_title_says_what_would_happen_and_where() -> None:
    command = 'terminal {"command":"ls"}'
    assert consent_view(asked(command, where="in /srv")).title == "Run this command in /srv?"
    assert consent_view(asked("fetch {}")).title == "Allow fetch?"


def test_the_answers_say_what_they_allow() -> None:
    view = consent_view(asked("terminal {}"))
    assert [answer.value for answer in view.answers] == ["no", "yes", "session", "always"]
    _, _, session, always = (row.text for row in answer_rows(view.answers))
    assert session == "  s  Session  allows for this session: any `git push` on local"
    rule = "adds a rule for every session: allow any `git push` with any arguments on local"
    assert always == f"  a  Always   {rule}"
    assert view.rule == tuple(RULE.splitlines())
    two = consent_view(asked("terminal {}", grants=["a/b|=rm a|local", "a/c|delete /a|local"]))
    meaning = "allows for this session: each of these: exactly `rm a`; deleting /a on local"
    assert two.answers[2].meaning == meaning


@pytest.mark.parametrize(
    ("grant", "words", "where"),
    [
        ("careful/x|=rm -rf a\nb|local", "exactly `rm -rf a\\nb`", "local"),
        ("careful/writing|write /srv/a|prod", "writing /srv/a", "prod"),
        ("default|host example.com|local", "connections to example.com", "local"),
        ("unconfined@prod", "every command that would otherwise run confined", "prod"),
    ],
)
def test_what_a_session_would_be_allowed_is_in_words(grant: str, words: str, where: str) -> None:
    assert grant_words(grant) == (words, where)


def test_a_rule_for_one_text_says_that_text() -> None:
    rule = '- id: a\n  match:\n    kind: "path"\n    path: ["/w/[*].txt"]\n    access: "delete"\n'
    assert list(rule_words(rule + '    terminal: "local"\n  then: allow\n')) == [
        ("deleting /w/*.txt", "local")
    ]


@pytest.mark.parametrize("text", ["rm '- id: x'", "rm a\u2028b", "rm a\x85b", 'rm "a: b"', "rm {"])
def test_no_text_breaks_the_words_of_a_rule(text: str) -> None:
    quoted = json.dumps(text, ensure_ascii=False)
    rule = f'- id: a\n  match:\n    text: {quoted}\n    terminal: "local"\n  then: allow\n'
    ((words, _),) = rule_words(rule)
    assert words.startswith("exactly `rm ")


def test_a_rule_is_wrapped_like_all_else() -> None:
    view = consent_view(asked("terminal {}", proposal=RULE.replace("git", "x" * 200)))
    shown = [row.text for row in rule_rows(view, 40)]
    assert all(cells(line) <= 40 for line in shown)
    assert "x" * 200 in "".join(line[6:] for line in shown)


def test_when_it_expires_is_said() -> None:
    assert expiry(asked("x {}"), 790.0) == "refused in 4 min if nobody answers"
