"""Writes what a session does to its incident's timeline, once for each effect."""

from hermes_agent.core import events as ev
from hermes_agent.core.incidents import OPEN, NewEntry
from hermes_agent.core.tools import DELEGATE
from hermes_agent.incidents.backend import IncidentBackend
from hermes_agent.incidents.response.evidence import CHILDREN, EvidenceCall, calls_of

LINE_CHARS = 200


async def follow(backend: IncidentBackend, id: str, session: str) -> None:
    """Follow a session until cancelled."""
    known = {
        str(entry.data[name])
        for entry in await backend.incidents.timeline(id)
        for name in ("effect", "question")
        if name in entry.data
    }
    checks = [one.check.run for one in (await backend.incidents.incident(id)).checks]
    seen: list[ev.Recorded] = []
    async for recorded in backend.events(session):
        if recorded.number:
            seen.append(recorded)
        match recorded.event:
            case ev.Replied(calls=calls):
                for call in calls:
                    if call.name == DELEGATE and call.id not in known:
                        known.add(call.id)
                        await _delegated(backend, id, call.id, call.input().get("tasks"))
            case ev.QuestionAsked(id=question, text=text) if question not in known:
                known.add(question)
                line = f"waits for an answer (`hermes approvals`): {text[:LINE_CHARS]}"
                await backend.incidents.change(id, [("note", line, {"question": question})])
            case ev.CallFinished(tool=tool, effect=effect) if effect not in known:
                known.add(effect)
                done = calls_of(seen, checks, effect=effect)
                if tool == DELEGATE:
                    done += await _of_children(backend, session, known, checks)
                await _acted(backend, id, done)


async def _of_children(
    backend: IncidentBackend, session: str, known: set[str], checks: list[str]
) -> list[EvidenceCall]:
    done: list[EvidenceCall] = []
    for child in await backend.journal.sessions(CHILDREN, parent=session):
        done += [
            one
            for one in calls_of(await backend.journal.events(child.id), checks)
            if one.effect not in known
        ]
    known |= {one.effect for one in done}
    return done


async def _delegated(backend: IncidentBackend, id: str, call: str, tasks: object) -> None:
    texts = [
        str(task.get("task", "")).strip().partition("\n")[0][:LINE_CHARS]
        for task in (tasks if isinstance(tasks, list) else [])
        if isinstance(task, dict)
    ]
    if texts:
        text = f"{len(texts)} children investigate in parallel: {'; '.join(texts)}"
        await backend.incidents.change(
            id, [("note", text, {"effect": call, "children": len(texts)})]
        )


async def _acted(backend: IncidentBackend, id: str, done: list[EvidenceCall]) -> None:
    """Add changes to the timeline; the first one makes the incident `mitigating`."""
    lines: list[NewEntry] = [
        (
            "action",
            f"{one.shown[:LINE_CHARS]}{'' if one.ok else ' (failed)'}",
            {
                "effect": one.effect, "session": one.session, "event": one.number, "ok": one.ok,
                "undo": one.undo,
            },
        )
        for one in done
        if one.did == "changed"
    ]  # fmt: skip
    if not lines:
        return
    incident = await backend.incidents.incident(id)
    if incident.state == "investigating":
        await backend.incidents.change(id, lines, (), OPEN, state="mitigating")
    else:
        await backend.incidents.change(id, lines)
