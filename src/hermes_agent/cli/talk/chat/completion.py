"""What can be completed while typing: chat commands with their descriptions, what they take, and
`@path`."""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hermes_agent.cli.arguments import EFFORT_LEVELS
from hermes_agent.cli.output.formatting import one_line
from hermes_agent.cli.talk.chat.attachments import mention
from hermes_agent.cli.talk.chat.commands import SLASHES
from hermes_agent.cli.talk.chat.session import ChatSession
from hermes_agent.core.errors import HermesError

MOST = 60
"""Candidates offered at once."""
KEEP_SECONDS = 10.0
"""How long a list from the runtime is used again."""

_MENTIONED = re.compile(r'(?<!\S)@("?)([^"\n]*)$')


class ChatCandidate(NamedTuple):
    text: str
    """What replaces the word being typed."""
    about: str = ""
    shown: str = ""
    """How the menu lists it, if not as `text`."""


class ChatCompleter(Completer):
    def __init__(self, talk: ChatSession) -> None:
        self._talk = talk
        self._kept: dict[str, tuple[float, list[ChatCandidate]]] = {}
        self._sources: dict[str, Callable[[str], Iterable[ChatCandidate]]] = {
            "model": self._models,
            "session": lambda _word: self._keep("sessions", self._sessions),
            "skill": lambda _word: self._keep("skills", self._skills),
            "file": paths,
        }

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        del complete_event
        word, candidates = self.candidates(document.text_before_cursor)
        for one in list(candidates)[:MOST]:
            yield Completion(
                one.text, -len(word), display=one.shown or one.text, display_meta=one.about
            )

    def candidates(self, text: str) -> tuple[str, Iterable[ChatCandidate]]:
        """The word that is being typed, and what it may become."""
        name, space, rest = text.removeprefix("/").partition(" ")
        if text.startswith("/") and "\n" not in text and (not space or name in SLASHES):
            if not space:
                return text, matching(text, [*commands(), *self._skill_commands()])
            word = rest.lstrip()
            return word, matching(word, self._sources_of(name, word))
        if found := _MENTIONED.search(text):
            quote, typed = found.groups()
            if quote or " " not in typed:
                return found.group(), (
                    one._replace(text=mention(one.text)) for one in paths(typed) if one.text
                )
        return "", ()

    def _sources_of(self, command: str, word: str) -> Iterable[ChatCandidate]:
        completes = SLASHES[command].completes
        if isinstance(completes, tuple):
            return (ChatCandidate(choice) for choice in completes)
        if completes == "model" and " " in word:
            chosen = word.partition(" ")[0]
            return (
                ChatCandidate(f"{chosen} {level}", "reasoning effort") for level in EFFORT_LEVELS
            )
        source = self._sources.get(completes)
        return source(word) if source else ()

    def _keep(self, name: str, load: Callable[[], list[ChatCandidate]]) -> list[ChatCandidate]:
        now = time.monotonic()
        since, found = self._kept.get(name, (-KEEP_SECONDS, []))
        if now - since >= KEEP_SECONDS:
            try:
                found = load()
            except HermesError:
                found = []
            self._kept[name] = now, found
        return found

    def _sessions(self) -> list[ChatCandidate]:
        rows: list[dict[str, Any]] = self._talk.api.get("/v1/sessions?parent=", limit=200)
        return [ChatCandidate(row["name"] or row["id"], one_line(row["title"], 50)) for row in rows]

    def _skills(self) -> list[ChatCandidate]:
        rows: list[dict[str, Any]] = self._talk.api.get("/v1/skills")
        return [ChatCandidate(row["name"], one_line(row["description"], 60)) for row in rows]

    def _skill_commands(self) -> list[ChatCandidate]:
        skills = self._keep("skills", self._skills)
        return [ChatCandidate(f"/{one.text}", f"skill: {one.about}") for one in skills]

    def _models(self, word: str) -> Iterator[ChatCandidate]:
        """The current service's models first, then those of the others."""
        from hermes_agent.models.catalogue.catalogue import Catalogue

        service = self._talk.model.partition("/")[0]
        catalogue = Catalogue()
        seen: set[str] = set()
        for where in (service, ""):
            try:
                found = catalogue.search(word, service=where, limit=MOST)
            except HermesError:
                continue
            for entry in found:
                if entry.name not in seen:
                    seen.add(entry.name)
                    yield ChatCandidate(entry.name, f"{entry.facts.context:,} tokens of context")


def commands() -> Iterator[ChatCandidate]:
    for name, slash in SLASHES.items():
        yield ChatCandidate(f"/{name}", slash.summary, slash.usage)


def matching(word: str, candidates: Iterable[ChatCandidate]) -> list[ChatCandidate]:
    """Those that begin with the word, then those that have it elsewhere."""
    word = word.lower()
    found = [one for one in candidates if word.removeprefix("/") in one.text.lower()]
    return sorted(found, key=lambda one: not one.text.lower().startswith(word))


def paths(word: str) -> Iterator[ChatCandidate]:
    """Files and folders that begin with the word; hidden ones only when asked for."""
    folder, name = os.path.split(word)
    try:
        entries = list(os.scandir(os.path.expanduser(folder) or "."))
    except OSError:
        return
    for entry in sorted(entries, key=lambda one: one.name.lower()):
        hidden = entry.name.startswith(".") and not name.startswith(".")
        if not hidden and entry.name.lower().startswith(name.lower()) and entry.name.isprintable():
            ending = "/" if entry.is_dir() else ""
            yield ChatCandidate(os.path.join(folder, entry.name) + ending, "", entry.name + ending)
