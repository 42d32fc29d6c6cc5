"""The known services, as rows of `services.json`. One more service with a known format is one
more row."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hermes_agent.core.errors import UsageError
from hermes_agent.core.settings.root import ModelSettings
from hermes_agent.core.settings.services import ModelService, ServiceSettings
from hermes_agent.core.text.addresses import host_of

SERVICES = msgspec.json.decode(
    Path(__file__).with_name("services.json").read_bytes(), type=dict[str, ModelService]
)
"""By name; the maker of a model comes before services that only host it."""

MAKERS: tuple[str, ...] = (
    "anthropic", "openai", "gemini", "mistral", "xai", "deepseek", "moonshot", "zai", "minimax",
    "qwen", "cohere", "perplexity", "nous", "openrouter",
)  # fmt: skip
"""Services to search for a model name without a service, in order."""

_ANSWERS_RESPONSES = re.compile(r"gpt-?[5-9]|codex|\bo[1-9]\b")
"""Azure deployments that need the Responses format, by their usual names."""

OWN: frozenset[str] = frozenset({"ollama", "llamacpp", "lmstudio", "vllm"})
"""Self-hosted servers, which cost nothing per token."""


OTHER_NAMES: Mapping[str, str] = {
    "alibaba": "qwen", "azure-openai": "azure", "dashscope": "qwen", "google": "gemini",
    "google-gemini": "gemini", "grok": "xai", "hf": "huggingface", "kimi": "moonshot",
    "kimi-coding": "moonshot", "lm-studio": "lmstudio", "moonshotai": "moonshot",
    "openai-api": "openai", "zhipu": "zai", "zhipuai": "zai",
}  # fmt: skip
"""What other agents call a service."""


def known_services(settings: ModelSettings) -> tuple[str, ...]:
    return tuple(SERVICES | settings.services)


def service_of(
    name: str, settings: ModelSettings, environ: Mapping[str, str]
) -> tuple[str, ModelService, str]:
    """The service of the model `name` (`service/model`, or the service alone): its name, its row
    with the settings applied, and its address without a trailing slash, which is empty for a
    model inside this process."""
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
        # Its chat format has no tools for OpenAI's newer models.
        service = msgspec.structs.replace(service, wire="openai-responses")
    if name in ("openai", "openai-chat") and not _is_openai(url):
        service = _compatible(service, change or ServiceSettings())
    return name, service, url


def _changed(row: ModelService, change: ServiceSettings) -> ModelService:
    """The row with the settings applied; headers and query are added."""
    said: dict[str, Any] = {}
    for field in ModelService.__struct_fields__:
        old, new = getattr(row, field), getattr(change, field)
        if new is not None:
            said[field] = old | new if isinstance(new, dict) else new
    return msgspec.structs.replace(row, **said)


def _compatible(service: ModelService, change: ServiceSettings) -> ModelService:
    """A server that is only compatible with OpenAI: unless the settings say otherwise, it has the
    chat format without quirks, and may need no key."""
    return msgspec.structs.replace(
        service,
        wire=change.wire or "openai-chat",
        quirks=change.quirks or (),
        needs_key=bool(change.needs_key),
    )


def _is_openai(url: str) -> bool:
    host = host_of(url)
    return host == "api.openai.com" or host.endswith(".api.openai.com")


def _address(name: str, service: ModelService, environ: Mapping[str, str]) -> str:
    told = environ.get(service.url_variable, "") if service.url_variable else ""
    source = service.url_variable if told else f"the address of {name}"
    url = (told or _filled(name, service, environ)).rstrip("/")
    try:
        parts = urlsplit(url)
        host = parts.netloc and host_of(url)
        valid = parts.scheme in ("http", "https") and bool(host) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise UsageError(
            f"{source} is {_shown(url)!r}, which is not a valid address",
            f"it must begin with http:// or https://; {_way_to_set(name, service)}",
        )
    if told and not parts.path:
        # Only a host, as in Azure's variable: add the service's path.
        url += urlsplit(service.url).path.rstrip("/")
    return url


def _filled(name: str, service: ModelService, environ: Mapping[str, str]) -> str:
    """The row's URL with its placeholders filled in."""
    url = service.url
    if "{region}" in url:
        from hermes_agent.models.keys.aws import aws_region  # late: only Bedrock needs it

        region = aws_region(environ) or "us-east-1"
        url = url.replace("{region}", _one_label(name, "AWS_REGION", region))
    if "{resource}" in url:
        resource = environ.get("AZURE_RESOURCE_NAME", "")
        if not resource:
            raise UsageError(
                f"the address of {name} is not set",
                f"set {service.url_variable} to the address of your resource",
            )
        url = url.replace("{resource}", _one_label(name, "AZURE_RESOURCE_NAME", resource))
    return url


def _one_label(name: str, variable: str, value: str) -> str:
    """The value, if it is safe in a host name: it must not lead to another host."""
    if not re.fullmatch(r"[A-Za-z0-9-]+", value):
        raise UsageError(f"{value!r} cannot be part of the address of {name}", f"check {variable}")
    return value


def _shown(url: str) -> str:
    """The address without user name and password."""
    return re.sub(r"[^/@]*@", "", url)


def _way_to_set(name: str, service: ModelService) -> str:
    by_setting = f"`hermes config set models.services.{name}.url URL`"
    return f"set {service.url_variable} or {by_setting}" if service.url_variable else by_setting
