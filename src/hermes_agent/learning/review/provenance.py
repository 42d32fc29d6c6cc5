"""Tells what the user said from what may be anybody's words: pages, output of commands, files,
alerts. What is not the user's is only proposed to them: it would speak in every later session."""

import re
from collections.abc import Iterable

from msgspec import Struct

from hermes_agent.core import events as ev
from hermes_agent.core.messages import ToolCall
from hermes_agent.core.text.addresses import classify, host_of

OWN_TOOLS = frozenset(
    {"ask_user", "find_tools", "memory", "send_message", "skill", "task", "todo", "write_skill"}
)
"""Tools whose results are ours or the user's."""
REACHING_NOTHING = OWN_TOOLS | {"incident"}
"""Tools whose arguments may quote addresses."""
OTHERS = frozenset({"agent", "webhook"})
"""Sources of messages that neither a user nor Hermes wrote."""
SHARE = 0.6
"""Of a note's words that the user must have said."""
_WORD = re.compile(r"[^\W_][\w./:@%+~$=&?#-]*(?<![.:?-])")
_POINTER = re.compile(r"[/:@.$=~\d]")
"""In an address, a path, a version or an option: one that the user did not name is not theirs."""
_ADDRESS = re.compile(r"://((?:\\[^\"n]|[^\s\"'`\\<>|;)])*)")
_FRAME = frozenset(
    ("called", "from", "have", "like", "likes", "name", "named", "prefer", "prefers", "that",
     "their", "them", "they", "this", "user", "users", "uses", "want", "wants", "with")
)  # fmt: skip
"""Words that a note puts around what was said."""
_PREFIX = 5


class Sources(Struct, frozen=True):
    """Who speaks in some events."""

    said: str
    """All that the user said."""
    others: bool
    """There is more that somebody may have written."""
    remote: bool
    """There is text from other machines: pages, MCP servers, downloads, alerts."""

    def doubts(self, text: str) -> bool:
        """Whether a note may be somebody else's: not in the user's words where other machines
        speak, or with an address that the user did not name where anybody else does."""
        if self.remote:
            return not self.has_said(text)
        addresses = (word for word in text.casefold().split() if "://" in word)
        return self.others and not all(word in self.said for word in addresses)

    def has_said(self, text: str) -> bool:
        """Whether the user said this, in other words perhaps."""
        words = _WORD.findall(text.casefold())
        known = {word[:_PREFIX] for word in _WORD.findall(self.said)}
        plain = [word for word in words if len(word) > 3 and word not in _FRAME]
        found = sum(word[:_PREFIX] in known for word in plain)
        pointers = [word for word in words if _POINTER.search(word)]
        return all(word in self.said for word in pointers) and found >= SHARE * len(plain)


def sources(events: Iterable[ev.Recorded]) -> Sources:
    said: list[str] = []
    others = remote = False
    for one in events:
        match one.event:
            case ev.MessageTaken(text=text, source=source, recalled=recalled, files=files):
                if source in OTHERS:
                    others = remote = True
                else:
                    said.append(text)
                    others = others or bool(recalled.text or files)
            case ev.QuestionAnswered(answer=answer):
                said.append(answer or "")
            case ev.CallFinished(tool=tool):
                others = others or tool not in OWN_TOOLS
                remote = remote or tool.startswith(("web_", "browser")) or "__" in tool
            case ev.Replied(calls=calls):
                remote = remote or any(map(_leads_elsewhere, calls))
            case ev.CallMade(call=call):
                remote = remote or _leads_elsewhere(call)
    return Sources(" ".join(said).casefold(), others, remote)


def _leads_elsewhere(call: ToolCall) -> bool:
    """Whether it has an address of another machine: a service of this one is like its logs."""
    hosts = (host_of(f"http://{one}") for one in _ADDRESS.findall(call.arguments))
    return call.name not in REACHING_NOTHING and any(classify(one) != "loopback" for one in hosts)
