"""The catalogue inside litellm: one object, a model each, prices per token."""

import re
from contextlib import suppress
from typing import Any

import msgspec

from hermes_agent.core.messages import ModelFacts, Rates
from hermes_agent.models.catalogue.importers.validation import (
    BrokenCatalogue,
    CannotBe,
    Facts,
    number,
    of_use,
    one_rate,
    reasoning,
    tokens,
    window,
)

SERVICES: dict[str, str] = {
    "anthropic": "anthropic", "azure": "azure", "bedrock_converse": "bedrock",
    "cerebras": "cerebras", "chatgpt": "codex", "cohere_chat": "cohere", "dashscope": "qwen",
    "deepseek": "deepseek", "fireworks_ai": "fireworks", "gemini": "gemini", "groq": "groq",
    "minimax": "minimax", "mistral": "mistral", "moonshot": "moonshot", "openai": "openai",
    "openrouter": "openrouter", "perplexity": "perplexity", "sambanova": "sambanova",
    "together_ai": "together", "xai": "xai", "zai": "zai",
}  # fmt: skip
"""Our names of the services that litellm lists."""


def from_litellm(top: dict[str, msgspec.Raw], today: str, gone: set[str]) -> Facts:
    facts: Facts = {}
    for key, raw in top.items():
        try:
            said = msgspec.json.decode(raw, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise BrokenCatalogue(f"what it says of {key} makes no sense: {error}") from None
        theirs = said.get("litellm_provider")
        ours = SERVICES.get(theirs) if isinstance(theirs, str) else None
        if ours is None or said.get("mode") not in ("chat", "responses"):
            continue
        model = key.removeprefix(f"{theirs}/")
        if str(said.get("deprecation_date") or "9") <= today:
            gone.add(f"{ours}/{model}")
            continue
        context = number(key, said, "max_input_tokens") or number(key, said, "max_tokens") or 0
        if of_use(ours, model, context, said.get("supports_function_calling") is True):
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
    efforts, thinking = reasoning(
        service, model, reasons, steps, said.get("supports_adaptive_thinking") is not True
    )
    return ModelFacts(
        context=tokens(key, window(service, model, context)),
        max_output=tokens(key, number(key, said, "max_output_tokens") or 0),
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
        prices = [number(key, step, field + suffix) for field in (*_PRICE, *_CACHE)]
        input, output, cached, written = (p if p is None else p * 1_000_000 for p in prices)
        if input is None or output is None:
            break
        rates.append(one_rate(key, input, output, cached, written, above))
    return tuple(rates)


def _steps(key: str, said: dict[str, Any]) -> list[tuple[int, dict[str, Any], str]]:
    """From how many tokens on a price counts, what holds it, and how its fields end."""
    if isinstance(tiers := said.get("tiered_pricing"), list):
        return [
            (tokens(key, tier["range"][0]), tier, "")
            for tier in tiers
            if isinstance(tier, dict) and isinstance(tier.get("range"), list) and tier["range"]
        ]
    found = (re.fullmatch(r"input_cost_per_token(_above_(\d+)k_tokens)", field) for field in said)
    return [(0, said, "")] + [(int(step[2]) * 1000, said, step[1]) for step in found if step]
