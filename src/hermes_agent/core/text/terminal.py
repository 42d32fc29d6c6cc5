"""Text of others, fit to be shown."""

from functools import cache

_CODES = [
    *(code for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"),
    *(0x2028, 0x2029),  # line ends of their own
    *(*range(0x202A, 0x202F), *range(0x2066, 0x206A)),  # turn the direction of writing round
]
_CONTROLS = dict.fromkeys(_CODES)
_UNSEEN = (
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFEFF, 0xFFA0),
    *(0xA0, 0x1680, 0x202F, *range(0x2000, 0x2010), *range(0x205F, 0x2070)),
    *(*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xFFF0, 0xFFFC)),
    *(*range(0xD800, 0xE000), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000)),
)
"""Signs of no width, signs that look like blanks, halves of signs and tags."""


def clean(text: str) -> str:
    """Without control characters: what a model or a command printed must not drive a terminal."""
    return text.translate(_CONTROLS)


def visible(text: str) -> str:
    """With control characters, and signs that cannot be seen, written out: what somebody consents
    to must be seen whole."""
    return text if text.isascii() and text.isprintable() else text.translate(_visible())


@cache
def _visible() -> dict[int, str]:
    return {code: ascii(chr(code))[1:-1] for code in (*_CODES, *_UNSEEN)}
