"""The responder that ships with Hermes, in conversations that are played out: what tools answer is
written down, every reply is made twice and must come out the same."""

import json
from typing import Any

import pytest

from hermes_agent.core.errors import UsageError
from hermes_agent.core.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_agent.core.settings.root import ModelSettings
from hermes_agent.learning.skills.file import parse
from hermes_agent.learning.skills.runbook import load
from hermes_agent.models.responder.model import WHAT_IT_IS, ResponderModel, open_named
from tests.models.helpers import reply, request

SIGN = "store is down: nothing listens on its port"
BOOK = {
    "when": [{"run": "signs of store"}],
    "steps": [{"name": "start it", "run": "start store"}],
    "verify": [{"run": "is store up"}],
}
FITS = {
    "skill": "service-crash", "category": "service-crash", "state": "given", "service": "store",
    "fits": True, "failed": "", "when": ["signs of store"],
}  # fmt: skip
NEAR = {
    "skill": "bad-config", "category": "bad-config", "state": "given", "service": "shop",
    "fits": False, "failed": "`look`: saw exit 1", "when": [],
}  # fmt: skip
Answers = dict[str, str]


def brief(*candidates: dict[str, Any], ok: bool = False) -> str:
    data = {
        "incident": "inc-1", "service": "shop",
        "check": {"name": "shop", "command": "ask shop", "output": "", "exit": 1, "ok": ok},
        "facts": [
            {"service": "shop", "init": "systemd", "status": "status shop", "recent": "logs shop"},
            {"service": "store", "init": "systemd", "status": "status store",
             "restart": "restart store", "recent": "logs store", "configs": ["/etc/store.conf"]},
        ],
        "candidates": candidates, "ruled_out": ["disk-full"],
    }  # fmt: skip
    return f"Incident inc-1\n```json\n{json.dumps(data)}\n```"


def signs(*candidates: dict[str, Any]) -> str:
    return f"signs\n```json\n{json.dumps({'candidates': candidates, 'ruled_out': []})}\n```"


ANSWERS: Answers = {
    "signs of store": SIGN, "start store": "started", "is store up": "up",
    "skill": f"the skill\n```json\n{json.dumps(BOOK)}\n```",
    "verify": "shop: OK\nall checks pass: resolve it", "hypothesis": "h1 is on the board",
    "keep": "copies saved", "undo": "put back /etc/store.conf", "resolve": "inc-1 is resolved",
    "signs": signs(), "false_alarm": "inc-1 is closed", "escalate": "inc-1 is escalated",
}  # fmt: skip


class Course:
    """A conversation: what was called, in order."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.messages: list[Message] = []
        self.calls: list[dict[str, Any]] = []

    async def say(self, text: str) -> str:
        self.messages.append(UserMessage(text))
        while True:
            asked = request(*self.messages)
            answer = await reply(ResponderModel(), asked)
            assert answer == await reply(ResponderModel(), asked)
            self.messages.append(AssistantMessage(answer.text, answer.calls))
            if not answer.calls:
                return answer.text
            self.messages += [self._result(call) for call in answer.calls]

    def _result(self, call: ToolCall) -> ToolMessage:
        given = call.input()
        self.calls.append({"tool": call.name, **given})
        text = self.answers.get(given.get("command", given.get("action", call.name)), "-")
        return ToolMessage(call.id, call.name, text, ok=not text.startswith("!"))

    def acts(self, tool: str = "incident") -> list[str]:
        mine = (one for one in self.calls if one["tool"] == tool)
        return [one.get("action", one.get("command", "")) for one in mine]

    def act(self, action: str) -> dict[str, Any]:
        return next(one for one in self.calls if one.get("action") == action)


async def played(text: str, **more: str) -> Course:
    course = Course({**ANSWERS, **{key.replace("_", " "): one for key, one in more.items()}})
    await course.say(text)
    return course


async def test_it_follows_the_skill_whose_signs_are_there_and_resolves() -> None:
    course = await played(brief(FITS, NEAR))
    assert course.acts() == ["hypothesis", "keep", "verify", "resolve"]
    assert course.acts("terminal")[-3:] == ["signs of store", "start store", "is store up"]
    assert course.act("keep")["paths"] == ["/etc/store.conf"]
    ended = course.act("resolve")
    assert (ended["component"], ended["category"]) == ("store", "service-crash")
    assert SIGN in ended["evidence"]


async def test_services_are_looked_at_at_once_in_its_first_reply() -> None:
    course = await played(brief(FITS))
    first = next(one for one in course.messages if isinstance(one, AssistantMessage))
    looked = [call.input()["command"] for call in first.calls]
    assert looked[:2] == ["status shop", "status store"]
    assert "logs store | tail -n 40" in looked


async def test_a_skill_that_was_learned_here_is_followed_without_looking_around() -> None:
    known = {**FITS, "skill": "service-crash-store", "state": "candidate"}
    course, before = await played(brief(known)), await played(brief(FITS))
    assert course.acts("terminal")[0] == "signs of store"
    assert len(course.calls) < len(before.calls)


async def test_what_did_not_help_is_taken_back_and_the_next_skill_is_tried() -> None:
    other = {**FITS, "skill": "stale-lock", "category": "stale-lock"}
    course = await played(
        brief(FITS, other), verify="shop: FAILS: saw exit 1", is_store_up="!no\n[exit code 1]",
        signs=signs(FITS, other),
    )  # fmt: skip
    assert course.acts("skill") == ["", ""]
    assert course.acts().count("undo") == 2
    assert "restart store" in course.acts("terminal")
    assert course.acts()[-1] == "escalate"


async def test_what_made_the_checks_hold_is_not_taken_back_though_a_sign_is_left() -> None:
    course = await played(brief(FITS), is_store_up="!no\n[exit code 1]")
    assert course.acts()[-1] == "escalate"
    assert "undo" not in course.acts()
    assert "the checks pass, but service-crash still sees" in course.act("escalate")["summary"]


async def test_a_remedy_that_is_refused_as_not_lasting_is_handed_over_with_the_reason() -> None:
    course = await played(
        brief(FITS), resolve="!it is not resolved:\nthe checks pass, but: it grows"
    )
    assert course.acts()[-1] == "escalate"
    assert "but: it grows" in course.act("escalate")["summary"]
    assert course.act("escalate")["category"] == "service-crash"


async def test_quotes_that_are_not_taken_are_left_out() -> None:
    course = await played(brief(FITS), resolve="!the quote 'x' is in no result")
    tried = [one["evidence"] for one in course.calls if one.get("action") == "resolve"]
    assert [len(one) for one in tried] == sorted((len(one) for one in tried), reverse=True)
    assert tried[-1] == []


async def test_where_all_is_well_and_nothing_fits_it_is_a_false_alarm() -> None:
    course = await played(brief(NEAR, ok=True))
    assert course.acts() == ["verify", "verify", "false_alarm"]


async def test_what_no_skill_covers_is_handed_over_with_near_misses() -> None:
    course = await played(brief(NEAR))
    assert course.acts() == ["escalate"]
    summary = course.act("escalate")["summary"]
    assert "bad-config for shop: `look`: saw exit 1" in summary
    assert "Ruled out: disk-full" in summary


async def test_what_helped_is_written_down_as_a_skill_for_this_place() -> None:
    course = await played(brief(FITS))
    over = {
        "aftermath": True, "category": "service-crash", "component": "store", "service": "shop",
        "skill_wanted": "service-crash-store", "known": False,
    }  # fmt: skip
    await course.say(f"It is over\n```json\n{json.dumps(over)}\n```")
    written = next(one for one in course.calls if one["tool"] == "write_skill")
    skill = parse(written["files"]["SKILL.md"], "service-crash-store")
    assert not skill.broken
    assert skill.facts.incident == "service-crash"
    book = load(written["files"]["runbook.yaml"], {})
    assert [step.run for step in book.steps] == ["start store"]
    assert book.when[0].run == "test -e /etc/store.conf"  # not where another store is


async def test_it_says_what_it_is_where_there_is_no_incident() -> None:
    assert (await reply(ResponderModel(), request("hello"))).text == WHAT_IT_IS


def test_no_other_model_is_built_in() -> None:
    with pytest.raises(UsageError, match="builtin/other"):
        open_named("builtin/other", ModelSettings())
