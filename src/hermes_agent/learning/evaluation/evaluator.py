"""Proves a skill: plays cases with and without it. It is promoted only if it is significantly
better on cases that its author has not seen."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from hermes_agent.core.errors import NotFound
from hermes_agent.core.knowledge import EvaluationCase, Trial
from hermes_agent.core.settings.root import LearningSettings
from hermes_agent.learning.evaluation.cases import SPARE, cases_for
from hermes_agent.learning.evaluation.statistics import (
    LEAST_PAIRS,
    EvaluationVerdict,
    clearly_harmful,
    judged,
    pairs_of,
)
from hermes_agent.learning.review.transcript import ReviewTranscript
from hermes_agent.learning.structured_output import Ask, NoBudget
from hermes_agent.store.knowledge.store import KnowledgeStore

Arm = Literal["with", "without"]
Played = dict[tuple[str, str, Arm, int], Trial]
"""Trials by case, digest, arm and round."""


class CaseRunner(Protocol):
    """Plays a case in a fresh sandbox."""

    async def play(
        self, case: EvaluationCase, files: Mapping[str, bytes] | None, round: int, digest: str
    ) -> Trial | None:
        """With the skill (`files`) or without one (None). None if the case is unusable: its setup
        fails, or its check holds before anything was done."""
        ...


class _Comparison(Struct, frozen=True):
    """A version of a skill, and what would be used without it."""

    skill: str
    digest: str
    files: Mapping[str, bytes]
    baseline: str = ""
    """The digest of the version that it would replace, if any."""
    baseline_files: Mapping[str, bytes] | None = None

    def side(self, arm: Arm) -> tuple[Mapping[str, bytes] | None, str, Arm]:
        """Files, digest and arm of the trial for one side."""
        if arm == "with":
            return self.files, self.digest, "with"
        if self.baseline:
            return self.baseline_files, self.baseline, "with"
        return None, self.digest, "without"


class SkillEvaluator:
    def __init__(
        self,
        *,
        ask: Ask,
        knowledge: KnowledgeStore,
        runner: CaseRunner,
        settings: Callable[[], LearningSettings],
    ) -> None:
        self._ask = ask
        self._knowledge = knowledge
        self._runner = runner
        self._settings = settings

    async def needs_cases(self, name: str) -> bool:
        held = [case for case in await self._knowledge.cases(name) if case.held]
        return len(held) < LEAST_PAIRS

    async def turn_for(self, name: str) -> tuple[str, int] | None:
        """The session and turn of the last good use, to make cases from if the skill's origin is
        unknown."""
        for use in await self._knowledge.uses(name):
            if use.opened and use.outcome == "good":
                return use.session, use.turn
        return None

    async def add_cases(
        self, name: str, transcript: ReviewTranscript, unusable: Sequence[EvaluationCase] = ()
    ) -> None:
        """Have a model write cases from a turn beside those that are there and unlike the unusable
        ones, and store them."""
        there = await self._knowledge.cases(name)
        many = self._settings().cases
        cases = await cases_for(name, transcript, self._ask, many, there, unusable)
        await self._knowledge.add_cases(cases)

    async def prove(self, name: str, digest: str) -> EvaluationVerdict:
        """Play the cases and judge. Trials are stored: a postponed proof resumes where it was, and
        asking again does not play again. Unusable cases are removed, to be replaced."""
        compared = await self._comparison(name, digest)
        cases = await self._knowledge.cases(name)
        known: Played = {
            (one.case, one.digest, one.arm, one.round): one
            for one in await self._knowledge.trials(name)
        }
        try:
            good, harmful = await self._play(compared, cases, known)
        except NoBudget as error:
            return EvaluationVerdict(name, digest, False, error.message, later=True)
        held = [case.id for case in good if case.held]
        pairs = pairs_of(known.values(), digest, held, compared.baseline)
        return judged(name, digest, pairs, harmful=harmful)

    async def _comparison(self, name: str, digest: str) -> _Comparison:
        versions = await self._knowledge.versions(name)
        ours = [version for version in versions if version.digest == digest]
        if not ours:
            raise NotFound(
                f"no version {digest[:12]} of the skill {name!r}",
                f"`hermes skills log {name}` lists its versions",
            )
        files = await self._knowledge.files(name, ours[-1].number)
        record = await self._knowledge.skill(name)
        works = record.state in {"given", "proven"} and record.digest != digest
        if not works:
            return _Comparison(name, digest, files)
        old = await self._knowledge.files(name, record.version)
        return _Comparison(name, digest, files, record.digest, old)

    async def _play(
        self,
        compared: _Comparison,
        cases: Sequence[EvaluationCase],
        known: Played,
    ) -> tuple[list[EvaluationCase], bool]:
        """The usable cases, whose trials are then known; and whether playing stopped because the
        skill does harm. Another case takes the place of an unusable one, which is removed."""
        settings = self._settings()
        good: list[EvaluationCase] = []
        for case in cases[: settings.cases + SPARE]:
            if len(good) == settings.cases:
                break
            if await self._both(compared, case, 0, len(good), known):
                good.append(case)
                if self._harms(compared, good, known):
                    return good, True
            else:
                await self._knowledge.remove_cases([case.id])
        for round in range(1, settings.rounds):
            for position, case in enumerate(list(good)):
                if not await self._both(compared, case, round, position, known):
                    good.remove(case)
                    await self._knowledge.remove_cases([case.id])
                elif self._harms(compared, good, known):
                    return good, True
        return good, False

    @staticmethod
    def _harms(compared: _Comparison, cases: Sequence[EvaluationCase], known: Played) -> bool:
        ids = [case.id for case in cases]
        return clearly_harmful(pairs_of(known.values(), compared.digest, ids, compared.baseline))

    async def _both(
        self,
        compared: _Comparison,
        case: EvaluationCase,
        round: int,
        position: int,
        known: Played,
    ) -> bool:
        """Play both arms in alternating order, so that drift affects both alike. False if the case
        is unusable."""
        order: tuple[Arm, Arm] = ("with", "without")
        for arm in order if (position + round) % 2 == 0 else order[::-1]:
            files, digest, kept_as = compared.side(arm)
            key = (case.id, digest, kept_as, round)
            if key in known:
                continue
            trial = await self._runner.play(case, files, round, digest)
            if trial is None:
                return False
            await self._knowledge.add_trials([trial])
            known[key] = trial
        return True
