"""Budgets: what a turn, a session or a day may use before the agent asks."""

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from hermes_agent.agent.budgets.reservations import Budget, Unit
from hermes_agent.agent.conversation import ConversationState, rounds
from hermes_agent.core.errors import ModelError
from hermes_agent.core.events import BudgetReached
from hermes_agent.core.jobs import JOBS
from hermes_agent.core.protocols import Model
from hermes_agent.core.records import NO_SHARE, Session
from hermes_agent.core.settings.root import Settings

Used = Callable[[], Awaitable[float]]
FamilyUsage = Callable[[], Awaitable[tuple[float, int]]]
"""Dollars and tokens of a session and all its subagents, including abandoned ones."""

LEARNING = " of learning today"


def with_share(settings: Settings, session: Session) -> Settings:
    """The settings of a session. A subagent, or a trial of learning, has its share of the budget
    instead of a session's own; for a job, the share limits each run."""
    share = session.share
    if not session.parent and share == NO_SHARE:
        return settings
    if session.source == JOBS:
        own = {"turn_tokens": share.tokens, "turn_dollars": share.dollars}
        given = {name: limit for name, limit in own.items() if limit is not None}
        return replace(settings, budgets=replace(settings.budgets, **given))
    return replace(
        settings,
        budgets=replace(
            settings.budgets,
            turn_tokens=None,
            turn_dollars=None,
            session_tokens=share.tokens,
            session_dollars=share.dollars,
        ),
        loop=replace(settings.loop, max_steps=share.steps or settings.loop.max_steps),
    )


def accounts(
    settings: Settings,
    conversation: ConversationState,
    turn: int,
    family: FamilyUsage,
    spent_today: Used,
) -> list[Budget]:
    """The budgets of a turn's calls. Each extension by the user adds the same amount again."""

    async def turn_tokens() -> float:
        return conversation.turn.usage.total

    async def turn_dollars() -> float:
        return conversation.turn.dollars

    budgets = settings.budgets
    return [
        *_account("tokens", "turn", str(turn), budgets.turn_tokens, turn_tokens, conversation),
        *_account("dollars", "turn", str(turn), budgets.turn_dollars, turn_dollars, conversation),
        *_session_accounts(settings, conversation.session, family, spent_today, conversation),
    ]


def accounts_outside_turns(
    settings: Settings, session: str, family: FamilyUsage, spent_today: Used
) -> list[Budget]:
    """The budgets of a session's calls outside its turns."""
    return _session_accounts(settings, session, family, spent_today, None)


def day_accounts(settings: Settings, spent_today: Used) -> list[Budget]:
    """The budget that all calls share."""
    return _account("dollars", "day", "", settings.budgets.day_dollars, spent_today, None)


def _session_accounts(
    settings: Settings,
    session: str,
    family: FamilyUsage,
    spent_today: Used,
    conversation: ConversationState | None,
) -> list[Budget]:
    async def tokens() -> float:
        return (await family())[1]

    async def dollars() -> float:
        return (await family())[0]

    budgets = settings.budgets
    return [
        *_account("tokens", "session", session, budgets.session_tokens, tokens, conversation),
        *_account("dollars", "session", session, budgets.session_dollars, dollars, conversation),
        *_account("dollars", "day", "", budgets.day_dollars, spent_today, conversation),
    ]


def _account(
    unit: Unit,
    scope: str,
    owner: str,
    limit: float | None,
    used: Used,
    conversation: ConversationState | None,
) -> list[Budget]:
    if limit is None:
        return []
    what = f"{unit} of this {scope}"
    whole = limit * (1 + (conversation.extensions.get(what, 0) if conversation else 0))
    return [Budget(what, f"{scope}:{owner}:{unit}", whole, unit, used, shared=scope == "day")]


def reached(settings: Settings, conversation: ConversationState) -> BudgetReached | None:
    """The first used-up limit of those that need no reservation."""
    turn, loop = conversation.turn, settings.loop
    rows: tuple[tuple[str, float, float | None], ...] = (
        ("steps of this turn", turn.steps, loop.max_steps),
        ("cost of this turn", turn.dollars, loop.max_dollars),
        ("time of this turn", turn.seconds, loop.max_seconds),
        ("seconds of this turn", turn.seconds, settings.budgets.turn_seconds),
    )
    for what, used, limit in rows:
        if limit is not None and used >= limit * (1 + conversation.extensions.get(what, 0)):
            return BudgetReached(what, round(used, 4), limit)
    return None


def _amount(unit: str, value: float) -> str:
    """`$2.50`, `90 min`, `500 steps`."""
    if unit in ("dollars", "cost"):
        return f"${value:.2f}" if value >= 1 or not value else f"${value:.4g}"
    if unit in ("seconds", "time"):
        return f"{value / 60:.0f} min" if value >= 120 else f"{value:.0f} s"
    return f"{value:,.0f} {unit}"


def describe(full: BudgetReached) -> str:
    unit, _, scope = full.what.partition(" of this ")
    used = _amount(unit, full.used).removesuffix(f" {unit}")
    limit = _amount(unit, full.limit)
    following = f", and the next call may take {_amount(unit, full.next)}" if full.next else ""
    return f"limit for this {scope}: {used} of {limit} used{following}"


def question(full: BudgetReached, already: int) -> str:
    unit = full.what.partition(" ")[0]
    more = _amount(unit, full.limit * rounds(full, already))
    return f"{describe(full)}. Continue with another {more}?"


_SETTINGS = {"steps": "loop.max_steps", "cost": "loop.max_dollars", "time": "loop.max_seconds"}


def is_of_loop(what: str) -> bool:
    return what.partition(" ")[0] in _SETTINGS


def hint(what: str) -> str:
    """How to raise a budget."""
    if what.endswith(LEARNING):
        amount = what.removesuffix(LEARNING)
        return f"`hermes config set learning.day_{amount} NUMBER`, or wait for tomorrow (UTC)"
    amount, _, scope = what.partition(" of this ")
    setting = _SETTINGS.get(amount, f"budgets.{scope}_{amount}")
    later = ", or wait for tomorrow (UTC)" if scope == "day" else ""
    return f"`hermes config set {setting} NUMBER`{later}"


def refuse_unpriced(settings: Settings, model: Model) -> None:
    """Refuse a model without prices when a dollar budget is set."""
    budgets = settings.budgets
    dollars = (budgets.turn_dollars, budgets.session_dollars, budgets.day_dollars)
    if all(limit is None for limit in dollars):
        return
    for name, facts in model.ways.items():
        if not facts.priced:
            raise ModelError(
                "bad_request",
                f"a dollar budget is set, but no price is known for {name!r}",
                f"add it under models.prices in config.yaml: {name}: {{input: …, output: …}}",
            )
