"""Text of others, fit to be shown."""

_CODES = [
    *(code for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"),
    *(0x2028, 0x2029),  # line ends of their own
    *(*range(0x202A, 0x202F), *range(0x2066, 0x206A)),  # turn the direction of writing round
]
_CONTROLS = dict.fromkeys(_CODES)
_VISIBLE = {code: repr(chr(code))[1:-1] for code in _CODES}


def clean(text: str) -> str:
    """Without control characters: what a model or a command printed must not drive a terminal."""
    return text.translate(_CONTROLS)


def visible(text: str) -> str:
    """With control characters written out: what somebody consents to must be seen whole."""
    return text.translate(_VISIBLE)
