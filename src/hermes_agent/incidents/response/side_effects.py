"""Tells whether a call only read from the systems, changed something, or may have done either."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes_agent.core.effects import Operation
from hermes_agent.policy import shell

Did = Literal["looked", "changed", "unclear"]

LOOKING_TOOLS = frozenset(
    {"read_file", "search_files", "read_on", "todo", "skill", "write_skill", "memory", "recall",
     "delegate", "execute_code", "incident", "web_search", "web_fetch", "browser", "find_tools",
     "ask_user", "what_changed", "prometheus", "alertmanager", "journal", "log_files", "loki",
     "opensearch", "kubernetes", "containers", "git_host", "argocd", "postgresql", "mysql", "redis",
     "probe", "read_feed", "calendar", "transcribe"}
)  # fmt: skip
"""Tools that change nothing themselves; the calls that they make are judged on their own."""
CHANGING_TOOLS = frozenset(
    {
        "write_file",
        "patch",
        "browser_act",
        "silence_alerts",
        "open_pull_request",
        "make_image",
        "speak",
    }
)
SCRATCH = ("/tmp/", "/var/tmp/")  # noqa: S108 - output that is put there changes no system
NOWHERE = ("/dev/null", "/dev/std", "/dev/fd/", "/dev/tty", "/proc/self/")

_TABLES: dict[str, Any] = msgspec.yaml.decode(
    Path(__file__).with_name("side_effects.yaml").read_bytes()
)
LOOKING, CHANGING, HARMLESS, ASKING = (
    frozenset(_TABLES[name].split()) for name in ("looking", "changing", "harmless", "asking")
)
ASKING_WORDS = re.compile(_TABLES["asking_words"])
VERBS = {program: frozenset(words.split()) for program, words in _TABLES["verbs"].items()}
CHANGING_WORDS = {
    program: re.compile(pattern) for program, pattern in _TABLES["changing_words"].items()
}


def did(tool: str, arguments: Mapping[str, Any], checks: Sequence[str] = ()) -> Did:
    """What a call with these arguments does, as far as its text shows. Running one of `checks` by
    hand counts as looking."""
    if tool in CHANGING_TOOLS:
        return "changed"
    if tool in LOOKING_TOOLS:
        return "looked"
    if tool == "process":
        return "looked" if arguments.get("action") in {"list", "follow"} else "changed"
    if tool == "terminal":
        return _command(_without(str(arguments.get("command", "")), checks))
    return "unclear"


def _without(command: str, checks: Sequence[str]) -> str:
    for check in checks:
        whole = rf"(?<![^\s;&|({{]){re.escape(check.strip())}(?=\s*(?:$|[;&|)}}\n]))"
        command = re.sub(whole, ":", command)
    return command


@lru_cache(1024)
def _command(text: str) -> Did:
    found: set[Did] = {_act(act) for act in shell.read(text, folder="/")}
    if "changed" in found:
        return "changed"
    return "unclear" if "unclear" in found else "looked"


def _act(act: Operation) -> Did:
    spared = (*NOWHERE, *SCRATCH) if act.program in LOOKING else NOWHERE
    for place in act.places:
        if place.access != "read" and not (place.named or place.given).startswith(spared):
            return "changed"
    if act.kind == "unknown":
        return "looked" if act.program in HARMLESS else "unclear"
    if act.kind != "program":
        return "looked"
    words = " ".join(act.arguments)
    if act.program in CHANGING:
        asks = act.program in ASKING and ASKING_WORDS.search(words)
        return "looked" if asks else "changed"
    if (pattern := CHANGING_WORDS.get(act.program)) and pattern.search(words):
        return "changed"
    allowed = VERBS.get(act.program)
    if allowed and act.verb not in allowed:
        return "changed" if act.verb else "unclear"
    return "looked" if act.program in LOOKING else "unclear"
