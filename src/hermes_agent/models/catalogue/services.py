"""The services that are known, as rows. A service that speaks a known format is one more row."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hermes_agent.core.errors import UsageError
from hermes_agent.core.settings.root import ModelSettings
from hermes_agent.core.settings.services import ModelService, ServiceSettings

SERVICES: dict[str, ModelService] = {
    # Those who make models.
    "anthropic": ModelService(
        wire="anthropic",
        url="https://api.anthropic.com",
        url_variable="ANTHROPIC_BASE_URL",
        key_variables=("ANTHROPIC_API_KEY",),
    ),
    "openai": ModelService(
        wire="openai-responses",
        url="https://api.openai.com/v1",
        url_variable="OPENAI_BASE_URL",
        key_variables=("OPENAI_API_KEY",),
    ),
    "openai-chat": ModelService(
        url="https://api.openai.com/v1",
        url_variable="OPENAI_BASE_URL",
        key_variables=("OPENAI_API_KEY",),
        quirks=("max_completion_tokens", "reasoning_effort", "prompt_cache_key"),
    ),
    "gemini": ModelService(
        wire="gemini",
        url="https://generativelanguage.googleapis.com/v1beta",
        url_variable="GOOGLE_GEMINI_BASE_URL",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    "mistral": ModelService(
        wire="mistral",
        url="https://api.mistral.ai/v1",
        key_variables=("MISTRAL_API_KEY",),
        quirks=("prompt_cache_key",),
    ),
    "xai": ModelService(
        wire="openai-responses",
        url="https://api.x.ai/v1",
        key_variables=("XAI_API_KEY",),
    ),
    "deepseek": ModelService(
        url="https://api.deepseek.com",
        key_variables=("DEEPSEEK_API_KEY",),
        quirks=("reasoning_content", "reasoning_effort"),
    ),
    "moonshot": ModelService(
        url="https://api.moonshot.ai/v1",
        url_variable="MOONSHOT_BASE_URL",
        key_variables=("MOONSHOT_API_KEY",),
        quirks=("reasoning_content", "reasoning_effort", "prompt_cache_key"),
    ),
    "zai": ModelService(
        url="https://api.z.ai/api/paas/v4",
        url_variable="ZAI_BASE_URL",
        key_variables=("ZAI_API_KEY", "ZHIPU_API_KEY"),
        quirks=("reasoning_content", "reasoning_effort", "tool_stream"),
    ),
    "minimax": ModelService(
        # Its format of choice: the chat format loses the thoughts between calls.
        wire="anthropic",
        url="https://api.minimax.io/anthropic",
        url_variable="MINIMAX_BASE_URL",
        key_variables=("MINIMAX_API_KEY",),
    ),
    "qwen": ModelService(
        url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        url_variable="DASHSCOPE_BASE_URL",
        key_variables=("DASHSCOPE_API_KEY",),
        quirks=("reasoning_content", "reasoning_effort"),
    ),
    "cohere": ModelService(
        url="https://api.cohere.ai/compatibility/v1",
        key_variables=("COHERE_API_KEY", "CO_API_KEY"),
        quirks=("no_stream_options", "reasoning_effort"),
    ),
    "perplexity": ModelService(
        url="https://api.perplexity.ai",
        key_variables=("PERPLEXITY_API_KEY",),
        quirks=("reasoning_effort", "alternating"),
    ),
    "nous": ModelService(
        url="https://inference-api.nousresearch.com/v1",
        key_variables=("NOUS_API_KEY",),
        quirks=("reasoning_details", "reasoning_object", "cache_control", "told_cost"),
    ),
    # Those who pass on to many.
    "openrouter": ModelService(
        url="https://openrouter.ai/api/v1",
        key_variables=("OPENROUTER_API_KEY",),
        quirks=("reasoning_details", "reasoning_object", "cache_control", "told_cost"),
    ),
    "bedrock": ModelService(
        wire="bedrock",
        url="https://bedrock-runtime.{region}.amazonaws.com",
        url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
    ),
    "azure": ModelService(
        url="https://{resource}.openai.azure.com/openai/v1",
        url_variable="AZURE_OPENAI_ENDPOINT",
        key_variables=("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
        quirks=("api_key_header", "max_completion_tokens", "reasoning_effort", "prompt_cache_key"),
    ),
    "codex": ModelService(
        wire="openai-responses",
        url="https://chatgpt.com/backend-api/codex",
        quirks=("codex",),
    ),
    "github": ModelService(
        url="https://models.github.ai/inference",
        key_variables=("GITHUB_TOKEN",),
        quirks=("max_completion_tokens", "reasoning_effort"),
    ),
    "huggingface": ModelService(
        url="https://router.huggingface.co/v1",
        key_variables=("HF_TOKEN",),
        quirks=("reasoning_effort",),
    ),
    # Those who run open models.
    "groq": ModelService(
        url="https://api.groq.com/openai/v1",
        key_variables=("GROQ_API_KEY",),
        quirks=("max_completion_tokens", "reasoning_effort"),
    ),
    "cerebras": ModelService(
        url="https://api.cerebras.ai/v1",
        key_variables=("CEREBRAS_API_KEY",),
        quirks=("max_completion_tokens", "reasoning_effort"),
    ),
    "sambanova": ModelService(
        url="https://api.sambanova.ai/v1",
        key_variables=("SAMBANOVA_API_KEY",),
        quirks=("reasoning_effort",),
    ),
    "together": ModelService(
        url="https://api.together.xyz/v1",
        key_variables=("TOGETHER_API_KEY",),
        quirks=("reasoning_effort",),
    ),
    "fireworks": ModelService(
        url="https://api.fireworks.ai/inference/v1",
        key_variables=("FIREWORKS_API_KEY",),
        quirks=("reasoning_content", "reasoning_effort"),
    ),
    "nvidia": ModelService(
        url="https://integrate.api.nvidia.com/v1",
        key_variables=("NVIDIA_API_KEY",),
        quirks=("reasoning_effort",),
    ),
    # Servers of one's own.
    "ollama": ModelService(
        url="http://127.0.0.1:11434/v1",
        url_variable="OLLAMA_BASE_URL",
        key_variables=("OLLAMA_API_KEY",),
        needs_key=False,
        quirks=("reasoning_effort",),
    ),
    "llamacpp": ModelService(
        url="http://127.0.0.1:8080/v1",
        url_variable="LLAMACPP_BASE_URL",
        key_variables=("LLAMACPP_API_KEY",),
        needs_key=False,
        quirks=("alternating",),
    ),
    "lmstudio": ModelService(
        url="http://127.0.0.1:1234/v1",
        url_variable="LMSTUDIO_BASE_URL",
        key_variables=("LMSTUDIO_API_KEY",),
        needs_key=False,
        quirks=("alternating",),
    ),
    "vllm": ModelService(
        url="http://127.0.0.1:8000/v1",
        url_variable="VLLM_BASE_URL",
        key_variables=("VLLM_API_KEY",),
        needs_key=False,
        quirks=("reasoning_effort",),
    ),
    # Inside this process, or no model at all.
    "local": ModelService(wire="local", needs_key=False),
    "scripted": ModelService(wire="scripted", needs_key=False),
    "builtin": ModelService(wire="builtin", needs_key=False),
}
"""By name; the maker of a model comes before those who only run it."""

MAKERS: tuple[str, ...] = (
    "anthropic", "openai", "gemini", "mistral", "xai", "deepseek", "moonshot", "zai", "minimax",
    "qwen", "cohere", "perplexity", "nous", "openrouter",
)  # fmt: skip
"""Whose model is meant when a name comes without a service, first wins."""

_ANSWERS_RESPONSES = re.compile(r"gpt-?[5-9]|codex|\bo[1-9]\b")
"""Models on Azure, by the names that people give them there."""

OWN: frozenset[str] = frozenset({"ollama", "llamacpp", "lmstudio", "vllm"})
"""Servers of one's own: what they answer costs no dollars."""


def known_services(settings: ModelSettings) -> tuple[str, ...]:
    return tuple(SERVICES | settings.services)


def service_of(
    name: str, settings: ModelSettings, environ: Mapping[str, str]
) -> tuple[str, ModelService, str]:
    """The service of the model `name` (`service/model`, or the service alone): its name, its row
    with what the settings change, and its address without a slash at the end; the address is
    empty for a model inside this process."""
    name, _, model = name.partition("/")
    row, change = SERVICES.get(name), settings.services.get(name)
    if row is None and change is None:
        raise UsageError(
            f"no model service is called {name!r}",
            f"services: {', '.join(sorted(known_services(settings)))}",
        )
    service = _changed(row or ModelService(), change or ServiceSettings())
    if service.wire in ("local", "scripted", "builtin"):
        return name, service, service.url
    url = _address(name, service, environ)
    if name == "azure" and _ANSWERS_RESPONSES.search(model) and not (change and change.wire):
        # Its chat format has no tools for the newer models of OpenAI.
        service = msgspec.structs.replace(service, wire="openai-responses")
    if name in ("openai", "openai-chat") and not _is_openai(url):
        service = _compatible(service, change or ServiceSettings())
    return name, service, url


def _changed(row: ModelService, change: ServiceSettings) -> ModelService:
    """The row with every field that the change sets; headers and query are added to."""
    said: dict[str, Any] = {}
    for field in ModelService.__struct_fields__:
        old, new = getattr(row, field), getattr(change, field)
        if new is not None:
            said[field] = old | new if isinstance(new, dict) else new
    return msgspec.structs.replace(row, **said)


def _compatible(service: ModelService, change: ServiceSettings) -> ModelService:
    """A server that only resembles OpenAI's: unless the settings say more of it, it has the chat
    format alone, knows the plain fields of that, and may want no key."""
    return msgspec.structs.replace(
        service,
        wire=change.wire or "openai-chat",
        quirks=change.quirks or (),
        needs_key=bool(change.needs_key),
    )


def _is_openai(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "api.openai.com" or host.endswith(".api.openai.com")


def _address(name: str, service: ModelService, environ: Mapping[str, str]) -> str:
    told = environ.get(service.url_variable, "") if service.url_variable else ""
    source = service.url_variable if told else f"the address of {name}"
    url = (told or _filled(name, service, environ)).rstrip("/")
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise UsageError(
            f"{source} is {_shown(url)!r}, which is no address",
            f"it begins with http:// or https://; {_way_to_set(name, service)}",
        )
    if told and not parts.path:
        # Only a host, as Azure's variable is: the path is the one that the service has.
        url += urlsplit(service.url).path.rstrip("/")
    return url


def _filled(name: str, service: ModelService, environ: Mapping[str, str]) -> str:
    """The row's URL with its blanks filled."""
    url = service.url
    if "{region}" in url:
        # At the leaf: only Bedrock has to know how AWS keeps its settings.
        from hermes_agent.models.keys.aws import aws_region

        region = aws_region(environ) or "us-east-1"
        url = url.replace("{region}", _one_label(name, "AWS_REGION", region))
    if "{resource}" in url:
        resource = environ.get("AZURE_RESOURCE_NAME", "")
        if not resource:
            raise UsageError(
                f"nothing says where {name} is",
                f"set {service.url_variable} to the address of your resource",
            )
        url = url.replace("{resource}", _one_label(name, "AZURE_RESOURCE_NAME", resource))
    return url


def _one_label(name: str, variable: str, value: str) -> str:
    """A value that goes into a host name must not lead to another host."""
    if not re.fullmatch(r"[A-Za-z0-9-]+", value):
        raise UsageError(
            f"{value!r} cannot be part of the address of {name}", f"look at {variable}"
        )
    return value


def _shown(url: str) -> str:
    """Without the name and password that an address may hold."""
    return re.sub(r"[^/@]*@", "", url)


def _way_to_set(name: str, service: ModelService) -> str:
    by_setting = f"`hermes config set models.services.{name}.url URL`"
    return f"set {service.url_variable} or {by_setting}" if service.url_variable else by_setting
