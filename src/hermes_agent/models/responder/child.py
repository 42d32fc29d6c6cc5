"""Children: the same rules, one service each. A child looks closely and tells what it saw, in words
and as data that its parent reads."""

import re
from collections.abc import Generator, Sequence
from typing import Any

import msgspec

from hermes_agent.models.responder.brief import FENCED, Brief, BriefService, Look
from hermes_agent.models.responder.moves import Answer, Call, Move, Work
from hermes_agent.models.responder.rulebook import ideas
from hermes_agent.models.responder.rules.config import nginx_test
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case, case_of
from hermes_agent.models.responder.view.seen import Seen, seen

ALL_CHARS = 12_000
"""Of what all children of a call tell as data: a result that is longer is cut."""
CONFIGS, LOGS, CLOSER = 5, 4, 14
"""Of one service: files of settings and logs that are read, and looks in all."""
KNOWN = (probes.CLOCK, probes.STATUS, probes.PROGRAMS)
"""What its parent has seen, too."""


def task_for(case: Case, service: str, children: int) -> str:
    """What a child is told. It knows nothing but this."""
    look = Look(
        look=service,
        check=case.brief.check.command if case.brief.check else "",
        about=case.about(service),
        needs=tuple(case.needs(service)),
        commands=tuple(closer(case, [service])),
        room=ALL_CHARS // max(1, children),
    )
    return (
        f"Look closely at the service {service} on this terminal and change nothing.\n"
        f"{case.about(service)}\nTell what you saw, word for word.\n\n"
        f"```json\n{msgspec.json.encode(look).decode()}\n```\n"
    )


def closer(case: Case, services: Sequence[str]) -> list[str]:
    """What is to be seen of services, what tells most first: their settings, what they said, what
    lies around, what they have open."""
    commands: list[str] = []
    for service in services:
        scripts = [*case.wrappers(service), *case.helpers(service)]
        commands += [probes.show(path) for path in scripts]
        commands += [probes.show(path) for path in case.configs(service)[:CONFIGS]]
        commands += [probes.tail(path) for path in case.log_files(service)[:LOGS]]
        if not case.supervised and service in case.programs:
            commands.append(probes.journal(service))
        commands += [probes.shown(pattern) for pattern in case.includes(service)]
        commands += [around] if (around := case.around(service)) else []
        for path in case.configs(service)[:1]:
            commands.append(probes.rows(path.rpartition("/")[0] or "/"))
        words = " ".join(case.command(service))
        if re.search(r"/(current|release|releases|live)\b", words):
            commands.append(probes.RELEASES)
        if "nginx" in words:
            commands += [probes.SITES, nginx_test(case, service)]
        for pid in case.pids(service)[:2]:
            commands += [probes.limits(pid), probes.descriptors(pid)]
    return list(case.missing(commands))[: CLOSER * max(1, len(services))]


def child(look: Look) -> Work:
    """The work of a child."""
    first = [*KNOWN, *look.commands]
    known = yield from _run(f"I look at {look.look}: rules, not a language model.", first)
    own = BriefService(look.look, look.needs, look.about)
    brief = Brief("", service=look.look, services=(own,))
    for _ in range(2):
        case = case_of(brief, known)
        more = closer(case, [look.look])
        more += [probes.timed(url) for _, _, url in case.urls(str(case.settings(look.look)))][:3]
        more = list(case.missing(more))
        if not more:
            break
        known += yield from _run("Its own log, and what it needs.", more)
    return _findings(look, case_of(brief, known), known)


def _run(text: str, commands: Sequence[str]) -> Generator[Move, Answer, list[Seen]]:
    answer = yield Move(text, tuple(Call("terminal", {"command": each}) for each in commands))
    return [
        seen(command, result) for command, result in zip(commands, answer.results, strict=False)
    ]


def _findings(look: Look, case: Case, known: Sequence[Seen]) -> str:
    program = case.programs.get(look.look)
    told = [program.line] if program else []
    told += [line for idea in ideas(case)[:3] for line in idea.evidence]
    told += case.troubles(look.look)[:3]
    shown = "\n".join(f"- {line}" for line in dict.fromkeys(told)) or "- nothing stands out"
    block = msgspec.json.encode({"seen": _fitting(known, look.room)}).decode()
    return f"{look.look}:\n{shown}\n\n```json\n{block}\n```"


def _fitting(known: Sequence[Seen], room: int) -> list[Seen]:
    """What was seen, as much of it as there is room for, what tells most first: settings before
    logs, and lists of what is open last. What is left out, the parent looks at itself."""
    found: list[Seen] = []
    for one in sorted(known, key=_weight):
        size = len(msgspec.json.encode(one)) + 2
        if one.command not in KNOWN and size <= room:
            room -= size
            found.append(one)
    return found


def _weight(one: Seen) -> tuple[int, int]:
    first = one.command.partition(" ")[0]
    order = {"cat": 0, "tail": 1, "curl": 1, "nginx": 1, "grep": 2, "find": 3}
    return (9 if "/fd" in one.command else order.get(first, 4)), len(one.output)


def observations(text: str) -> list[Seen]:
    """What children tell that they saw."""
    found: list[Seen] = []
    for block in FENCED.findall(text):
        try:
            value = msgspec.json.decode(block, type=dict[str, list[dict[str, Any]]])
            found += [msgspec.convert(one, Seen) for one in value.get("seen", [])]
        except (msgspec.MsgspecError, RecursionError):
            continue
    return found
