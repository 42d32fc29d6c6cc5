"""Whether a remedy lasts: the checks go on to hold, nothing goes on that made them fail, and nobody
complains as before."""

from collections.abc import Generator

from hermes_agent.models.responder import content, watch
from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.moves import Answer, Call, Move
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.tried import Tried, held, incident, terminal
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case, case_of
from hermes_agent.models.responder.view.seen import seen

TURNS = 6
"""Verifications in a row where checks held and failed by turns."""
NEXT_MINUTE = "sleep $((65 - 10#$(date +%S)))"
"""Until what cron begins each minute has begun."""
MORE, MOST = 2, 4
"""How often what became more while the checks asked must do so again, and at most where a remedy
set a bound that is to be come to."""
QUIET, AGAIN = 2, 5
"""Seconds after which nobody should complain any more, and those given to whoever still does."""


def is_watched(brief: Brief, idea: Idea, tried: Tried) -> bool:
    """Whether more than the logs is looked at."""
    if tried.doubts or tried.fickle or watch.is_timed(idea, case_of(brief, tried.seen)):
        return True
    return any(watch.is_due(one, case_of(brief, known)) for one, known in tried.feared)


def is_due(brief: Brief, idea: Idea, tried: Tried) -> bool:
    """Whether anything is looked at."""
    return is_watched(brief, idea, tried) or bool(content.logs(case_of(brief, tried.seen), idea))


def lasts(
    brief: Brief, idea: Idea, tried: Tried, *, due: bool = False
) -> Generator[Move, Answer, bool]:
    """Whether it does; where that is not to be feared, nothing is looked at."""
    if tried.lapsed == len(tried.ideas):
        return False
    due = due or is_watched(brief, idea, tried)
    before = case_of(brief, tried.seen)
    logs = content.logs(before, idea)
    if not due and not logs:
        return True
    raised = [*tried.raised, *(x for x in tried.feared if x not in tried.raised)] if due else []
    asked = [one for one in raised if watch.is_asked(one[0])]
    counts = tuple(dict.fromkeys(watch.count(one) for one, _ in asked))
    status = probes.STATUS if before.supervised else probes.UNITS
    looks = (
        *((terminal(content.sizes(logs)),) if logs else ()),
        *((terminal(NEXT_MINUTE),) if watch.is_timed(idea, before) else ()),
        terminal(watch.WATCH if due else f"sleep {QUIET}"),
        incident("verify"),
        *(terminal("sleep 1"), incident("verify")) * (TURNS if tried.fickle else 0),
        *_asking(counts),
        *((terminal(content.ends(logs)),) if logs else ()),
        terminal(status),
    )
    answer = yield Move("The checks hold. I look whether that lasts.", looks)
    ran = _ran(looks, answer)
    told = ""
    for one, known in raised:
        then = case_of(brief, known)
        said = [watch.unrest(text, then, one) for text in ran.get(watch.WATCH, [])]
        if any(said) and not told:
            said = [(yield from _still(then, one))]
        if not any(said) and not told and (one, known) in asked:
            said.append((yield from _goes_on(ran.get(watch.count(one), []), then, one)))
        if not told and any(said):
            told = next(filter(None, said))
            tried.raised += [(one, known)] if (one, known) not in tried.raised else []
    well = _well(answer)
    if well and not told and logs and ran:
        both = ran[content.sizes(logs)][0], ran[content.ends(logs)][0]
        told = yield from _complained(both, before, idea, tried)
    tried.status = [seen(status, answer.results[-1])] if ran else []
    tried.doubted = bool(told)
    tried.doubts += [told] if told else []
    tried.fickle = tried.fickle or not well
    tried.helped += [idea] if not well and not told else []
    if told or not well:
        tried.lapsed = len(tried.ideas)
    return well and not told


def _still(before: Case, idea: Idea) -> Generator[Move, Answer, str]:
    """What was seen to go on, and does so a while later: what was only started takes a moment."""
    looks = (terminal(f"sleep {AGAIN}"), terminal(watch.WATCH), incident("verify"))
    answer = yield Move("Something goes on. Does it pass?", looks)
    found = _ran(looks, answer).get(watch.WATCH, [])
    return watch.unrest(found[0], before, idea) if found else ""


def _goes_on(counted: list[str], before: Case, idea: Idea) -> Generator[Move, Answer, str]:
    """What became more while the checks asked, and does so again and again a while later: what is
    kept for a moment, or up to a bound, does not."""
    told = watch.grown(counted[0], counted[1], before, idea) if len(counted) == 2 else ""
    looks = (terminal(f"sleep {AGAIN}"), *_asking((watch.count(idea),)))
    rounds = min(MOST, max(MORE, -(-idea.bound // watch.ASKED)))
    for _ in range(rounds if told else 0):
        answer = yield Move("It took more while it was asked. Does that go on?", looks)
        again = _ran(looks, answer).get(watch.count(idea), [])
        if len(again) != 2 or not watch.grown(counted[0], again[0], before, idea):
            return ""
        counted, told = again, watch.grown(again[0], again[1], before, idea)
        if not told:
            return ""
    return told


def _asking(counts: tuple[str, ...]) -> tuple[Call, ...]:
    """The checks ask between two counts."""
    if not counts:
        return ()
    each = tuple(map(terminal, counts))
    return (*each, *(incident("verify"),) * watch.ASKED, *each)


def _ran(looks: tuple[Call, ...], answer: Answer) -> dict[str, list[str]]:
    """What commands came to, each time that they were run; nothing where not all came back."""
    found = dict[str, list[str]]()
    for call, one in zip(looks, answer.results, strict=False):
        if call.tool == "terminal":
            found.setdefault(call.arguments["command"], []).append(one.text)
    return found if len(answer.results) == len(looks) else {}


def _well(answer: Answer) -> bool:
    verified = [one for one in answer.results if one.name == "incident"]
    return bool(verified) and all(map(held, verified))


def _complained(
    first: tuple[str, str], before: Case, idea: Idea, tried: Tried
) -> Generator[Move, Answer, str]:
    """Who goes on to say what was said before the remedy, and does so a while later, too."""
    who, line = content.complaint(*first, before, idea)
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
