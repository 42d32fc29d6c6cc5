"""Steps of the work on an incident that a first and a later encounter have in common: run commands,
settle on what it is, mend it, and say what it was."""

import re
from collections.abc import Generator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from hermes_agent.core.messages import ToolMessage
from hermes_agent.models.responder import content, watch
from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.moves import Answer, Call, Move
from hermes_agent.models.responder.rulebook import ideas
from hermes_agent.models.responder.rules.ideas import ACT, Idea
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case, case_of
from hermes_agent.models.responder.view.grown import gist
from hermes_agent.models.responder.view.seen import Seen, quotes, seen

LOOKS = 5
"""Times that it looks closer before each remedy."""
AT_ONCE, EACH = 20, 6
"""Looks at once, and those of one idea that come before what others want."""
SURE = 0.85
"""From which score on more time is given to a remedy."""
TURNS = 6
"""Verifications in a row where checks held and failed by turns."""
QUIET, AGAIN = 2, 5
"""Seconds after which nobody should complain any more, and those given to whoever still does."""
CASCADE = "cascading-failure"
REFUSED = "refused"
"""How a result begins that the gate did not allow."""

Steps = Generator[Move, Answer, list[Seen]]


class Tried(Struct):
    """Remedies, and what of them was really carried out."""

    ideas: list[Idea] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    useful: list[Idea] = field(default_factory=list)
    """Those that eased something, though not all was well afterwards."""
    seen: Sequence[Seen] = ()
    """What was seen before the last."""
    judged: int = 0
    """How many were looked back at."""
    since: int = 0
    """How many there were when something was eased last: those before it may help now."""

    def carried(self, idea: Idea) -> bool:
        """Whether anything of a remedy was carried out."""
        return any(command in self.done for command in idea.fix)

    def barred(self, idea: Idea) -> bool:
        """Whether it was tried since something changed, or the same under another name."""
        recent = self.ideas[max(0, self.since - 1) :]
        same = [one for one in self.ideas if one.fix and one.fix == idea.fix]
        return (
            any(one.key == idea.key or (one.fix and one.fix == idea.fix) for one in recent)
            or len(same) > 1
        )

    def refuted(self, idea: Idea) -> bool:
        """Whether it was acted on, and that eased nothing."""
        return any(one.key == idea.key for one in self.ideas) and idea not in self.useful

    doubted: bool = False
    """Whether the last one did not last, though the checks may hold."""
    fickle: bool = False
    """Whether the checks held and failed by turns, while nothing was done."""
    lapsed: int = 0
    """How many there were when one was seen not to last."""
    proofs: list[str] = field(default_factory=list)
    """Looks that must come out well whatever mends it in the end."""
    doubts: list[str] = field(default_factory=list)
    """What was seen to go on although the checks held."""
    status: list[Seen] = field(default_factory=list)
    """Who was up when it was looked at last whether the last one lasts."""
    complaint: str = ""
    """What somebody goes on to say although the checks hold."""

    @property
    def cause(self) -> Idea:
        """What was at the root of it: of what eased something, and of what came last."""
        return cause_of([*self.useful, self.ideas[-1]])

    @property
    def told(self) -> str:
        return "; ".join(self.done)


def terminal(command: str) -> Call:
    return Call("terminal", {"command": command})


def incident(action: str, **given: object) -> Call:
    return Call("incident", {"action": action, **given})


def hypothesis(idea: Idea, confidence: float, **state: str) -> Call:
    """What is believed, for the board; `state`, where it is settled."""
    return incident(
        "hypothesis", claim=idea.claim, component=idea.component, category=idea.category,
        confidence=confidence, evidence=list(quotes(idea.evidence)), **state,
    )  # fmt: skip


def run(text: str, commands: Sequence[str], more: Sequence[Call] = ()) -> Steps:
    """Run commands, and whatever else goes with them; what they came to."""
    answer = yield Move(text, (*(terminal(command) for command in commands), *more))
    return [
        seen(command, result) for command, result in zip(commands, answer.results, strict=False)
    ]


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
            best = _ready(fresh)
            if posted and best is not None:
                yield Move(_told(fresh), tuple(posted))
            return best
        known += yield from run(_told(fresh), wants, posted)
    return _ready(fresh_ideas(case_of(brief, known), tried, only))


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


def _ready(fresh: Sequence[Idea]) -> Idea | None:
    """The likeliest that can be acted on."""
    able = [idea for idea in fresh if idea.fix and idea.evidence]
    if not able:
        return None
    sure = [idea for idea in able if idea.score >= ACT]
    return sure[0] if sure else able[0]


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
    tried.status, tried.complaint = [], ""
    if idea.finish:
        return (yield from _tried_out(idea, tried))
    tried.proofs = list(dict.fromkeys([*tried.proofs, *([idea.proof] if idea.proof else [])]))
    proofs = tuple(terminal(proof) for proof in tried.proofs)
    watched = _is_watched(brief, idea, tried) or (idea.category in watch.ANEW and not after)
    last = after if after and not proofs and not watched else incident("verify")
    undo = f" To undo it: {idea.undo}." if idea.undo else ""
    answer = yield Move(
        f"I believe that {idea.claim}. The smallest remedy I know: {'; '.join(idea.fix)}.{undo}",
        (
            *before,
            *(terminal(command) for command in (*idea.fix, "sleep 1")),
            *proofs,
            last,
        ),
    )
    results = zip(idea.fix, answer.results[len(before) :], strict=False)
    done = [command for command, result in results if _worked(result)]
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


def _is_watched(brief: Brief, idea: Idea, tried: Tried) -> bool:
    doubtful = bool(tried.doubts) or tried.fickle
    return doubtful or watch.is_due(idea, case_of(brief, tried.seen))


def lasts(
    brief: Brief, idea: Idea, tried: Tried, *, due: bool = False
) -> Generator[Move, Answer, bool]:
    """Whether the checks go on to hold, nothing goes on that made them fail, and nobody complains
    as before; where that is not to be feared, nothing is looked at."""
    if tried.lapsed == len(tried.ideas):
        return False
    due = due or _is_watched(brief, idea, tried)
    before = case_of(brief, tried.seen)
    logs = content.logs(before, idea)
    if not due and not logs:
        return True
    turns = (terminal("sleep 1"), incident("verify")) * (TURNS if tried.fickle else 0)
    asking = (
        (terminal(watch.COUNT), *(incident("verify"),) * watch.ASKED, terminal(watch.COUNT))
        if due and watch.is_asked(idea)
        else ()
    )
    waiting = watch.WATCH if due else f"sleep {QUIET}"
    around = (content.sizes(logs), content.ends(logs)) if logs else ()
    status = probes.STATUS if before.supervised else probes.UNITS
    looks = (*map(terminal, around[:1]), terminal(waiting), incident("verify"), *turns, *asking,
             *map(terminal, (*around[1:], status)))  # fmt: skip
    answer = yield Move("The checks hold. I look whether that lasts.", looks)
    results = answer.results if len(answer.results) == len(looks) else ()
    ran = [(call.arguments.get("command"), one) for call, one in zip(looks, results, strict=False)]
    told = ""
    if due and ran and (risen := ran[len(around) // 2][1]).ok:
        told = watch.unrest(risen.text, before, idea)
    counts = [one.text for command, one in ran if command == watch.COUNT]
    if not told and len(counts) == 2:
        told = watch.grown(counts[0], counts[1], before, idea)
    verified = [one for one in answer.results if one.name == "incident"]
    well = bool(verified) and all(map(held, verified))
    if well and not told and around and ran:
        told = yield from _complained((ran[0][1].text, ran[-2][1].text), before, idea, tried)
    tried.status = [seen(status, ran[-1][1])] if ran else []
    tried.doubted = bool(told)
    if told:
        tried.doubts.append(told)
    tried.fickle = tried.fickle or not well
    if told or not well:
        tried.lapsed = len(tried.ideas)
    return well and not told


def _complained(
    seen_so_far: tuple[str, str], before: Case, idea: Idea, tried: Tried
) -> Generator[Move, Answer, str]:
    """Who goes on to say what was said before the remedy, and does so a while later, too."""
    who, line = content.complaint(*seen_so_far, before, idea)
    if not who:
        return ""
    logs = content.logs(before, idea)
    looks = (terminal(content.sizes(logs)), terminal(f"sleep {AGAIN}"), incident("verify"),
             terminal(content.ends(logs)))  # fmt: skip
    answer = yield Move(f"{who} still complains. Does that pass?", looks)
    if len(answer.results) != len(looks):
        return ""
    who, line = content.complaint(answer.results[0].text, answer.results[-1].text, before, idea)
    tried.complaint = line
    return f"{who} still says: {line.strip()[:200]}" if who else ""


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


def cause_of(tried: Sequence[Idea]) -> Idea:
    """Of all that was mended, what was at the root: what was surest. Where others had given up on
    it, it took them with it."""
    root = max(tried, key=lambda idea: (idea.category != CASCADE, idea.score))
    after = tried[list(tried).index(root) + 1 :]
    others = [idea for idea in after if idea.category == CASCADE]
    if not others:
        return root
    return replace(
        root,
        category=CASCADE,
        claim=f"{root.claim}, and then {others[0].claim}",
        evidence=(*root.evidence[:2], *others[0].evidence[:1]),
        prevent=(*root.prevent, "let those that give up try again by themselves"),
    )


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


def holds(answer: Answer) -> bool:
    """Whether the last call was a verification that found all well."""
    return bool(answer.results) and held(answer.results[-1])


def held(result: ToolMessage) -> bool:
    """Whether a verification found all well."""
    return result.ok and "FAILS" not in result.text and ": holds" in result.text
