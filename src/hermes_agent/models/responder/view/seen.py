"""What commands came to, as values, and lines of it that can be quoted."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from hermes_agent.core.messages import ToolMessage

QUOTE_CHARS = (12, 300)
"""How short and how long a quote may be."""
_EXIT = re.compile(r"\[exit code (\d+)\]")
_OURS = re.compile(r"/\.cache/hermes/|/tmp/hermes-\d+/")
"""Where a terminal keeps what it runs for us: no part of the machine that is looked at."""
HIDDEN = re.compile(r"\[redacted:[^\]]*\]?")
"""What stands for a secret that we are not shown: no call may hold it."""
_MARK = re.compile(r"\[(?:stderr|no output|exit code \d+|timed out after [^\]]*)\]")


class Seen(Struct, frozen=True):
    """A command, and what it came to."""

    command: str
    output: str
    exit: int | None = 0
    """None where it did not come to an end of its own, or was not allowed."""

    @property
    def ok(self) -> bool:
        return self.exit == 0

    @property
    def lines(self) -> list[str]:
        return [line for line in self.output.splitlines() if line and not _MARK.fullmatch(line)]

    def having(self, pattern: str, flags: int = re.IGNORECASE) -> Iterator[str]:
        """Its lines that hold the pattern."""
        return (line for line in self.lines if re.search(pattern, line, flags))


def seen(command: str, result: ToolMessage) -> Seen:
    """What the tool for commands tells of one."""
    text = "\n".join(line for line in result.text.splitlines() if not _OURS.search(line))
    if result.ok:
        return Seen(command, "" if text == "[no output]" else text)
    head, _, last = text.rpartition("\n")
    code = _EXIT.fullmatch(last)
    return Seen(command, head, int(code[1])) if code else Seen(command, text, None)


def quote(line: str) -> str:
    """As much of a line as may be quoted: of one with secrets, the longest part that has none;
    empty where it is too short to tell anything."""
    part = max(HIDDEN.split(line), key=len)
    short = part.strip()[: QUOTE_CHARS[1]].strip()
    return short if len(" ".join(short.split())) >= QUOTE_CHARS[0] else ""


def quotes(lines: Sequence[str], most: int = 3) -> tuple[str, ...]:
    """The first of the lines that can be quoted, each once."""
    found = dict.fromkeys(text for line in lines if (text := quote(line)))
    return tuple(found)[:most]
