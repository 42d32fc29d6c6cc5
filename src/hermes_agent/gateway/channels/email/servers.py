"""Where a mail server is, and how safely it is spoken to."""

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
        """The certificate is verified, always."""
        return ssl.create_default_context()


def place_of(setting: str, text: str, port: int) -> MailServer:
    """`imap.example.org`, `mail.example.org:587`, `starttls://mail.example.org:2525`. Without a
    word before it the port says which, and every port but the known ones of old speaks TLS."""
    found = _PLACE.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"{setting} is no mail server: {text!r}", "write it as mail.example.org or host:port"
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
