"""The work on an incident: look, suspect, look closer, mend, verify, and say what it was."""

import re
from collections.abc import Generator, Sequence

from hermes_agent.models.responder import content, follow
from hermes_agent.models.responder.acting import ended_by, mend, report, settle_on
from hermes_agent.models.responder.again import confirmed, remembered
from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.child import closer, observations, task_for
from hermes_agent.models.responder.easing import given_back, lasting, looked_back
from hermes_agent.models.responder.lasts import lasts
from hermes_agent.models.responder.moves import Answer, Call, Move, Work
from hermes_agent.models.responder.rulebook import ideas
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.tried import (
    Steps,
    Tried,
    held,
    holds,
    hypothesis,
    incident,
    run,
    terminal,
)
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case, case_of
from hermes_agent.models.responder.view.seen import Seen, quotes, seen

INTRODUCTION = (
    "I am the responder that ships with Hermes: a set of rules, not a language model. "
    "I look at the usual things first, all at once."
)
LOOK_AGAIN = "It is not what it was before. I look again."
ATTEMPTS = 4
"""How often a remedy is looked for before people are asked: who still guesses then is out of its
depth."""
PATIENCE = 200
"""Seconds after which no further remedy is looked for, whatever is known: people wait."""
CALM = (3, 4, 5)
"""Seconds between verifications after which an alert is taken for mistaken: longer in all than what
shares requests out leaves alone one that failed."""
SHOWN = 40
"""Letters by which a quote is known that was refused."""
LIKELY = 0.5
"""From which score on what was not tried yet is told before what did not help."""
CHILDREN, UNITS = 6, 30
NEAR, MORE, OTHERS, ROUNDS = 4, 24, 8, 2
"""Services that are looked at once more, looks at them, logs that are nobody's, and how often."""


def investigation(brief: Brief) -> Work:
    """From the brief to the end of the incident."""
    tried, books = Tried(), list[follow.Book]()
    ended = yield from confirmed(brief, tried, books)
    if ended:
        return ended
    known, well = yield from _triage(brief, LOOK_AGAIN if tried.ideas else INTRODUCTION)
    tried.looked(well)
    tried.begun = _age(brief, known)
    if well and tried.done and not tried.doubted:
        ended = yield from _lasting(tried, brief)
        if ended:
            return ended
    elif well and not tried.doubted:
        if (yield from _is_calm()):
            return (yield from _false_alarm(brief))
        tried.fickle, tried.holding = True, False
    if follow.categories(brief) and not tried.ideas:
        ended = yield from remembered(brief, known, books, tried)
        if ended:
            return ended
        if tried.ideas:
            known, well = yield from _triage(brief, LOOK_AGAIN)
            tried.looked(well)
            if well and not tried.doubted and (ended := (yield from _lasting(tried, brief))):
                return ended
    if not well and (yield from looked_back(brief, known, tried)):
        known, _ = yield from _triage(brief, LOOK_AGAIN)
    known += yield from _ask_children(case_of(brief, known))
    known += yield from _rest(brief, known)
    return (yield from _attempts(brief, known, tried))


def _attempts(brief: Brief, known: list[Seen], tried: Tried) -> Work:
    """One remedy after the other, until all is well or nothing is left to try."""
    patient = True
    for attempt in range(ATTEMPTS):
        if attempt:
            kept = lasting(known, tried)
            known, well = yield from _triage(brief, "That was not all. I look again.")
            tried.looked(well)
            if well and tried.done and tried.ideas and not tried.doubted:
                ended = yield from _lasting(tried, brief)
                if ended:
                    return ended
            if not well and (yield from looked_back(brief, known, tried)):
                known, _ = yield from _triage(brief, "What is it, then?")
            if _age(brief, known) - tried.begun > PATIENCE:
                break
            known = [*lasting(kept, tried), *known]
            known += yield from _rest(brief, known)
        chosen = yield from settle_on(brief, known, tried)
        if chosen is None and patient:
            patient = False
            yield from run("Nothing stands out yet. I wait for more to be said.", ["sleep 5"])
            continue
        if chosen is None:
            break
        tried.seen = tuple(known)
        if (yield from mend(brief, chosen, tried)):
            ended = yield from _resolve(tried.cause, tried, brief)
            if ended:
                return ended
    if tried.judged != len(tried.ideas):
        known, well = yield from _triage(brief, "What is left of it?")
        tried.looked(well)
        if not well:
            yield from looked_back(brief, known, tried)
    if not tried.holding:
        yield from given_back(tried)
    return (yield from _escalate(brief, known, tried))


def _triage(brief: Brief, text: str) -> Generator[Move, Answer, tuple[list[Seen], bool]]:
    """What there is to see at first, and whether the checks hold."""
    calls = (*(terminal(command) for command in probes.TRIAGE), incident("verify"))
    answer = yield Move(text, calls)
    found = [
        seen(command, result)
        for command, result in zip(probes.TRIAGE, answer.results, strict=False)
    ]
    status = next((one for one in found if one.command == probes.STATUS), None)
    if status is None or not any(parse.supervised(status.output)):
        found += yield from run("No supervisor answers here: I ask systemd.", [probes.UNITS])
        own = {brief.service, *(one.name for one in brief.services)}
        units = [
            one.name for one in parse.units(found[-1].output) if one.name in own or _is_telling(one)
        ]
        units.sort(key=lambda name: name not in own)
        if units:
            facts = probes.unit_facts(units[:UNITS])
            found += yield from run("How they are started.", [facts])
    return found, holds(answer)


def _age(brief: Brief, known: Sequence[Seen]) -> int:
    """How long the machine has been up, by its first process: no clock that is set tells that."""
    first = case_of(brief, known).process(1)
    return first.age if first is not None else 0


def _is_telling(unit: parse.Program) -> bool:
    """Whether a unit may be a service of people: those of the system itself are none."""
    own = re.match(
        r"(systemd-|dbus|getty|user@|polkit|networkd|udisks|snapd|apt-|fwupd)", unit.name
    )
    return own is None and unit.state in ("active", "failed", "activating", "deactivating")


def _is_calm() -> Generator[Move, Answer, bool]:
    """Whether the checks go on to hold, time after time: what serves in turn may be ill in one."""
    looks = tuple(
        call
        for seconds in CALM
        for call in (terminal(f"sleep {seconds}"), incident("verify"), incident("verify"))
    )
    answer = yield Move("The checks hold now. I look whether they go on to.", looks)
    verified = [one for one in answer.results if one.name == "incident"]
    return len(answer.results) == len(looks) and all(map(held, verified))


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


def _rest(brief: Brief, known: Sequence[Seen]) -> Steps:
    """What children had no room to tell, of those that matter most; what one look names is looked
    at in the next."""
    found: list[Seen] = []
    for _ in range(ROUNDS):
        case = case_of(brief, [*known, *found])
        near = [case.brief.service, *case.needs(case.brief.service)][:NEAR]
        commands = [one for service in near for one in closer(case, [service]) if "/fd" not in one]
        others = [path for path in case.log_rows if path not in case.logs][:OTHERS]
        commands += [probes.tails(others)] if others and not found else []
        commands = list(case.missing(commands))[-MORE:]
        if not commands:
            break
        found += yield from run("I look closer at those that matter most.", commands)
    return found


def _lasting(tried: Tried, brief: Brief) -> Generator[Move, Answer, str]:
    """Say what it was, where what was done helped after a while and goes on to."""
    if not (yield from lasts(brief, tried.ideas[-1], tried)):
        return ""
    return (yield from _resolve(tried.cause, tried, brief))


def _resolve(idea: Idea, tried: Tried, brief: Brief) -> Generator[Move, Answer, str]:
    """Say what it was; what is said at the end, or nothing where that was refused."""
    if not (yield from _raise_others(idea, tried, brief)):
        return ""
    given = report(idea, tried.told)
    calls = (
        hypothesis(idea, 0.95, state="confirmed"),
        incident("resolve", **given),
    )
    answer = yield Move("The checks hold again.", calls)
    left = list(quotes(idea.evidence))
    while answer.results and not answer.results[-1].ok:
        said = " ".join(answer.results[-1].text.split())
        refused = [one for one in left if repr(" ".join(one.split())[:SHOWN])[1:-1] in said]
        left = [one for one in left if one not in refused]
        if not refused or not left:
            return ""
        again = incident("resolve", **{**given, "evidence": left})
        answer = yield Move("Without the quote that does not count.", (again,))
    return ended_by(idea, brief)


def _raise_others(idea: Idea, tried: Tried, brief: Brief) -> Generator[Move, Answer, bool]:
    """Whoever gave up on what was mended, or fell meanwhile, is started, though no check asks for
    it. Whether all of them are up then."""
    before = case_of(brief, tried.seen)
    status = probes.STATUS if before.supervised else probes.UNITS
    found = tried.status or (yield from run("Is everybody up?", [status]))
    down = content.fallen(before, case_of(brief, found), idea, tried.mended)
    starts = [before.restart(one) for one in down]
    if not starts:
        return True
    found = yield from run("They are started, too.", [*starts, "sleep 2", status])
    went = [one for one in found if one.ok or ": started" in one.output]
    tried.done += [one.command for one in went if one.command in starts]
    left = content.fallen(before, case_of(brief, found), idea, tried.mended)
    tried.doubted = bool(left)
    if left:
        tried.doubts.append(f"{', '.join(left)} does not come up")
        tried.lapsed = len(tried.ideas)
    return not left


def _escalate(brief: Brief, known: Sequence[Seen], tried: Tried) -> Work:
    """Hand over with all that is known."""
    fresh = [idea for idea in ideas(case_of(brief, known)) if idea.evidence]
    best = [idea for idea in fresh if idea.score >= LIKELY and not tried.refuted(idea)]
    best = tried.begun_again or best or tried.useful or fresh or tried.ideas
    idea = best[0] if best else Idea("unknown", brief.service, "nothing explains it", 0.0)
    summary = f"{idea.claim}. Tried: {tried.told or 'nothing was changed'}."
    if tried.doubted and tried.doubts:
        summary += f" The checks may hold for now, but {tried.doubts[-1]}."
    answer = yield Move(
        "My rules end here: people must go on.",
        (incident("escalate", **{**report(idea), "summary": summary}, needed=_needed(idea)),),
    )  # fmt: skip
    if answer.results and not answer.results[0].ok:
        yield Move(
            "Then without quotes.",
            (incident("escalate", component=idea.component or brief.service,
                      category=idea.category, summary=summary, needed=_needed(idea)),),
        )  # fmt: skip
    return f"{brief.incident} is handed over: {idea.claim}."


def _needed(idea: Idea) -> str:
    if idea.category == "unknown":
        return "somebody who knows the service; set up a language model to have me replaced"
    return f"a person who may mend this: {idea.claim}"
