"""List and answer open questions: effects that need approval, and what the model wants to know.

`hermes approvals answer ID yes` allows the effect once; `session` allows what the question
lists, for the rest of the session; `always` adds the rule that the question shows. A question that
nobody answers in time is refused. `hermes approvals show ID` shows one in full."""

import argparse
import shutil
import sys
import time
from typing import Any

from hermes_agent.cli.actions import add_action, add_actions, connect, emit
from hermes_agent.cli.client.api import RuntimeClient, by_prefix, quoted
from hermes_agent.cli.client.follower import reach
from hermes_agent.cli.output.consent import Fold, answer_rows, expiry, painted, rows, rule_rows
from hermes_agent.cli.output.events import typed_answer
from hermes_agent.core.text.consent import consent_view

FOLD = 24
"""Rows of each section that a list shows."""


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _list)
    answer = add_action(actions, "answer", _answer, "answer a question")
    answer.add_argument("id", help="the question's id, or the beginning of it")
    answer.add_argument(
        "answer", nargs="+", help="yes, no, session or always; words for a question"
    )
    answer.add_argument("--as", dest="name", default="", help="your name; default: your login")
    showing = add_action(actions, "show", _show, "one question in full, and the rule it would add")
    showing.add_argument("id", help="the question's id, or the beginning of it")


def _list(options: argparse.Namespace) -> int:
    found = connect().get("/v1/questions")
    return emit(options, found, questions_text(found, time.time()))


def _show(options: argparse.Namespace) -> int:
    api = connect()
    row = by_prefix(api.get("/v1/questions"), "id", options.id, "open question", "approvals")
    found = api.get(f"/v1/questions/{quoted(row['id'])}")
    view = consent_view(found)
    shown = [*rows(view, _width()), *answer_rows(view.answers, _width())]
    shown += rule_rows(view, _width()) if view.rule else ()
    text = f"{_head(found, time.time())}\n{painted(shown, sys.stdout)}"
    return emit(options, found, text)


def _answer(options: argparse.Namespace) -> int:
    done = answer_question(connect(), options.id, " ".join(options.answer), options.name)
    return emit(options, done, f"{done['id']}: {done['answer']}")


def answer_question(api: RuntimeClient, prefix: str, answer: str, name: str = "") -> dict[str, Any]:
    question = by_prefix(api.get("/v1/questions"), "id", prefix, "open question", "approvals")
    answer = typed_answer(question, answer) or answer
    return reach(api, lambda: api.answer(question["id"], answer, name))


def questions_text(found: list[dict[str, Any]], now: float) -> str:
    if not found:
        return "no open questions"
    lines = []
    for row in found:
        fold = Fold(FOLD, f"`hermes approvals show {row['id']}` shows all")
        width = max(_width() - 2, 0)
        view = consent_view(row)
        shown = [*rows(view, width, fold), *answer_rows(view.answers, width)]
        lines.append(_head(row, now))
        lines += [f"  {line}" for line in painted(shown, sys.stdout).split("\n")]
    return "\n".join([*lines, "hint: `hermes approvals answer ID yes|no|session|always|TEXT`"])


def _head(row: dict[str, Any], now: float) -> str:
    return f"{row['id']}  session {row['session']}, {row['purpose']}, {expiry(row, now)}"


def _width() -> int:
    """Columns; 0 in a pipe, where lines are not broken."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
