"""Expected errors. Each is one sentence for a person or the model, with a hint."""

from typing import Literal


class HermesError(Exception):
    """Something the user can fix: what is wrong, and a hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class UsageError(HermesError):
    """The request itself is wrong: an unknown name, a bad value. Exit code 2."""


class TooMuch(UsageError):
    """The request is too large; a smaller one would work."""


class NotFound(HermesError):
    """Nothing has that name or id."""


Retry = Literal["", "same", "changed", "never"]
"""Whether to retry a failed call: unchanged, because the problem may pass; only with other
arguments; or never in this session. Empty if unknown."""


class OverBudget(HermesError):
    """The budget is spent; no call was made."""


class ToolError(HermesError):
    """A tool failed; the model gets the message and continues."""

    def __init__(self, message: str, hint: str = "", retry: Retry = "") -> None:
        super().__init__(message, hint)
        self.retry: Retry = retry


class OutcomeUnknown(HermesError):
    """A tool started and nobody can tell whether it took effect; the call is parked."""


class Fenced(HermesError):
    """Another runtime took over this turn; stop writing to it."""


class HomeLocked(HermesError):
    """Another process owns the home."""


class Degraded(HermesError):
    """The store cannot write (full disk, read-only, damaged); nothing was written."""


class Stopping(HermesError):
    """The runtime is stopping; try again with the next one."""


ModelTrouble = Literal[
    "rate_limit", "overload", "timeout", "broken_stream", "garbage", "unreachable",
    "auth", "quota", "bad_request", "context_too_long", "refused",
]  # fmt: skip

PASSING: frozenset[ModelTrouble] = frozenset(
    {"rate_limit", "overload", "timeout", "broken_stream", "garbage", "unreachable"}
)
"""Trouble that may be gone on the next attempt."""


class ModelError(HermesError):
    """A model call failed. `retry_after`: seconds to wait, if the provider said so. `input` and
    `output`: tokens it used anyway, as far as is known."""

    def __init__(
        self,
        kind: ModelTrouble,
        message: str,
        hint: str = "",
        retry_after: float | None = None,
        *,
        input: int = 0,
        output: int = 0,
    ) -> None:
        super().__init__(message, hint)
        self.kind: ModelTrouble = kind
        self.retry_after = retry_after
        self.input = input
        self.output = output
        self.turned_away = False
        """Whether the provider rejected the request before doing any work."""

    @property
    def passing(self) -> bool:
        return self.kind in PASSING
