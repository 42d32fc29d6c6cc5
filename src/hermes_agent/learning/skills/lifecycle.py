"""Promotes skills that are proven, demotes those that fail, and retires those nobody needs."""

from collections.abc import Sequence
from math import comb, exp, lgamma
from statistics import median
from typing import Literal

from msgspec import Struct

from hermes_agent.core.errors import UsageError
from hermes_agent.core.knowledge import SkillRecord, SkillUse, SkillVersion
from hermes_agent.core.protocols import Clock
from hermes_agent.core.skills import OFFERED
from hermes_agent.learning.evaluation.statistics import EvaluationVerdict
from hermes_agent.learning.skills.folder import decoded
from hermes_agent.learning.skills.registry import SkillRegistry
from hermes_agent.store.knowledge.store import KnowledgeStore

WINDOW = 3
"""Uses that a young skill is judged by: two bad ones are enough."""
RECORD = 5
"""Good uses that make a record: from then on it takes more than a bad day."""
LONG_WINDOW = 8
UNLIKELY = 0.001
"""The chance below which bad uses count against a skill with a record. It is tested after each use,
so it must be small."""
COMPARED = 5
"""Uses with and without it that a comparison needs."""
LAST = 20
"""Uses of each kind that are compared."""
DEARER = 1.25
"""Costs with it, relative to those without, that count as clearly more, where …"""
MORE_OFTEN = 0.85
"""… a use with it costs more in this share of all pairs."""
OFFERS = 20
"""A candidate that fitted so many turns and was never opened is retired."""
DAYS = 30.0
"""Days in which a candidate must be proven."""
DAY_SECONDS = 86_400.0
BY = "learning"


class Transition(Struct, frozen=True):
    """`back`: to the last good version, or demoted if there is none."""

    to: Literal["proven", "demoted", "retired", "back"]
    why: str


def after_proof(record: SkillRecord, verdict: EvaluationVerdict) -> Transition | None:
    if verdict.later or verdict.digest != record.digest:
        return None
    if verdict.promote and record.state in {"candidate", "given"}:
        return Transition("proven", verdict.why)
    if verdict.harmful and record.state in OFFERED:
        return Transition("back", verdict.why)
    return None


def after_use(record: SkillRecord, uses: Sequence[SkillUse], now: float) -> Transition | None:
    """The transition that its uses call for, if any."""
    if record.state not in OFFERED:
        return None
    # Uses of earlier versions, or before the last change of state, do not count.
    opened = [
        use
        for use in sorted(uses, key=lambda use: use.time)
        if use.opened and use.digest == record.digest and use.time >= record.changed
    ]
    other = [use for use in sorted(uses, key=lambda use: use.time) if not use.opened]
    if why := _goes_wrong(opened, other) or _costs_more(opened, other):
        return Transition("back", why)
    return _unused(record, opened, other, now) if record.state == "candidate" else None


def _goes_wrong(opened: Sequence[SkillUse], other: Sequence[SkillUse]) -> str:
    """Why, if its last uses failed more often than those without it."""
    last = _bad_run([use for use in opened if use.outcome != "unknown"])
    if not last:
        return ""
    bad = sum(use.outcome == "bad" for use in last)
    without = [use.outcome == "bad" for use in other[-LAST:] if use.outcome != "unknown"]
    if len(without) >= WINDOW and sum(without) / len(without) >= bad / len(last):
        return ""
    return f"{bad} of its last {len(last)} uses went wrong: {last[-1].why or 'see its sessions'}"


def _bad_run(known: Sequence[SkillUse]) -> Sequence[SkillUse]:
    """The last uses, if they are bad enough to count. A skill with a record must do worse than that
    record predicts."""
    if sum(use.outcome == "good" for use in known[:-WINDOW]) < RECORD:
        last = known[-WINDOW:]
        return last if sum(use.outcome == "bad" for use in last) >= 2 else ()
    for window in range(WINDOW, LONG_WINDOW + 1):
        before, last = known[:-window], known[-window:]
        failed_before = sum(use.outcome == "bad" for use in before)
        failed = sum(use.outcome == "bad" for use in last)
        if _chance(failed, len(last), failed_before, len(before)) <= UNLIKELY:
            return last
    return ()


def _chance(failed: int, of: int, failed_before: int, of_before: int) -> float:
    """How likely so many failures or more are, given those before: a beta-binomial tail."""
    a, b = failed_before + 1, of_before - failed_before + 1

    def log_beta(x: float, y: float) -> float:
        return lgamma(x) + lgamma(y) - lgamma(x + y)

    return sum(
        comb(of, k) * exp(log_beta(k + a, of - k + b) - log_beta(a, b))
        for k in range(failed, of + 1)
    )


def _costs_more(opened: Sequence[SkillUse], other: Sequence[SkillUse]) -> str:
    """Why, if turns that went well clearly take more steps or tokens with it than without."""
    ours = [use for use in opened[-LAST:] if use.outcome != "bad"]
    others = [use for use in other[-LAST:] if use.outcome != "bad"]
    if len(ours) < COMPARED or len(others) < COMPARED:
        return ""
    for what in ("steps", "tokens"):
        with_ = [getattr(use, what) for use in ours]
        without = [getattr(use, what) for use in others]
        more = sum(a > b for a in with_ for b in without) / (len(with_) * len(without))
        if median(with_) > DEARER * median(without) and more >= MORE_OFTEN:
            return (
                f"it takes {median(with_):g} {what} with it and {median(without):g} without "
                f"(uses: {len(with_)} and {len(without)})"
            )
    return ""


def _unused(
    record: SkillRecord, opened: Sequence[SkillUse], other: Sequence[SkillUse], now: float
) -> Transition | None:
    since = [use for use in other if use.time >= record.changed]
    if not opened and len(since) >= OFFERS:
        return Transition("retired", f"unused: it matched {len(since)} turns and was never opened")
    if now - record.changed > DAYS * DAY_SECONDS:
        return Transition("retired", f"unproven after {DAYS:.0f} days")
    return None


class SkillLifecycle:
    def __init__(self, *, knowledge: KnowledgeStore, skills: SkillRegistry, clock: Clock) -> None:
        self._knowledge = knowledge
        self._skills = skills
        self._clock = clock

    async def settle(self, name: str) -> str:
        """Apply what its uses call for; what was done, if anything."""
        record = await self._knowledge.skill(name)
        move = after_use(record, await self._knowledge.uses(name), self._clock())
        return await self._do(record, move) if move else ""

    async def settle_all(self) -> Sequence[str]:
        """Settle all that are offered: a candidate that fits nothing has no uses to do it."""
        names = [one.name for one in await self._knowledge.skills() if one.state in OFFERED]
        done = [await self.settle(name) for name in names]
        return [words for words in done if words]

    async def decide(self, verdict: EvaluationVerdict) -> str:
        """Apply a verdict; what was done, if anything."""
        record = await self._knowledge.skill(verdict.skill)
        if verdict.digest != record.digest:
            return await self._decide_pending(record, verdict)
        move = after_proof(record, verdict)
        return await self._do(record, move) if move else ""

    async def _decide_pending(self, record: SkillRecord, verdict: EvaluationVerdict) -> str:
        """Adopt a pending version once it is proven; a person's text is replaced only with their
        consent."""
        if not verdict.promote or record.state not in OFFERED:
            return ""
        versions = await self._knowledge.versions(record.name)
        pending = [one for one in versions if one.digest == verdict.digest]
        if not pending:
            return ""
        name, number = record.name, pending[-1].number
        if record.by == "person" and not await self._is_agreed(record, number):
            return await self._propose(record, pending[-1], verdict.why)
        await self._skills.adopt(name, number, state="proven", why=verdict.why, by=BY)
        return f"version {number} of {name} is proven and in use: {verdict.why}"

    async def _is_agreed(self, record: SkillRecord, number: int) -> bool:
        """Whether a person has agreed to improve the current text, and the version is newer."""
        accepted = await self._knowledge.proposals(state="accepted")
        names = [one.body["name"] for one in accepted if one.body.get("base") == record.digest]
        return record.name in names and number > record.version

    async def _propose(self, record: SkillRecord, version: SkillVersion, why: str) -> str:
        """Propose a proven version to a person, once."""
        files = await self._knowledge.files(record.name, version.number)
        texts = {path: decoded(data) for path, data in files.items()}
        body = {
            "action": "improve",
            "name": record.name,
            "files": {path: text for path, text in texts.items() if text is not None},
            "why": why,
            "base": record.digest,
            "session": "",
            "turn": 0,
            "version": version.number,
        }
        if any(one.body == body for one in await self._knowledge.proposals(state="")):
            return ""
        title = f"improve the skill {record.name}"
        made = await self._knowledge.propose("skill", title, body, f"proof: {why}", version.model)
        return f"version {version.number} of {record.name} is proven: proposal {made.id}"

    async def _do(self, record: SkillRecord, move: Transition) -> str:
        name, why = record.name, move.why
        if move.to == "back":
            return await self._back(record, why)
        await self._skills.set_state(name, move.to, why, BY)
        return f"{name} is {move.to}: {why}"

    async def _back(self, record: SkillRecord, why: str) -> str:
        """To the last good version; the current one is not good any more."""
        name = record.name
        good = [one.number for one in await self._knowledge.versions(name) if one.good]
        if any(number != record.version for number in good):
            try:
                now = await self._skills.revert(name, why, BY)
            except UsageError as error:  # the version before looks dangerous now
                why = f"{why}; {error.message}"
            else:
                return f"{name} is back at version {now.version}: {why}"
        if record.version in good:
            await self._knowledge.set_skill(name, record.state, why, BY, good=False)
        await self._skills.set_state(name, "demoted", why, BY)
        return f"{name} is demoted: {why}"
