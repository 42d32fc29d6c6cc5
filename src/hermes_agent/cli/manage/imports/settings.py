"""Translates other agents' settings of models and channels into ours."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from hermes_agent.cli.manage.imports.home import PeerHome, plain
from hermes_agent.core.text.addresses import classify, host_of
from hermes_agent.models.catalogue.services import SERVICES

_SAME = {
    "alibaba": "qwen", "azure-openai": "azure", "dashscope": "qwen", "google": "gemini",
    "kimi": "moonshot", "kimi-coding": "moonshot", "lm-studio": "lmstudio", "openai-api": "openai",
    "zhipu": "zai",
}  # fmt: skip
"""Services that have another name elsewhere."""
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


def service_of(
    home: PeerHome, provider: str, url: object = "", key: object = "", wire: object = ""
) -> str:
    """Our service for a provider; empty if there is none. An address of its own makes it a service
    of its own: the key of a known one is never sent elsewhere."""
    name = _plain(provider)
    name = _SAME.get(name, name)
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


def model_of(home: PeerHome, service: str, model: object) -> None:
    if service and (name := plain(model)):
        home.settings["model"] = name if name.startswith(f"{service}/") else f"{service}/{name}"


def channels_by_variable(home: PeerHome, given: Mapping[str, str]) -> None:
    fields = [
        (channel, field, variable, given.get(variable, ""))
        for channel, field, variable, _ in _CHANNELS
    ]
    people = {
        channel: given.get(f"{channel.upper()}_ALLOWED_USERS", "").split(",")
        for channel, *_ in _CHANNELS
    }
    _add_channels(home, fields, people)


def channels_by_name(home: PeerHome, given: Mapping[str, Any]) -> None:
    rows = {name: row for name, row in given.items() if isinstance(row, dict)}
    fields = [
        (channel, field, variable, next((row[key] for key in keys if row.get(key)), ""))
        for channel, field, variable, keys in _CHANNELS
        if (row := rows.get(channel)) is not None
    ]
    allow = {name: [plain(one) for one in row.get("allowFrom") or ()] for name, row in rows.items()}
    _add_channels(home, fields, allow)
    for name in sorted(rows.keys() - {channel for channel, *_ in _CHANNELS}):
        if rows[name].get("enabled"):
            home.leave("settings", f"channel {name}", "there is no such channel here")


def _add_channels(
    home: PeerHome, fields: list[tuple[str, str, str, Any]], allow: Mapping[str, list[str]]
) -> None:
    found: dict[str, dict[str, Any]] = {}
    for channel, field, variable, value in fields:
        if not value or (field not in _SECRET and channel not in found):
            continue
        if field in _SECRET:
            key_of(home, variable, value)
            value = variable
        found.setdefault(channel, {"enabled": False})[field] = plain(value)
    for channel, settings in found.items():
        # `*` would let everybody in.
        if people := [
            one.strip() for one in allow.get(channel, ()) if one.strip() not in ("", "*")
        ]:
            settings["allow"] = people
        home.settings[f"channels.{channel}"] = settings
        switch = f"`hermes config set channels.{channel}.enabled true`"
        home.changed[f"channels.{channel}"] = OFF.format(switch)


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
