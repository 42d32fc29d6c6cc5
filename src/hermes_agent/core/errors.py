"""Expected trouble. Each error is one sentence for a person or the model, with a way out."""

from typing import Literal


class HermesError(Exception):
    """Something the user can mend: what is wrong, and a hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class UsageError(HermesError):
    """The request itself is wrong: an unknown name, a bad value. Exit code 2."""


class TooMuch(UsageError):
    """More at once than is taken; less of it would be."""


class NotFound(HermesError):
    """No session, effect or question of that name."""


Retry = Literal["", "same", "changed", "never"]
"""Whether a call that failed is worth making again: as it is, because the trouble may pass; only
with other arguments; or not in this session. Empty where nobody can tell."""


class OverBudget(HermesError):
    """What may be spent is spent; nothing was asked."""


class ToolError(HermesError):
    """A tool could not do what it was asked; the model is told the sentence and goes on."""

    def __init__(self, message: str, hint: str = "", retry: Retry = "") -> None:
        super().__init__(message, hint)
        self.retry: Retry = retry


class OutcomeUnknown(HermesError):
    """A tool began and nobody can tell whether it took effect; the call is parked."""


class Fenced(HermesError):
    """Another runtime has taken this turn; whoever sees this must stop writing to it."""


class HomeLocked(HermesError):
    """Another process owns the home."""


class Degraded(HermesError):
    """The store cannot keep anything now (full disk, read-only, damaged); nothing was written."""


class Stopping(HermesError):
    """The runtime is about to end; the next one will take what is brought."""


ModelTrouble = Literal[
    "rate_limit", "overload", "timeout", "broken_stream", "garbage", "unreachable",
    "auth", "quota", "bad_request", "context_too_long", "refused",
]  # fmt: skip

PASSING: frozenset[ModelTrouble] = frozenset(
    {"rate_limit", "overload", "timeout", "broken_stream", "garbage", "unreachable"}
)
"""Trouble that may be gone on the next try."""


class ModelError(HermesError):
    """A model call failed. `kind` says how; `retry_after`: seconds the service asked for. `input`
    and `output` are the tokens it used all the same, as far as is known."""

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
        """Whether the service refused the request before it did anything for it."""

    @property
    def passing(self) -> bool:
        return self.kind in PASSING
