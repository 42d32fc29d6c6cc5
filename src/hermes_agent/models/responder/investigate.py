"""The work on an incident: look, suspect, look closer, mend, verify, and say what it was."""

import re
from collections.abc import Generator, Iterable, Sequence

import msgspec

from hermes_agent.core.messages import ToolMessage
from hermes_agent.models.responder import follow, probes
from hermes_agent.models.responder.brief import Brief
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
AT_ONCE = 10
CHILDREN = 6
CALM = "for n in 1 2 3; do sleep 1; {check} >/dev/null 2>&1 && echo held || echo failed; done"

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
    done = yield from follow.skills(brief)
    if done:
        return done
    known: list[Seen] = yield from _triage(brief, INTRODUCTION)
    if (yield from _is_calm(brief, known)):
        return (yield from _false_alarm(brief))
    known += yield from _ask_children(Case(brief, known))
    tried: list[Idea] = []
    for attempt in range(ATTEMPTS):
        if attempt:
            known = yield from _triage(brief, "That was not all. I look again.")
        chosen = yield from _settle_on(brief, known, tried)
        if chosen is None:
            break
        tried.append(chosen)
        helped = yield from _mend(chosen, brief)
        if helped:
            ended = yield from _resolve(_cause(tried), brief)
            if ended:
                return ended
    return (yield from _escalate(brief, known, tried))


def _triage(brief: Brief, text: str) -> Steps:
    check = [brief.check.command] if brief.check and brief.check.command else []
    commands = [*check, *probes.TRIAGE]
    found = yield from run(text, commands)
    if not any(one.command == probes.STATUS and one.ok for one in found) and not any(
        re.match(r"\S+\s+[A-Z]{4,}", one.output) for one in found if one.command == probes.STATUS
    ):
        found += yield from run("No supervisor answers here: I ask systemd.", [probes.UNITS])
    return found


def _is_calm(brief: Brief, known: Sequence[Seen]) -> Generator[Move, Answer, bool]:
    """Whether the check holds now, and goes on to."""
    if brief.check is None or not brief.check.command:
        return False
    first = next((one for one in known if one.command == brief.check.command), None)
    if first is None or not first.ok:
        return False
    answer = yield Move(
        "The check holds now. I look whether it goes on to.",
        (terminal(f"sleep 2; {brief.check.command}"), incident("verify")),
    )
    verified = answer.results[1].text if len(answer.results) > 1 else ""
    return bool(answer.results) and answer.results[0].ok and "FAILS" not in verified


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
    brief: Brief, known: list[Seen], tried: Sequence[Idea]
) -> Generator[Move, Answer, Idea | None]:
    """Look closer until one idea stands out."""
    written: dict[str, str] = {}
    for _ in range(LOOKS):
        case = Case(brief, known)
        fresh = [idea for idea in ideas(case) if all(idea.key != old.key for old in tried)]
        if not fresh:
            return None
        wants = _wanted(case, fresh)
        posted = _posts(fresh[:3], written)
        if not wants:
            best = _ready(fresh)
            if posted and best is not None:
                yield Move(_told(fresh), tuple(posted))
            return best
        known += yield from run(_told(fresh), wants, posted)
    return _ready([idea for idea in ideas(Case(brief, known)) if idea not in tried])


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
            )  # fmt: skip
        )
    return calls


def _told(fresh: Sequence[Idea]) -> str:
    best = "; ".join(f"{idea.claim} ({idea.score:.0%})" for idea in fresh[:3])
    return f"What I suspect: {best}."


def _mend(idea: Idea, brief: Brief) -> Generator[Move, Answer, bool]:
    """Carry out a remedy; whether all checks hold afterwards."""
    undo = f" To undo it: {idea.undo}." if idea.undo else ""
    yield Move(
        f"I believe that {idea.claim}. The smallest remedy I know: {'; '.join(idea.fix)}.{undo}",
        tuple(terminal(command) for command in idea.fix),
    )
    for pause in (1, 3):
        answer = yield Move(
            "Did it help?", (terminal(f"sleep {pause}; {_again(brief)}"), incident("verify"))
        )
        said = answer.results[-1].text if answer.results else ""
        if answer.results and answer.results[-1].ok and "FAILS" not in said:
            return "worse" not in said.lower()
    return False


def _again(brief: Brief) -> str:
    return brief.check.command if brief.check and brief.check.command else "true"


def _cause(tried: Sequence[Idea]) -> Idea:
    """Of all that was mended, what was at the root: what was surest."""
    return max(tried, key=lambda idea: idea.score)


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
        return ended(idea, brief)
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


def ended(idea: Idea, brief: Brief) -> str:
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
