"""How long a test waits for what must come."""

from collections.abc import Iterator

PATIENCE = 150.0
"""Not a measure of speed, only a guard against waiting for ever: a machine that builds for others,
too, stands still for half a minute now and then."""


def pauses() -> Iterator[float]:
    """Between looks at what is to come: short at first, and then too long to keep others busy."""
    pause = 0.002
    while True:
        yield pause
        pause = min(pause * 1.4, 0.05)
