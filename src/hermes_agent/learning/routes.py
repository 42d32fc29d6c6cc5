"""HTTP routes of memory, skills, proposals and recall."""

import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.knowledge import Note, NoteEdit
from hermes_agent.core.ports import Sessions
from hermes_agent.core.records import SessionMessage
from hermes_agent.host.context import RuntimeContext
from hermes_agent.host.responses import body_of, reply
from hermes_agent.learning.knowledge import MAX_USES
from hermes_agent.learning.skills.folder import RUNBOOK, main_file

if TYPE_CHECKING:
    from hermes_agent.learning.memory.memory import Memory
    from hermes_agent.learning.service import Learning
    from hermes_agent.learning.skills.registry import SkillRegistry

SOURCE = "runbook"

Handler = Callable[[Request], Awaitable[Response]]


class NewNotes(Struct, forbid_unknown_fields=True):
    edits: tuple[NoteEdit, ...]
    source: str = "cli"


class Undo(Struct, forbid_unknown_fields=True):
    batch: int = 0


class NewSkill(Struct, forbid_unknown_fields=True):
    name: str
    files: dict[str, str]
    why: str = ""
    base: str = ""
    """Digest of the version it was made from; a newer one is not overwritten."""
    keep: bool = False
    """Files that are not named stay as they are."""


class CheckedSkill(Struct, forbid_unknown_fields=True):
    name: str = ""
    files: dict[str, str] = {}


class Retire(Struct, forbid_unknown_fields=True):
    why: str = ""


class Restore(Struct, forbid_unknown_fields=True):
    version: int = 0


class RunSkill(Struct, forbid_unknown_fields=True):
    workspace: str
    arguments: str = ""
    terminals: tuple[str, ...] = ()
    policy: str = ""
    anyway: bool = False
    """Run it even if it is not proven."""
    interactive: bool = False


class ProposalDecision(Struct, forbid_unknown_fields=True):
    decision: str


class LearningApi:
    def __init__(self, context: RuntimeContext, sessions: Sessions, learning: "Learning") -> None:
        self._context = context
        self._sessions = sessions
        self._learner = learning
        self._store = context.store.knowledge

    def table(self) -> tuple[tuple[str, str, Handler], ...]:
        one = "/v1/skills/{name}"
        return (
            ("GET", "/v1/memory", self.memory),
            ("POST", "/v1/memory", self.edit_memory),
            ("GET", "/v1/memory/log", self.memory_log),
            ("GET", "/v1/memory/diff", self.memory_diff),
            ("POST", "/v1/memory/undo", self.undo_memory),
            ("GET", "/v1/memory/search", self.search_memory),
            ("GET", "/v1/memory/notes/{id}", self.why_note),
            ("GET", "/v1/skills", self.skills),
            ("POST", "/v1/skills", self.write_skill),
            ("POST", "/v1/skills/check", self.check_skill),
            ("GET", "/v1/skill-report", self.report),
            ("GET", one, self.skill),
            ("POST", f"{one}/retire", self.retire),
            ("POST", f"{one}/restore", self.restore),
            ("GET", f"{one}/log", self.skill_log),
            ("GET", f"{one}/diff", self.skill_diff),
            ("POST", f"{one}/run", self.run_skill),
            ("POST", f"{one}/prove", self.prove_skill),
            ("GET", "/v1/proposals", self.proposals),
            ("POST", "/v1/proposals/{id}", self.decide_proposal),
            ("GET", "/v1/recall", self.recall),
        )

    @property
    def _learning(self) -> "Learning":
        self._context.note_activity()
        return self._learner

    @property
    def _memory(self) -> "Memory":
        return self._learning.knowledge.memory

    @property
    def _registry(self) -> "SkillRegistry":
        return self._learning.knowledge.skills

    # memory

    async def memory(self, request: Request) -> Response:
        shown = await self._memory.show()
        provider = self._context.settings.memory.provider
        return reply({"views": shown.views, "notes": shown.notes, "provider": provider})

    async def edit_memory(self, request: Request) -> Response:
        new = body_of(await request.body(), NewNotes)
        return reply(await self._memory.edit(new.edits, "person", new.source))

    async def memory_log(self, request: Request) -> Response:
        limit, note = _number(request, "limit", 50), _number(request, "note", 0)
        return reply(await self._memory.log(limit, note=note))

    async def memory_diff(self, request: Request) -> Response:
        return reply({"diff": await self._memory.diff(_number(request, "batch", 0))})

    async def undo_memory(self, request: Request) -> Response:
        return reply(await self._memory.undo(body_of(await request.body(), Undo).batch, "person"))

    async def search_memory(self, request: Request) -> Response:
        query, limit = request.query_params.get("query", ""), _number(request, "limit", 20)
        return reply(await self._memory.search(query, limit))

    async def why_note(self, request: Request) -> Response:
        try:
            id = int(request.path_params["id"])
        except ValueError:
            raise UsageError("identify a note by its number", "`hermes memory show`") from None
        why = await self._memory.why(id)
        place = await self._place_of(why.note)
        return reply({"note": why.note, "changes": why.changes, "shown": why.shown, "from": place})

    async def _place_of(self, note: Note) -> dict[str, Any] | None:
        """The session and the event that a note comes from."""
        kind, _, rest = note.source.partition(" ")
        if kind != "session":
            return None
        session, _, what = rest.partition(" ")
        try:
            found = await self._context.store.session(session)
        except NotFound:
            return {"session": session, "title": "(deleted)", "number": 0, "text": ""}
        digits = [word for word in what.replace("-", " ").split() if word.isdigit()]
        number = int(digits[0]) if digits else 0
        return {"session": session, "title": found.title, "number": number, "text": what}

    # skills

    async def skills(self, request: Request) -> Response:
        return reply(await self._learning.list_skills())

    async def skill(self, request: Request) -> Response:
        page = await self._registry.facts(request.path_params["name"])
        main = main_file(page.files)
        return reply(
            {
                "record": page.record,
                "text": page.files[main].decode(errors="replace") if main else "",
                "files": sorted(page.files),
                "places": page.text.facts.places,
                "bounds": page.text.bounds,
                "parameters": page.text.parameters,
                "problems": page.problems,
                "versions": page.versions,
                "runbook": RUNBOOK in page.files,
                "cases": len(await self._store.cases(page.record.name)),
                "folder": page.folder,
            }
        )

    async def write_skill(self, request: Request) -> Response:
        new = body_of(await request.body(), NewSkill)
        files = {path: text.encode() for path, text in new.files.items()}
        await self._learning.knowledge.sync()
        if new.keep:
            record = await self._store.skill(new.name)
            files = {**await self._store.files(new.name, record.version), **files}
        kept = await self._registry.write(
            new.name, files, by="person", state="given", why=new.why, base=new.base
        )
        return reply(kept)

    async def check_skill(self, request: Request) -> Response:
        given = body_of(await request.body(), CheckedSkill)
        if not given.files:
            return reply({"problems": (await self._registry.facts(given.name)).problems})
        from hermes_agent.learning.skills.file import problems

        files = {path: text.encode() for path, text in given.files.items()}
        return reply({"problems": problems(files, given.name)})

    async def retire(self, request: Request) -> Response:
        name, why = request.path_params["name"], body_of(await request.body(), Retire).why
        return reply(await self._registry.set_state(name, "retired", why, "person"))

    async def restore(self, request: Request) -> Response:
        name, version = request.path_params["name"], body_of(await request.body(), Restore).version
        return reply(await self._registry.restore(name, version, "person"))

    async def skill_log(self, request: Request) -> Response:
        record = await self._store.skill(request.path_params["name"])
        return reply(await self._store.skill_changes(record.name))

    async def skill_diff(self, request: Request) -> Response:
        first, second = _number(request, "a", 0), _number(request, "b", 0)
        name = request.path_params["name"]
        return reply({"diff": await self._registry.diff(name, first, second)})

    async def report(self, request: Request) -> Response:
        from hermes_agent.learning.evaluation.uplift import lift

        skills, uses = await self._store.skills(), await self._store.uses(limit=MAX_USES)
        return reply(lift(skills, uses, await self._store.trials()))

    async def run_skill(self, request: Request) -> Response:
        """Run a skill's runbook, without a model as long as its expectations hold."""
        from hermes_agent.models.runbook import OPENING

        name, given = request.path_params["name"], body_of(await request.body(), RunSkill)
        found = await self._registry.open(name, given.arguments, run=True)
        if (await self._store.skill(name)).state == "candidate" and not given.anyway:
            raise UsageError(
                f"the skill {name!r} is a candidate and not proven yet",
                f"`hermes skills prove {name}` tests it; --anyway runs it regardless",
            )
        session = await self._sessions.open_session(
            workspace=given.workspace, policy=given.policy, terminals=given.terminals,
            source=SOURCE, needs_model=False,
        )  # fmt: skip
        after = await self._context.store.last_number(session.id)
        key = secrets.token_hex(8)
        opened = replace(found.opened, text=found.text)
        message = SessionMessage(key, OPENING, SOURCE, given.interactive, skills=(opened,))
        await self._sessions.submit(session, message)
        return reply({"session": session.id, "key": key, "after": after}, 202)

    async def prove_skill(self, request: Request) -> Response:
        key = await self._learning.tasks.request_evaluation(request.path_params["name"])
        return reply({"task": key, **await self._learning.knowledge.budget.proof_tokens()}, 202)

    # proposals

    async def proposals(self, request: Request) -> Response:
        state = request.query_params.get("state", "open")
        return reply(await self._store.proposals(state=state))

    async def decide_proposal(self, request: Request) -> Response:
        decision = body_of(await request.body(), ProposalDecision).decision
        if decision not in ("accept", "reject"):
            raise UsageError(f"not a valid decision: {decision!r}", "use accept or reject")
        id = int(request.path_params["id"])
        return reply(await self._learning.tasks.decide(id, accept=decision == "accept"))

    # recall

    async def recall(self, request: Request) -> Response:
        from hermes_agent.learning.tools import SEARCHED

        kind = request.query_params.get("kind", "")
        if kind and kind not in SEARCHED:
            raise UsageError(
                f"not a valid kind of memory: {kind!r}", f"one of {', '.join(SEARCHED)}"
            )
        kinds = (kind,) if kind else SEARCHED
        query, limit = request.query_params.get("query", ""), _number(request, "limit", 20)
        return reply(await self._learning.knowledge.recall.search(query, kinds, limit))


def _number(request: Request, name: str, otherwise: int) -> int:
    written = request.query_params.get(name, "")
    try:
        return int(written) if written else otherwise
    except ValueError:
        raise UsageError(f"{name} must be a number, not {written!r}") from None
