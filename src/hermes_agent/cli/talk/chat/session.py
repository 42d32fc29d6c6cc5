"""One conversation as a chat holds it: which session it is, and what can be done with it."""

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone, session_path
from hermes_agent.cli.client.follower import TRIES, send, start_again
from hermes_agent.cli.output.id_prefix import myself
from hermes_agent.core.errors import HermesError, NotFound, UsageError

POLL_SECONDS = 0.3
"""How often a chat looks whether a runtime that was stopped is back."""

Event = dict[str, Any]


class ChatSession:
    def __init__(
        self,
        api: RuntimeClient,
        opening: dict[str, object],
        *,
        session: dict[str, Any] | None,
        interactive: bool,
    ) -> None:
        self.api = api
        self.id = ""
        self.name = ""
        self.model = str(opening.get("model") or "")
        self.leaving = False
        self._opening = opening
        self._interactive = interactive
        self._keys: set[str] = set()
        self.files: list[dict[str, str]] = []
        """What goes with the next message."""
        if session is not None:
            self.enter(session)

    def enter(self, session: dict[str, Any]) -> None:
        self.id, self.name, self.model = session["id"], session["name"], session["model"]

    def detach_session(self) -> None:
        """The next message opens a new session."""
        self._opening = {**self._opening, "name": ""}
        self.id = self.name = ""

    def owns(self, key: str) -> bool:
        return key in self._keys

    def say(self, text: str) -> dict[str, Any]:
        """Hand a message in; what `send` returns."""
        key = uuid.uuid4().hex
        self._keys.add(key)
        where = {"session": self.id} if self.id else self._opening
        message = {**where, "text": text, "key": key, "interactive": self._interactive}
        if self.files:
            message["files"] = self.files
        try:
            sent = send(self.api, message)
            self.files = []
        except NotFound as error:
            raise (self._deleted() if self.id else error) from None
        if not self.id:
            self.enter(self.session(sent["session"]))
        return sent

    def session(self, reference: str = "") -> dict[str, Any]:
        """The session called so, or this one."""
        found: dict[str, Any] = (
            self.api.get(session_path(reference)) if reference else self._ours(self.api.get)
        )
        return found

    def rename(self, name: str) -> None:
        if self.id:
            self._ours(lambda path: self.api.patch(path, {"name": name}))
            self.name = name
        else:
            check_free(self.api, name)
            self._opening = {**self._opening, "name": name}

    def choose_model(self, name: str, effort: str, anyway: bool) -> dict[str, Any]:
        """Let another model go on with this session."""
        asked = {"model": name, "effort": effort, "anyway": anyway, "by": myself()}
        choice: dict[str, Any] = self._ours(lambda path: self.api.post(f"{path}/model", asked))
        if choice["switched"]:
            self.model = choice["model"]
        return choice

    def open_with(self, name: str, effort: str) -> None:
        """The next session is opened with this model."""
        self._opening = {**self._opening, "model": name, "effort": effort}
        self.model = name

    @property
    def effort(self) -> str:
        """What the next session is opened with."""
        return str(self._opening.get("effort") or "")

    def interrupt(self) -> bool:
        if not self.id:
            return False
        told = self._ours(lambda path: self.api.post(f"{path}/interrupt"))
        return bool(told["interrupted"])

    def answer(self, question: str, answer: str) -> None:
        self.api.post(
            f"/v1/questions/{quote(question, safe='')}", {"answer": answer, "by": myself()}
        )

    def journal(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ours(lambda path: self.api.get(f"{path}/journal"))
        return found

    def farewell(self) -> str:
        """How to go on with the session later, if there is one."""
        if not self.id:
            return ""
        try:
            self.session()
        except NotFound as error:
            return error.message
        except HermesError:
            pass  # a runtime that is away keeps its sessions
        return f"session {self.id}; `hermes chat --session {self.id}` goes on"

    def _ours(self, act: Callable[[str], Any]) -> Any:
        """Do something with this session, by its address."""
        try:
            return act(session_path(self.id))
        except NotFound:
            raise self._deleted() from None

    def _deleted(self) -> NotFound:
        return NotFound(f"session {self.id} was deleted", "/new begins another")


def check_free(api: RuntimeClient, name: str) -> None:
    """Refuse a name that another session has."""
    try:
        found = api.get(session_path(name))
    except NotFound:
        return
    if found["name"] == name:
        raise UsageError(
            f"the name {name!r} is taken by session {found['id']}",
            f"choose another name; `hermes chat --session {found['id']}` goes on with it",
        )


def split_journal(journal: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """What is over, and the number after which a turn goes on (or nothing does)."""
    ended = 0
    for place, one in enumerate(journal):
        if one["event"]["kind"] in ("turn_finished", "session_opened"):
            ended = place + 1
    past = journal[:ended]
    return past, past[-1]["number"] if past else 0


def listen(
    api: RuntimeClient, session: str, after: int, wanted: Callable[[], bool]
) -> Iterator[Event]:
    """A session's events for as long as they are wanted. A runtime that died is started again; one
    that was stopped on purpose is not, until somebody else does."""
    failures = 0
    while wanted():
        stopped = False
        try:
            for recorded in api.events(session, after):
                if not wanted():
                    return
                event: Event = recorded["event"]
                if recorded["number"]:
                    after, failures = recorded["number"], 0
                stopped = event["kind"] == "runtime_changed" and event["state"] == "stopping"
                yield event
        except RuntimeGone:
            yield {"kind": "gone", "stopped": stopped}
        if stopped:
            while wanted() and not api.is_up():
                time.sleep(POLL_SECONDS)
        else:
            failures += 1
            if failures > TRIES:
                raise HermesError("the runtime keeps going away", "`hermes logs` may say why")
            start_again(api, failures)
        yield {"kind": "reconnected"}
