"""The work on an incident: look, suspect, look closer, mend, verify, and say what it was."""

import re
from collections.abc import Generator, Sequence

from msgspec.structs import replace

from hermes_agent.models.responder import follow, parse, probes
from hermes_agent.models.responder.brief import Brief, BriefSkill
from hermes_agent.models.responder.case import Case
from hermes_agent.models.responder.child import closer, observations, task_for
from hermes_agent.models.responder.ideas import ACT, Idea
from hermes_agent.models.responder.moves import Answer, Call, Move, Work
from hermes_agent.models.responder.rules import ideas
from hermes_agent.models.responder.seen import Seen, quotes, seen

INTRODUCTION = (
    "I am the responder that ships with Hermes: a set of rules, not a language model. "
    "I look at the usual things first, all at once."
)
ATTEMPTS = 5
"""Remedies that are tried before people are asked."""
LOOKS = 4
"""Times that it looks closer before each of them."""
AT_ONCE = 12
_UNDONE = re.compile(r"(cp|mv|chmod|ln -sfn|ip|iptables|tc|kill -STOP) ")
"""How an undo begins that can be carried out as it is written."""
CASCADE = "cascading-failure"
CHILDREN = 6

Steps = Generator[Move, Answer, list[Seen]]


def terminal(command: str) -> Call:
    return Call("terminal", {"command": command})


def incident(action: str, **given: object) -> Call:
    return Call("incident", {"action": action, **given})


def run(text: str, commands: Sequence[str], more: Sequence[Call] = ()) -> Steps:
    """Run commands, and whatever else goes with them; what they came to."""
    answer = yield Move(text, (*(terminal(command) for command in commands), *more))
    return [
        seen(command, result) for command, result in zip(commands, answer.results, strict=False)
    ]


def investigation(brief: Brief) -> Work:
    """From the brief to the end of the incident."""
    sure = follow.sure(brief)
    known, well, books = yield from _triage(brief, INTRODUCTION, sure)
    if well and (yield from _is_calm()):
        return (yield from _false_alarm(brief))
    tried: list[Idea] = []
    if follow.categories(brief):
        ended = yield from _again(brief, known, books, tried)
        if ended:
            return ended
        if tried:
            known, _, _ = yield from _triage(brief, "It is not what it was before. I look again.")
    known += yield from _ask_children(Case(brief, known))
    patient = True
    for attempt in range(ATTEMPTS):
        if attempt:
            known, _, _ = yield from _triage(brief, "That was not all. I look again.")
        chosen = yield from _settle_on(brief, known, tried)
        if chosen is None and patient:
            patient = False
            yield from run("Nothing stands out yet. I wait for more to be said.", ["sleep 5"])
            continue
        if chosen is None:
            break
        tried.append(chosen)
        if (yield from _mend(chosen)):
            ended = yield from _resolve(_cause(tried), brief)
            if ended:
                return ended
    return (yield from _escalate(brief, known, tried))


def _fallen(case: Case) -> Idea | None:
    """Those who gave up on what is down below them, where there are any."""
    return next((idea for idea in ideas(case) if idea.category == CASCADE), None)


def _is_clear(case: Case, fresh: Sequence[Idea]) -> bool:
    """Whether the likeliest idea needs no more looking."""
    return bool(fresh) and fresh[0].score >= ACT and not case.missing(fresh[0].wants)


def _again(
    brief: Brief, known: list[Seen], books: Sequence[follow.Book], tried: list[Idea]
) -> Generator[Move, Answer, str]:
    """What was learned before: only causes of which a skill tells, and no children."""
    case = Case(brief, known)
    only = [book.category for book in books] or follow.categories(brief)
    fallen = _fallen(case) if CASCADE in only else None
    if not _is_clear(case, _fresh(case, tried, () if fallen else only)):
        wants = [want for idea in ideas(case)[:5] for want in idea.wants]
        wants += closer(case, case.suspects[:CHILDREN])
        known += yield from run(
            "This may have happened before: I look at what was written down then.",
            case.missing(wants)[: 3 * AT_ONCE],
        )
    chosen = yield from _settle_on(brief, known, tried, () if fallen else only, quiet=True)
    if chosen is not None and chosen.score >= ACT:
        if fallen is not None and fallen.key != chosen.key:
            fix = (*chosen.fix, "sleep 1", *fallen.fix)
            chosen = replace(_cause([chosen, fallen]), fix=tuple(dict.fromkeys(fix)))
        tried.append(chosen)
        opened = () if books else follow.opening(brief, chosen.category)
        if (yield from _mend(chosen, opened, incident("resolve", **report(chosen)))):
            return ended_by(chosen, brief)
    for book in books if chosen is None else ():
        ended = yield from follow.followed(book, brief)
        if ended:
            return ended
    return ""


def _triage(
    brief: Brief, text: str, skills: Sequence[BriefSkill] = ()
) -> Generator[Move, Answer, tuple[list[Seen], bool, list[follow.Book]]]:
    """What there is to see at first, whether the checks hold, and the runbooks of skills."""
    opening = tuple(call for one in skills for call in follow.opening(brief, one.category))
    calls = (*opening, *(terminal(command) for command in probes.TRIAGE), incident("verify"))
    answer = yield Move(text, calls)
    found = [
        seen(command, result)
        for command, result in zip(probes.TRIAGE, answer.results[len(opening) :], strict=False)
    ]
    status = next((one for one in found if one.command == probes.STATUS), None)
    if status is None or not any(parse.supervised(status.output)):
        found += yield from run("No supervisor answers here: I ask systemd.", [probes.UNITS])
    return found, holds(answer), follow.books(skills, answer.results, brief.service)


def holds(answer: Answer) -> bool:
    """Whether the last call was a verification that found all well."""
    last = answer.results[-1] if answer.results else None
    return last is not None and last.ok and "FAILS" not in last.text and ": holds" in last.text


def _is_calm() -> Generator[Move, Answer, bool]:
    """Whether the checks go on to hold."""
    answer = yield Move(
        "The checks hold now. I look whether they go on to.",
        (terminal("sleep 3"), incident("verify")),
    )
    return holds(answer)


def _false_alarm(brief: Brief) -> Work:
    summary = (
        f"The check of {brief.service} holds, looked at several times; nothing was changed. "
        "The alert was mistaken, or what it saw passed by itself."
    )
    yield Move(
        "All checks hold and nothing was touched.", (incident("false_alarm", summary=summary),)
    )
    return f"False alarm: {summary}"


def _ask_children(case: Case) -> Steps:
    """One child for each service looks closer, all at the same time."""
    services = case.suspects[:CHILDREN]
    if len(services) < 2:
        commands = closer(case, services)
        return (yield from run("I look closer at the one service there is.", commands))
    tasks = [
        {"task": task_for(case, service, len(services)), "cheap": True} for service in services
    ]
    answer = yield Move(
        f"{len(services)} services may be part of it: {', '.join(services)}. "
        "A child looks closer at each.",
        (Call("delegate", {"tasks": tasks}),),
    )
    text = answer.results[0].text if answer.results else ""
    return observations(text)


def _settle_on(
    brief: Brief,
    known: list[Seen],
    tried: Sequence[Idea],
    only: Sequence[str] = (),
    *,
    quiet: bool = False,
) -> Generator[Move, Answer, Idea | None]:
    """Look closer until one idea stands out."""
    written: dict[str, str] = {}
    for _ in range(LOOKS):
        case = Case(brief, known)
        fresh = _fresh(case, tried, only)
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
    return _ready(_fresh(Case(brief, known), tried, only))


def _fresh(case: Case, tried: Sequence[Idea], only: Sequence[str]) -> list[Idea]:
    """Ideas that were not tried yet."""
    old = {idea.key for idea in tried}
    return [
        idea for idea in ideas(case) if idea.key not in old and (not only or idea.category in only)
    ]


def _ready(fresh: Sequence[Idea]) -> Idea | None:
    """The likeliest that can be acted on."""
    able = [idea for idea in fresh if idea.fix and idea.evidence]
    if not able:
        return None
    sure = [idea for idea in able if idea.score >= ACT]
    return sure[0] if sure else able[0]


def _wanted(case: Case, fresh: Sequence[Idea]) -> list[str]:
    """What the likelier ideas want to see; those that are far behind wait."""
    floor = fresh[0].score - 0.35
    found = [want for idea in fresh if idea.score >= floor for want in idea.wants]
    return list(case.missing(found))[:AT_ONCE]


def _posts(fresh: Sequence[Idea], written: dict[str, str]) -> list[Call]:
    """Hypotheses for the board that are new, or of which more is known now."""
    calls = []
    for idea in fresh:
        mark = f"{idea.claim} {idea.score:.2f} {len(idea.evidence)}"
        if written.get(idea.claim) == mark or not idea.evidence:
            continue
        written[idea.claim] = mark
        calls.append(
            incident(
                "hypothesis",
                claim=idea.claim,
                component=idea.component,
                category=idea.category,
                confidence=round(idea.score, 2),
                evidence=list(quotes(idea.evidence)),
            )
        )
    return calls


def _told(fresh: Sequence[Idea]) -> str:
    best = "; ".join(f"{idea.claim} ({idea.score:.0%})" for idea in fresh[:3])
    return f"What I suspect: {best}."


def _mend(
    idea: Idea, before: tuple[Call, ...] = (), after: Call | None = None
) -> Generator[Move, Answer, bool]:
    """Carry out a remedy; whether all checks hold afterwards. With `after`, it is done then, too,
    and tells whether they do."""
    last = after or incident("verify")
    undo = f" To undo it: {idea.undo}." if idea.undo else ""
    answer = yield Move(
        f"I believe that {idea.claim}. The smallest remedy I know: {'; '.join(idea.fix)}.{undo}",
        (
            *before,
            *(terminal(command) for command in (*idea.fix, "sleep 1")),
            last,
        ),
    )
    well = _went_well if after else holds
    if not well(answer):
        answer = yield Move("It may take a moment.", (terminal("sleep 3"), last))
    if not well(answer) and answer.results and "worse" in answer.results[-1].text.lower():
        back = [part for part in idea.undo.split("; ") if _UNDONE.match(part)]
        if back:
            yield Move("It got worse: I take it back.", tuple(terminal(one) for one in back))
    return well(answer)


def _went_well(answer: Answer) -> bool:
    return bool(answer.results) and answer.results[-1].ok


def _cause(tried: Sequence[Idea]) -> Idea:
    """Of all that was mended, what was at the root: what was surest. Where others had given up on
    it, it took them with it."""
    root = max(tried, key=lambda idea: (idea.category != CASCADE, idea.score))
    others = [idea for idea in tried if idea.category == CASCADE and idea is not root]
    if not others:
        return root
    return replace(
        root,
        category=CASCADE,
        claim=f"{root.claim}, and took {others[0].component} with it",
        evidence=(*root.evidence[:2], *others[0].evidence[:1]),
        prevent=(*root.prevent, "let those that give up try again by themselves"),
    )


def _resolve(idea: Idea, brief: Brief) -> Generator[Move, Answer, str]:
    """Say what it was; what is said at the end, or nothing where that was refused."""
    given = report(idea)
    calls = (
        incident(
            "hypothesis", claim=idea.claim, component=idea.component, category=idea.category,
            confidence=0.95, state="confirmed", evidence=given["evidence"],
        ),
        incident("resolve", **given),
    )  # fmt: skip
    answer = yield Move("The checks hold again.", calls)
    if answer.results and answer.results[-1].ok:
        return ended_by(idea, brief)
    return ""


def report(idea: Idea) -> dict[str, object]:
    return {
        "component": idea.component,
        "category": idea.category,
        "locus": idea.locus,
        "summary": f"{idea.claim[:1].upper()}{idea.claim[1:]}. Done: {'; '.join(idea.fix)}.",
        "evidence": list(quotes(idea.evidence)),
        "prevent": list(idea.prevent),
    }


def ended_by(idea: Idea, brief: Brief) -> str:
    return f"{brief.incident} is resolved: {idea.claim}."


def _escalate(brief: Brief, known: Sequence[Seen], tried: Sequence[Idea]) -> Work:
    """Hand over with all that is known."""
    fresh = ideas(Case(brief, known))
    best = [idea for idea in fresh if idea.evidence] or list(tried)
    idea = best[0] if best else Idea("unknown", brief.service, "nothing explains it", 0.0)
    did = "; ".join(command for one in tried for command in one.fix) or "nothing was changed"
    answer = yield Move(
        "My rules end here: people must go on.",
        (incident("escalate", **{**report(idea), "summary": f"{idea.claim}. Tried: {did}."},
                  needed=_needed(idea)),),
    )  # fmt: skip
    if answer.results and not answer.results[0].ok:
        yield Move(
            "Then without quotes.",
            (incident("escalate", component=idea.component or brief.service,
                      category=idea.category, summary=f"{idea.claim}. Tried: {did}.",
                      needed=_needed(idea)),),
        )  # fmt: skip
    return f"{brief.incident} is handed over: {idea.claim}."


def _needed(idea: Idea) -> str:
    if idea.category == "unknown":
        return "somebody who knows the service; set up a language model to have me replaced"
    return f"a person who may mend this: {idea.claim}"
