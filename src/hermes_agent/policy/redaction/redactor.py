"""Take secrets out of a text before it is written down or shown to a model.

Found are the values of known secrets (as they are, in base64, hex, URLs and dumps), keys of
well-known shape, values behind a name such as `password`, and tokens that look drawn at random. A
secret that was encrypted, reversed or spread over several results is not recognised: keeping
secrets from commands in the first place is what protects them.

All finders work on the `shadow` of the text, which has one byte for each character, so that
positions are the same and one splice is enough. The regexes use no possessive quantifiers (Python
3.11.2, which Debian 12 has, gets them wrong); they stay linear because each begins with plain
letters and every repeat that could meet itself again is bounded."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from hermes_agent.policy.redaction import entropy, token_shapes, variable_names
from hermes_agent.policy.redaction.known_values import MAX_RUN, RUN_SIGNS, KnownSecrets, Span
from hermes_agent.policy.redaction.stream import RedactingStream
from hermes_agent.policy.secrets import is_secret

_MARKS = bytes(ord("x") if sign in RUN_SIGNS else ord(" ") for sign in range(256))
# Literal letters alone: the engine finds those ten times faster than a repeated class.
_RUN = re.compile(b"x" * MAX_RUN + b"x*")


class Redactor:
    """Replaces each secret in a text with `[redacted:NAME]`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._known = KnownSecrets()
        for name, value in sorted(environ.items()):
            if is_secret(name, value):
                self.learn(name, value)

    def learn(self, name: str, value: str) -> None:
        """Recognise this value from now on. One of fewer than eight characters is left alone."""
        self._known.learn(name, value)

    def __call__(self, text: str) -> str:
        return splice(text, self.spans(text))

    def known(self, text: str) -> str:
        """The text without the secrets whose values are known, in whatever form; what only looks
        like one is left."""
        shadow = text.encode("ascii", "replace")
        runs = _runs(shadow)
        dense = b"\n".join(shadow[start:end] for start, end in runs)
        return splice(text, _joined(self._known.spans(text, shadow, dense, runs)))

    def stream(self) -> RedactingStream:
        """Redact a text that arrives in pieces."""
        return RedactingStream(self.spans, self._known.begun)

    def spans(self, text: str) -> list[Span]:
        """Where the secrets are, in order, none over another."""
        shadow = text.encode("ascii", "replace")
        lower = shadow.lower()
        runs = _runs(shadow)
        dense = b"\n".join([shadow[start:end] for start, end in runs])
        return _joined(
            self._known.spans(text, shadow, dense, runs),
            token_shapes.spans(shadow, dense, runs),
            variable_names.spans(shadow, lower),
            entropy.spans(shadow, lower, runs),
        )

    def deep(self, value: Any) -> Any:
        """The same JSON-like value with every text in it redacted, the keys of objects too."""
        match value:
            case str():
                return self(value)
            case dict():
                return {self.deep(key): self.deep(inner) for key, inner in value.items()}
            case list() | tuple():
                return [self.deep(inner) for inner in value]
        return value


def splice(text: str, spans: Iterable[Span]) -> str:
    parts = []
    last = 0
    for start, end, name in spans:
        parts += [text[last:start], f"[redacted:{name}]"]
        last = end
    return "".join([*parts, text[last:]]) if parts else text


def _runs(shadow: bytes) -> list[tuple[int, int]]:
    return [found.span() for found in _RUN.finditer(shadow.translate(_MARKS))]


def _joined(*finders: Iterable[Span]) -> list[Span]:
    """Overlapping finds as one, named by the finder that is surest of itself (the first)."""
    found = sorted(
        (start, end, rank, name) for rank, spans in enumerate(finders) for start, end, name in spans
    )
    joined: list[tuple[int, int, int, str]] = []
    for start, end, rank, name in found:
        if joined and start < joined[-1][1]:
            first, last, best, called = joined[-1]
            longer = rank == best and end - start > last - first
            if rank < best or longer:
                best, called = rank, name
            joined[-1] = (first, max(last, end), best, called)
        else:
            joined.append((start, end, rank, name))
    return [(start, end, name) for start, end, _, name in joined]
