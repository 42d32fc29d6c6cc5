"""Values of settings that take a bound or a pause away, and how one such line is set right where
nothing was kept of how it was."""

import re
import shlex
from collections.abc import Iterator

from msgspec import Struct

from hermes_agent.models.responder.rules.sed import extended, replacement
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.versions import keeping, undo_of

_PAUSE = re.compile(
    r"pause|interval|delay|sleep|every|period|wait|backoff|poll|tick|cooldown|throttl|cycle|rest"
    r"|frequency|debounce",
    re.IGNORECASE,
)
BOUND = re.compile(
    r"max|limit|bound|entries|capacity|cach|keep|ttl|expir|session|age|retain|retention|history"
    r"|buffer|backlog|lifetime|evict|recycle",
    re.IGNORECASE,
)
_NOTHING = re.compile(r"[+-]?0+(\.0+)?\s*(ms|s|sec|seconds|m|min)?", re.IGNORECASE)
_ENDLESS = re.compile(
    r"-1|0+|none|null|unlimited|infinit[ey]|inf|never|off|9{5,}|\d{9,}", re.IGNORECASE
)
_TOLD = r"(?:default|usual|usually|normal|normally|was|recommended|typical|e\.g\.)\D{0,16}?"
_AS_READ = {"true": "true|yes|on", "false": "false|no|off"}
"""What is read as one word, whichever of these is written."""
GUESS = {"pause": "1", "bound": "16"}
"""What is worth a try where nobody says what it should be."""


class Edit(Struct, frozen=True):
    path: str
    key: str
    value: str
    better: str
    told: bool
    """Whether somebody says that it should be so: another service, or a remark beside it."""

    @property
    def fix(self) -> tuple[str, ...]:
        return keeping(self.path), self.command

    @property
    def command(self) -> str:
        return changed(self.path, self.key, self.value, self.better)

    @property
    def undo(self) -> str:
        return undo_of(self.path)


def changed(path: str, key: str, value: str, better: str) -> str:
    """The command that gives a key another value, in whatever form it stands there; no other line
    is touched, nor a key that only ends as this one does."""
    own = key.rpartition(".")[2]
    name = re.sub(r"\\?[-_]", "[-_]", extended(own))
    gap = "[\"']?[[:space:]]*[=: ][[:space:]]*[\"']?"
    name = rf"\b{name}" if re.match(r"\w", own) else name
    said = _AS_READ.get(value.lower(), extended(value))
    text = f"s/({name}{gap})({said})([^0-9A-Za-z.]|$)/\\1{replacement(better)}\\3/I"
    return f"sed -i -E {shlex.quote(text)} {shlex.quote(path)}"


def without_pause(case: Case, service: str) -> Iterator[Edit]:
    """Pauses that are nothing."""
    yield from _odd(case, service, _PAUSE, _NOTHING, "pause")


def without_bound(case: Case, service: str) -> Iterator[Edit]:
    """Bounds that bind nothing, in files that were changed lately."""
    written = lately(case, service)
    for edit in _odd(case, service, BOUND, _ENDLESS, "bound"):
        if edit.path in written or edit.told:
            yield edit


def lately(case: Case, service: str) -> list[str]:
    """Files of a service that were written lately, how it is started among them."""
    definition = case.definition(service)
    rows = [row.path for row in parse.sizes(case.text(probes.CHANGED))]
    entry = [definition.path] if definition and definition.path in rows else []
    return [*case.changed(service), *entry]


def _odd(
    case: Case, service: str, keys: re.Pattern[str], values: re.Pattern[str], kind: str
) -> Iterator[Edit]:
    for path, known in case.sources(service):
        for key, value in known.items():
            own = key.rpartition(".")[2]
            if path and keys.search(own) and values.fullmatch(value.strip()):
                told = _elsewhere(case, service, own, values) or _remark(case, path, own)
                unit = re.sub(r"^[-+\d.]+", "", value) if value[:1].isdigit() else ""
                yield Edit(path, own, value, told or GUESS[kind] + unit, bool(told))


def _elsewhere(case: Case, service: str, key: str, values: re.Pattern[str]) -> str:
    """What other services have for it."""
    for other in case.services:
        if other != service:
            for one, value in case.settings(other).items():
                same = one.rpartition(".")[2] == key
                if same and re.fullmatch(r"[\w.]+", value) and not values.fullmatch(value):
                    return value
    return ""


def _remark(case: Case, path: str, key: str) -> str:
    """What a remark in the file says that it should be."""
    remarks = [
        line for line in case.content(path).splitlines() if re.search(r"#|;|//|_comment", line)
    ]
    for line in remarks:
        told = re.search(rf"{_TOLD}(\d+(?:\.\d+)?)", line, re.IGNORECASE)
        if told and (key in line or len(remarks) == 1):
            return told[1]
    return ""
