"""From the name of a model to the model. Adding a service is adding a line and a file."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import cast

from hermes_agent.core.errors import UsageError
from hermes_agent.core.protocols import Model
from hermes_agent.core.settings import ModelSettings
from hermes_agent.models.retry import Retried

Open = Callable[[str, ModelSettings, Mapping[str, str]], Model]
"""What a service's module offers as `open_named`: the full name, the settings, the environment."""

SERVICES: dict[str, str] = {
    "openai": "hermes_agent.models.openai_chat",
    "scripted": "hermes_agent.models.scripted",
}

EXAMPLES: dict[str, str] = {
    "openai": "openai/gpt-5.5; the service's own list says which names it knows",
    "scripted": "scripted/demo, or a file of yours: scripted/./script.yaml",
}
"""By service, so that a name without its second half can be completed."""


def open_model(name: str, settings: ModelSettings, environ: Mapping[str, str]) -> Model:
    """The model called `service/name`, ready to answer. Nothing is connected to yet."""
    services = ", ".join(sorted(SERVICES))
    if not name:
        raise UsageError(
            "no model is configured",
            "set HERMES_MODEL=service/name or run `hermes config set model service/name` "
            f"(services: {services}); HERMES_MODEL=scripted/demo needs no key",
        )
    service, _, model = name.partition("/")
    if not model and service in EXAMPLES:
        raise UsageError(f"{name!r} names no model", f"for example {EXAMPLES[service]}")
    if not service or not model:
        raise UsageError(
            f"{name!r} is not the name of a model",
            f"write it as service/name, for example openai/{name.strip('/') or 'NAME'}; "
            f"services: {services}",
        )
    if service not in SERVICES:
        raise UsageError(f"no model service is called {service!r}", f"services: {services}")
    # At the leaf: a service that is not used is not imported.
    opener = cast(Open, import_module(SERVICES[service]).open_named)
    return Retried(opener(name, settings, environ), settings)
