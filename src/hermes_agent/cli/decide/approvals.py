"""List and answer open questions: effects that need approval, and what the model wants to know.

`hermes approvals answer ID yes` allows the effect once; `session` allows what the question says it
covers for the rest of the session; `always` adds the rule that the question shows. A question that
nobody answers in time is refused."""

import argparse
import time
from typing import Any

from hermes_agent.cli.actions import add_action, add_actions, connect, emit
from hermes_agent.cli.client.api import RuntimeClient, by_prefix, login_name, quoted
from hermes_agent.cli.client.follower import reach
from hermes_agent.cli.output.events import question_lines
from hermes_agent.cli.output.formatting import span

SHORT = {"y": "yes", "n": "no", "s": "session", "a": "always"}


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _list)
    answer = add_action(actions, "answer", _answer, "answer a question")
    answer.add_argument("id", help="the question's id, or the beginning of it")
    answer.add_argument(
        "answer", nargs="+", help="yes, no, session or always; words for a question"
    )
    answer.add_argument("--as", dest="name", default="", help="your name; default: your login")


def _list(options: argparse.Namespace) -> int:
    rows = connect().get("/v1/questions")
    return emit(options, rows, questions_text(rows, time.time()))


def _answer(options: argparse.Namespace) -> int:
    done = answer_question(connect(), options.id, " ".join(options.answer), options.name)
    return emit(options, done, f"{done['id']}: {done['answer']}")


def answer_question(api: RuntimeClient, prefix: str, answer: str, name: str = "") -> dict[str, Any]:
    rows = api.get("/v1/questions")
    question = by_prefix(rows, "id", prefix, "open question", "approvals")
    if question["purpose"] != "question":
        answer = SHORT.get(answer.lower(), answer.lower())
    body: dict[str, object] = {"answer": answer, "by": name or login_name()}
    done: dict[str, Any] = reach(
        api, lambda: api.post(f"/v1/questions/{quoted(question['id'])}", body)
    )
    return done


def questions_text(rows: list[dict[str, Any]], now: float) -> str:
    if not rows:
        return "no open questions"
    lines = []
    for row in rows:
        left = f"{span(row['expires'] - now)} left" if row["expires"] else "no time limit"
        lines.append(f"{row['id']}  session {row['session']}, {row['purpose']}, {left}")
        lines += [f"  {line}" for line in question_lines(row)]
    return "\n".join([*lines, "hint: `hermes approvals answer ID yes|no|session|always|TEXT`"])
