"""Summarises a session in a few lines."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from hermes_agent.core.events import Recorded
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.learning.review.transcript import ReviewTranscript, shown
from hermes_agent.learning.structured_output import Ask
from hermes_agent.learning.tables import read_prompts

SUMMARY_CHARS = 1_200
MAX_OUTPUT = 1_500

PROMPTS = read_prompts(Path(__file__).with_name("summary.md"))


class SessionSummary(Struct, frozen=True):
    text: str
    upto: int
    """The last event that it covers."""
    model: str = ""


async def summarise(
    ask: Ask, events: Sequence[Recorded], before: str = ""
) -> SessionSummary | None:
    """Summarise the events since `before`, the last summary. None if nothing was said."""
    if not events:
        return None
    session = events[-1].session
    seen = shown([ReviewTranscript(session, 0, events)])
    if not seen.lines:
        return None
    prompt = PROMPTS["question"].format(most=SUMMARY_CHARS)
    if before:
        so_far = wrap_untrusted("summary", f"session {session}", before)
        prompt += f"\n\n{PROMPTS['update']}\n\n{so_far}"
    answer = await ask("review", PROMPTS["system"], f"{prompt}\n\n{seen.text}", MAX_OUTPUT)
    text = shortened(answer.text) or before
    if not text:
        return None
    return SessionSummary(text, events[-1].number, answer.model)


def shortened(text: str, most: int = SUMMARY_CHARS) -> str:
    """Whole lines or sentences up to the limit."""
    text = text.strip()
    if len(text) <= most:
        return text
    head = text[: most - 1]
    end = max(head.rfind("\n"), head.rfind(". ") + 1, head.rfind("\u3002") + 1)
    return head[:end].rstrip() if end > most // 2 else head + "…"
