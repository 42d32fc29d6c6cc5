"""Finds what is dangerous in an effect, for the people who are asked to allow it: in its
operations, and line by line in the shell scripts that it writes."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from hermes_agent.core.effects import Access, Effect, Operation, Risk
from hermes_agent.core.text.sensitive_paths import is_run_by_others, may_hold_secrets
from hermes_agent.policy import shell
from hermes_agent.policy.files.parse import read_file
from hermes_agent.policy.match import MatchContext, is_unknown
from hermes_agent.policy.patterns.globs import Roots
from hermes_agent.policy.ruleset import RuleSet
from hermes_agent.policy.word_lists import word_list

_RULES = {
    "deleting-programs": "deletes files or stops processes",
    "deleting-verbs": "deletes, stops or replaces something",
    "changing-data": "changes data",
    "switching-off": "changes the machine's security or scheduled jobs",
}
"""Rules of the profile `careful` that know dangerous programs, and what each says of them."""
_DELETES = "deletes files"
_RUNS_FETCHED = "downloads and runs code"
_RIGHTS = frozenset({"chgrp", "chmod", "chown", "setfacl"})
_RECURSIVE = frozenset({"-R", "--recursive"})
_FORCED = frozenset({"-f", "--force", "--force-with-lease", "--mirror", "--delete", "-d"})
_SHELL_FILES = (".sh", ".bash", ".zsh", ".ksh", ".command")
_RUN = word_list("shells") | word_list("coders") | word_list("runners")
_SYSTEM = re.compile(
    r"/(?:etc|usr|bin|sbin|lib\w*|boot|proc|sys|var/(?!tmp/)|opt|Library|System|Applications"
    r"|dev/(?!null|zero|full|fd|std|tty|pts|shm)\w+|)(?:/|$)"
)
_TEXT = 160
"""Characters shown of what is dangerous, in a summary of the whole."""


@cache
def _known() -> RuleSet:
    path = Path(__file__).parent.parent / "policies" / "careful.yaml"
    text = path.read_text("utf-8").partition("\ntests:\n")[0]
    file, _ = read_file(path.stem, str(path), text)
    return RuleSet(rule for rule in file.rules if rule.id in _RULES)


def risks_of(effect: Effect, acts: Iterable[Operation]) -> tuple[Risk, ...]:
    """What is dangerous, each thing once: what the operations are, and what the scripts hold."""
    facts = MatchContext(effect, Roots({}, effect.session))
    argument = next((key for key, value in effect.input.items() if value == effect.command), "")
    found = list(_risks(facts, list(acts), argument, effect.command or ""))
    for key, text in _scripts(effect):
        inside = shell.read(text, folder=effect.folder or effect.workspace)
        if inside and inside[-1].kind == "unknown" and not inside[-1].program:
            # The rest of it could not be read.
            found.append(Risk(f"a script that Hermes cannot check: {inside[-1].reason}", key))
        found += _risks(facts, [act for act in inside if act.kind != "unknown"], key, text)
    return tuple(dict.fromkeys(found))


def _scripts(effect: Effect) -> Iterator[tuple[str, str]]:
    """The arguments that are written to a file as a shell script."""
    written = [path for access, path in effect.paths if access == "write"]
    if effect.command is not None or not written:
        return
    for key, text in effect.input.items():
        if not isinstance(text, str) or text in written or key == "old":
            continue
        name = written[0].rpartition("/")[2]
        if name.endswith(_SHELL_FILES) or _shebang(text) in word_list("shells"):
            yield key, text


def _shebang(text: str) -> str:
    """The name of the program in `#!/bin/sh` or `#!/usr/bin/env bash`."""
    first = text.partition("\n")[0]
    words = first.removeprefix("#!").split() if first.startswith("#!") else []
    names = [word.rpartition("/")[2] for word in words if not word.startswith("-")]
    return names[1] if names[:1] == ["env"] and len(names) > 1 else (names or [""])[0]


def _risks(
    facts: MatchContext, acts: list[Operation], argument: str, source: str
) -> Iterator[Risk]:
    spans = {(act.program, act.arguments): act for act in acts if act.kind == "program"}
    fetched = [act.text for act in acts if act.kind == "program" and act.hosts and _fetches(act)]
    written = {name for act in acts for name in _names(act, "write")}
    said: dict[tuple[str, str], Risk] = {}
    deleting: set[str] = set()
    for act in acts:
        whole = spans.get((act.program, act.arguments), act)
        what_else = ("runs what it writes",) if act.reason and _names(act, "read") & written else ()
        for what in (*_labels(facts, act, fetches=bool(fetched)), *what_else):
            line = 0
            if whole.span is not None and "\n" in source:
                line = source.count("\n", 0, whole.span[0]) + 1
            text = whole.text
            if act.kind == "path" and act.places[0].given not in text:
                text = f"{text} ({act.text})"  # as in a redirection
            if what == _RUNS_FETCHED:
                text = f"{fetched[0]} … {text}"
            said.setdefault((text, what), Risk(what, argument, shortened(text), line))
            if what == _DELETES:
                deleting.add(whole.text)
    for (text, what), risk in said.items():
        if text not in deleting or what not in _RULES.values():
            yield risk


def _labels(facts: MatchContext, act: Operation, *, fetches: bool) -> Iterator[str]:
    for place in act.places if act.kind == "path" else ():
        names = (place.named or place.given, *place.real)
        if place.access == "delete":
            yield _DELETES
        if any(map(may_hold_secrets, names)):
            yield "reads what may be secret" if place.access == "read" else "changes secrets"
        if place.access == "write" and any(map(is_run_by_others, names)):
            yield "changes what other programs run later"
        if place.access == "write" and any(map(_SYSTEM.match, names)):
            yield "changes the system"
    if act.kind in ("program", "unknown"):
        yield from _program_labels(facts, act, fetches=fetches)


def _program_labels(facts: MatchContext, act: Operation, *, fetches: bool) -> Iterator[str]:
    runs = bool(act.reason) and act.program in _RUN
    if act.verb.endswith("push"):
        forced = any(word.startswith(("+", ":")) for word in act.arguments)
        forced = forced or not _FORCED.isdisjoint(act.flags)
        git = act.program == "git" and forced
        yield "force-push: replaces or deletes history elsewhere" if git else "sends data out"
    elif act.kind == "program":
        yield from (_RULES[rule.id] for rule in _known().decide(facts, act, whole=True).fitting)
    if act.program in _RIGHTS and not _RECURSIVE.isdisjoint(act.flags):
        yield "changes who may use everything in a folder"
    if act.hosts and _sends(act):
        yield f"sends data out, to {', '.join(filter(None, act.hosts)) or 'an unknown host'}"
    if elevated := [name for name in act.via if name in word_list("as_another")]:
        yield f"runs as another user ({elevated[0]})"
    if runs and fetches:
        said = act.kind == "program" or act.program in (".", "source")
        yield from (_RUNS_FETCHED,) if said else ()
    elif act.kind == "unknown" and is_unknown(act):
        yield f"Hermes cannot tell what it does: {act.reason}"


def _names(act: Operation, access: Access) -> set[str]:
    return {place.named or place.given for place in act.places if place.access == access}


def _fetches(act: Operation) -> bool:
    return act.program in word_list("tells_hosts")


def _sends(act: Operation) -> bool:
    """Whether it hands over files or a body, as far as its words tell."""
    reads = any(place.access == "read" for place in act.places)
    body = {"-d", "-F", "-T", "--form", "--json", "--upload-file", "--post-data", "--post-file"}
    flagged = any(name in body or name.startswith("--data") for name in act.flags)
    options = dict(act.options)
    method = options.get("--request", options.get("--method", "GET")) or ""
    flagged = flagged or method.upper() not in ("GET", "HEAD", "OPTIONS")
    return _fetches(act) and act.program not in ("git", "ping") and (reads or flagged)


def shortened(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[:_TEXT]} … (the rest is below)"
