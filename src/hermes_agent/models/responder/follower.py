"""Works on an incident by following skills: surveys the host, opens the skill whose signs are
there, backs up files, runs its steps, verifies, and resolves. A skill that did not help is undone
and the next one tried; what no skill covers is escalated with the evidence."""

import re
from collections.abc import Generator, Sequence

from msgspec import Struct, field

from hermes_agent.core.command_results import difference, seen
from hermes_agent.core.incidents import CATEGORIES
from hermes_agent.core.messages import ToolMessage
from hermes_agent.core.skills import Check, Runbook, RunStep
from hermes_agent.models.responder.brief import (
    Brief,
    BriefCandidate,
    BriefFacts,
    Signs,
    runbook_in,
    signs_in,
)
from hermes_agent.models.responder.moves import MoveResult, PlannedCall, ResponderMove, Work

ATTEMPTS = 6
SERVICES = 4
"""How many services are inspected at first."""
LINES = 40
CALM_SECONDS = 4
"""Between two checks of what seems healthy."""
LATER = (("And in a moment?", ["sleep 3"]),) * 2
"""A restarted service may take a while to answer."""
QUOTES, LEAST, MAX_COUNT = 3, 12, 300
"""How many quotes are given as evidence, and their length."""
COPIES, NEAR = 12, 4
ROOM = "df -P"
MEMORY = "grep -E 'MemTotal|MemAvailable' /proc/meminfo"
_TROUBLE = re.compile(
    r"error|fail|refus|denied|time.?out|cannot|can't|unable|exception|fatal|critical|panic|no space"
    r"|too many|not found|no such|expired|locked|killed|stopped|inactive|EXITED|BACKOFF"
    r"|(?:: |answered |HTTP/\S+ )50\d\b",
    re.IGNORECASE,
)
_SAID = re.compile(r"^(component|locus): (.+)$", re.MULTILINE)
_PATH = re.compile(r"(?<![\w.:/~$*-])/(?:[\w@%+.,-]+/)*[\w@%+.,-]*\w")
_KEPT = re.compile(r"^/(?:etc|opt|srv|usr/local|home|var/www|var/spool|app|data)/")
"""Where a runbook may change files."""

Steps = Generator[ResponderMove, MoveResult, tuple[ToolMessage, ...]]


class FollowerState(Struct):
    """What was seen and tried."""

    commands: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    tried: list[BriefCandidate] = field(default_factory=list)
    helped: list[BriefCandidate] = field(default_factory=list)
    """Skills whose own verification held after their steps."""
    refusals: list[str] = field(default_factory=list)
    """Why attempts did not resolve it."""
    well: bool = False
    """The checks hold, even if a skill still sees its signs."""

    def note(self, commands: Sequence[str], results: Sequence[ToolMessage]) -> None:
        self.commands += commands
        self.outputs += [seen(one).output for one in results]

    def said(self, what: str) -> str:
        """What a step printed as `locus` or `component`."""
        found = [
            value for text in self.outputs for key, value in _SAID.findall(text) if key == what
        ]
        return " ".join(found[-1].split())[:200] if found else ""

    def quotes(self, texts: Sequence[str] = ()) -> list[str]:
        """Output lines that look like errors, those of `texts` first."""
        lines = [line.strip() for text in texts for line in text.splitlines()]
        told = [line.strip() for text in reversed(self.outputs) for line in text.splitlines()]
        lines += [line for line in told if _TROUBLE.search(line)] or told
        written = " ".join("\n".join(self.commands).split())
        fitting = [
            line[:MAX_COUNT].strip()
            for line in lines
            if len(" ".join(line[:MAX_COUNT].split())) >= LEAST
            and not line.startswith(("[", "==> "))
            and " ".join(line[:MAX_COUNT].split()) not in written
        ]
        return list(dict.fromkeys(fitting))[:QUOTES]


def terminal(command: str, timeout: float | None = None) -> PlannedCall:
    return PlannedCall(
        "terminal", {"command": command, **({"timeout": timeout} if timeout else {})}
    )


def incident(action: str, **given: object) -> PlannedCall:
    return PlannedCall("incident", {"action": action, **given})


def holds(result: ToolMessage) -> bool:
    """Whether a verification succeeded."""
    return result.ok and "FAILS" not in result.text and ": OK" in result.text


def follow(brief: Brief) -> Work:
    """The whole course of an incident."""
    record = FollowerState()
    signs = Signs(brief.candidates, brief.ruled_out)
    chosen = next_candidate(signs, record)
    if chosen is None or not chosen.learned:
        yield from survey_host(brief, record)
    if chosen is None and (end := (yield from calm(brief))):
        return end
    while chosen is not None and len(record.tried) < ATTEMPTS:
        record.tried.append(chosen)
        if end := (yield from attempt(brief, chosen, record)):
            return end
        if record.well:
            break
        answer = yield ResponderMove("Which signs are present now?", (incident("signs"),))
        signs = signs_in(answer.results[0].text)
        chosen = next_candidate(signs, record)
    return (yield from hand_over(brief, signs, record))


def next_candidate(signs: Signs, record: FollowerState) -> BriefCandidate | None:
    known = {one.key for one in record.tried}
    return next((one for one in signs.candidates if one.fits and one.key not in known), None)


def run(
    text: str, commands: Sequence[str], record: FollowerState, more: Sequence[PlannedCall] = ()
) -> Steps:
    """Run commands, together with other calls."""
    answer = yield ResponderMove(text, (*(terminal(one) for one in commands), *more))
    record.note(commands, answer.results[: len(commands)])
    return answer.results


def survey_host(brief: Brief, record: FollowerState) -> Steps:
    """The services, the disk and the memory, all at once."""
    facts = [one for one in brief.facts if one.init != "unknown"][:SERVICES]
    commands = [one.status for one in facts if one.status and one.init in _ASKED]
    commands += [f"{one.recent} | tail -n {LINES}" for one in facts if one.recent]
    if brief.check is not None and brief.check.command:
        commands.append(brief.check.command)
    names = ", ".join(one.service for one in facts) or brief.service
    return (
        yield from run(
            f"I follow skills; I am not a language model. I will check {names} at the same time.",
            list(dict.fromkeys([*commands, ROOM, MEMORY])),
            record,
        )
    )


_ASKED = frozenset({"systemd", "supervisord", "runit"})
"""Init systems that report a status without running a script of the service."""


def calm(brief: Brief) -> Generator[ResponderMove, MoveResult, str]:
    """Check whether nothing is wrong; returns the final message then."""
    if brief.check is None or brief.check.ok is False:
        return ""
    looks = (incident("verify"), terminal(f"sleep {CALM_SECONDS}"), incident("verify"))
    answer = yield ResponderMove("No skill matches. Is anything wrong at all?", looks)
    if not (holds(answer.results[0]) and holds(answer.results[-1])):
        return ""
    summary = "All checks passed on every run, and no skill matches."
    answer = yield ResponderMove(summary, (incident("false_alarm", summary=summary),))
    return "It was a false alarm; I changed nothing." if answer.results[0].ok else ""


# one attempt


def attempt(
    brief: Brief, chosen: BriefCandidate, record: FollowerState
) -> Generator[ResponderMove, MoveResult, str]:
    """Open the skill, check its signs, back up files, run its steps. Returns the final message, or
    "" if the incident is not resolved."""
    opening = PlannedCall("skill", {"name": chosen.skill, "arguments": f"service={chosen.service}"})
    results = yield from run(
        f"{chosen.skill} matches {chosen.service}. I will check its signs again.",
        chosen.when,
        record,
        (opening,),
    )
    book = runbook_in(results[-1].text) if results[-1].ok else None
    if book is None:
        record.refusals.append(f"{chosen.skill} could not be opened")
        return ""
    book = book.with_define()
    shown = [seen(one).output for one in results[:-1]]
    if any(_differ(book.when, results)):
        record.refusals.append(f"the signs of {chosen.skill} are gone")
        return ""
    yield ResponderMove(
        f"This looks like {chosen.category} in {chosen.service}. First I back up what may change.",
        (
            _hypothesis(chosen, record.quotes(shown)),
            incident("keep", paths=_paths(brief, chosen, shown)),
        ),
    )
    why = yield from _work(chosen, book, record)
    if why:
        record.refusals.append(f"{chosen.skill} for {chosen.service}: {why}")
    return (yield from _settle(brief, chosen, book, record, shown))


def _differ(checks: Sequence[Check], results: Sequence[ToolMessage]) -> list[str]:
    pairs = zip(checks, results, strict=False)
    return [told for check, one in pairs if (told := difference(check.expect, seen(one)))]


def _hypothesis(chosen: BriefCandidate, quotes: Sequence[str], **state: object) -> PlannedCall:
    claim = f"{CATEGORIES.get(chosen.category, chosen.category)}: {chosen.service}"
    given = {"confidence": 0.8, **state}
    return incident(
        "hypothesis", claim=claim, component=chosen.service, category=chosen.category,
        evidence=list(quotes), **given,
    )  # fmt: skip


def _paths(brief: Brief, chosen: BriefCandidate, shown: Sequence[str]) -> list[str]:
    """What the steps may change: the configuration and unit of the service, and what its signs
    name."""
    facts = next((one for one in brief.facts if one.service == chosen.service), BriefFacts(""))
    named = [path for text in shown for path in _PATH.findall(text) if _KEPT.match(path)]
    own = [*facts.configs, *([facts.unit] if facts.unit else [])]
    return list(dict.fromkeys([*own, *named]))[:COPIES]


def _work(
    chosen: BriefCandidate, book: Runbook, record: FollowerState
) -> Generator[ResponderMove, MoveResult, str]:
    """Run its steps in order; returns why it stopped, or "" if all went well."""
    for number, step in enumerate(book.steps, 1):
        name = step.name or f"step {number}"
        for text, check in _checks_of(step, name):
            answer = yield ResponderMove(
                f"{chosen.skill}: {text}", (terminal(check.run, check.timeout),)
            )
            record.note([check.run], answer.results)
            if told := difference(check.expect, seen(answer.results[0])):
                return f"{text}: {told}"
    return ""


def _checks_of(step: RunStep, name: str) -> list[tuple[str, Check | RunStep]]:
    more: list[tuple[str, Check | RunStep]] = (
        [(f"{name}: did it work?", step.verify)] if step.verify is not None else []
    )
    return [(name, step), *more]


def _settle(
    brief: Brief, chosen: BriefCandidate, book: Runbook, record: FollowerState, shown: Sequence[str]
) -> Generator[ResponderMove, MoveResult, str]:
    """Verify and resolve; undo a skill that did not help."""
    commands = [check.run for check in book.verify]
    for text, waiting in (("Did it help?", []), *LATER):
        results = yield from run(text, [*waiting, *commands], record, (incident("verify"),))
        left = _differ(book.verify, results[len(waiting) :])
        if holds(results[-1]) and not left:
            return (yield from _resolve(chosen, record, shown))
    if holds(results[-1]):
        record.well = True  # do not undo what made it healthy
        record.refusals.append(f"the checks pass, but {chosen.skill} still sees: {left[0]}")
        return ""
    if book.verify and not left:
        record.helped.append(chosen)
        record.refusals.append(f"{chosen.skill} did its work, but the checks still fail")
        return ""
    quotes = record.quotes([results[-1].text] if not holds(results[-1]) else [])
    calls = (incident("undo"), _hypothesis(chosen, quotes, state="refuted", confidence=0.1))
    answer = yield ResponderMove(f"{chosen.skill} did not help. I will undo its changes.", calls)
    facts = next((one for one in brief.facts if one.service == chosen.service), BriefFacts(""))
    if "put back" in answer.results[0].text and facts.restart:
        yield from run("Restarting it with what was put back.", [facts.restart], record)
    return ""


def _resolve(
    chosen: BriefCandidate, record: FollowerState, shown: Sequence[str]
) -> Generator[ResponderMove, MoveResult, str]:
    component = record.said("component") or chosen.service
    what = CATEGORIES.get(chosen.category, chosen.category)
    given: dict[str, object] = {
        "component": component, "category": chosen.category, "locus": record.said("locus"),
        "summary": f"{what} ({component}); fixed by {chosen.skill}",
        "prevent": [f"find out what caused it: {what}"],
    }  # fmt: skip
    record.helped.append(chosen)
    ended = yield from _end("resolve", given, record.quotes(shown))
    if ended.ok:
        return f"{component} works again: it was {chosen.category}."
    record.refusals.append(ended.text.strip()[:500])
    return ""


def _end(
    action: str, given: dict[str, object], quotes: list[str]
) -> Generator[ResponderMove, MoveResult, ToolMessage]:
    """End it, without quotes that are not taken."""
    while True:
        answer = yield ResponderMove(
            {"resolve": "It is fixed.", "escalate": "Handing over."}[action],
            (incident(action, **given, evidence=quotes),),
        )
        ended = answer.results[0]
        if ended.ok or "the quote" not in ended.text or not quotes:
            return ended
        quotes = quotes[1:]


# the end of what skills can do


def hand_over(
    brief: Brief, signs: Signs, record: FollowerState
) -> Generator[ResponderMove, MoveResult, str]:
    """To people, with the evidence, the near misses and what was ruled out."""
    believed = (record.helped or record.tried)[:1]
    tried = ", ".join(f"{one.skill} for {one.service}" for one in record.tried)
    near = [
        f"{one.skill} for {one.service}: {one.failed}" for one in signs.candidates if not one.fits
    ]
    parts = [f"Tried: {tried}." if tried else "No skill matches.", *record.refusals]
    parts += [f"Close: {'; '.join(near[:NEAR])}"] if near else []
    parts += [f"Ruled out: {', '.join(signs.ruled_out)}"] if signs.ruled_out else []
    given: dict[str, object] = {
        "component": believed[0].service if believed else brief.service,
        "category": believed[0].category if believed and record.helped else "unknown",
        "locus": record.said("locus"),
        "summary": "\n".join(parts)[:2_000],
        "needed": "someone who knows the service; the session shows what was checked",
    }
    ended = yield from _end("escalate", given, record.quotes())
    return (
        "A person must continue from here."
        if ended.ok
        else f"The incident could not be closed: {ended.text[:300]}"
    )
