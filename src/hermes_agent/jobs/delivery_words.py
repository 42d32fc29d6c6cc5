"""Reads from a job's prompt where its results go: `Send results to Telegram`, `e-mail me the
results`, `tell me on Discord, but only if something is wrong`. Only requests count, not sentences
about a channel: `Check that mails are sent` names no recipient."""

import re
from collections.abc import Mapping

from msgspec import Struct

EMAIL = "email"
ALIASES = {EMAIL: ("mail",)}
"""Other words for a channel than its name and its title."""

_REQUEST = (
    r"(?:^|[,:;(\u2013]\s*|\s-\s+|\b(?:and|then|also|please|but|finally|just|only|always)\s+)"
)
"""Where a request begins: `do not send` and `whether they send` are none."""
_VERB = (
    r"(?:send|post|tell|message|notify|inform|report|deliver|forward|ping|publish|share|push|"
    r"write|alert|let|give|put|drop)"
)
_ADDRESS = re.compile(r"(?:\b(?:to|at|and)|[,&])\s+([\w.+-]+@[\w-]+(?:\.[\w-]+)+)")
"""Somebody to send to, not a mail address that is spoken of."""
_ME = re.compile(r"\b(?:me|us)\b(?!\s+at\b)", re.IGNORECASE)
_CHAT = r"(?::[^\s,;)]*[^\s,;.!?)])?"
_RESULT = (
    r"(?:(?:the|all|any|its|a|your)\s+)?(?:results?|answers?|reports?|summary|findings|output)"
)
_WAY = r"(?:to|in|into|on|onto|via|by|through|over|using)"
_WHOSE = r"(?:(?:me|us|my|our|the|this|\w+['\u2019]s)\s+){0,2}"
_GAP = r"(?:(?!\b(?:not|nothing|never|no)\b)[^;!?]){0,80}?"
_THING = r"(?!\W{0,2}(?:apis?|servers?|endpoints?|users?|usage|logs?|sdk|queues?|tokens?)\b)"
"""`the mail server` is not where somebody reads."""
_IF = re.compile(
    r"\b(?:only (?:if|when|on|for)|if|unless|when(?:ever)? (?:something|anything|there))\b",
    re.IGNORECASE,
)
_STRANGER = re.compile(
    rf"(?i:{_REQUEST}{_VERB}\s+{_RESULT}\b{_GAP}\bto)\s+(?P<name>[A-Z][\w-]+)[.,;!]?(?:\s|$)"
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")


class PromptDelivery(Struct, frozen=True):
    """Where a prompt says that results go; no targets if it does not say."""

    deliver: tuple[str, ...] = ()
    quiet: bool = False
    """Only if there is something to report."""
    quote: str = ""
    """The sentence that says so."""


def read_delivery(prompt: str, titles: Mapping[str, str]) -> PromptDelivery:
    """`titles`: the channels that there could be, by name."""
    words = _words(titles)
    names = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    channel = rf"\b(?:{names})\b(?!\.\w|/)"  # no file
    chats = rf"{channel}{_CHAT}{_THING}"
    chats += rf"(?:(?:\s*,\s*|\s+(?:and\s+)?)(?:{_WAY}\s+)?{_WHOSE}{channel}{_CHAT})*"
    request = re.compile(
        rf"{_REQUEST}(?:"
        rf"(?:{_VERB}|{_RESULT})\b{_GAP}\b{_WAY}\s+{_WHOSE}(?P<to>{chats})"
        rf"|{_VERB}\s+(?:me|us)\s+an?\s+(?P<object>{channel})"
        rf"|(?P<verb>{channel})\s+(?:me|us|it|them|everyone|{_RESULT})\b)",
        re.IGNORECASE,
    )
    named = re.compile(rf"({channel})({_CHAT})", re.IGNORECASE)
    sentences = [one.strip() for one in _SENTENCE.split(prompt)]
    for place, sentence in enumerate(sentences):
        if found := request.search(sentence):
            said = named.findall(found["to"] or found["object"] or found["verb"])
            targets = [words[one.casefold()] + chat for one, chat in said]
            to = () if _ME.search(found[0]) else _ADDRESS.findall(sentence, found.start())
            if to and EMAIL in targets:
                targets = [one for one in targets if one != EMAIL]
                targets += [f"{EMAIL}:{one}" for one in to]
            after = sentences[place + 1] if place + 1 < len(sentences) else ""
            quiet = _IF.search(sentence) or re.match(r"(?:but )?only ", after, re.IGNORECASE)
            return PromptDelivery(tuple(dict.fromkeys(targets)), bool(quiet), sentence)
    return PromptDelivery()


def stranger(prompt: str) -> str:
    """Whom a prompt sends results to by a name, as `read_delivery` does channels."""
    found = (_STRANGER.search(one.strip()) for one in _SENTENCE.split(prompt))
    return next((one["name"] for one in found if one), "")


def _words(titles: Mapping[str, str]) -> dict[str, str]:
    """The channel that each word means; its own name comes first."""
    found: dict[str, str] = {}
    for name, title in titles.items():
        for word in (title, *ALIASES.get(name, ())):
            found.setdefault(word.casefold(), name)
    return {**found, **{name.casefold(): name for name in titles}}
