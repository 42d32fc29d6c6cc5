"""Numbers between bounds as expressions of a grammar."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

MAX_COUNT = 10**15 - 1
"""The largest whole number written where nothing bounds it: every reader of JSON keeps it exact."""
SAMPLES = 10
"""How many of the numbers between two bounds are offered when no whole one lies there."""
PLACES = 6
"""The most digits after the point."""
_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")


def integers(schema: Mapping[str, Any]) -> str | None:
    """Whole numbers within the schema's bounds; None where there are none."""
    low, high = _whole_bounds(schema)
    return _either(_whole(low, high)) if low <= high else None


def numbers(schema: Mapping[str, Any]) -> str | None:
    """Numbers within the schema's bounds, with a fraction where it stays within them."""
    low, high = _whole_bounds(schema)
    if low > high:
        return _between(schema)
    choices = _whole(low, high)
    fraction = f'"." [0-9]{{1,{PLACES}}}'
    if (least := max(low, 0)) < high:
        choices.append(f"({_either(_digits(least, high - 1))}) {fraction}")
    if low < min(high, 0):
        choices.append(f'"-" ({_either(_digits(max(0, -high), -low - 1))}) {fraction}')
    return _either(choices)


def _whole_bounds(schema: Mapping[str, Any]) -> tuple[int, int]:
    """The least and the greatest whole number that fits."""
    lows, highs = [], []
    if "minimum" in schema:
        lows.append(math.ceil(schema["minimum"]))
    if "exclusiveMinimum" in schema:
        lows.append(math.floor(schema["exclusiveMinimum"]) + 1)
    if "maximum" in schema:
        highs.append(math.floor(schema["maximum"]))
    if "exclusiveMaximum" in schema:
        highs.append(math.ceil(schema["exclusiveMaximum"]) - 1)
    low = max(lows) if lows else min(-MAX_COUNT, *highs, 0)
    high = min(highs) if highs else max(MAX_COUNT, low)
    return low, high


def _either(choices: list[str]) -> str:
    return " | ".join(choices)


def _whole(low: int, high: int) -> list[str]:
    choices = _digits(max(low, 0), high) if high >= 0 else []
    if low < 0:
        choices.append(f'"-" ({_either(_digits(max(1, -high), -low))})')
    return choices


def _digits(low: int, high: int) -> list[str]:
    """The numbers from `low` to `high`, none of them negative."""
    choices = []
    if low == 0:
        choices.append('"0"')
        low = 1
    while low <= high:
        length = len(str(low))
        top = 10**length - 1
        if low == 10 ** (length - 1) and top <= high:
            last = len(str(high + 1)) - 1
            choices.append(f"[1-9] [0-9]{{{length - 1},{last - 1}}}")
            low = 10**last
        else:
            top = min(top, high)
            choices.append(_same_length(str(low), str(top)))
            low = top + 1
    return choices


def _same_length(low: str, high: str) -> str:
    """Numbers with as many digits as both bounds have."""
    if low == high:
        return f'"{low}"'
    rest = len(low) - 1
    any_rest = f" [0-9]{{{rest}}}" if rest else ""
    first, last = int(low[0]), int(high[0])
    if low[1:] == "0" * rest and high[1:] == "9" * rest:
        return f"[{first}-{last}]{any_rest}"
    if first == last:
        return f'"{first}" ({_same_length(low[1:], high[1:])})'
    choices = [f'"{first}" ({_same_length(low[1:], "9" * rest)})']
    if first + 1 < last:
        choices.append(f"[{first + 1}-{last - 1}]{any_rest}")
    choices.append(f'"{last}" ({_same_length("0" * rest, high[1:])})')
    return _either(choices)


def _between(schema: Mapping[str, Any]) -> str | None:
    """Some of the numbers that fit where no whole one does."""
    # As it is written: a decimal fraction is not quite the float that stands for it.
    exact = {key: Fraction(str(value)) for key, value in schema.items() if key in _BOUNDS}
    low = max(exact[key] for key in ("minimum", "exclusiveMinimum") if key in exact)
    high = min(exact[key] for key in ("maximum", "exclusiveMaximum") if key in exact)
    for places in range(1, PLACES + 1):
        scale = 10**places
        least, most = math.floor(low * scale) + 1, math.ceil(high * scale) - 1
        if least <= most:
            step = max(1, (most - least) // (SAMPLES - 1))
            chosen = range(least, most + 1, step)
            return _either([f'"{_decimal(number, places)}"' for number in chosen])
    single = "minimum" in schema and "maximum" in schema and low == high
    return f'"{schema["minimum"]!r}"' if single else None


def _decimal(number: int, places: int) -> str:
    digits = f"{abs(number):0{places + 1}d}"
    return f"{'-' if number < 0 else ''}{digits[:-places]}.{digits[-places:]}"
