"""Writes what told and what helped in an incident as a skill for this place, so that the next time
goes straight to it."""

import re
import shlex
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from hermes_agent.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from hermes_agent.core.skills import Check, Runbook
from hermes_agent.models.responder.brief import Aftermath, Brief, runbook_in, task_of
from hermes_agent.models.responder.moves import PlannedCall, ResponderMove, Work

_SKILL = """\
---
name: {name}
description: "{description}"
metadata:
  hermes-category: incidents
  hermes-incident: {category}
  hermes-platforms: linux
  hermes-requires-tools: terminal
  hermes-parameters: |
    service?: {component}, which it was learned from
---

# {category} in {component}

## When to Use

- An alert of {service}, and what was seen last time:
{seen}

## Procedure

`runbook.yaml` has the commands that worked on this machine:

{steps}

## Pitfalls

- It was learned from one incident on one machine; all signs in its runbook must be present.

## Verification

- The checks of {service} pass, and keep passing.
"""


def learn(task: Aftermath, before: Sequence[Message]) -> Work:
    """Write the skill that the work before teaches, if it does."""
    helped = _helped(before)
    if helped is None or not task.skill_wanted or task.known:
        return f"There is nothing more to learn from this: {task.category} is known."
    own = [Check(f"test -e {shlex.quote(path)}") for path in _places(task, before)[:1]]
    helped = replace(helped, when=(*own, *helped.when))  # elsewhere it is not meant
    files = skill_files(task, helped, _evidence(before))
    why = f"an incident of {task.service or task.component}: {task.category}"
    call = PlannedCall("write_skill", {"name": task.skill_wanted, "files": files, "why": why})
    answer = yield ResponderMove(
        "Saving what showed the cause and what helped, for next time.", (call,)
    )
    if not answer.results[0].ok:
        return f"The skill was not saved: {answer.results[0].text[:300]}"
    return f"Saved as {task.skill_wanted}."


def skill_files(task: Aftermath, book: Runbook, evidence: Sequence[str]) -> dict[str, str]:
    about = f"Fixes {task.category} in {task.component} the way it was fixed here before."
    text = _SKILL.format(
        name=task.skill_wanted,
        description=f"{about} Use when {task.service or task.component} has an alert again.",
        category=task.category,
        component=task.component,
        service=task.service or task.component,
        seen="\n".join(f"  - `{line.replace('`', chr(39))}`" for line in evidence)
        or "  - (nothing)",
        steps="\n".join(
            f"{number}. {step.name or 'run a command'}" for number, step in enumerate(book.steps, 1)
        ),
    )
    runbook = msgspec.json.format(msgspec.json.encode(book), indent=2).decode()
    return {"SKILL.md": text, "runbook.yaml": f"{runbook}\n"}


def _helped(messages: Sequence[Message]) -> Runbook | None:
    """The runbook of the skill that was opened last before it was resolved."""
    results = {one.call_id: one for one in messages if isinstance(one, ToolMessage)}
    found: Runbook | None = None
    for message in messages:
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            result = results.get(call.id)
            if result is None or not result.ok:
                continue
            if call.name == "skill":
                found = runbook_in(result.text)
            elif call.name == "incident" and call.input().get("action") == "resolve":
                return found
    return None


def _places(task: Aftermath, messages: Sequence[Message]) -> list[str]:
    """The unit and the configuration of the component."""
    for message in messages:
        brief = task_of(message.text) if isinstance(message, UserMessage) else None
        for one in brief.facts if isinstance(brief, Brief) else ():
            if one.service == task.component:
                return [path for path in (one.unit, *one.configs) if path.startswith("/")]
    return []


def _evidence(messages: Sequence[Message]) -> list[str]:
    """What was quoted when it was resolved, without what differs each time."""
    for message in reversed(messages):
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            if call.name == "incident" and call.input().get("action") == "resolve":
                quotes = call.input().get("evidence", [])
                return [re.sub(r"\d{4,}", "…", str(one))[:160] for one in quotes]
    return []
