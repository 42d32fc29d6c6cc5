"""Steps of the work on an incident that a first and a later encounter have in common: run commands,
settle on what it is, mend it, and say what it was."""

import re
from collections.abc import Generator, Sequence

from hermes_agent.core.messages import ToolMessage
from hermes_agent.models.responder import content, watch
from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.lasts import is_due, is_watched, lasts
from hermes_agent.models.responder.moves import Answer, Call, Move
from hermes_agent.models.responder.rulebook import ideas
from hermes_agent.models.responder.rules.ideas import ACT, Idea
from hermes_agent.models.responder.rules.losses import lost
from hermes_agent.models.responder.steps import apart, run_as, together, without_copy
from hermes_agent.models.responder.tried import (
    Tried,
    held,
    holds,
    hypothesis,
    incident,
    run,
    terminal,
)
from hermes_agent.models.responder.view.case import Case, case_of
from hermes_agent.models.responder.view.grown import gist
from hermes_agent.models.responder.view.needed import is_concerned
from hermes_agent.models.responder.view.seen import Seen, quotes

LOOKS = 5
"""Times that it looks closer before each remedy."""
AT_ONCE, EACH = 20, 6
"""Looks at once, and those of one idea that come before what others want."""
SURE = 0.85
"""From which score on more time is given to a remedy."""
OWN = frozenset({
    "bad-config", "bad-deploy", "cascading-failure", "certificate-expired", "permission-change",
    "service-crash", "stale-lock", "unknown",
})  # fmt: skip
"""Causes that trouble only the service that has them, and those who need it."""
_STARTS = re.compile(
    r"(?:systemctl (?:daemon-reload|reset-failed \S+); )*(?:supervisorctl|systemctl) restart (\S+)"
)
_STORE = re.compile(r"\b(?:postgres|mysqld|mariadbd|mongod|redis-server|etcd)\b")
"""What keeps the data of others: people lose work when it is started anew."""
REFUSED = "refused"
"""How a result begins that the gate did not allow."""


def settle_on(
    brief: Brief,
    known: list[Seen],
    tried: Tried,
    only: Sequence[str] = (),
    *,
    quiet: bool = False,
) -> Generator[Move, Answer, Idea | None]:
    """Look closer until one idea stands out."""
    written: dict[str, str] = {}
    for _ in range(LOOKS):
        case = case_of(brief, known)
        fresh = fresh_ideas(case, tried, only)
        if not fresh:
            return None
        wants = _wanted(case, fresh)
        posted = [] if quiet else _posts(fresh[:3], written)
        if not wants:
            best = _ready(case, fresh, tried)
            if posted and best is not None:
                yield Move(_told(fresh), tuple(posted))
            return best
        known += yield from run(_told(fresh), wants, posted)
    case = case_of(brief, known)
    return _ready(case, fresh_ideas(case, tried, only), tried)


def fresh_ideas(case: Case, tried: Tried, only: Sequence[str] = ()) -> list[Idea]:
    """Ideas that were not tried yet."""
    return [
        idea
        for idea in ideas(case)
        if not tried.barred(idea) and (not only or idea.category in only)
        if not tried.complaint or _is_about(idea, tried.complaint)
    ]


def _is_about(idea: Idea, complaint: str) -> bool:
    """Whether an idea follows from what somebody still says: all else may be an old story, where
    the checks hold."""
    return idea.score >= ACT and any(gist(line) == gist(complaint) for line in idea.evidence)


def _ready(case: Case, fresh: Sequence[Idea], tried: Tried) -> Idea | None:
    """The likeliest that can be acted on. What is not sure is, while the checks fail, where it only
    starts something anew or is tried for a moment."""
    able = [idea for idea in fresh if idea.fix and idea.evidence and may(case, idea)]
    sure = [idea for idea in able if idea.score >= ACT]
    slight = [] if tried.holding else [one for one in able if one.finish or _is_slight(case, one)]
    return next(iter([*sure, *slight]), None)


def may(case: Case, idea: Idea) -> bool:
    """Whether it is for whoever answers this alert to mend. What somebody else does to a machine
    that all share concerns all; of what is wrong with a service that has nothing to do with the
    alert, people are only told, and so they are where work of theirs would be lost. What was
    halted may go on: nothing is lost by that."""
    only = all(command.startswith("kill -CONT ") for command in idea.fix)
    other = idea.category in OWN and idea.component in case.services and not only
    return (not other or is_concerned(case, idea.component)) and not lost(case, idea)


def _is_slight(case: Case, idea: Idea) -> bool:
    """Whether a remedy does no more than to start services anew, and no database."""
    names = [found[1] for fix in idea.fix if (found := _STARTS.fullmatch(fix))]
    stores = {case.owner(one.pid) for one in case.processes if _STORE.search(one.command)}
    return len(names) == len(idea.fix) and not stores & set(names)


def _wanted(case: Case, fresh: Sequence[Idea]) -> list[str]:
    """What the likelier ideas want to see; those that are far behind wait, and so does what is
    wanted beyond the first looks of each. What can neither be mended nor looked into counts for
    nothing."""
    wants = {id(idea): case.missing(idea.wants) for idea in fresh}
    live = [idea for idea in fresh if idea.fix or wants[id(idea)]]
    near = [idea for idea in live if idea.score >= live[0].score - 0.35]
    first = [want for idea in near for want in wants[id(idea)][:EACH]]
    rest = [want for idea in near for want in wants[id(idea)][EACH:]]
    return list(dict.fromkeys([*first, *rest]))[:AT_ONCE]


def _posts(fresh: Sequence[Idea], written: dict[str, str]) -> list[Call]:
    """Hypotheses for the board that are new, or of which more is known now."""
    calls = []
    for idea in fresh:
        mark = f"{idea.claim} {idea.score:.2f} {len(idea.evidence)}"
        if written.get(idea.claim) == mark or not idea.evidence:
            continue
        written[idea.claim] = mark
        calls.append(hypothesis(idea, round(idea.score, 2)))
    return calls


def _told(fresh: Sequence[Idea]) -> str:
    best = "; ".join(f"{idea.claim} ({idea.score:.0%})" for idea in fresh[:3])
    return f"What I suspect: {best}."


def mend(
    brief: Brief,
    idea: Idea,
    tried: Tried,
    before: tuple[Call, ...] = (),
    after: Call | None = None,
) -> Generator[Move, Answer, bool]:
    """Carry out a remedy; whether all checks hold afterwards, and go on to. With `after`, it is
    done then, too, and tells whether they do."""
    tried.ideas.append(idea)
    tried.earlier.append((idea, tried.seen))
    tried.status, tried.complaint = [], ""
    if idea.finish:
        return (yield from _tried_out(idea, tried))
    tried.proofs = list(dict.fromkeys([*tried.proofs, *([idea.proof] if idea.proof else [])]))
    proofs = tuple(terminal(proof) for proof in tried.proofs)
    watched = is_watched(brief, idea, tried) or (idea.category in watch.ANEW and not after)
    at_once = after and not proofs and not watched and not is_due(brief, idea, tried)
    last = after if after and at_once else incident("verify")
    steps, (undo,) = together(idea.fix), apart((idea.undo,), idea, tried.ideas)
    told = "; ".join(apart(idea.fix, idea, tried.ideas)) + (f". To undo it: {undo}" * bool(undo))
    groups = [apart(each, idea, tried.ideas) for each in steps]
    answer = yield Move(
        f"I believe that {idea.claim}. The smallest remedy I know: {told}.",
        (
            *before,
            *(terminal(run_as(each)) for each in (*groups, ("sleep 1",))),
            *proofs,
            last,
        ),
    )
    results = answer.results[len(before) :]
    for each, result in zip(groups, results, strict=False):
        tried.bare += without_copy(each, result.text, refused=_refused(result))
    pairs = zip(steps, results, strict=False)
    done = [command for each, result in pairs if _worked(result) for command in each]
    tried.done += done
    well = holds if last is not after else _went_well
    for seconds in (3, 6) if idea.score >= SURE else (3,):
        if done and not (well(answer) and _proven(answer, proofs)):
            wait = terminal(f"sleep {seconds}")
            answer = yield Move("It may take a moment.", (wait, *proofs, last))
    tried.doubted = not _proven(answer, proofs)
    if not well(answer) or tried.doubted:
        if not well(answer):
            tried.proofs = [proof for proof in tried.proofs if proof != idea.proof]
        return False
    if not (yield from lasts(brief, idea, tried, due=watched)):
        return False
    if after and last is not after:
        now = case_of(brief, tried.status)
        if content.fallen(case_of(brief, tried.seen), now, idea, tried.mended):
            return False
        answer = yield Move("It is mended, and stays so.", (after,))
        return _went_well(answer)
    return True


def _tried_out(idea: Idea, tried: Tried) -> Generator[Move, Answer, bool]:
    """Do something for a moment; whether the checks hold meanwhile, and after it was made to
    last. Else it is undone at once."""
    twice = (incident("verify"), terminal("sleep 1"), incident("verify"))
    answer = yield Move(
        f"It may be that {idea.claim}. I try that for a moment: {'; '.join(idea.fix)}.",
        (*(terminal(command) for command in (*idea.fix, "sleep 2")), *twice),
    )
    tried.judged = len(tried.ideas)
    verified = [one for one in answer.results if one.name == "incident"]
    if not verified or not all(map(held, verified)):
        yield Move("It was not that: I undo it.", (terminal(idea.undo),))
        return False
    calls = (*(terminal(command) for command in (*idea.finish, "sleep 1")), incident("verify"))
    answer = yield Move(f"It was that: {'; '.join(idea.finish)}.", calls)
    tried.done += [*idea.fix, *idea.finish]
    return holds(answer)


def _proven(answer: Answer, proofs: Sequence[Call]) -> bool:
    """Whether what shows that it is mended came out well, just before the checks."""
    told = answer.results[-1 - len(proofs) : -1]
    return len(told) == len(proofs) and all(one.ok for one in told)


def _worked(result: ToolMessage) -> bool:
    """Whether a command of a remedy was allowed, and did not fail. A supervisor says that what
    is to be started anew did not run, and starts it."""
    if result.ok:
        return True
    return not _refused(result) and re.search(r": started\b", result.text) is not None


def _refused(result: ToolMessage) -> bool:
    return not result.ok and result.text.startswith(REFUSED)


def _went_well(answer: Answer) -> bool:
    return bool(answer.results) and answer.results[-1].ok


def report(idea: Idea, done: str = "") -> dict[str, object]:
    """What it was. `done`: what was carried out, where that is known already."""
    remedy = f"Done: {done}." if done else f"Remedy: {'; '.join(idea.fix)}."
    return {
        "component": idea.component,
        "category": idea.category,
        "locus": idea.locus,
        "summary": f"{idea.claim[:1].upper()}{idea.claim[1:]}. {remedy}",
        "evidence": list(quotes(idea.evidence)),
        "prevent": list(idea.prevent),
    }


def ended_by(idea: Idea, brief: Brief) -> str:
    return f"{brief.incident} is resolved: {idea.claim}."
