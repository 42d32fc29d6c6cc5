"""Children: the same rules, one service each. A child looks closely and tells what it saw, in words
and as data that its parent reads."""

import re
from collections.abc import Generator, Sequence
from typing import Any

import msgspec

from hermes_agent.models.responder import probes
from hermes_agent.models.responder.brief import Brief, BriefService, Look
from hermes_agent.models.responder.case import Case
from hermes_agent.models.responder.moves import Answer, Call, Move, Work
from hermes_agent.models.responder.rules import ideas
from hermes_agent.models.responder.rules_change import nginx_test
from hermes_agent.models.responder.seen import Seen, seen

ALL_CHARS = 12_000
"""Of what all children of a call tell as data: a result that is longer is cut."""
KNOWN = (probes.CLOCK, probes.STATUS, probes.PROGRAMS)
"""What its parent has seen, too."""
_FENCED = re.compile(r"^```json[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)


def task_for(case: Case, service: str, children: int) -> str:
    """What a child is told. It knows nothing but this."""
    look = Look(
        look=service,
        check=case.brief.check.command if case.brief.check else "",
        needs=tuple(case.needs(service)),
        commands=tuple(closer(case, [service])),
        room=ALL_CHARS // max(1, children),
    )
    about = next((one.about for one in case.brief.services if one.name == service), "")
    return (
        f"Look closely at the service {service} on this terminal and change nothing.\n"
        f"{about}\nTell what you saw, word for word.\n\n"
        f"```json\n{msgspec.json.encode(look).decode()}\n```\n"
    )


def closer(case: Case, services: Sequence[str]) -> list[str]:
    """What is to be seen of services, by how they are started."""
    commands: list[str] = []
    for service in services:
        definition = case.definitions.get(service)
        if definition is None:
            continue
        for path in definition.configs[:2]:
            commands += [probes.show(path), probes.rows(path.rpartition("/")[0] or "/")]
        for pid in case.pids(service)[:2]:
            commands += [probes.descriptors(pid), probes.limits(pid)]
        if definition.log:
            commands.append(probes.tail(definition.log))
        if re.search(r"/(current|release|releases|live)\b", definition.command):
            commands.append(probes.RELEASES)
        if "nginx" in definition.command:
            commands += [probes.SITES, nginx_test(case, service)]
    return list(case.missing(commands))[:12]


def child(look: Look) -> Work:
    """The work of a child."""
    first = [*KNOWN, *look.commands]
    known = yield from _run(f"I look at {look.look}: rules, not a language model.", first)
    brief = Brief("", service=look.look, services=(BriefService(look.look, look.needs),))
    case = Case(brief, known)
    more = [f"tail -n 60 {path}" for path in _own_logs(case)]
    more += [probes.timed(url) for _, _, url in case.urls(str(case.settings(look.look)))][:3]
    more = list(case.missing(more))
    if more:
        known += yield from _run("Its own log, and what it needs.", more)
    return _findings(look, Case(brief, known), known)


def _own_logs(case: Case) -> list[str]:
    service = case.brief.service
    path = case.settings(service).get("log", "")
    return [path] if path.startswith("/") else []


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
    """What was seen, as much of it as there is room for, the short ones first: what is left out,
    the parent looks at itself."""
    found: list[Seen] = []
    for one in sorted(known, key=lambda one: ("/fd" in one.command, len(one.output))):
        size = len(one.output) + len(one.command) + 60
        if one.command not in KNOWN and size <= room:
            room -= size
            found.append(one)
    return found


def observations(text: str) -> list[Seen]:
    """What children tell that they saw."""
    found: list[Seen] = []
    for block in _FENCED.findall(text):
        try:
            value = msgspec.json.decode(block, type=dict[str, list[dict[str, Any]]])
            found += [msgspec.convert(one, Seen) for one in value.get("seen", [])]
        except (msgspec.MsgspecError, RecursionError):
            continue
    return found
