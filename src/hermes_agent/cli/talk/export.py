"""Sessions as files: trajectories for training, Markdown for people, the journal for programs."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from hermes_agent.cli.client.api import RuntimeClient, session_path

Session = dict[str, Any]


def export(api: RuntimeClient, session: Session, form: str) -> Iterator[str]:
    """The session in one of `FORMS`, in pieces that end with a line end."""
    return FORMS[form](api, session)


def journal_of(api: RuntimeClient, session: Session) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(f"{session_path(session['id'])}/journal")
    return found


def _openai(api: RuntimeClient, session: Session) -> Iterator[str]:
    return _trajectories(api, session, "openai")


def _sharegpt(api: RuntimeClient, session: Session) -> Iterator[str]:
    return _trajectories(api, session, "sharegpt")


def _trajectories(api: RuntimeClient, session: Session, form: Any) -> Iterator[str]:
    import msgspec

    from hermes_agent.agent.trajectory import trajectories
    from hermes_agent.core.events import Recorded
    from hermes_agent.core.messages import Prompt

    prompt = msgspec.convert(api.get(f"{session_path(session['id'])}/prompt"), Prompt)
    recorded = msgspec.convert(journal_of(api, session), list[Recorded])
    for line in trajectories(session["id"], prompt, recorded, form):
        yield msgspec.json.encode(line).decode() + "\n"


def _markdown(api: RuntimeClient, session: Session) -> Iterator[str]:
    from hermes_agent.cli.output.transcript import markdown

    yield markdown(session, journal_of(api, session))


def _journal(api: RuntimeClient, session: Session) -> Iterator[str]:
    for one in journal_of(api, session):
        yield json.dumps(one, ensure_ascii=False) + "\n"


FORMS: dict[str, Callable[[RuntimeClient, Session], Iterator[str]]] = {
    "openai": _openai,
    "sharegpt": _sharegpt,
    "markdown": _markdown,
    "journal": _journal,
}
