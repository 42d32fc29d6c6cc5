"""Budgets: what may be used before the agent pauses and asks."""

from hermes_agent.agent.fold import Conversation
from hermes_agent.core.errors import HermesError
from hermes_agent.core.events import BudgetReached
from hermes_agent.core.settings import Settings


def reached(settings: Settings, talk: Conversation, day_dollars: float) -> BudgetReached | None:
    """The first budget that is used up, or None. Each consent of the user adds the same again."""
    budgets = settings.budgets
    rows: tuple[tuple[str, float, float | None], ...] = (
        ("steps of this turn", talk.turn.steps, settings.loop.max_steps),
        ("tokens of this turn", talk.turn.usage.total, budgets.turn_tokens),
        ("seconds of this turn", talk.turn.seconds, budgets.turn_seconds),
        ("dollars of this turn", talk.turn.dollars, budgets.turn_dollars),
        ("tokens of this session", talk.whole.usage.total, budgets.session_tokens),
        ("dollars of this session", talk.whole.dollars, budgets.session_dollars),
        ("dollars of this day", day_dollars, budgets.day_dollars),
    )
    for what, used, limit in rows:
        if limit is not None and used >= limit * (1 + talk.extensions.get(what, 0)):
            return BudgetReached(what, round(used, 4), limit)
    return None


def wants_price(settings: Settings) -> bool:
    budgets = settings.budgets
    dollars = (budgets.turn_dollars, budgets.session_dollars, budgets.day_dollars)
    return any(limit is not None for limit in dollars)


def refuse_unpriced(settings: Settings, model: str, priced: bool) -> None:
    """A dollar budget that cannot be kept is refused before the first call, not after the bill."""
    if wants_price(settings) and not priced:
        raise HermesError(
            f"a dollar budget is set, but no price is known for {model!r}",
            f"add it under models.prices in config.yaml: {model}: {{input: …, output: …}}",
        )
