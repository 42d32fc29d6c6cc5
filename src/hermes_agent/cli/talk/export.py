"""Exports sessions: trajectories for training, Markdown for people, the journal for programs."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from hermes_agent.cli.client.api import RuntimeClient, session_path

Session = dict[str, Any]


def export(api: RuntimeClient, session: Session, form: str) -> Iterator[str]:
    """The session in one of `FORMS`, in pieces that end with a newline."""
    return FORMS[form](api, session)


def _trajectories(api: RuntimeClient, session: Session, form: Any) -> Iterator[str]:
    import msgspec

    from hermes_agent.agent.trajectory import trajectories
    from hermes_agent.core.events import Recorded
    from hermes_agent.core.messages import Prompt

    prompt = msgspec.convert(api.get(f"{session_path(session['id'])}/prompt"), Prompt)
    recorded = msgspec.convert(api.journal(session["id"]), list[Recorded])
    for line in trajectories(session["id"], prompt, recorded, form):
        yield msgspec.json.encode(line).decode() + "\n"


def _markdown(api: RuntimeClient, session: Session) -> Iterator[str]:
    from hermes_agent.cli.output.transcript import markdown

    yield markdown(session, api.journal(session["id"]))


def _journal(api: RuntimeClient, session: Session) -> Iterator[str]:
    for one in api.journal(session["id"]):
        yield json.dumps(one, ensure_ascii=False) + "\n"


FORMS: dict[str, Callable[[RuntimeClient, Session], Iterator[str]]] = {
    "openai": partial(_trajectories, form="openai"),
    "sharegpt": partial(_trajectories, form="sharegpt"),
    "markdown": _markdown,
    "journal": _journal,
}
