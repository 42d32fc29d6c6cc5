"""Writes acts down: programs with their places and hosts, and what is unknown."""

import re
import shlex
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from hermes_agent.core.effects import Access, Operation, PathAccess
from hermes_agent.core.text import addresses
from hermes_agent.policy.shell.interpreter.state import (
    ExpandedWord,
    ShellContext,
    State,
    absolute,
    crosses_a_link,
)
from hermes_agent.policy.shell.parser.syntax import UnreadableShell

MAX_ACTS = 2000
_MAX_LENGTH = 4096
_NO_FILES = frozenset(
    {"-", "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero",
     "/dev/full", "/dev/random", "/dev/urandom"}
)  # fmt: skip
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_WHOLE_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*[/?#]")
_REMOTE = re.compile(r"(?:[^/:@]+@)?(?:\[[^\]]*\]|[^/:\[\]]+):")
_PLAIN_WORD = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def shown(fields: Iterable[ExpandedWord]) -> str:
    return " ".join(
        f.text if f.dynamic or f.glob or _PLAIN_WORD.fullmatch(f.text) else shlex.quote(f.text)
        for f in fields
    )


def host_of(field: ExpandedWord) -> str:
    """The host in a URL or an address; empty where it cannot be known."""
    if not field.dynamic:
        return addresses.host_of(field.text)
    found = _WHOLE_HOST.match(field.prefix)
    return addresses.host_of(found.group()) if found else ""


def hosts_of(field: ExpandedWord) -> list[str]:
    """The host of an address. Where that cannot be known, also what must not be reached and is
    named in it."""
    if host := host_of(field):
        return [host]
    words = re.split(r"[^\w.:\[\]-]+", field.text[:_MAX_LENGTH])
    return ["", *(word for word in words if addresses.classify(word) == "metadata")]


def remote_host(field: ExpandedWord) -> str | None:
    """The host of `host:path` or of a URL; None for a path of this machine."""
    text = field.prefix if field.dynamic else field.text
    if _URL.match(text):
        return host_of(field)
    found = _REMOTE.match(text)
    if found is None:
        return None
    # What follows may begin with slashes, which make a URL of it.
    open_end = field.dynamic and not text[found.end() :].strip("/")
    return "" if open_end else addresses.host_of(found.group())


def places_of(field: ExpandedWord, access: Access, state: State) -> list[PathAccess]:
    no_file = field.text in _NO_FILES and (access == "read" or field.text != "/dev/stdin")
    if no_file or (field.dynamic and field.prefix == "/dev/fd/"):
        return []
    if field.dynamic or len(field.text) > _MAX_LENGTH:
        return [PathAccess(access, field.text[:_MAX_LENGTH])]
    if not field.text:
        return []
    found = [
        PathAccess(access, field.text, absolute(field.text, folder), glob=field.glob)
        for folder in (state.folders[:1] if field.text.startswith("/") else state.folders)
    ]
    if crosses_a_link(field.text):
        found.append(PathAccess(access, field.text))
    return found


def loose_options(fields: Sequence[ExpandedWord]) -> list[tuple[str, str | None]]:
    """The options of a program whose options nobody described: the next word may be a value, and
    letters behind one dash may be one option, several, or a value."""
    found: list[tuple[str, str | None]] = []
    for field in fields:
        text = field.prefix if field.dynamic else field.text
        if field.maybe_option:
            found.append(("", None))
        elif text.startswith("-") and len(text) > 1:
            name, equals, value = text.partition("=")
            found.append((name, value if equals and not field.dynamic and not field.glob else None))
            if not name.startswith("--"):
                found += [(f"-{letter}", None) for letter in name[1:] if f"-{letter}" != name]
    return found


class OperationCollector:
    """The acts found so far, each once."""

    def __init__(self) -> None:
        self.acts: dict[Operation, None] = {}
        self.moved = False
        """Whether links may stand now where none was: nobody can tell where a path leads."""

    def add(self, act: Operation) -> None:
        self.acts[act] = None
        if len(self.acts) >= MAX_ACTS:
            raise UnreadableShell("too many operations")

    def unknown(self, text: str, reason: str, around: ShellContext, program: str = "") -> None:
        self.add(
            Operation("unknown", text=text[:500], program=program, via=around.via, reason=reason)
        )

    def places(self, places: Sequence[PathAccess], hosts: Sequence[str], like: Operation) -> None:
        """An act of its own for each place and host of a program."""
        for place in dict.fromkeys(self.found(places, like.program)):
            self.add(
                Operation(
                    "path", place.named or place.given, like.program, like.arguments, like.verb,
                    like.flags, (place,), (), like.via, like.reason, options=like.options,
                )
            )  # fmt: skip
        for host in dict.fromkeys(hosts):
            self.add(
                Operation(
                    "host", host, like.program, like.arguments, like.verb, like.flags, (),
                    (host,), like.via, options=like.options, computed=like.computed,
                )
            )  # fmt: skip

    def found(self, places: Sequence[PathAccess], program: str) -> Sequence[PathAccess]:
        """The places, and wherever else they may lead by now; git itself follows no links."""
        if not self.moved or program in {"git", "git-repository"}:
            return places
        led = (place for place in places if not re.match(r"/(?:dev|proc|sys)/", place.named))
        return [*places, *(replace(place, named="") for place in led)]

    def program(
        self, name: str, fields: Sequence[ExpandedWord], around: ShellContext, *,
        verb: str = "", flags: Sequence[str] = (), places: Sequence[PathAccess] = (),
        hosts: Sequence[str] = (), options: Sequence[tuple[str, str | None]] | None = None,
        reason: str = "", computed: bool = False,
    ) -> None:  # fmt: skip
        """`reason`: why its words do not tell what it does. `computed`: what else it gets is known
        only when it runs."""
        if options is None:
            options = loose_options(fields[1:])
        places = self.found(places, name)
        span = None
        if all(field.start >= 0 for field in fields):
            span = (fields[0].start, fields[-1].end)
        act = Operation(
            "program", shown(fields), name, tuple(field.text for field in fields[1:]), verb,
            tuple(dict.fromkeys(flags)), tuple(dict.fromkeys(places)),
            tuple(dict.fromkeys(hosts)), around.via, reason, span,
            tuple(dict.fromkeys(options)),
            computed or any(field.dynamic and field.computed for field in fields[1:]),
        )  # fmt: skip
        self.add(act)
        self.places(places, hosts, act)
