"""Tokens that look drawn at random. Words, paths, identifiers, hashes and ids do not count.

The thresholds come from a measurement over sources, documentation, logs, manifests and lock files
against generated tokens; tests/policy/test_redact_entropy.py holds them in place. What is written
in one case with digits (git and image digests, UUIDs, ULIDs, pod names) is never random here: only
a name that says so (redact_named) makes it a secret."""

import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Sequence
from math import log2

from hermes_agent.policy.redaction.known_values import Span

SHORTEST = 20
_SHORTEST_NEAR = 16
"""The same where a word such as "token" stands before it."""
_MAX_LENGTH = 128
"""Longer runs are data: pictures, certificates, source maps."""

_PAIRS = (
    "ab ac ad ai al am an ap ar as at bl bu ca ce ch ck cl co ct de di ea ec ed ee ef el em en ep "
    "er es et ev ex fi fo ge ha he hi ho ia ib ic id ie ig il im in io is it ke la le li ll lo ly "
    "ma me mi mo mp na nc nd ne ng ni no ns nt oc od ol om on op or os ot ou pa pe pl po pr pt ra "
    "re ri ro rs rt se si so sp ss st su ta te th ti to tr ts tt ty ul un ur us ut ve"
)
_COMMON = frozenset((ord(pair[0]), ord(pair[1])) for pair in _PAIRS.split())
"""Pairs of letters that make three quarters of words and identifiers, and a sixth of noise."""

_SIGNS = range(ord("a"), ord("z") + 1)
_PAIRS_OF_LETTERS = frozenset((one, other) for one in _SIGNS for other in _SIGNS)
_KINDS = re.compile(rb"[a-z]+|[A-Z]+|[0-9]+|[^A-Za-z0-9]+")
_PIECES = re.compile(rb"[/_-]")
_WEIGHTS = [count and count * log2(count) for count in range(_MAX_LENGTH + 1)]
_SAMPLE = 48
"""How much of a token is looked at closely."""
_DIGITS = b"0123456789"

_HASHED = re.compile(
    rb"(?:h1|sha-?\d{1,3}|md5|integrity|digest|checksum|hash|etag|fingerprint|\|)"
    rb"[\"']?[ \t]{0,4}[:=|-]?[ \t]{0,4}[\"']?$"
)
"""What stands before a checksum, in lower case."""

_HASH = re.compile(rb"(?:sha-?\d{1,3}|md5)-", re.IGNORECASE)
_PART = re.compile(rb"[^/]{16,}")
_NEAR = re.compile(rb"key|token|secret|passw|auth|credential|bearer")
_NEAR_REACH = 40
_PUBLIC = (b"AAAAB3Nza", b"AAAAC3Nza", b"AAAAE2Vj", b"_Z", b"?")
"""How SSH public keys and the names of C++ functions begin."""


def wordy(token: bytes) -> float:
    """Which share of the neighbouring letters is common in words."""
    lower = token[:_SAMPLE].lower()
    pairs = list(zip(lower, lower[1:], strict=False))  # noqa: RUF007 - three times as fast
    letters = sum(map(_PAIRS_OF_LETTERS.__contains__, pairs))
    return sum(map(_COMMON.__contains__, pairs)) / letters if letters else 0.0


def entropy(token: bytes) -> float:
    """Bits for each sign."""
    size = len(token)
    return log2(size) - sum(map(_WEIGHTS.__getitem__, Counter(token).values())) / size


def _is_mixed(body: bytes) -> bool:
    size = len(body)
    if not _SHORTEST_NEAR <= size <= _MAX_LENGTH or body.islower() or body.isupper():
        return False
    digits = size - len(body.translate(None, _DIGITS))
    return 1 <= digits <= size * 0.6 and _DIGITS not in body and not body.startswith(_PUBLIC)


def _is_noise(body: bytes) -> bool:
    sample = body[:_SAMPLE]
    if len(_KINDS.findall(sample)) < 0.35 * len(sample) or wordy(body) > 0.4:
        return False
    pieces = _PIECES.split(body)
    if len(pieces) > 2 and max(map(len, pieces)) < 12:
        return False
    enough = 3.5 if len(body) >= SHORTEST else 3.1
    return entropy(body) > enough and not _is_text(body)


def _is_text(body: bytes) -> bool:
    """Whether it is ordinary text in base64."""
    try:
        decoded = b64decode(body + b"=" * (-len(body) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return False
    return all(32 <= sign < 127 or sign in b"\t\r\n" for sign in decoded)


def spans(shadow: bytes, lower: bytes, runs: Sequence[tuple[int, int]]) -> Iterator[Span]:
    """`runs` are the long runs of letters, digits and `+/_=-`."""
    for start, end in runs:
        run = shadow[start:end]
        if run.islower() or run.isupper():
            continue
        for first, last in _tokens(run):
            body = run[first:last].rstrip(b"=")
            if not _is_mixed(body):
                continue
            # What stands around it is quicker to judge than the token.
            before = _before(lower, start + first)
            if len(body) < SHORTEST and not _NEAR.search(before):
                continue
            if _HASHED.search(before[-24:]) or _HASHED.search(_before(lower, start)[-24:]):
                continue
            if _is_in_block(shadow, start, end):
                continue
            if _is_noise(body):
                yield start + first, start + last, "high-entropy"


def _tokens(run: bytes) -> Iterator[tuple[int, int]]:
    """The parts of a run that may be a token each: what follows `NAME=`, and if that is a path,
    its parts."""
    body = run.rstrip(b"=")
    first = body.rfind(b"=") + 1
    whole = body[first:]
    if _HASH.match(whole):
        return
    if whole.count(b"/") * 12 <= len(whole) and not whole.startswith(b"/"):
        yield first, len(run)
        return
    for part in _PART.finditer(whole):
        yield first + part.start(), first + part.end()


def _before(lower: bytes, at: int) -> bytes:
    before = lower[max(0, at - _NEAR_REACH) : at]
    return before[before.rfind(b"\n") + 1 :]


def _is_in_block(shadow: bytes, start: int, end: int) -> bool:
    """Whether it is a line in a block of base64, such as a certificate or an encoded file."""
    if shadow[start - 1 : start] not in (b"", b"\n", b" ", b"\t"):
        return False
    above = shadow[max(0, start - 90) : start]
    if above.endswith(b"-----\n"):
        return True
    lines = above.split(b"\n")
    if len(lines) >= 2 and _is_full(lines[-2]) and not lines[-1].strip():
        return True
    below = shadow[end : end + 90].split(b"\n")
    return len(below) >= 3 and end - start >= 60 and not below[0].strip() and _is_full(below[1])


def _is_full(line: bytes) -> bool:
    line = line.strip()
    return len(line) >= 60 and b" " not in line
