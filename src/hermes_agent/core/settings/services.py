"""A service that answers for models, as data: where it is, what it speaks, which key it wants."""

from typing import Literal

from msgspec import Struct

WireName = Literal[
    "openai-chat", "openai-responses", "anthropic", "gemini", "bedrock", "mistral", "local",
    "scripted", "builtin",
]  # fmt: skip

Quirk = Literal[
    "max_completion_tokens",  # the limit of a reply goes by this name
    "no_stream_options",      # refuses to be asked for the token count of a stream
    "prompt_cache_key",       # routes requests of one conversation to one cache by this field
    "cache_control",          # wants the marks of Anthropic's prompt cache, for its models
    "reasoning_content",      # wants its reasoning back under this name, where there are tools
    "reasoning_details",      # sends reasoning as a list of details and wants them back whole
    "reasoning_object",       # takes the effort as {"reasoning": {"effort": …}}
    "reasoning_effort",       # takes the effort as "reasoning_effort"
    "api_key_header",         # takes the key in the header `api-key`
    "one_call",               # asks for one tool call at a time only
    "tool_stream",            # streams the arguments of calls only when asked to
    "alternating",            # refuses two messages of the user in a row
    "codex",                  # ChatGPT's Responses: instructions, an account, no limit of tokens
    "told_cost",              # says with each answer what it cost, and is believed
]  # fmt: skip
"""Where a service differs from the format it speaks."""


class DeviceLogin(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How to sign in with a code on another device (RFC 8628)."""

    device_url: str
    """Where a code is asked for."""
    token_url: str
    """Where the code becomes a token, and a token is renewed."""
    client: str
    """The client's id with the service."""
    scope: str = ""
    """What is asked for, separated by spaces."""
    proof: bool = False
    """Whether the service wants a proof key (PKCE)."""
    refresh_header: str = ""
    """The header that carries the token which renews, where it does not go into the form."""
    flow: Literal["standard", "codex"] = "standard"
    """`codex`: as OpenAI does it, which is not the RFC's way."""


class ModelService(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    wire: WireName = "openai-chat"
    """The format it speaks."""
    url: str = ""
    """Where it is, up to what the format adds."""
    url_variable: str = ""
    """The environment variable that names another address."""
    key_variables: tuple[str, ...] = ()
    """The environment variables that may hold its key, the first that is set counts."""
    needs_key: bool = True
    """Whether it answers nobody without a key."""
    quirks: tuple[Quirk, ...] = ()
    """Where it differs from the format."""
    headers: dict[str, str] = {}
    """Headers that every request carries."""
    query: dict[str, str] = {}
    """What every address ends with, as an API's version."""
    login: DeviceLogin | None = None
    """How to sign in with a code, where that is possible."""


class ServiceSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What `config.yaml` says of a service. What is left out stays as it is known, or has the
    default of a service that speaks OpenAI's chat format."""

    wire: WireName | None = None
    """The format it speaks."""
    url: str | None = None
    """Where it is, up to what the format adds."""
    url_variable: str | None = None
    """The environment variable that names another address."""
    key_variables: tuple[str, ...] | None = None
    """The environment variables that may hold its key, the first that is set counts."""
    needs_key: bool | None = None
    """Whether it answers nobody without a key; true when absent."""
    quirks: tuple[Quirk, ...] | None = None
    """Where it differs from the format."""
    headers: dict[str, str] = {}
    """Headers that every request carries, beside those that are known."""
    query: dict[str, str] = {}
    """What every address ends with, as an API's version."""
    login: DeviceLogin | None = None
    """How to sign in with a code, where that is possible."""
