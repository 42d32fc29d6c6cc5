"""Lasting consent: keys for the session, and rules that would allow the same permanently."""

import json
import re
from collections.abc import Iterable
from typing import Any

from hermes_agent.core.effects import Effect, Operation
from hermes_agent.core.errors import HermesError
from hermes_agent.policy.files.schema import PolicyRule
from hermes_agent.policy.match import NOT_GIVEN, is_unknown
from hermes_agent.policy.operations import as_json, is_elsewhere
from hermes_agent.policy.patterns.globs import escape
from hermes_agent.policy.patterns.hosts import WORDS, host_facts, trouble
from hermes_agent.policy.shell.programs.table import runs_elsewhere
from hermes_agent.policy.word_lists import word_list

_MAX_LENGTH = 400
_PLAIN = re.compile(r"[\w.:-]+")
_RUNNERS = word_list("runners")
"""Programs that run what their arguments name: consent to one run covers no other."""

_BINDING = frozenset(
    {"action", "target", "to", "cc", "bcc", "recipient", "recipients", "channel", "channel_id",
     "chat", "chat_id", "room", "user", "user_id", "email", "address", "phone", "webhook"}
)  # fmt: skip
"""Arguments that say what a tool does, or whom it reaches: consent to one value covers no other."""


def key_of(effect: Effect, act: Operation, rule: PolicyRule | None) -> str:
    """What "yes, for this session" covers: the program and its verb, the path, the host, or the
    tool with its action, recipients and hosts; the exact text where the operation is not
    understood or the rule is `exact`."""
    name = rule.name if rule is not None else "default"
    return f"{name}|{_subject(effect, act, rule)}|{effect.terminal}"


def _is_exact(act: Operation, rule: PolicyRule | None) -> bool:
    if is_unknown(act):
        return True
    if act.kind == "call" and not all(act.hosts):
        return True  # what it reaches is unknown
    if act.kind == "path":
        return False  # a path with its access and target says more than its text
    if rule is not None:
        return rule.exact
    return act.kind == "program" and (act.program in _RUNNERS or "/" in act.program)


def _is_part(effect: Effect, act: Operation) -> bool:
    """Whether the text may be only part of what runs: then the whole command counts."""
    return effect.command is not None and (is_unknown(act) or len(act.text) >= _MAX_LENGTH)


def _subject(effect: Effect, act: Operation, rule: PolicyRule | None) -> str:
    if _is_exact(act, rule):
        words = " ".join((*act.via, act.text))
        if _is_part(effect, act):
            words = f"{effect.command} | {words}"
        return f"={_cut(words)}"
    match act.kind:
        case "path":
            place = act.places[0]
            real = place.real[0] if len(place.real) == 1 else json.dumps(place.real)
            return f"{place.access} {real}"
        case "host":
            return f"host {act.hosts[0]}"
        case "call":
            return _cut(_call(effect, act))
        case _:
            return " ".join(word for word in (*act.via, act.program, act.verb) if word)


def _call(effect: Effect, act: Operation) -> str:
    """`tool[ action][ argument=value…][ on host,…]`. Words with special characters are quoted, so
    that keys are unambiguous."""
    bound = _bound(effect)
    action = bound.pop("action", None)
    words = [effect.tool] + ([] if action is None else [_quoted(action)])
    words += [f"{name}={_quoted(value)}" for name, value in bound.items() if value is not None]
    if act.hosts:
        words += ["on", ",".join(_quoted(host) for host in act.hosts)]
    return " ".join(words)


def _bound(effect: Effect) -> dict[str, str | None]:
    """The arguments that say what the tool does and whom it reaches, as rules compare them; None
    for those that are not given."""
    names = sorted(_BINDING.intersection((*effect.parameters, *effect.input)))
    given = {name: effect.input.get(name) for name in names}
    return {
        name: None if value in NOT_GIVEN else value if isinstance(value, str) else as_json(value)
        for name, value in given.items()
    }


def _quoted(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else json.dumps(word)


def _cut(words: str) -> str:
    return words if len(words) <= _MAX_LENGTH else f"{words[:40]}…{_digest(words)}"


_ESCAPED = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""What YAML reads as the end of a line, or not at all."""


def proposal(effect: Effect, asking: Iterable[tuple[Operation, PolicyRule | None]]) -> str:
    """Rules, as YAML list items, that would allow these operations. Empty when a text cannot be
    written in YAML, or a host is invalid."""
    items: dict[str, None] = {}
    for act, rule in asking:
        match = {**_match(effect, act, _is_exact(act, rule)), "terminal": escape(effect.terminal)}
        if any(trouble(host) for host in match.get("host", ())):
            return ""
        if _is_far(act):
            match |= _via(act) | _input(effect)
        lines = "".join(f"    {key}: {_written(value)}\n" for key, value in match.items())
        id = "-".join(["allow", *_slug(act), _digest(lines)[:6]])
        items[f"- id: {id}\n  match:\n{lines}  then: allow\n"] = None
    text = "".join(items)
    return text if text.isascii() or _is_valid(text) else ""


def appended(text: str, rules: str) -> str:
    """A policy file of the user with these rules at its end; a new one when `text` is empty."""
    if not text.strip():
        text = (
            "version: 1\ndescription: what people allowed permanently when Hermes asked\nrules:\n"
        )
    last = [line for line in text.splitlines() if line and not line.startswith((" ", "#", "-"))]
    if not last or last[-1].partition("#")[0].strip() != "rules:":
        raise HermesError(
            "rules can be appended to a file only where `rules:` comes last",
            "move `tests:` and the rest before it, or add the rule by hand",
        )
    below = text[text.rindex("\nrules:") :] if "\nrules:" in text else text
    first = next((line for line in below.splitlines() if line.lstrip().startswith("- ")), "- ")
    indent = first[: len(first) - len(first.lstrip())]
    added = "".join(f"{indent}{line}\n" for line in rules.splitlines())
    return f"{text.rstrip()}\n{added}"


def _match(effect: Effect, act: Operation, exact: bool) -> dict[str, Any]:
    if exact:
        match: dict[str, Any] = {"kind": act.kind, "text": escape(act.text)}
        if is_unknown(act):
            match["unknown"] = True
        if act.kind in ("program", "unknown"):
            match |= _via(act)
        if _is_part(effect, act):
            match |= _input(effect)
        return match if act.kind != "call" else {"tool": escape(effect.tool), **match}
    match act.kind:
        case "path":
            place = act.places[0]
            paths = dict.fromkeys(escape(path) for path in (place.named, *place.real))
            return {"kind": "path", "path": list(paths), "access": place.access}
        case "host":
            return {"kind": "host", "host": [_host(act.hosts[0])]}
        case "call":
            match = {"kind": "call", "tool": escape(effect.tool)}
            if bound := _bound(effect):
                match["input"] = {
                    name: value if value is None else escape(value) for name, value in bound.items()
                }
            if act.hosts:
                match["host"] = [_host(host) for host in act.hosts]
            return match
        case _:
            return {"kind": "program", "program": escape(act.program), "verb": escape(act.verb),
                    **_via(act)}  # fmt: skip


def _host(host: str) -> str:
    """A pattern that matches only this host, even one called `public`."""
    name = host_facts(host).name
    return f"[{name[0]}]{name[1:]}" if name in WORDS else escape(name)


def _input(effect: Effect) -> dict[str, Any]:
    """The exact command."""
    names = [name for name, value in effect.input.items() if value == effect.command]
    return {"input": {name: escape(effect.command or "") for name in names}}


def _is_far(act: Operation) -> bool:
    """Whether it runs something on another machine or in a container: no program or path says
    which, so only the whole command can be allowed permanently."""
    runner = act.kind == "program" and runs_elsewhere(act.program, act.verb)
    return act.kind != "host" and (is_elsewhere(act) or runner)


def _via(act: Operation) -> dict[str, Any]:
    return {"via": [escape(word) for word in act.via]} if act.via else {"no_via": "*"}


def _slug(act: Operation) -> list[str]:
    words = f"{act.program} {act.verb}" if act.kind == "program" else act.kind
    return ["".join(c for c in word if c.isalnum() or c in "._") or "x" for word in words.split()]


def _digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _written(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _is_valid(text: str) -> bool:
    return text.encode("utf-8", "replace").decode() == text
