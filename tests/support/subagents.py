"""Parents and children: scripts that answer by what they are told, and what became of them."""

import json
from pathlib import Path
from typing import Any

from hermes_agent.core import events as ev
from hermes_agent.core.records import Session
from tests.support.runtime_fixture import RuntimeFixture

Line = dict[str, Any]


def answers(folder: Path, name: str = "family", **turns: Any) -> str:
    """A model that answers a message in which a word is found with these replies. `facts` are
    those of the script."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = turns.pop("facts", {})
    entries = [{"when": rf"\b{word}\b", "replies": replies} for word, replies in turns.items()]
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"turns": entries, **facts}))
    return f"scripted/{path}"


def call(tool: str, /, **given: Any) -> Line:
    return {"tool": tool, "with": given}


def shell(command: str) -> Line:
    return {"calls": [call("terminal", command=command)]}


def delegated(*tasks: str | dict[str, Any]) -> Line:
    """A reply that hands tasks to children."""
    given = [{"task": task} if isinstance(task, str) else task for task in tasks]
    return {"calls": [call("delegate", tasks=given)]}


def say(text: str) -> Line:
    return {"say": text}


async def children(h: RuntimeFixture, parent: Session) -> list[Session]:
    """In the order of their tasks."""
    found = await h.runtime.context.store.sessions(parent=parent.id)
    return sorted(found, key=lambda one: one.key)


async def outcome(h: RuntimeFixture, parent: Session) -> ev.CallFinished:
    """What the parent was told of its children, the last time."""
    found = [one for one in await h.journal(parent) if isinstance(one, ev.CallFinished)]
    return [one for one in found if one.tool == "delegate"][-1]


async def ends(h: RuntimeFixture, session: Session) -> list[ev.TurnFinished]:
    return [one for one in await h.journal(session) if isinstance(one, ev.TurnFinished)]


async def told(h: RuntimeFixture, session: Session) -> list[str]:
    """The results of a session's calls."""
    return [one.text for one in await h.journal(session) if isinstance(one, ev.CallFinished)]
