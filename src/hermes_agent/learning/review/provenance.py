"""Tells what the user said from what may be anybody's words: pages, output of commands, files,
alerts. What is not the user's is only proposed to them: it would speak in every later session."""

import re
from collections.abc import Iterable, Sequence

from hermes_agent.core import events as ev

OWN_TOOLS = frozenset(
    {"ask_user", "find_tools", "memory", "send_message", "skill", "task", "todo", "write_skill"}
)
"""Tools whose results are ours or the user's."""
OTHERS = frozenset({"agent", "commander", "webhook"})
"""Sources of messages that no user wrote."""
SHARE = 0.6
"""Of a note's words that the user must have said."""
_WORD = re.compile(r"[^\W_][\w./:@%+~$=&?#-]*")
_POINTER = re.compile(r"[/:@.$=~\d]")
"""In an address, a path, a version or an option: one that the user did not name is not theirs."""
_FRAME = frozenset(
    ("called", "from", "have", "like", "likes", "name", "named", "prefer", "prefers", "that",
     "their", "them", "they", "this", "user", "users", "uses", "want", "wants", "with")
)  # fmt: skip
"""Words that a note puts around what was said."""
_PREFIX = 5


def user_texts(events: Iterable[ev.Recorded]) -> list[str]:
    """What people said in a session."""
    return [
        one.event.text if isinstance(one.event, ev.MessageTaken) else str(one.event.answer)
        for one in events
        if (isinstance(one.event, ev.MessageTaken) and one.event.source not in OTHERS)
        or isinstance(one.event, ev.QuestionAnswered)
    ]


def has_untrusted(events: Iterable[ev.Recorded]) -> bool:
    """Whether anything in a session may be anybody's words."""
    return any(
        (isinstance(one.event, ev.CallFinished) and one.event.tool not in OWN_TOOLS)
        or (
            isinstance(one.event, ev.MessageTaken)
            and (one.event.source in OTHERS or bool(one.event.recalled.text or one.event.files))
        )
        for one in events
    )


def has_fetched(events: Iterable[ev.Recorded]) -> bool:
    """Whether a session has text from other machines: pages, MCP servers, downloads, alerts."""
    return any(
        (isinstance(one.event, ev.CallFinished) and is_remote(one.event.tool))
        or (isinstance(one.event, ev.MessageTaken) and one.event.source in OTHERS)
        or (
            isinstance(one.event, ev.Replied)
            and any("://" in call.arguments for call in one.event.calls)
        )
        or (isinstance(one.event, ev.CallMade) and "://" in one.event.call.arguments)
        for one in events
    )


def is_remote(tool: str) -> bool:
    return tool.startswith(("web_", "browser")) or "__" in tool


def is_said(text: str, said: Sequence[str]) -> bool:
    """Whether a note repeats what the user said, in other words perhaps."""
    heard = " ".join(said).casefold()
    words = [word.rstrip(".:?-") for word in _WORD.findall(text.casefold())]
    known = {word.rstrip(".:?-")[:_PREFIX] for word in _WORD.findall(heard)}
    pointers = [word for word in words if _POINTER.search(word)]
    plain = [word for word in words if len(word) > 3 and word not in _FRAME]
    found = sum(word[:_PREFIX] in known for word in plain)
    return all(word in heard for word in pointers) and found >= SHARE * len(plain)
