"""The catalogue of models.dev (`api.json`): services, each with its models."""

from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.messages import ModelFacts, Rates
from hermes_agent.models.catalogue.importers.validation import (
    OLDEST,
    BrokenCatalogue,
    CannotBe,
    Facts,
    of_use,
    one_rate,
    reasoning,
    tokens,
    window,
)

SERVICES: dict[str, str] = {
    "alibaba": "qwen", "amazon-bedrock": "bedrock", "anthropic": "anthropic", "azure": "azure",
    "cerebras": "cerebras", "cohere": "cohere", "deepseek": "deepseek",
    "fireworks-ai": "fireworks", "github-models": "github", "google": "gemini", "groq": "groq",
    "huggingface": "huggingface", "minimax": "minimax", "mistral": "mistral",
    "moonshotai": "moonshot", "nvidia": "nvidia", "openai": "openai", "openrouter": "openrouter",
    "perplexity": "perplexity", "sambanova": "sambanova", "togetherai": "together", "xai": "xai",
    "zai": "zai",
}  # fmt: skip
"""Our names of the services that models.dev lists."""


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


def from_models_dev(top: dict[str, msgspec.Raw], gone: set[str]) -> Facts:
    facts: Facts = {}
    for theirs, ours in SERVICES.items():
        if theirs not in top:
            continue
        try:
            service = msgspec.json.decode(top[theirs], type=_DevService)
        except msgspec.MsgspecError as error:
            raise BrokenCatalogue(f"what it says of {theirs} makes no sense: {error}") from None
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
        of_use(service, model, said.limit.input or said.limit.context, said.tool_call)
        and said.modalities.output == ("text",)
        and (max(said.release_date, said.last_updated) or OLDEST) >= OLDEST
        and not elsewhere
    )


def _dev_facts(name: str, service: str, model: str, said: _DevModel) -> ModelFacts:
    options = said.reasoning_options or ()
    steps = [value for option in options if option.type == "effort" for value in option.values]
    budget = any(option.type == "budget_tokens" for option in options)
    efforts, thinking = reasoning(service, model, said.reasoning, steps, budget)
    context = said.limit.input or said.limit.context
    return ModelFacts(
        context=tokens(name, window(service, model, context)),
        max_output=tokens(name, said.limit.output),
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
            steps[tokens(name, size)] = tier
    if len(steps) == 1 and cost.context_over_200k:
        steps[200_000] = cost.context_over_200k
    return tuple(
        one_rate(name, step.input, step.output, step.cache_read, step.cache_write, above)
        for above, step in sorted(steps.items())
    )
