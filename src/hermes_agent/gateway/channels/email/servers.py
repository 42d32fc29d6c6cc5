"""Addresses of mail servers, and how to encrypt the connection."""

import re
import ssl
from typing import Literal

from msgspec import Struct

from hermes_agent.core.errors import UsageError
from hermes_agent.core.text.addresses import classify

Safety = Literal["tls", "starttls", "plain"]

_PLACE = re.compile(r"(?:(tls|starttls|plain)://)?(\[[0-9a-fA-F:]+\]|[^:/\s]+)(?::(\d{1,5}))?")
_SAFETIES: dict[str | None, Safety] = {"tls": "tls", "starttls": "starttls", "plain": "plain"}
_BY_PORT: dict[int, Safety] = {143: "starttls", 587: "starttls", 25: "starttls"}


class MailServer(Struct, frozen=True):
    host: str
    port: int
    safety: Safety

    def context(self) -> ssl.SSLContext:
        """Always verifies the certificate."""
        return ssl.create_default_context()


def place_of(setting: str, text: str, port: int) -> MailServer:
    """Parses `imap.example.org`, `mail.example.org:587` or `starttls://mail.example.org:2525`. With
    no scheme the port decides: TLS unless it is a known STARTTLS port."""
    found = _PLACE.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"{setting} is not a valid mail server: {text!r}",
            "write it as mail.example.org or host:port",
        )
    safety, host, given = found.groups()
    host = host.strip("[]")
    chosen = int(given) if given else port
    kind: Safety = _SAFETIES.get(safety) or _BY_PORT.get(chosen, "tls")
    if kind == "plain" and classify(host) != "loopback":
        raise UsageError(
            f"{setting} would send the password in the clear to {host}",
            "plain:// is for this machine only; use tls:// or starttls://",
        )
    return MailServer(host, chosen, kind)
