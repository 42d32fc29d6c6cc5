"""Model services as data: address, wire format, and where the key comes from."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Url = Annotated[str, Meta(
    pattern=r"^(https?://[^\s/]\S*)?$",
    description="an address that begins with http:// or https://",
)]  # fmt: skip

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
    "reported_cost",          # reports the cost with each answer
]  # fmt: skip
"""How a service deviates from its wire format."""


class DeviceLogin(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How to sign in with a code on another device (RFC 8628)."""

    device_url: str
    """The URL that issues the code."""
    token_url: str
    """The URL that exchanges the code for a token and renews tokens."""
    client: str
    """The OAuth client id."""
    scope: str = ""
    """The requested scopes, separated by spaces."""
    proof: bool = False
    """Whether the service requires PKCE."""
    refresh_header: str = ""
    """The header for the refresh token, if it does not go into the form."""
    flow: Literal["standard", "codex"] = "standard"
    """`codex`: OpenAI's variant, which differs from the RFC."""


class ModelService(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    wire: WireName = "openai-chat"
    """The wire format."""
    url: str = ""
    """The base URL, without what the format appends."""
    url_variable: str = ""
    """The environment variable that overrides the URL."""
    key_variables: tuple[str, ...] = ()
    """Environment variables for the key; the first that is set is used."""
    needs_key: bool = True
    """Whether it requires a key."""
    quirks: tuple[Quirk, ...] = ()
    """Deviations from the wire format."""
    headers: dict[str, str] = {}
    """Headers of every request."""
    query: dict[str, str] = {}
    """Query parameters of every request, such as an API version."""
    login: DeviceLogin | None = None
    """How to sign in with a device code, if that is possible."""


class ServiceSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What `config.yaml` says about a service. What is left out keeps its built-in value, or the
    default of a service with OpenAI's chat format."""

    wire: WireName | None = None
    """The wire format."""
    url: Url | None = None
    """The base URL, without what the format appends."""
    url_variable: str | None = None
    """The environment variable that overrides the URL."""
    key_variables: tuple[str, ...] | None = None
    """Environment variables for the key; the first that is set is used."""
    needs_key: bool | None = None
    """Whether it requires a key; defaults to true."""
    quirks: tuple[Quirk, ...] | None = None
    """Deviations from the wire format."""
    headers: dict[str, str] = {}
    """Headers to add to every request."""
    query: dict[str, str] = {}
    """Query parameters of every request, such as an API version."""
    login: DeviceLogin | None = None
    """How to sign in with a device code, if that is possible."""
