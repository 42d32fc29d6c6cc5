"""Has a model that has not seen a skill write cases to try it on."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from hermes_agent.core.knowledge import EvaluationCase
from hermes_agent.learning.evaluation.statistics import LEAST_PAIRS
from hermes_agent.learning.review.transcript import ReviewTranscript, shown
from hermes_agent.learning.structured_output import Ask, ask_for
from hermes_agent.learning.tables import read_prompts

MAX_OUTPUT = 8_000
SCRIPT_CHARS = 6_000
TASK_CHARS = 3_000
SPARE = 2
"""Extra cases that are asked for: some always turn out to be unusable."""

PROMPTS = read_prompts(Path(__file__).with_name("cases.md"))


class _Idea(Struct, frozen=True):
    task: str
    setup: str
    check: str


class _Ideas(Struct, frozen=True):
    cases: list[_Idea]


async def cases_for(
    name: str,
    transcript: ReviewTranscript,
    ask: Ask,
    how_many: int,
    there: Sequence[EvaluationCase] = (),
    unusable: Sequence[EvaluationCase] = (),
) -> Sequence[EvaluationCase]:
    """Cases from the turn that a skill came from: the task itself, which its author has seen and
    which is not held out, and variations, which are. Those that are `there` come first."""
    turn = shown([transcript]).text
    question = PROMPTS["question"].format(many=how_many + SPARE, turn=turn)
    if unusable:
        question += "\n\n" + PROMPTS["unusable"].format(known=_listed(unusable))
    cases = list(there)
    for _ in range(2):
        more = "\n\n" + PROMPTS["more"].format(known=_listed(cases)) if cases else ""
        ideas, _ = await ask_for(
            ask, "judge", PROMPTS["system"], question + more, MAX_OUTPUT, _Ideas
        )
        cases = _kept(name, transcript, ideas.cases, cases)
        if len(cases) >= 1 + LEAST_PAIRS:
            break
    return cases[: how_many + SPARE]


def _listed(cases: Sequence[EvaluationCase]) -> str:
    return "\n".join(f"- {case.task}" for case in cases)


def _kept(
    name: str, transcript: ReviewTranscript, ideas: Sequence[_Idea], cases: Sequence[EvaluationCase]
) -> list[EvaluationCase]:
    """`cases` and the usable ideas."""
    kept = list(cases)
    tasks = {case.task.casefold() for case in kept}
    for idea in ideas:
        task = idea.task.strip()
        if task.casefold() in tasks or not _usable(idea):
            continue
        tasks.add(task.casefold())
        body = f"{name}\0{task}\0{idea.setup}\0{idea.check}".encode()
        source = f"session {transcript.session}"
        kept.append(
            EvaluationCase(
                id=f"{name}-{sha256(body).hexdigest()[:12]}",
                skill=name,
                task=task,
                setup=idea.setup,
                check=idea.check,
                held=bool(kept),
                source=f"variation of {source}" if kept else source,
            )
        )
    return kept


def _usable(idea: _Idea) -> bool:
    checks = [line.strip() for line in idea.check.splitlines()]
    does = [line for line in checks if line and not line.startswith("#")]
    empty = all(line in {"true", "exit 0", ":", "set -e", "set -eu"} for line in does)
    fits = len(idea.setup) <= SCRIPT_CHARS and len(idea.check) <= SCRIPT_CHARS
    return 0 < len(idea.task.strip()) <= TASK_CHARS and fits and not empty
