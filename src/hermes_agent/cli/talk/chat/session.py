"""The session a chat is in, and what a chat can do with it."""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone, login_name, session_path
from hermes_agent.cli.client.follower import TRIES, keeps_dying, send, start_again
from hermes_agent.core.errors import HermesError, NotFound, UsageError

POLL_SECONDS = 0.3
"""How often a chat checks whether a stopped runtime is back."""

NOT_PEOPLE = ("library", "job", "incident", "proof")
"""Sources of sessions in which nobody chats."""

Event = dict[str, Any]


class SentMessage(NamedTuple):
    text: str
    files: list[dict[str, str]]
    shown: bool = True
    """Whether it is on the screen; one that waits is shown when the agent takes it."""


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
        self.follows = False
        """Whether what happens in the session is shown as it happens."""
        self.opening = opening
        """What a new session is opened with."""
        self._interactive = interactive
        self._sent: dict[str, SentMessage] = {}
        self.files: list[dict[str, str]] = []
        """Attached to the next message."""
        self.draft = ""
        """A text that the input line should offer for editing."""
        self.outgoing = ""
        """A message that a command wants to be sent next."""
        if session is not None:
            self.enter(session)

    def enter(self, session: dict[str, Any]) -> None:
        self.id, self.name, self.model = session["id"], session["name"], session["model"]

    def detach_session(self) -> None:
        """The next message opens a new session."""
        self.opening = {**self.opening, "name": ""}
        self.id = self.name = ""

    def has_shown(self, key: str) -> bool:
        return key in self._sent and self._sent[key].shown

    def say(self, text: str, shown: bool = True) -> dict[str, Any]:
        """Submit a message; what `send` returns."""
        key = uuid.uuid4().hex
        self._sent[key] = SentMessage(text, self.files, shown)
        where = {"session": self.id} if self.id else self.opening
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
        """The session with this name or id, or the current one."""
        if reference:
            return self.api.session(reference)
        found: dict[str, Any] = self._ours(self.api.get)
        return found

    def rename(self, name: str) -> None:
        if self.id:
            self._ours(lambda path: self.api.patch(path, {"name": name}))
            self.name = name
        else:
            check_free(self.api, name)
            self.opening = {**self.opening, "name": name}

    def choose_model(self, name: str, effort: str, anyway: bool) -> dict[str, Any]:
        """Switch this session to another model."""
        asked = {"model": name, "effort": effort, "anyway": anyway, "by": login_name()}
        choice: dict[str, Any] = self._ours(lambda path: self.api.post(f"{path}/model", asked))
        if choice["switched"]:
            self.model = choice["model"]
        return choice

    def look(self, what: str, **query: object) -> Any:
        """A report on the current session."""
        return self._ours(lambda path: self.api.get(f"{path}/{what}", **query))

    def act(self, action: str, **body: object) -> Any:
        """Do something with the current session."""
        by: dict[str, object] = {"by": login_name()} if body else {}
        return self._ours(lambda path: self.api.post(f"{path}/{action}", {**body, **by}))

    def open_with(self, name: str, effort: str) -> None:
        """Open the next session with this model."""
        self.opening = {**self.opening, "model": name, "effort": effort}
        self.model = name

    @property
    def effort(self) -> str:
        """The reasoning effort of the next session."""
        return str(self.opening.get("effort") or "")

    def interrupt(self) -> bool:
        if not self.id:
            return False
        return bool(self._ours(lambda path: self.api.post(f"{path}/interrupt"))["interrupted"])

    def take_back(self, keys: Iterable[str]) -> list[SentMessage]:
        """Stop the agent, but first take back those of our messages that are still queued."""
        ours: dict[str, object] = {"withdraw": [key for key in keys if key in self._sent]}
        done = self._ours(lambda path: self.api.post(f"{path}/interrupt", ours))
        return [self._sent[key] for key in done.get("withdrawn", ())]

    def journal(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ours(lambda path: self.api.get(f"{path}/journal"))
        return found

    def farewell(self) -> str:
        """How to continue the session later, if there is one."""
        if not self.id:
            return ""
        try:
            self.session()
        except NotFound as error:
            return error.message
        except HermesError:
            pass  # a runtime that is not running keeps its sessions
        return (
            f"session {self.id}; to continue: `hermes chat --session {self.id}`\n"
            "`hermes sessions resume` continues the last one"
        )

    def _ours(self, act: Callable[[str], Any]) -> Any:
        """Do something with the current session, by its address."""
        if not self.id:
            raise UsageError("there is no conversation yet", "write something first")
        try:
            return act(session_path(self.id))
        except NotFound:
            raise self._deleted() from None

    def _deleted(self) -> NotFound:
        return NotFound(f"session {self.id} was deleted", "/new opens another")


def last_session(api: RuntimeClient, besides: str = "") -> dict[str, Any]:
    """The newest conversation with people, or the newest but one."""
    rows: list[dict[str, Any]] = api.get("/v1/sessions?parent=&limit=1000")
    for one in rows:
        if one["source"] not in NOT_PEOPLE and one["id"] != besides:
            return one
    raise NotFound("there is no session to continue", "`hermes chat` opens one")


def check_free(api: RuntimeClient, name: str) -> None:
    """Raise if another session has this name."""
    try:
        found = api.session(name)
    except NotFound:
        return
    if found["name"] == name:
        raise UsageError(
            f"the name {name!r} is taken by session {found['id']}",
            f"choose another name; `hermes chat --session {found['id']}` continues it",
        )


def split_journal(journal: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """The finished turns, and the number of their last event."""
    ended = 0
    for place, one in enumerate(journal):
        if one["event"]["kind"] in ("turn_finished", "session_opened", "branched", "rewound"):
            ended = place + 1
    past = journal[:ended]
    return past, past[-1]["number"] if past else 0


def listen(
    api: RuntimeClient, session: str, after: int, wanted: Callable[[], bool]
) -> Iterator[Event]:
    """A session's events as long as they are wanted. A runtime that dies is started again; one that
    was stopped on purpose is waited for."""
    failures = 0
    while wanted():
        stopped = False
        try:
            for recorded in api.events(session, after):
                if not wanted():
                    return
                event: Event = {**recorded["event"], "number": recorded["number"]}
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
                raise keeps_dying()
            start_again(api, failures)
        yield {"kind": "reconnected"}
