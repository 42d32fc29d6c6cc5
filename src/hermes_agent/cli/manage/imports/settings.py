"""Translates other agents' settings of models and channels into ours."""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from hermes_agent.cli.manage.imports.home import PeerHome, Row, plain
from hermes_agent.core.messages import EFFORTS
from hermes_agent.core.text.addresses import classify, host_of
from hermes_agent.models.catalogue.services import OTHER_NAMES, SERVICES

_KEYS = frozenset(variable for row in SERVICES.values() for variable in row.key_variables)
_WIRES = {
    "anthropic-messages": "anthropic", "anthropic_messages": "anthropic", "anthropic": "anthropic",
    "openai-responses": "openai-responses", "codex_responses": "openai-responses",
    "responses": "openai-responses",
}  # fmt: skip
_CHANNELS = (
    ("telegram", "token", "TELEGRAM_BOT_TOKEN", ("botToken", "token")),
    ("discord", "token", "DISCORD_BOT_TOKEN", ("token",)),
    ("slack", "token", "SLACK_BOT_TOKEN", ("botToken",)),
    ("slack", "app_token", "SLACK_APP_TOKEN", ("appToken",)),
    ("matrix", "token", "MATRIX_ACCESS_TOKEN", ("accessToken",)),
    ("matrix", "address", "MATRIX_HOMESERVER", ("homeserver",)),
    ("email", "password", "EMAIL_PASSWORD", ("imapPassword",)),
    ("email", "address", "EMAIL_ADDRESS", ("fromAddress",)),
    ("email", "imap", "EMAIL_IMAP_HOST", ("imapHost",)),
    ("email", "smtp", "EMAIL_SMTP_HOST", ("smtpHost",)),
)
"""Our channel and field, the variable that holds its value, and what JSON files call it. The first
of each channel is its secret."""
_SECRET = frozenset({"token", "app_token", "password"})
_PROVIDER_FIELDS = {
    "hermes-agent": (("base_url", "api", "url"), ("api_key",), ("api_mode", "transport")),
    "openclaw": (("baseUrl",), ("apiKey",), ("api",)),
    "nanobot": (("apiBase",), ("apiKey",), ("apiType",)),
}
"""What each agent calls the address, the key and the format of a provider."""
_IMAGE = "nikolaik/python-nodejs:python3.11-nodejs20"
"""The image that hermes-agent uses unless it is told another."""
OFF = "switched off, so that two agents do not answer; {} switches it on"


def key_of(home: PeerHome, variable: str, value: object) -> None:
    """Note a key, unless it is empty or only refers to a place elsewhere."""
    if isinstance(value, dict):
        home.leave("keys", variable, "it is stored outside the home")
    elif isinstance(value, str) and value.strip():
        key = value.strip()
        if key.startswith("${") or not key.isprintable():
            home.leave("keys", variable, "it is stored outside the home")
        else:
            home.keys[variable] = key


def keys_of(home: PeerHome, variables: Mapping[str, object]) -> None:
    """Note the keys of services among the variables."""
    for variable, value in variables.items():
        if variable in _KEYS:
            key_of(home, variable, value)


def services_of(home: PeerHome, rows: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Our services for providers that have an address or a key of their own, by their names."""
    found = {}
    for name, row in rows:
        values = row if isinstance(row, dict) else {}
        url, key, wire = (
            next((values[field] for field in fields if values.get(field)), "")
            for fields in _PROVIDER_FIELDS[home.peer]
        )
        if url or key:
            found[name] = service_of(home, name, url, key, wire)
    return found


def service_of(
    home: PeerHome, provider: str, url: object = "", key: object = "", wire: object = ""
) -> str:
    """Our service for a provider; empty if there is none. An address of its own makes it a service
    of its own: the key of a known one is never sent elsewhere."""
    name = _plain(provider)
    name = OTHER_NAMES.get(name, name)
    known = SERVICES.get(name)
    address = url.strip().rstrip("/") if isinstance(url, str) else ""
    if known is not None and address in ("", known.url, f"{known.url}/v1"):
        if known.key_variables:
            key_of(home, known.key_variables[0], key)
        return name
    if not address:
        if f"models.services.{name}" in home.settings:
            return name
        if provider not in ("", "auto", "custom"):
            home.leave("settings", f"provider {provider}", "no service of this name is known here")
        return ""
    if why := _unsafe(address):
        shown = address.rpartition("@")[2]  # a password may be before it
        home.leave("settings", f"provider {provider}", f"its address {shown} {why}")
        return ""
    keyed = isinstance(key, str) and bool(key.strip())
    ours = home.servers.get(server_address(address), "")
    variables = SERVICES[ours].key_variables if ours in SERVICES else ()
    if ours and str(wire) not in _WIRES and (variables or not keyed):
        if keyed:
            key_of(home, variables[0], key)
        return ours
    bound = _plain(f"{name or 'custom'}-{host_of(address)}")
    if known is not None or name in ("", "custom"):
        name = bound
    # Bound to the host, so that it is not the variable of another key of the user's.
    variable = f"{bound.upper().replace('-', '_')}_API_KEY"
    settings: dict[str, Any] = {"url": address, "needs_key": keyed, "key_variables": [variable]}
    if given := _WIRES.get(str(wire)):
        settings["wire"] = given
    home.settings[f"models.services.{name}"] = settings
    key_of(home, variable, key)
    return name


def server_address(url: str) -> str:
    """An address in the form in which two are compared."""
    return url.rstrip("/").removesuffix("/v1").replace("//localhost:", "//127.0.0.1:")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _unsafe(address: str) -> str:
    """Why nothing is sent to this address."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not host_of(address) or not address.isprintable():
        return "is not a web address"
    if parts.username or parts.password:
        return "contains a password"
    kind = classify(host_of(address))
    if kind in ("metadata", "link-local", "multicast", "reserved"):
        return "is not that of a model service"
    if parts.scheme == "http" and kind in ("public", "name"):
        return "is not encrypted"
    return ""


def model_of(home: PeerHome, services: Mapping[str, str], provider: str, model: object) -> None:
    """The model, of a provider in `services` or any other that is known."""
    service = services[provider] if provider in services else service_of(home, provider)
    if service and (name := plain(model)):
        home.settings["model"] = name if name.startswith(f"{service}/") else f"{service}/{name}"


def effort_of(home: PeerHome, effort: object) -> None:
    if effort in EFFORTS:
        home.settings["models.reasoning_effort"] = effort


def channels_by_variable(home: PeerHome, given: Mapping[str, str]) -> None:
    rows: dict[str, Row] = {}
    for channel, _, variable, names in _CHANNELS:
        row = rows.setdefault(channel, {})
        row[names[0]] = given.get(variable, "")
        row["allowFrom"] = given.get(f"{channel.upper()}_ALLOWED_USERS", "").split(",")
    channels_by_name(home, rows)


def channels_by_name(home: PeerHome, given: Mapping[str, Any]) -> None:
    rows = {name: row for name, row in given.items() if isinstance(row, dict)}
    found: dict[str, Row] = {}
    for channel, field, variable, names in _CHANNELS:
        row = rows.get(channel, {})
        value = next((row[name] for name in names if row.get(name)), "")
        if not value or (field not in _SECRET and channel not in found):
            continue
        if field in _SECRET:
            key_of(home, variable, value)
            value = variable
        found.setdefault(channel, {"enabled": False})[field] = plain(value)
    for channel, settings in found.items():
        people = [plain(one) for one in rows[channel].get("allowFrom") or ()]
        # `*` would let everybody in.
        if allowed := [one for one in people if one not in ("", "*")]:
            settings["allow"] = allowed
        home.settings[f"channels.{channel}"] = settings
        switch = f"`hermes config set channels.{channel}.enabled true`"
        home.changed[f"channels.{channel}"] = OFF.format(switch)
    for name in sorted(rows.keys() - {channel for channel, *_ in _CHANNELS}):
        if rows[name].get("enabled"):
            home.leave("settings", f"channel {name}", "there is no such channel here")


def terminal_of(home: PeerHome, given: Mapping[str, Any]) -> None:
    """hermes-agent's terminal."""
    kind = plain(given.get("backend") or given.get("env_type")) or "local"
    place: dict[str, Any] = {}
    if kind == "docker":
        place = {"kind": "container", "image": plain(given.get("docker_image")) or _IMAGE}
    elif kind == "ssh" and plain(given.get("ssh_host")):
        place = {"kind": "ssh", "host": plain(given["ssh_host"])}
        for ours, theirs in (("user", "ssh_user"), ("port", "ssh_port"), ("key", "ssh_key")):
            if value := plain(given.get(theirs)):
                place[ours] = int(value) if value.isdecimal() else value
    if place:
        home.settings[f"terminals.{kind}"] = place
        if kind == "ssh":
            home.settings["terminal.default"] = kind
        else:
            home.changed[f"terminals.{kind}"] = (
                f"not the default here; `hermes config set terminal.default {kind}`"
            )
    elif kind != "local":
        home.leave("settings", f"terminal {kind}", "set it up with `hermes terminals`")
