"""Checks whether a mail is really from its sender, by what our own mail server found when it came
(Authentication-Results, RFC 8601). From itself can be forged."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

FAILED = ("fail", "permerror", "temperror")

_COMMENT = re.compile(r"\((?:[^()\\]|\\.)*\)")
_RESULT = re.compile(r"([a-z][a-z0-9-]*)(?:/\d+)?\s*=\s*([a-z]+)", re.IGNORECASE)
_FACT = re.compile(r'([a-z]+\.[a-z0-9_-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;"]+)', re.IGNORECASE)


def doubt(results: Sequence[str], authservs: Sequence[str], sender: str) -> str:
    """Why it is not proven that `sender` wrote a mail; empty if it is. `results` are its headers
    from the top: only the first counts, since a sender can add others below."""
    server, found = _read(results[0]) if results else ("", [])
    if not any(fnmatchcase(server, one) for one in authservs):
        return "the mail server could not verify its sender"
    return "" if _vouches(found, sender) else "its sender is not verified"


def _read(text: str) -> tuple[str, list[tuple[str, str, dict[str, str]]]]:
    """The server, and each method with its result and properties."""
    plain = text
    while (shorter := _COMMENT.sub(" ", plain)) != plain:
        plain = shorter
    server, *parts = _split(plain)
    found = []
    for part in parts:
        if said := _RESULT.match(part.strip()):
            facts = {
                name.lower(): value.strip('"').lower()
                for name, value in _FACT.findall(part.strip()[said.end() :])
            }
            found.append((said[1].lower(), said[2].lower(), facts))
    return (server.split() or [""])[0].lower(), found


def _split(text: str) -> list[str]:
    """Splits at semicolons outside of quotes."""
    return re.findall(r'(?:"(?:[^"\\]|\\.)*"|[^;"]|")+', text) or [""]


def _vouches(found: list[tuple[str, str, dict[str, str]]], sender: str) -> bool:
    domain = sender.rpartition("@")[2]
    if any(method == "dmarc" and result in FAILED for method, result, _ in found):
        return False
    return any(
        result == "pass" and _fits(method, facts, sender, domain) for method, result, facts in found
    )


def _fits(method: str, facts: dict[str, str], sender: str, domain: str) -> bool:
    """Whether what passed is about the claimed sender."""
    match method:
        case "dmarc":
            return facts.get("header.from", "").rpartition("@")[2] == domain
        case "dkim":
            signed = facts.get("header.d") or facts.get("header.i", "").rpartition("@")[2]
            return _covers(signed, domain)
        case "spf":
            return _covers(facts.get("smtp.mailfrom", "").rpartition("@")[2], domain)
        case "auth":
            return facts.get("smtp.auth") == sender
        case _:
            return False


def _covers(one: str, domain: str) -> bool:
    """Whether it is the same domain or a parent of it."""
    return one == domain or ("." in one and domain.endswith(f".{one}"))
