"""Finds keys and model servers: in the environment, in `.env` files, in the keyring, in the files
of other agents, and on this machine."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.root import Settings
from hermes_agent.host.config import read_config
from hermes_agent.models.catalogue.services import OTHER_NAMES, OWN, SERVICES, service_of
from hermes_agent.models.registry import ModelRegistry
from hermes_agent.policy.secrets import Secrets, parse

ENVIRONMENT = "the environment"
MAX_BYTES = 1_000_000
"""A larger file is not read: it is no list of keys."""

AGENT_FILES: tuple[tuple[str, str], ...] = (
    ("Codex", "~/.codex/auth.json"),
    ("Claude Code", "~/.claude/settings.json"),
    ("Claude Code", "~/.claude.json"),
    ("Gemini CLI", "~/.gemini/.env"),
    ("Qwen Code", "~/.qwen/.env"),
    ("hermes-agent", "~/.hermes/.env"),
    ("OpenClaw", "~/.openclaw/.env"),
    ("OpenClaw", "~/.openclaw/openclaw.json"),
    ("OpenClaw", "~/.openclaw/agents/main/agent/auth-profiles.json"),
    ("nanobot", "~/.nanobot/config.json"),
    ("aider", "~/.aider.conf.yml"),
    ("aider", "~/.aider/oauth-keys.env"),
    ("opencode", "~/.local/share/opencode/auth.json"),
    ("goose", "~/.config/goose/secrets.yaml"),
    ("crush", "~/.local/share/crush/crush.json"),
    ("llm", "~/.config/io.datasette.llm/keys.json"),
    ("OpenHands", "~/.openhands/settings.json"),
)
"""Where other agents keep API keys. A file is searched for the variables of services, and for
entries such as `apiKey` below the name of a service."""

_OWNERS = {**OTHER_NAMES, "primaryapikey": "anthropic"}
"""Names above or of a key in these files, by service."""
_VARIABLES = {
    variable: name
    for name, service in reversed(SERVICES.items())
    for variable in (*service.key_variables, service.url_variable)
    if variable
}
_ADDRESSES = {service.url_variable for service in SERVICES.values()} - {""}
_KEY_FIELDS = ("apikey", "api_key", "key")
_KEY = re.compile(r"(?!env:|op:|keyring:|\$)[!-~]{12,}")
"""A key itself, and not a reference to where it is."""
_OLLAMA_HOST = "OLLAMA_HOST"


class FoundService(NamedTuple):
    """A service that could be used, and what it would need to be stored for that."""

    name: str
    environ: Mapping[str, str]
    """The environment in which it works."""
    origin: str
    """Where its key or address is from, for people."""
    key: tuple[str, str] = ("", "")
    """Variable and value of a key that the home does not have yet."""
    url: str = ""
    url_origin: str = ""
    """Who knows its address, if it is only this environment or a file of others."""
    own_server: bool = False
    is_guess: bool = False
    """Nobody named it: if nothing answers there, nobody misses it."""
    settings: Mapping[str, Any] = {}
    """The settings of a service that is new."""

    @property
    def needs_storing(self) -> bool:
        return bool(self.key[0]) and self.key[0] not in os.environ


def agent_files(home: Path) -> list[tuple[str, Path]]:
    """The files of other agents that exist, unread."""
    found = [(agent, Path(path).expanduser()) for agent, path in AGENT_FILES]
    return [one for one in found if one[1].is_file() and one[1].parent != home]


def services(home: Path, settings: Settings, agents: list[tuple[str, Path]]) -> list[FoundService]:
    """Every service with a key, and every server that may run here, the likeliest first."""
    environ = Secrets(os.environ, home).beside(os.environ)
    stored = Secrets({}, home).beside({})
    origins = dict.fromkeys(os.environ, ENVIRONMENT)
    files = [(".env of this folder", Path(".env")), *agents]
    for title, path in files:
        new = {name: value for name, value in keys_in(path) if name not in environ}
        place = title if path.name == ".env" else f"{title} ({short(path)})"
        for variable in [name for name in new if _is_whole(name, new)]:
            environ[variable], origins[variable] = new[variable], place
    if (host := environ.get(_OLLAMA_HOST)) and "OLLAMA_BASE_URL" not in environ:
        environ["OLLAMA_BASE_URL"], origins["OLLAMA_BASE_URL"] = _ollama_url(host), ENVIRONMENT
    registry = ModelRegistry(settings.models, environ, home)
    rows = {row["name"]: row for row in registry.services()}
    order = (*SERVICES, *(name for name in rows if name not in SERVICES))
    found = [
        _found(name, rows[name], environ, stored, origins, settings)
        for name in order
        if name in rows and (_has_key(rows[name]) or _is_server(rows[name]))
    ]
    named = {one.url for one in found if not one.is_guess}
    return [
        one
        for one in found
        if one.name != "openai-chat" and not (one.is_guess and one.url in named)
    ]


def _is_whole(variable: str, found: Mapping[str, str]) -> bool:
    """Whether an entry of a file can be used: no file may lead a key to an address that is not its
    own."""
    keys = SERVICES[_VARIABLES[variable]].key_variables
    return variable not in _ADDRESSES or any(key in found for key in keys)


def _has_key(row: dict[str, Any]) -> bool:
    return any(key["present"] is not False for key in row["keys"])


def _is_server(row: dict[str, Any]) -> bool:
    return bool(row["wire"]) and not row["needs_key"] and row["wire"] != "local"


def _found(
    name: str,
    row: dict[str, Any],
    environ: Mapping[str, str],
    stored: Mapping[str, str],
    origins: Mapping[str, str],
    settings: Settings,
) -> FoundService:
    label = row["keys"][0]["label"] if row["keys"] else ""
    _, service, url = service_of(name, settings.models, environ)
    variable = service.url_variable
    named, place = variable in environ, origins.get(label, "the home" if label in stored else "")
    origin = f"{label} in {place}" if place not in ("", ENVIRONMENT) else label
    if not row["needs_key"] and not label:
        origin = variable if named else url
    set_now = settings.models.services.get(name)
    is_new_url = named and (set_now is None or set_now.url != url)
    is_new = label in service.key_variables and environ[label] != stored.get(label)
    return FoundService(
        name, environ, origin,
        key=(label, environ[label]) if is_new else ("", ""),
        url=url,
        url_origin=origins.get(variable, "") if is_new_url else "",
        own_server=not row["needs_key"],
        is_guess=name in OWN and not named and set_now is None and not label,
    )  # fmt: skip


def _ollama_url(host: str) -> str:
    """`OLLAMA_HOST` as Ollama reads it, for a client: a host, a port, or an address."""
    scheme, _, rest = host.rpartition("://")
    name, colon, port = rest.strip("/").partition(":")
    name = "127.0.0.1" if name in ("", "0.0.0.0") else name
    return f"{scheme or 'http'}://{name}:{port if colon else '11434'}/v1"


def short(path: Path) -> str:
    home = str(Path.home())
    text = str(path)
    return f"~{text[len(home) :]}" if text.startswith(f"{home}/") else text


def keys_in(path: Path) -> Iterator[tuple[str, str]]:
    """Variables and values of the keys in a file: `.env`, JSON or YAML. A file that cannot be read
    has none."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".env" or path.name == ".env":
            content: Any = parse(text, str(path))
        elif path.suffix == ".json":
            content = msgspec.json.decode(text)
        else:
            content = read_config(path)
        yield from _keys_of(content, "")
    except (OSError, HermesError, msgspec.MsgspecError, RecursionError):
        return


def _keys_of(content: Any, above: str) -> Iterator[tuple[str, str]]:
    for name, value in content.items() if isinstance(content, dict) else ():
        if isinstance(value, dict):
            yield from _keys_of(value, str(name))
        elif isinstance(value, str):
            variable = _variable(str(name), above)
            if variable in _ADDRESSES or (variable and _KEY.fullmatch(value)):
                yield variable, value


def _variable(name: str, above: str) -> str:
    """The variable that an entry stands for, or ""."""
    upper = name.upper().replace("-", "_")
    if upper in _VARIABLES:
        return upper
    owner = above if name.lower() in _KEY_FIELDS else name
    owner = owner.lower().partition(":")[0]
    service = SERVICES.get(_OWNERS.get(owner, owner))
    return service.key_variables[0] if service and service.key_variables else ""
