"""Patterns over hosts. Nothing is looked up: a name whose address is private is found out by
whoever connects."""

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from hermes_agent.policy.patterns.globs import WordGlobs

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

WORDS = ("loopback", "metadata", "private", "public")
_INSIDE = (".svc", ".private")
"""Endings of names that are used inside a cluster or a company, beside those known as private."""


class HostPattern(Struct, frozen=True):
    name: str
    address: Address | None
    words: frozenset[str]
    """Which of the words fit it. What is loopback or metadata is private, too."""


@lru_cache(maxsize=1024)
def host_facts(host: str) -> HostPattern:
    from hermes_agent.core.text.addresses import address_of, classify, plain

    name = plain(host)
    kind = classify(name)
    is_public = kind == "public" or (kind == "name" and "." in name and not name.endswith(_INSIDE))
    words = {kind, "public"} if is_public else {kind, "private"}
    return HostPattern(name, _carried(address_of(name)), frozenset(words & set(WORDS)))


def _carried(address: Address | None) -> Address | None:
    """The IPv4 address within an IPv6 one, where there is one."""
    if isinstance(address, ipaddress.IPv6Address):
        return address.ipv4_mapped or address.sixtofour or address
    return address


class Hosts:
    """Patterns over hosts: names with globs, networks, and the words above."""

    __slots__ = ("_names", "_networks", "_open", "_words")

    def __init__(self, patterns: Iterable[str]) -> None:
        given = tuple(pattern.lower() for pattern in patterns)
        self._words = frozenset(given) & frozenset(WORDS)
        self._networks = tuple(found for word in given if (found := _network(word)) is not None)
        self._names = WordGlobs(
            word.rstrip(".") for word in given if word not in WORDS and _network(word) is None
        )
        self._open = "*" in given

    def fit(self, host: str) -> bool:
        """An empty host is one that nobody can tell; only `*` fits it."""
        if self._open or not host:
            return self._open
        facts = host_facts(host)
        if self._names.fit(facts.name) or not self._words.isdisjoint(facts.words):
            return True
        address = facts.address
        return address is not None and any(address in network for network in self._networks)


def _network(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def trouble(pattern: str) -> str:
    """What is wrong with a host pattern, or an empty string."""
    if not pattern:
        return "it is empty"
    if "://" in pattern or (_network(pattern) is None and "/" in pattern):
        return "write only the host, or a network such as 10.0.0.0/8"
    return ""
