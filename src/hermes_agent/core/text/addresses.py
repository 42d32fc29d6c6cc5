"""Classifies hosts, however they are written: `0x7f.1`, `[::ffff:10.0.0.1]`,
`169。254。169。254` and `public@10.0.0.1` are classified by where they lead."""

import re
import socket
import unicodedata
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Literal
from urllib.parse import unquote

Kind = Literal[
    "public", "private", "loopback", "link-local", "metadata", "multicast", "reserved", "name"
]  # fmt: skip

_METADATA = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",  # AWS, Google, Azure, Oracle, DigitalOcean and others
            "169.254.170.2",  # AWS: credentials of containers
            "169.254.170.23",  # AWS: credentials of pods
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",  # Google
            "100.100.100.200",  # Alibaba
            "192.0.0.192",  # Oracle
            "168.63.129.16",  # Azure: the host's own services
        ),
    )
)
_METADATA_NAMES = frozenset(
    {
        "metadata",
        "metadata.google.internal",
        "metadata.goog",
        "metadata.azure.internal",
        "metadata.packet.net",
        "metadata.platformequinix.com",
        "metadata.tencentyun.com",
        "instance-data",
        "instance-data.ec2.internal",
        "rancher-metadata",
    }
)
_PRIVATE_ENDS = (".internal", ".local", ".lan", ".home", ".corp", ".intranet", ".home.arpa")
_LOOPBACK_NAMES = frozenset({"localhost", "ip6-localhost", "ip6-loopback", "localhost.localdomain"})

_SHARED = IPv4Network("100.64.0.0/10")
"""Between a provider and its customers; inside clouds it is private."""
_SITE_LOCAL = IPv6Network("fec0::/10")
_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE = IPv6Network("::/96")
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")

_DOTS = re.compile("[\u3002\uff0e\uff61\u2024]")
_START = re.compile(r"\s*(?:(?:https?|wss?|ftp):/*|(?:[a-z][a-z0-9+.-]*:)?/{2,})", re.IGNORECASE)
_ONE_SLASH = re.compile(r"\s*[a-z][a-z0-9+.-]*:/", re.IGNORECASE)
_USER = re.compile(r"[\w.~!$&'()*+,=:%-]*", re.ASCII)
"""A name and password in a URL, without the `;` at which some programs end the host."""
_BRACKETS = re.compile(r"\[[^\[\]]*\](?::\w*)?")
_NAME = re.compile(r"[\w.+-]*")
_PORT = re.compile(r"[\w.~-]*", re.ASCII)
"""A port, or the first folder of `host:path`."""
_NUMBERS = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}")


def host_of(url: str) -> str:
    """The host that a URL, or a text such as `user@host:port/path`, leads to: plain, in lower
    case, without brackets. Empty where there is none, and where programs may read it differently:
    only what fits the grammar of URLs has a host."""
    text = re.sub(r"[\t\r\n]", "", url)  # clients drop these wherever they stand
    found = _START.match(text)
    if found is None and _ONE_SLASH.match(text):
        return ""  # a folder of a host to some, and a host to curl
    if found and found.group().strip().lower().startswith("file:"):
        return ""
    rest = text[found.end() if found else 0 :].strip()
    before = rest.partition("/")[0]
    authority = re.split(r"[?#]", before, maxsplit=1)[0]
    if "\\" in authority or ("@" in before and authority != before):
        return ""  # the end of the host to some, and part of the user's name to others
    user, _, host = authority.rpartition("@")
    name = plain(host)
    if not _USER.fullmatch(user) or "@" in unquote(unquote(host)):
        return ""
    if ":" in name or "[" in host:
        whole = "[" not in host or _BRACKETS.fullmatch(host)
        return name if whole and isinstance(address_of(name), IPv6Address) else ""
    return name if _NAME.fullmatch(name) and _PORT.fullmatch(host.partition(":")[2]) else ""


def plain(host: str) -> str:
    """One way of writing a host: decoded, without port, brackets, scope and final dot."""
    host = unquote(unquote(host)).rpartition("@")[2]
    host = _DOTS.sub(".", unicodedata.normalize("NFKC", host)).strip().lower()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    if ":" in host:
        host = host.partition("%")[0]
    return host.rstrip(".")


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is written as, in any way that C's `inet_aton` reads; None for a
    name."""
    host = plain(host)
    try:
        return ip_address(host)
    except ValueError:
        pass
    if not _NUMBERS.fullmatch(host):
        return None
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


def classify(host: str) -> Kind:
    """What a host is. A name that says nothing about itself is a `name`: look it up, and classify
    each address."""
    bare = plain(host)
    address = address_of(bare)
    if address is not None:
        return _kind(address)
    if bare in _METADATA_NAMES:
        return "metadata"
    if bare in _LOOPBACK_NAMES or bare.endswith(".localhost"):
        return "loopback"
    if bare.endswith(_PRIVATE_ENDS):
        return "private"
    # No name ends in a number: some resolver may still make an address of this.
    if not bare or _NUMBERS.fullmatch(bare.rpartition(".")[2]):
        return "reserved"
    return "name"


def _kind(address: IPv4Address | IPv6Address) -> Kind:
    if address in _METADATA:
        return "metadata"
    if isinstance(address, IPv6Address):
        inner = _inner(address)
        if inner is not None:
            return _kind(inner)
        if address in _SITE_LOCAL:
            return "private"
    if address.is_unspecified or address.is_loopback:
        return "loopback"  # 0.0.0.0 and :: lead to this machine
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    if address.is_reserved or address == IPv4Address("255.255.255.255"):
        return "reserved"
    if isinstance(address, IPv4Address) and address in _SHARED:
        return "private"
    if address.is_private:
        return "private"
    return "public" if address.is_global else "reserved"


def _inner(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address carries to, if it does."""
    low = IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if any(address in network for network in _NAT64) or address in _TRANSLATED:
        return low
    if address in _COMPATIBLE and int(address) > 1:
        return low
    return None
