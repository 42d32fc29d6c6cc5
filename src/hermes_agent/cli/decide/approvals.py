"""List and answer open questions: effects that need consent, and what the model wants to know.

`hermes approvals answer ID yes` allows the effect once; `session` allows what the question says it
covers for the rest of the session; `always` adds the rule that the question shows. What nobody
answers in time is refused."""

import argparse
import time
from typing import Any
from urllib.parse import quote

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.client.follower import reach
from hermes_agent.cli.output.formatting import print_json, span
from hermes_agent.cli.output.id_prefix import myself, pick
from hermes_agent.cli.output.turn_printer import question_lines

SHORT = {"y": "yes", "n": "no", "s": "session", "a": "always"}


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(id="", answer=[], name="")
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    answer = actions.add_parser("answer", help="answer a question")
    answer.add_argument("id", help="the question's id, or the beginning of it")
    answer.add_argument(
        "answer", nargs="+", help="yes, no, session or always; words for a question"
    )
    answer.add_argument("--as", dest="name", default="", help="your name; default: your login")
    answer.add_argument("--json", action="store_true", default=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    api = RuntimeClient()
    api.ensure()
    if options.answer:
        told = answer_question(api, options.id, " ".join(options.answer), options.name)
        if options.json:
            print_json(told)
        else:
            print(f"{told['id']}: {told['answer']}")
        return 0
    rows = api.get("/v1/questions")
    if options.json:
        print_json(rows)
    else:
        print(questions_text(rows, time.time()))
    return 0


def answer_question(
    api: RuntimeClient, beginning: str, answer: str, name: str = ""
) -> dict[str, Any]:
    question = pick(api.get("/v1/questions"), "id", beginning, "open question")
    if question["purpose"] != "question":
        answer = SHORT.get(answer.lower(), answer.lower())
    body: dict[str, object] = {"answer": answer, "by": name or myself()}
    told: dict[str, Any] = reach(
        api, lambda: api.post(f"/v1/questions/{quote(question['id'], safe='')}", body)
    )
    return told


def questions_text(rows: list[dict[str, Any]], now: float) -> str:
    if not rows:
        return "no open questions"
    lines = []
    for row in rows:
        left = span(row["expires"] - now)
        lines.append(f"{row['id']}  session {row['session']}, {row['purpose']}, {left} left")
        lines += [f"  {line}" for line in question_lines(row)]
    return "\n".join([*lines, "hint: `hermes approvals answer ID yes|no|session|always|TEXT`"])
