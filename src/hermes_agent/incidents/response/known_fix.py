"""What fixed an incident, recorded by the runtime when it ends, and found again when the same
trouble comes back. Its signs are looked for before anything else, and its remedy is proposed before
a broad survey. Nothing here changes a system: remedies pass the gate like every other effect."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.errors import NotFound
from hermes_agent.core.incidents import Diagnosis, Incident, TimelineEntry
from hermes_agent.incidents.backend import IncidentBackend
from hermes_agent.incidents.response.evidence import EvidenceCall, IncidentTranscript, transcript
from hermes_agent.incidents.response.stability import gist
from hermes_agent.incidents.response.verification import RunCommand

KNOWN = "known"
"""The key of the timeline's note with what is known."""
SEARCHED = 200
"""How many of the last ended incidents are searched."""
SIGNS, COMMANDS, COMMAND_CHARS = 3, 8, 400
SIGN_SECONDS = 10.0
"""Time limit of a command that looks for a sign."""
NEAR = 5.0
"""A percentage is that of a sign within so many points."""
_PERCENT, _MARK = re.compile(r"(\d+(?:\.\d+)?)%"), "\ue000%"


class Sign(Struct, frozen=True):
    """A command that only looks, and a line that it printed."""

    command: str
    line: str


class KnownFix(Struct, frozen=True, omit_defaults=True):
    remedy: tuple[str, ...] = ()
    """What was done last, after which the checks passed; empty if nothing helped."""
    unhelpful: tuple[str, ...] = ()
    """What was done before, and did not help."""
    signs: tuple[Sign, ...] = ()
    """The evidence for the diagnosis, as seen before anything was changed."""
    incident: str = ""
    skill: str = ""
    """The skill that was used, or written because of it."""
    seconds: float = 0.0
    """Time to recover."""
    held: float = 0.0
    """Seconds until it happened again."""
    diagnosis: Diagnosis | None = None
    present: bool = False
    """Its signs are there again."""


# recording


async def record_fix(backend: IncidentBackend, incident: Incident) -> None:
    """Note once on the timeline what helped and what did not."""
    entries = await backend.incidents.timeline(incident.id)
    if not incident.session or any(KNOWN in entry.data for entry in entries):
        return
    try:
        seen = await transcript(backend.journal, incident.session, backend.results, incident.checks)
    except NotFound:  # somebody has deleted it
        return
    made = _redacted(backend, _made(incident, entries, seen))
    if not made.remedy and not made.unhelpful:
        return
    if made.remedy:
        text = f"for the next time: {_listed(made.remedy)} fixed it"
    else:
        text = f"for the next time: {_listed(made.unhelpful)} did not help"
    data = {KNOWN: msgspec.to_builtins(made)}
    await backend.incidents.change(incident.id, [("note", text, data)])


def _made(
    incident: Incident, entries: Sequence[TimelineEntry], seen: IncidentTranscript
) -> KnownFix:
    changes = [call for call in seen.changes if call.ok]
    if incident.state != "resolved" or any(one.kind == "escalated" for one in entries):
        return KnownFix(unhelpful=_commands(changes))
    failed = [
        one.time
        for one in entries
        if one.kind == "rolled-back" or (one.kind == "verified" and not one.data.get("ok", True))
    ]
    before = max(failed, default=0.0)
    last = [call for call in changes if call.time >= before] or changes
    first = changes[0].time if changes else float("inf")
    calls = {call.effect: call for call in seen.calls}
    evidence = incident.diagnosis.evidence if incident.diagnosis else ()
    signs = [
        Sign(str(call.arguments.get("command", "")), one.quote)
        for one in evidence
        if (call := calls.get(one.effect)) is not None
        and (call.tool, call.did) == ("terminal", "looked")
        and call.time <= first
    ]
    return KnownFix(
        _commands(last),
        _commands([call for call in changes if call not in last]),
        tuple(one for one in dict.fromkeys(signs) if len(one.command) <= COMMAND_CHARS)[:SIGNS],
    )


def _commands(calls: Sequence[EvidenceCall]) -> tuple[str, ...]:
    """What the calls did, each on one line: the command itself where it is one."""
    shown = (call.shown.removeprefix("terminal: ")[:COMMAND_CHARS] for call in calls)
    return tuple(dict.fromkeys(shown))[-COMMANDS:]


def _redacted(backend: IncidentBackend, made: KnownFix) -> KnownFix:
    """Without secrets; a command that contains one is of no use as a sign."""
    signs = [one for one in made.signs if backend.redact(one.command) == one.command]
    return replace(
        made,
        remedy=tuple(map(backend.redact, made.remedy)),
        unhelpful=tuple(map(backend.redact, made.unhelpful)),
        signs=tuple(Sign(one.command, backend.redact(one.line)) for one in signs),
    )


def _listed(commands: Sequence[str]) -> str:
    return ", ".join(f"`{one}`" for one in commands)


# finding


def recorded(incident: Incident, entries: Sequence[TimelineEntry]) -> KnownFix | None:
    """What was recorded for an incident, with what is in its row and its timeline."""
    found: Any = next((one.data[KNOWN] for one in entries if KNOWN in one.data), None)
    if found is None:
        return None
    written = [str(one.data.get("skill") or "") for one in entries if one.kind == "learned"]
    return replace(
        msgspec.convert(found, KnownFix),
        incident=incident.id,
        skill=next(filter(None, (incident.skill, *reversed(written))), ""),
        seconds=incident.seconds or 0.0,
        diagnosis=incident.diagnosis,
    )


async def known_fix(backend: IncidentBackend, incident: Incident) -> KnownFix | None:
    """What fixed the same trouble of the same service last, unless it failed since. Drills and real
    incidents do not inform each other."""
    before: list[KnownFix] = []
    until = incident.opened
    for one in await backend.incidents.incidents(open=False, limit=SEARCHED):
        if one.id == incident.id or one.opened > incident.opened or not is_alike(one, incident):
            continue
        fix = recorded(one, await backend.incidents.timeline(one.id))
        if fix is not None:
            before.append(replace(fix, held=until - one.ended if one.ended else 0.0))
            if still_good(before) is not None:
                break
        until = one.opened
    return still_good(before)


def still_good(known: Sequence[KnownFix]) -> KnownFix | None:
    """The last one with a remedy that has not failed since; `known` come newest first."""
    failed: set[str] = set()
    for fix in known:
        if fix.remedy and not failed & set(fix.remedy):
            return fix
        failed |= {*fix.remedy, *fix.unhelpful}
    return None


def is_alike(one: Incident, other: Incident) -> bool:
    """Whether the same signal or check of the same service raised them."""
    if not one.service or one.service != other.service:
        return False
    if (one.source == "drill") != (other.source == "drill"):
        return False
    checks = {check.check.run for check in one.checks} & {check.check.run for check in other.checks}
    return one.fingerprint == other.fingerprint or bool(checks)


async def with_signs(fix: KnownFix, run: RunCommand) -> KnownFix:
    """The fix, and whether the commands that showed the cause last time print the same again."""
    for sign in fix.signs:
        seen = await run(sign.command, SIGN_SECONDS)
        if seen.exit is None or not is_there(sign.line, seen.output):
            return fix
    return replace(fix, present=bool(fix.signs))


def is_there(line: str, output: str) -> bool:
    """Whether a line is in an output, but for its numbers; percentages must be near."""
    shape, text = (gist(_PERCENT.sub(_MARK, one)) for one in (line, output))
    then, now = ([float(one) for one in _PERCENT.findall(some)] for some in (line, output))
    for hit in re.finditer(f"(?={re.escape(shape)})", text):
        first = text.count(_MARK, 0, hit.start())
        if all(abs(a - b) <= NEAR for a, b in zip(then, now[first:], strict=False)):
            return True
    return False
