"""Hermes: a persistent AI-agent runtime. `Agent` and `Tool` are the library's front door."""

# Type checkers read this as true; importing `typing` for it would double the cold start.
TYPE_CHECKING = False

__all__ = ["Agent", "HermesError", "Tool", "__version__"]

if TYPE_CHECKING:
    from hermes_agent.core.errors import HermesError
    from hermes_agent.core.tools import Tool
    from hermes_agent.core.version import __version__
    from hermes_agent.runtime.embedding import Agent

_HOMES = {
    "Agent": "hermes_agent.runtime.embedding",
    "HermesError": "hermes_agent.core.errors",
    "Tool": "hermes_agent.core.tools",
    "__version__": "hermes_agent.core.version",
}


def __getattr__(name: str) -> object:
    # `hermes --version` imports this package too, so nothing is imported before it is asked for.
    if name not in _HOMES:
        raise AttributeError(f"module 'hermes_agent' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(_HOMES[name]), name)
    return found
