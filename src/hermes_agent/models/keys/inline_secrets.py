"""Secrets that are not keys: in a service's headers, query or address."""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from hermes_agent.core.settings.root import ModelSettings
from hermes_agent.models.catalogue.services import SERVICES

_SECRET = re.compile(
    r"auth|cookie|key|token|secret|passw|pwd|credential|signature|session", re.IGNORECASE
)
"""Names of headers and parameters that are likely to be secret."""
_SCHEMED = re.compile(r"(?:bearer|basic|token)\s+(\S+)", re.IGNORECASE)


def inline_secrets(
    settings: ModelSettings, environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """What looks secret in the service settings and address variables, with where it was found."""
    for name, said in settings.services.items():
        place = f"models.services.{name}"
        for field, values in (("headers", said.headers), ("query", said.query)):
            for key, value in values.items():
                if _SECRET.search(key):
                    yield f"{place}.{field}.{key}", value
        for secret in service_secrets(said.headers, said.query, said.url or ""):
            yield place, secret
    variables = {service.url_variable for service in SERVICES.values()}
    variables |= {said.url_variable or "" for said in settings.services.values()}
    for variable in variables:
        for secret in service_secrets({}, {}, environ.get(variable, "")):
            yield variable, secret


def service_secrets(
    headers: Mapping[str, str], query: Mapping[str, str], url: str
) -> Iterator[str]:
    """The secrets themselves, without a scheme such as `Bearer`."""
    for name, value in (*headers.items(), *query.items()):
        if _SECRET.search(name):
            schemed = _SCHEMED.fullmatch(value.strip())
            yield schemed[1] if schemed else value
    yield from _in_address(url)


def _in_address(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return  # an invalid address is reported elsewhere
    user, password = parts.username or "", parts.password or ""
    # A name without a password is a token.
    yield from {password or user, unquote(password or user)} - {""}
    if user or password:
        yield b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    for name, value in parse_qsl(parts.query):
        if _SECRET.search(name):
            yield value
