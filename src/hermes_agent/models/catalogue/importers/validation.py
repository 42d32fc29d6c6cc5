"""What every public catalogue is held against: which models are of use, and which facts can be
true."""

import re
from typing import Any

from hermes_agent.core.errors import HermesError
from hermes_agent.core.messages import EFFORTS, Effort, ModelFacts, Rates

MAX_DOLLARS = 10_000.0
"""Per million tokens; nothing costs as much."""
MAX_TOKENS = 1_000_000_000
LEAST_CONTEXT = 16_000
"""A smaller window does not hold an agent's prompt and tools."""
OLDEST = "2024-06"
"""Models from before are no longer of use."""

CODEX_CONTEXT = 272_000
"""What a subscription is given of a model's window, by the list inside OpenAI's own client."""
OLD_CLAUDE_CONTEXT = 200_000
"""Before 4.6 more than this was a trial that had to be asked for."""

Facts = dict[str, ModelFacts]

_NAME = re.compile(r"[A-Za-z0-9~._:/+-]{1,200}")
"""Names are shown on terminals: nothing else may stand in them."""

_NO_CHAT = re.compile(
    r"embed|rerank|moderation|guard|-tts|transcri|whisper|realtime|-live|audio|-image|imagine|"
    r"lyria|veo-|\bocr|-ocr|robotics|computer-use|deep-research|search-preview|search-api|-mt-|"
    r"orpheus|translat|character|parse|retriev|^ft:|container|rosalind|-fim-|safety|reward|@|"
    r"gpt-3\.5|gpt-4-|-exp-|experimental",
    re.IGNORECASE,
)
"""Names of what is no model for an agent."""


class BrokenCatalogue(HermesError):
    """What was read is no catalogue that one could use."""


class CannotBe(BrokenCatalogue):
    """What is said of one model cannot be true; the others are none the worse for it."""


def of_use(service: str, model: str, context: float, tools: bool) -> bool:
    # Perplexity's models search by themselves and call no tools.
    return (
        (tools or service == "perplexity")
        and context >= LEAST_CONTEXT
        and not _NO_CHAT.search(model)
        and _NAME.fullmatch(model) is not None
    )


def window(service: str, model: str, context: float) -> float:
    """How much of a model's window one is given."""
    if service == "codex":
        return min(context, CODEX_CONTEXT)
    if (
        service in ("anthropic", "bedrock")
        and "claude" in model
        and _claude_version(model) < (4, 6)
    ):
        return min(context, OLD_CLAUDE_CONTEXT)
    return context


def reasoning(
    service: str, model: str, reasons: bool, steps: list[Any], budget: bool
) -> tuple[tuple[Effort, ...], str]:
    """The steps of effort, and the word for the wire format. `budget`: whether it may be told a
    number of tokens to think with."""
    efforts = tuple(effort for effort in EFFORTS if effort in steps)
    if not reasons:
        return (), ""
    if service == "anthropic" or (service == "bedrock" and "claude" in model):
        # From 4.6 on they think adaptively, even where the old way still works.
        if _claude_version(model) < (4, 6) and budget:
            return EFFORTS, "budget"
        return efforts, "adaptive"
    if service == "gemini":
        if "gemini-2" in model:
            return ("low", "medium", "high"), "budget"
        return efforts, "level" if efforts else ""
    if service == "bedrock":
        return (), ""  # no field for it in its format
    if service == "openrouter" and not efforts:
        return ("low", "medium", "high"), ""  # it makes of these what the model understands
    return efforts, ""


def _claude_version(model: str) -> tuple[int, int]:
    """As (major, minor); what has no number is new."""
    found = re.search(r"claude-[a-z]+-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)", model)
    if found is None:
        return (3, 0) if re.search(r"claude-\d", model) else (99, 0)
    return int(found[1]), int(found[2] or 0)


def one_rate(
    name: str,
    input: float,
    output: float,
    cached: float | None,
    written: float | None,
    above: int,
) -> Rates:
    for price in (input, output, cached or 0.0, written or 0.0):
        if not 0 <= price <= MAX_DOLLARS:
            raise CannotBe(f"it says that {name} costs {price:g} dollars a million tokens")
    return Rates(
        _rounded(input),
        _rounded(output),
        # A zero stands for "not told" where the rest has a price.
        _rounded(cached) if cached and cached != input else None,
        _rounded(written) if written and written != input else None,
        above,
    )


def _rounded(dollars: float) -> float:
    return round(dollars, 6)


def tokens(name: str, count: Any) -> int:
    told = _float(f"the number of tokens of {name}", count)
    if not 0 <= told <= MAX_TOKENS:
        raise CannotBe(f"it says that {name} has {told:g} tokens")
    return int(told)


def number(name: str, said: dict[str, Any], field: str) -> float | None:
    value = said.get(field)
    return None if value is None else _float(f"the {field} of {name}", value)


def _float(what: str, value: Any) -> float:
    if not isinstance(value, bool) and isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            pass
    raise BrokenCatalogue(f"{what} is {str(value)[:40]!r}, which is no number")
