"""Finds the skills that apply to an incident: the `when` of their runbooks is run for its services
and their dependencies. What fits comes first, the most specific before the rest."""

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.command_results import CommandOutcome, difference
from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import Incident, MonitoredService
from hermes_agent.core.skills import Check, Runbook
from hermes_agent.incidents.backend import IncidentBackend, SkillOption
from hermes_agent.incidents.response.facts import ServiceFacts, service_facts
from hermes_agent.incidents.response.verification import RunCommand

AT_ONCE = 12
"""Commands that are run in one shell."""
CHAIN = 6
"""Services of a dependency chain for which skills are tried."""
MACHINE = 99
"""The depth of a skill about the whole machine: below every service."""
_LEARNED_FIRST = {"proven": 0, "candidate": 1}

CHECK_SECONDS = 30.0
"""Time limit of a check that sets none."""
TOGETHER_SECONDS = 0.01
"""How long to collect commands before they are run together."""
FIRST = 10
"""The first file descriptor for the output of a command."""
MARK = "#@done-"
TOO_LONG = 124
_MARKED = re.compile(rf"\n{MARK}(\d+) (\d+)\n")

ABOUT = {
    "runaway-process": re.compile(r"cpu|processor|load", re.IGNORECASE),
    "memory-leak": re.compile(r"memory|rss|oom|swap", re.IGNORECASE),
}
"""Causes whose remedy may stop a busy or large process that belongs to no service, such as a build.
They count only if the alert is about that."""

Asked = tuple[str, float]
OpenRunbook = Callable[[str, str, Mapping[str, str]], Awaitable[Runbook | None]]
"""Opens the runbook of a skill, filled in for a service."""


class RunbookCandidate(Struct, frozen=True):
    """A skill that was tried for a service."""

    skill: SkillOption
    service: str
    fits: bool
    depth: int = 0
    """Its distance from the alert's service in the dependency chain."""
    checks: int = 0
    held: int = 0
    """How many checks of its `when` held."""
    failed: str = ""
    """The first check that did not hold, and its output."""
    when: tuple[str, ...] = ()
    """The commands of its checks."""

    @property
    def near(self) -> bool:
        """Some of its checks hold; the first check of a learned skill is only its place."""
        return not self.fits and self.held > (self.skill.state != "given")

    @property
    def order(self) -> tuple[int, ...]:
        learned = _LEARNED_FIRST.get(self.skill.state, 2)
        return (not self.fits, learned, -self.depth, -self.checks, -self.skill.record)


class Findings(Struct, frozen=True):
    """What the runtime finds before it asks a model."""

    facts: Mapping[str, ServiceFacts] = {}
    chain: Mapping[str, int] = {}
    """The alert's services and their dependencies, with their distance."""
    candidates: tuple[RunbookCandidate, ...] = ()
    others: tuple[SkillOption, ...] = ()
    """Skills whose description matches the incident's words."""


async def find_candidates(
    backend: IncidentBackend,
    incident: Incident,
    skills: Sequence[Sequence[SkillOption]],
    run: RunCommand,
    own: RunCommand,
) -> Findings:
    """Tries groups of skills in order, until one of a group fits."""
    topology = await backend.topology(incident)
    names = [incident.service, *incident.related, *(one.name for one in topology)]
    facts = await service_facts(filter(None, names), run)
    chain = dependency_chain([incident.service, *incident.related], topology, facts)

    async def open(name: str, service: str, values: Mapping[str, str]) -> Runbook | None:
        opened = await backend.runbook(name, f"service={service}", values)
        return opened.runbook if opened is not None else None

    tried: tuple[RunbookCandidate, ...] = ()
    for some in skills:
        fitting = [one for one in some if is_about(incident, one.incident)]
        tried += await try_skills(fitting, chain, facts, open, run, own)
        if any(one.fits for one in tried):
            break
    return Findings(facts, chain, tuple(sorted(tried, key=lambda one: one.order)))


def is_about(incident: Incident, category: str) -> bool:
    """Whether the alert's title or checks are about such a cause."""
    if category not in ABOUT:
        return True
    texts = (incident.title, *(f"{one.name} {one.check.run}" for one in incident.checks))
    return any(ABOUT[category].search(text) for text in texts)


def dependency_chain(
    roots: Sequence[str], topology: Sequence[MonitoredService], facts: Mapping[str, ServiceFacts]
) -> Mapping[str, int]:
    """These services and their dependencies with their distance, the nearest first."""
    needs = {one.name: list(one.needs) for one in topology}
    for name, one in facts.items():
        needs[name] = list(dict.fromkeys([*needs.get(name, []), *one.needs]))
    found = dict.fromkeys(filter(None, roots), 0)
    for depth in range(1, CHAIN):
        level = [name for name, at in found.items() if at == depth - 1]
        for below in [need for name in level for need in needs.get(name, [])]:
            found.setdefault(below, depth)
    return dict(list(found.items())[:CHAIN])


async def try_skills(
    skills: Sequence[SkillOption],
    chain: Mapping[str, int],
    facts: Mapping[str, ServiceFacts],
    open: OpenRunbook,
    run: RunCommand,
    own: RunCommand | None = None,
) -> tuple[RunbookCandidate, ...]:
    """Try each skill for each service; one whose runbook is the same for all is about the machine.
    `own`: runs the checks of the bundled skills."""
    shared, ours = _Shared(run), _Shared(own or run)
    tried: list[tuple[RunbookCandidate, Runbook]] = []
    for skill in skills:
        books: dict[str, Runbook] = {}
        for service in chain:
            known = facts.get(service, ServiceFacts(service))
            # The pid itself: its expression would be evaluated by a hundred commands.
            values = {**known.values, "pid": str(known.pid)}
            book = await open(skill.name, service, values)
            if book is not None and book.when and book not in books.values():
                books[service] = book
        alone = len(books) == 1 and len(chain) > 1
        if alone:  # a learned skill has the name of its service
            named = next(
                (one for one in chain if skill.name.endswith(f"-{one}")), next(iter(books))
            )
            books = {named: next(iter(books.values()))}
        for service, book in books.items():
            depth = MACHINE if alone else chain[service]
            when = tuple(check.run for check in book.when)
            made = RunbookCandidate(skill, service, False, depth, len(when), when=when)
            tried.append((made, book))
    done = await asyncio.gather(
        *(_try(one, book, ours if one.skill.shipped else shared) for one, book in tried)
    )
    return tuple(sorted(done, key=lambda one: one.order))


async def _try(candidate: RunbookCandidate, book: Runbook, shared: "_Shared") -> RunbookCandidate:
    """It fits if all of `when` holds and `verify` does not hold already."""
    held, failed = await _held(book.when, shared)
    if failed:
        return replace(candidate, held=held, failed=failed)
    if book.verify and not (await _held(book.verify, shared))[1]:
        return replace(
            candidate, held=held, failed="nothing to do: what it verifies already passes"
        )
    return replace(candidate, fits=True, held=held)


async def _held(checks: Sequence[Check], shared: "_Shared") -> tuple[int, str]:
    """How many hold, in order, and why the first that fails does."""
    for number, check in enumerate(checks):
        if differs := difference(check.expect, await shared.run(check.run, check.timeout)):
            return number, f"`{check.run.strip()[:200]}`: {differs}"
    return len(checks), ""


class _Shared:
    """Runs a command once, however many skills need it, and batches commands in one shell."""

    def __init__(self, run: RunCommand) -> None:
        self._execute = run
        self._seen: dict[Asked, asyncio.Future[CommandOutcome]] = {}
        self._waiting: list[Asked] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, command: str, timeout: float | None) -> CommandOutcome:  # noqa: ASYNC109
        asked = (command, timeout or CHECK_SECONDS)
        if asked not in self._seen:
            self._seen[asked] = asyncio.get_running_loop().create_future()
            self._waiting.append(asked)
            if len(self._waiting) == 1:
                task = asyncio.create_task(self._run_waiting())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        return await self._seen[asked]

    async def _run_waiting(self) -> None:
        await asyncio.sleep(TOGETHER_SECONDS)
        waiting, self._waiting = self._waiting, []
        parts = [waiting[at : at + AT_ONCE] for at in range(0, len(waiting), AT_ONCE)]
        try:
            await asyncio.gather(*map(self._run, parts))
        except HermesError as error:
            for asked in waiting:
                if not self._seen[asked].done():
                    self._seen[asked].set_exception(error)

    async def _run(self, some: Sequence[Asked]) -> None:
        found: dict[int, CommandOutcome] = {}
        if len(some) > 1:
            seen = await self._execute(together(some), sum(most for _, most in some))
            found = apart(seen.output) if seen.exit is not None else {}
        for number, asked in enumerate(some):  # again alone if the batch was refused or cut
            seen = found[number] if number in found else await self._execute(*asked)
            self._seen[asked].set_result(seen)


def together(some: Sequence[Asked]) -> str:
    """A script that runs commands in parallel, each in its own shell, and prints the outcomes."""
    reads = "; ".join(f"cat <&{FIRST + number}" for number in range(len(some)))
    runs = [
        f"{FIRST + number}< <(timeout {most:g} bash -c {shlex.quote(command)} 2>&1 </dev/null; "
        f"printf '\\n{MARK}{number} %s\\n' $?)"
        for number, (command, most) in enumerate(some)
    ]
    return f"{{ {reads}; }} {' '.join(runs)}"


def apart(output: str) -> dict[int, CommandOutcome]:
    """The outcomes that such a script printed, by number; without a code if it took too long."""
    found: dict[int, CommandOutcome] = {}
    before = 0
    for end in _MARKED.finditer(output):
        number, code = int(end[1]), int(end[2])
        text = output[before : end.start()]
        before = end.end()
        if "bytes left out" not in text:
            found[number] = CommandOutcome(None if code == TOO_LONG else code, text)
    return found
