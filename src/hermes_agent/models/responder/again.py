"""Later encounters: what a skill tells of is confirmed by its own signs and mended at once. Where
it is not what it was, the whole investigation begins."""

from collections.abc import Generator, Mapping, Sequence

from msgspec.structs import replace

from hermes_agent.models.responder import follow
from hermes_agent.models.responder.acting import (
    AT_ONCE,
    ended_by,
    fresh_ideas,
    may,
    mend,
    report,
    settle_on,
)
from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.child import closer
from hermes_agent.models.responder.moves import Answer, Call, Move
from hermes_agent.models.responder.rulebook import ideas
from hermes_agent.models.responder.rules.config import nginx_test
from hermes_agent.models.responder.rules.ideas import ACT, Idea
from hermes_agent.models.responder.rules.servers import DATAGRAMS
from hermes_agent.models.responder.tried import CASCADE, Tried, cause_of, incident, run, terminal
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case, case_of
from hermes_agent.models.responder.view.seen import Seen, seen

CORE = (
    probes.CLOCK, probes.STATUS, probes.PROGRAMS, probes.LOGS, probes.LOG_FILES, probes.PROCESSES,
    probes.LISTENERS, probes.SPACE, probes.INODES,
)  # fmt: skip
"""What tells causes from each other that look alike: who runs, who listens, what the logs say, and
whether there is room."""
SIGNS: Mapping[str, tuple[str, ...]] = {
    "bad-config": (probes.CHANGED,),
    "bad-deploy": (probes.RELEASES,),
    "cascading-failure": (probes.SUPERVISOR_LOG,),
    "certificate-expired": (probes.SITES, probes.CERTIFICATES, probes.JOBS),
    "database-lock": (probes.CONNECTIONS,),
    "disk-full": (probes.DELETED, probes.OPEN_FILES),
    "dns-failure": (probes.NAMES, DATAGRAMS),
    "job-missed": (probes.JOBS,),
    "descriptor-leak": (probes.VITALS, probes.CONNECTIONS),
    "memory-leak": (probes.AGAIN, probes.VITALS),
    "network-partition": (probes.LINKS, probes.RULES),
    "runaway-process": (probes.BURN,),
    "service-crash": (probes.SUPERVISOR_LOG,),
    "slow-dependency": (probes.CONNECTIONS,),
}
"""What else shows a cause."""
OPENED = 2
LOOKS = 2
AT_A_LOOK = 10
NEAR = 0.1
"""How far behind another idea may be that is still looked into."""
SERVICES = 6


def confirmed(brief: Brief, tried: Tried, books: list[follow.Book]) -> Generator[Move, Answer, str]:
    """Confirm by a few looks what a skill says, mend it and have it verified. What is said at the
    end; nothing where it is not confirmed, or did not help. `books` gets what was opened."""
    sure = follow.sure(brief)
    if not sure or (brief.check is not None and brief.check.ok):
        return ""
    only = [one.category for one in sure]
    opening = tuple(call for one in sure[:OPENED] for call in follow.opening(brief, one.category))
    commands = tuple(dict.fromkeys([*CORE, *(sign for one in only for sign in SIGNS.get(one, ()))]))
    answer = yield Move(
        f"The signs of {', '.join(one.name for one in sure)} are there. I look whether it is "
        "that, or something that only looks alike.",
        (*opening, *(terminal(command) for command in commands)),
    )
    books += follow.books(sure[:OPENED], answer.results, brief.service)
    told = answer.results[len(opening) :]
    known = [seen(command, result) for command, result in zip(commands, told, strict=False)]
    for _ in range(LOOKS):
        wants = _wanted(case_of(brief, known), tried, only)
        if not wants:
            break
        known += yield from run("What would tell it from others yet:", wants)
    case = case_of(brief, known)
    fallen = _fallen(ideas(case)) if CASCADE in only else None
    chosen = _chosen(case, fresh_ideas(case, tried), only, fallen)
    if chosen is None:
        return ""
    tried.seen = tuple(known)
    opened = {call.arguments["name"] for call in opening}
    before = follow.opening(brief, chosen.category)
    before = () if before and before[0].arguments["name"] in opened else before
    return (yield from _mended(brief, chosen, tried, before))


def _mended(
    brief: Brief, chosen: Idea, tried: Tried, before: Sequence[Call]
) -> Generator[Move, Answer, str]:
    after = incident("resolve", **report(chosen))
    well = yield from mend(brief, chosen, tried, tuple(before), after)
    return ended_by(chosen, brief) if well else ""


def _wanted(case: Case, tried: Tried, only: Sequence[str]) -> list[str]:
    """What is still to be seen before one of these causes is acted on, or given up."""
    fresh = fresh_ideas(case, tried)
    mine = [idea for idea in fresh if idea.category in only]
    if mine and mine[0].score >= ACT:
        near = [one for one in fresh if one.score >= mine[0].score - NEAR]
        wants = [want for idea in near[:4] for want in idea.wants]
    else:
        wants = [want for idea in [*mine[:3], *fresh[:3]] for want in idea.wants]
        wants += _configured(case, only)
    return list(case.missing(wants))[:AT_A_LOOK]


def _configured(case: Case, only: Sequence[str]) -> list[str]:
    """What the services are told, and how the one of the alert is set up."""
    own = case.brief.service
    commands = [
        probes.show(path)
        for service in case.suspects[:SERVICES]
        for path in case.configs(service)[:2]
    ]
    unread = [path for path in case.log_files(own) if path not in case.logs]
    commands += [probes.tails(unread[:4])] if unread else []
    definition = case.definitions.get(own)
    if definition is not None and "nginx" in definition.command:
        commands += [probes.SITES, nginx_test(case, own)]
    if "descriptor-leak" in only:
        for pid in case.pids(own)[:2]:
            commands += [probes.descriptors(pid), probes.limits(pid)]
    return commands


def _chosen(
    case: Case, fresh: Sequence[Idea], only: Sequence[str], fallen: Idea | None
) -> Idea | None:
    """One of these causes, where it is sure enough, nothing else is likelier, and all was seen that
    could tell against it: else the whole investigation has to."""
    able = [idea for idea in fresh if idea.fix and idea.evidence and idea.score >= ACT]
    able = [idea for idea in able if may(case, idea)]
    if able and case.missing(able[0].wants):
        return None
    if fallen is not None and able:
        return _together(able[0], fallen)
    if not able or fresh[0].category not in only or able[0].category not in only:
        return None
    return able[0]


def _is_behind(chosen: Idea, fresh: Sequence[Idea]) -> bool:
    """Whether something else is likelier, of which no skill tells."""
    others = [idea for idea in fresh if idea.category not in (chosen.category, CASCADE)]
    return any(idea.score > chosen.score and idea.evidence for idea in others)


def _fallen(found: Sequence[Idea]) -> Idea | None:
    """Those who gave up on what is down below them, where there are any and it is known how they
    get up."""
    return next((idea for idea in found if idea.category == CASCADE and idea.fix), None)


def _together(root: Idea, fallen: Idea) -> Idea:
    """What fell, and those who gave up on it."""
    if fallen.key == root.key:
        return root
    fix = (*root.fix, "sleep 1", *fallen.fix)
    return replace(cause_of([root, fallen]), fix=tuple(dict.fromkeys(fix)))


def remembered(
    brief: Brief, known: list[Seen], books: Sequence[follow.Book], tried: Tried
) -> Generator[Move, Answer, str]:
    """Where no sign was there: after the whole triage, still causes of which a skill tells before
    all others, and no children."""
    case = case_of(brief, known)
    only = follow.categories(brief)
    fallen = _fallen(ideas(case)) if CASCADE in only else None
    allowed = () if fallen else only
    fresh = fresh_ideas(case, tried, allowed)
    if not fresh or fresh[0].score < ACT or case.missing(fresh[0].wants):
        wants = [want for idea in ideas(case)[:5] for want in idea.wants]
        wants += closer(case, case.suspects[:SERVICES])
        known += yield from run(
            "This may have happened before: I look at what was written down then.",
            case.missing(wants)[: 3 * AT_ONCE],
        )
    chosen = yield from settle_on(brief, known, tried, allowed, quiet=True)
    if chosen is not None and _is_behind(chosen, fresh_ideas(case_of(brief, known), tried)):
        return ""
    if chosen is not None and chosen.score >= ACT:
        chosen = _together(chosen, fallen) if fallen is not None else chosen
        tried.seen = tuple(known)
        opened = () if books else follow.opening(brief, chosen.category)
        return (yield from _mended(brief, chosen, tried, opened))
    for book in books if chosen is None else ():
        ended = yield from follow.followed(book, brief)
        if ended:
            return ended
    return ""
