"""Public catalogues of models, in the two formats that exist, as facts. Nothing in them is taken on
trust: which models are of use, and which facts can be true, is decided here."""

import re
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.core.messages import EFFORTS, Effort, ModelFacts, Rates
from hermes_agent.models.catalogue.catalogue import undated

MAX_DOLLARS = 10_000.0
"""Per million tokens; nothing costs more."""
MAX_TOKENS = 1_000_000_000
LEAST_CONTEXT = 16_000
"""A smaller context does not hold an agent's prompt and tools."""
OLDEST = "2024-06"
"""Older models are of no use."""

CODEX_CONTEXT = 272_000
"""The context that a subscription gets, by the list inside OpenAI's own client."""
OLD_CLAUDE_CONTEXT = 200_000
"""Before 4.6, more than this was a beta that had to be requested."""

Facts = dict[str, ModelFacts]

_NAME = re.compile(r"[A-Za-z0-9~._:/+-]{1,200}")
"""The characters of a model name, which is shown on terminals."""

_NO_CHAT = re.compile(
    r"embed|rerank|moderation|guard|-tts|transcri|whisper|realtime|-live|audio|-image|imagine|"
    r"lyria|veo-|\bocr|-ocr|robotics|computer-use|deep-research|search-preview|search-api|-mt-|"
    r"orpheus|translat|character|parse|retriev|^ft:|container|rosalind|-fim-|safety|reward|@|"
    r"gpt-3\.5|gpt-4-|-exp-|experimental",
    re.IGNORECASE,
)
"""Names of models that are not for agents."""


class BrokenCatalogue(HermesError):
    """The catalogue is unusable."""


class CannotBe(BrokenCatalogue):
    """The facts of one model are implausible; the others are still used."""


class Converted(Struct, frozen=True):
    facts: Facts
    gone: frozenset[str]
    """Models that are no longer served, or soon will not be."""
    shape: str
    """Whose catalogue it is: `models.dev` or `litellm`."""


def converted(data: bytes, today: str) -> Converted:
    """The facts in a public catalogue, without models that are switched off by `today`
    (2026-01-31)."""
    try:
        top = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        return _recognised(data, top, today)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BrokenCatalogue(f"it is not a JSON object: {error}") from None
    except RecursionError:
        raise BrokenCatalogue("it is nested too deeply") from None


def _recognised(data: bytes, top: dict[str, msgspec.Raw], today: str) -> Converted:
    gone: set[str] = set()
    if b'"litellm_provider"' in data:
        facts, shape = _from_litellm(top, today, gone), "litellm"
    elif b'"models"' in data:
        facts, shape = _from_models_dev(top, gone), "models.dev"
    else:
        raise BrokenCatalogue("it is neither models.dev's catalogue nor litellm's")
    return Converted(without_copies(facts), frozenset(gone), shape)


def finished(facts: Facts) -> Facts:
    """The facts sorted, with a default output limit where there is none."""
    default = ModelFacts().max_output
    return {
        name: msgspec.structs.replace(
            model, max_output=min(model.max_output or default, model.context)
        )
        for name, model in sorted(facts.items())
    }


def without_copies(facts: Facts) -> Facts:
    """The facts without dated snapshots of models that are there themselves."""
    return {
        name: model
        for name, model in facts.items()
        if undated(name) == name or undated(name) not in facts
    }


# models.dev: `api.json`, services with their models

MODELS_DEV_SERVICES: dict[str, str] = {
    "alibaba": "qwen", "amazon-bedrock": "bedrock", "anthropic": "anthropic", "azure": "azure",
    "cerebras": "cerebras", "cohere": "cohere", "deepseek": "deepseek",
    "fireworks-ai": "fireworks", "github-models": "github", "google": "gemini", "groq": "groq",
    "huggingface": "huggingface", "minimax": "minimax", "mistral": "mistral",
    "moonshotai": "moonshot", "nvidia": "nvidia", "openai": "openai", "openrouter": "openrouter",
    "perplexity": "perplexity", "sambanova": "sambanova", "togetherai": "together", "xai": "xai",
    "zai": "zai",
}  # fmt: skip
"""Our names for the services of models.dev."""


class _Cost(Struct, frozen=True):
    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class _Tier(_Cost, frozen=True):
    tier: dict[str, Any] = {}


class _TieredCost(_Cost, frozen=True):
    tiers: tuple[_Tier, ...] = ()
    context_over_200k: _Cost | None = None


class _Limit(Struct, frozen=True):
    context: float
    output: float = 0
    input: float = 0


class _Modalities(Struct, frozen=True):
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()


class _Option(Struct, frozen=True):
    type: str
    values: tuple[str | None, ...] = ()


class _DevModel(Struct, frozen=True):
    limit: _Limit
    modalities: _Modalities = _Modalities()
    cost: _TieredCost | None = None
    reasoning: bool = False
    reasoning_options: tuple[_Option, ...] | None = None
    tool_call: bool = False
    release_date: str = ""
    last_updated: str = ""
    status: str = ""
    provider: dict[str, Any] = {}


class _DevService(Struct, frozen=True):
    models: dict[str, _DevModel]


def _from_models_dev(top: dict[str, msgspec.Raw], gone: set[str]) -> Facts:
    facts: Facts = {}
    for theirs, ours in MODELS_DEV_SERVICES.items():
        if theirs not in top:
            continue
        try:
            service = msgspec.json.decode(top[theirs], type=_DevService)
        except msgspec.MsgspecError as error:
            raise BrokenCatalogue(f"its entry for {theirs} makes no sense: {error}") from None
        for model, said in service.models.items():
            name = f"{ours}/{model}"
            if said.status == "deprecated":
                gone.add(name)
            elif _of_use_by_dev(ours, model, said):
                with suppress(CannotBe):
                    facts[name] = _dev_facts(name, ours, model, said)
    return facts


def _of_use_by_dev(service: str, model: str, said: _DevModel) -> bool:
    elsewhere = said.provider.get("npm") == "@ai-sdk/anthropic" and service == "azure"
    return (
        _of_use(service, model, said.limit.input or said.limit.context, said.tool_call)
        and said.modalities.output == ("text",)
        and (max(said.release_date, said.last_updated) or OLDEST) >= OLDEST
        and not elsewhere
    )


def _dev_facts(name: str, service: str, model: str, said: _DevModel) -> ModelFacts:
    options = said.reasoning_options or ()
    steps = [value for option in options if option.type == "effort" for value in option.values]
    budget = any(option.type == "budget_tokens" for option in options)
    efforts, thinking = _reasoning(service, model, said.reasoning, steps, budget)
    context = said.limit.input or said.limit.context
    return ModelFacts(
        context=_tokens(name, _window(service, model, context)),
        max_output=_tokens(name, said.limit.output),
        rates=_dev_rates(name, said.cost) if said.cost else (),
        efforts=efforts,
        thinking=thinking,
        sees="image" in said.modalities.input,
        reads="pdf" in said.modalities.input,
        tools=said.tool_call,
    )


def _dev_rates(name: str, cost: _TieredCost) -> tuple[Rates, ...]:
    steps: dict[int, _Cost] = {0: cost}
    for tier in cost.tiers:
        if isinstance(size := tier.tier.get("size"), int | float):
            steps[_tokens(name, size)] = tier
    if len(steps) == 1 and cost.context_over_200k:
        steps[200_000] = cost.context_over_200k
    return tuple(
        _one_rate(name, step.input, step.output, step.cache_read, step.cache_write, above)
        for above, step in sorted(steps.items())
    )


# litellm: one object, a model each, prices per token

LITELLM_SERVICES: dict[str, str] = {
    "anthropic": "anthropic", "azure": "azure", "bedrock_converse": "bedrock",
    "cerebras": "cerebras", "chatgpt": "codex", "cohere_chat": "cohere", "dashscope": "qwen",
    "deepseek": "deepseek", "fireworks_ai": "fireworks", "gemini": "gemini", "groq": "groq",
    "minimax": "minimax", "mistral": "mistral", "moonshot": "moonshot", "openai": "openai",
    "openrouter": "openrouter", "perplexity": "perplexity", "sambanova": "sambanova",
    "together_ai": "together", "xai": "xai", "zai": "zai",
}  # fmt: skip
"""Our names for the services of litellm."""


def _from_litellm(top: dict[str, msgspec.Raw], today: str, gone: set[str]) -> Facts:
    facts: Facts = {}
    for key, raw in top.items():
        try:
            said = msgspec.json.decode(raw, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise BrokenCatalogue(f"its entry for {key} makes no sense: {error}") from None
        theirs = said.get("litellm_provider")
        ours = LITELLM_SERVICES.get(theirs) if isinstance(theirs, str) else None
        if ours is None or said.get("mode") not in ("chat", "responses"):
            continue
        model = key.removeprefix(f"{theirs}/")
        if str(said.get("deprecation_date") or "9") <= today:
            gone.add(f"{ours}/{model}")
            continue
        context = _number(key, said, "max_input_tokens") or _number(key, said, "max_tokens") or 0
        if _of_use(ours, model, context, said.get("supports_function_calling") is True):
            with suppress(CannotBe):
                facts[f"{ours}/{model}"] = _litellm_facts(key, ours, model, context, said)
    return facts


def _litellm_facts(
    key: str, service: str, model: str, context: float, said: dict[str, Any]
) -> ModelFacts:
    reasons = said.get("supports_reasoning") is True
    steps = said.get("reasoning_effort_levels")
    if not isinstance(steps, list):
        # The flags tell only of the highest steps, and of nothing where effort is no field.
        own_field = service in ("anthropic", "openai", "codex", "gemini", "bedrock")
        steps = ["low", "medium", "high"] if reasons and own_field else []
        steps += [s for s in ("xhigh", "max") if said.get(f"supports_{s}_reasoning_effort") is True]
    efforts, thinking = _reasoning(
        service, model, reasons, steps, said.get("supports_adaptive_thinking") is not True
    )
    return ModelFacts(
        context=_tokens(key, _window(service, model, context)),
        max_output=_tokens(key, _number(key, said, "max_output_tokens") or 0),
        # A subscription pays for these: a token more costs nothing.
        rates=(Rates(0.0, 0.0),) if service == "codex" else _litellm_rates(key, said),
        efforts=efforts,
        thinking=thinking,
        sees=said.get("supports_vision") is True,
        reads=said.get("supports_pdf_input") is True,
        tools=said.get("supports_function_calling") is True,
    )


_PRICE = "input_cost_per_token", "output_cost_per_token"
_CACHE = "cache_read_input_token_cost", "cache_creation_input_token_cost"


def _litellm_rates(key: str, said: dict[str, Any]) -> tuple[Rates, ...]:
    rates: list[Rates] = []
    for above, step, suffix in sorted(_steps(key, said), key=lambda step: step[0]):
        prices = [_number(key, step, field + suffix) for field in (*_PRICE, *_CACHE)]
        input, output, cached, written = (p if p is None else p * 1_000_000 for p in prices)
        if input is None or output is None:
            break
        rates.append(_one_rate(key, input, output, cached, written, above))
    return tuple(rates)


def _steps(key: str, said: dict[str, Any]) -> list[tuple[int, dict[str, Any], str]]:
    """For each price: from how many tokens it applies, its object, and the suffix of its fields."""
    if isinstance(tiers := said.get("tiered_pricing"), list):
        return [
            (_tokens(key, tier["range"][0]), tier, "")
            for tier in tiers
            if isinstance(tier, dict) and isinstance(tier.get("range"), list) and tier["range"]
        ]
    found = (re.fullmatch(r"input_cost_per_token(_above_(\d+)k_tokens)", field) for field in said)
    return [(0, said, "")] + [(int(step[2]) * 1000, said, step[1]) for step in found if step]


# checks


def _of_use(service: str, model: str, context: float, tools: bool) -> bool:
    # Perplexity's models search by themselves and call no tools.
    return (
        (tools or service == "perplexity")
        and context >= LEAST_CONTEXT
        and not _NO_CHAT.search(model)
        and _NAME.fullmatch(model) is not None
    )


def _window(service: str, model: str, context: float) -> float:
    """How much of a model's context a service gives."""
    if service == "codex":
        return min(context, CODEX_CONTEXT)
    if (
        service in ("anthropic", "bedrock")
        and "claude" in model
        and _claude_version(model) < (4, 6)
    ):
        return min(context, OLD_CLAUDE_CONTEXT)
    return context


def _reasoning(
    service: str, model: str, reasons: bool, steps: list[Any], budget: bool
) -> tuple[tuple[Effort, ...], str]:
    """The effort levels, and how the wire format asks for them. `budget`: whether the model accepts
    a number of thinking tokens."""
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
    """(major, minor); a name without a number is new."""
    found = re.search(r"claude-[a-z]+-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)", model)
    if found is None:
        return (3, 0) if re.search(r"claude-\d", model) else (99, 0)
    return int(found[1]), int(found[2] or 0)


def _one_rate(
    name: str,
    input: float,
    output: float,
    cached: float | None,
    written: float | None,
    above: int,
) -> Rates:
    for price in (input, output, cached or 0.0, written or 0.0):
        if not 0 <= price <= MAX_DOLLARS:
            raise CannotBe(f"implausible price of {name}: {price:g} dollars per million tokens")
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


def _tokens(name: str, count: Any) -> int:
    told = _float(f"the number of tokens of {name}", count)
    if not 0 <= told <= MAX_TOKENS:
        raise CannotBe(f"implausible number of tokens of {name}: {told:g}")
    return int(told)


def _number(name: str, said: dict[str, Any], field: str) -> float | None:
    value = said.get(field)
    return None if value is None else _float(f"the {field} of {name}", value)


def _float(what: str, value: Any) -> float:
    if not isinstance(value, bool) and isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            pass
    raise BrokenCatalogue(f"{what} is {str(value)[:40]!r}, not a number")
