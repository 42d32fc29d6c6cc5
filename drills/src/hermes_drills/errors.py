"""Errors shown to people, each with a way out."""


class DrillError(Exception):
    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\nhint: {hint}" if hint else message)
        self.message = message
        self.hint = hint


class UsageError(DrillError):
    """The command line asks for something that does not exist."""


class Discarded(DrillError):
    """An episode that did not prove itself: it counts for nothing."""
