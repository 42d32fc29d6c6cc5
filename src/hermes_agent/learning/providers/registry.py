"""Memory providers: opens the one in the settings, and formats its memories for the model."""

import time
from collections.abc import Callable, Sequence

from hermes_agent.core.errors import UsageError
from hermes_agent.core.settings.root import MemorySettings
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.learning.providers.http import Provider

FENCED_CHARS = 1_500


def open_provider(
    settings: MemorySettings,
    secret: Callable[[str], str],
    clock: Callable[[], float] = time.monotonic,
) -> Provider:
    """`secret` raises `NotFound`. Nothing is connected before the first call."""
    match settings.provider:
        case "mem0":
            from hermes_agent.learning.providers.mem0 import open_mem0

            return open_mem0(settings, secret, clock)
        case "honcho":
            from hermes_agent.learning.providers.honcho import open_honcho

            return open_honcho(settings, secret, clock)
        case "":
            raise UsageError(
                "no memory provider is chosen", "set memory.provider to mem0 or honcho"
            )


def fenced(name: str, lines: Sequence[str]) -> str:
    """Memories as the model is shown them; those at the end are left out if there are too many."""
    left = FENCED_CHARS
    kept: list[str] = []
    for line in lines:
        line = f"- {line}"
        if len(line) > left:
            if not kept:
                kept.append(line[: left - 1] + "…")
            break
        kept.append(line)
        left -= len(line) + 1
    if not kept:
        return ""
    about = f"Background that {name} keeps from earlier conversations. The user did not say it now."
    return wrap_untrusted("memory-context", name, "\n".join((about, *kept)))
