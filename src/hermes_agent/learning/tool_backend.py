"""Memory, skills and recall for the tools of a session."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hermes_agent.core.errors import HermesError, NotFound, ToolError, UsageError
from hermes_agent.core.gateway import SessionPlace
from hermes_agent.core.knowledge import NoteEdit, View
from hermes_agent.core.skills import OpenedSkill
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.core.tools import Provenance
from hermes_agent.learning.knowledge import Knowledge

if TYPE_CHECKING:
    from hermes_agent.learning.evaluation.runner import SkillUnderTest

ProposeNote = Callable[[NoteEdit, Provenance], Awaitable[str]]
SaveSkill = Callable[[str, Mapping[str, bytes], str, Provenance], Awaitable[str]]

LOG = 1_000
"""Changes of the notes' log that are searched for what an effect has written."""


class KnowledgeToolBackend:
    """`place`: where the session talks; `trial`: the only skill of a session that is a trial."""

    def __init__(
        self,
        knowledge: Knowledge,
        save_skill: SaveSkill,
        propose_note: ProposeNote,
        place: Callable[[], Awaitable[SessionPlace]],
        trial: "SkillUnderTest | None" = None,
    ) -> None:
        self._place = place
        self._knowledge = knowledge
        self._save_skill = save_skill
        self._propose_note = propose_note
        self._trial = trial

    # memory

    async def note(self, edits: Sequence[NoteEdit], by: Provenance) -> str:
        with _as_tool_errors():
            if proposed := [
                words for edit in edits if (words := await self._propose_note(edit, by))
            ]:
                return "; ".join(proposed)
            notes = await self._knowledge.memory.edit(edits, "agent", _source(by), model=by.model)
            shown = await self._knowledge.memory.show()
        full = ", ".join(
            f"{name} {view.chars:,} of {view.limit:,} characters"
            for name, view in shown.views.items()
        )
        done = "; ".join(f"{'removed' if one.removed else 'noted'} {one.id}" for one in notes)
        return f"{done} (later sessions see it; {full})"

    async def which(self, view: View, part: str) -> int:
        with _as_tool_errors():
            return (await self._knowledge.memory.find(part, view)).id

    async def noted(self, by: Provenance) -> bool:
        changes = await self._knowledge.memory.log(LOG)
        return any(change.source == _source(by) for change in changes)

    # skills

    async def open_skill(
        self,
        name: str,
        arguments: str,
        digest: str = "",
        facts: Mapping[str, str] | None = None,
    ) -> OpenedSkill:
        skills = self._knowledge.skills
        with _as_tool_errors():
            if self._trial is None:
                return await skills.open(
                    name, arguments, digest=digest, facts=facts, place=await self._place()
                )
            if name != self._trial.name:
                raise NotFound(f"no skill called {name!r}", f"there is: {self._trial.name}")
            return skills.open_files(name, self._trial.digest, self._trial.files, arguments)

    async def read_skill(self, name: str, path: str) -> str:
        if self._trial is not None:
            data = self._trial.files.get(path) if name == self._trial.name else None
            if data is None:
                raise ToolError(f"the skill {name} has no file {path!r}")
        else:
            with _as_tool_errors():
                data = await self._knowledge.skills.read(name, path, await self._place())
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ToolError(f"{path} is not text", "run it or copy it instead") from None

    async def write_skill(
        self, name: str, files: Mapping[str, str], why: str, by: Provenance
    ) -> str:
        with _as_tool_errors():
            kept = await self._save_skill(
                name, {path: text.encode() for path, text in files.items()}, why, by
            )
        return f"the skill {name} is saved as a {kept}; it is tested before it counts as proven"

    # recall

    async def recall(self, query: str, kinds: Sequence[str], limit: int, by: Provenance) -> str:
        number = by.effect.removeprefix(f"{by.session}-").partition("-")[0]
        asking = ("message", f"{by.session}:{number}")
        with _as_tool_errors():
            found = await self._knowledge.recall.search(query, kinds, limit + 1)
            elsewhere = self._knowledge.skills.elsewhere(await self._place())
        hidden = {asking, *(("skill", name) for name in elsewhere)}
        hits = [hit for hit in found if (hit.kind, hit.ref) not in hidden][:limit]
        if not hits:
            return "nothing was found"
        lines = [
            f"{hit.kind} {hit.ref} ({_day(hit.time)}) {hit.title}: {hit.snippet}" for hit in hits
        ]
        return wrap_untrusted("recalled", "memory", "\n".join(lines))


@contextmanager
def _as_tool_errors() -> Iterator[None]:
    """Tell the model what is wrong instead of ending the turn."""
    try:
        yield
    except HermesError as error:
        mendable = isinstance(error, UsageError | NotFound)
        raise ToolError(error.message, error.hint, "changed" if mendable else "") from None


def _source(by: Provenance) -> str:
    return f"session {by.session} {by.effect}"


def _day(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).date().isoformat() if time else "-"
