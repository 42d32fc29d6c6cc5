"""Learning's background tasks: reviews, summaries and proofs. They are stored, run one after the
other, and resumed by the next runtime when this one dies."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from hermes_agent.agent.budgets.reservations import today
from hermes_agent.agent.completions import Completions
from hermes_agent.agent.conversation import ConversationState
from hermes_agent.core import events as ev
from hermes_agent.core.errors import (
    Degraded,
    HermesError,
    ModelError,
    NotFound,
    OverBudget,
    UsageError,
)
from hermes_agent.core.knowledge import TRIALS, BackgroundTask, NoteEdit, Proposal, TaskKind
from hermes_agent.core.messages import Prompt, Request, UserMessage
from hermes_agent.core.ports import Sessions
from hermes_agent.core.records import ModelRole, Session
from hermes_agent.core.skills import OFFERED
from hermes_agent.core.tools import Provenance
from hermes_agent.host.context import RuntimeContext
from hermes_agent.learning.knowledge import Knowledge

if TYPE_CHECKING:
    from hermes_agent.core.knowledge import EvaluationCase
    from hermes_agent.learning.evaluation.evaluator import SkillEvaluator
    from hermes_agent.learning.evaluation.runner import TrialRunner
    from hermes_agent.learning.evaluation.statistics import EvaluationVerdict
    from hermes_agent.learning.review.reviewer import Reviewer
    from hermes_agent.learning.review.transcript import ReviewTranscript
    from hermes_agent.learning.skills.lifecycle import SkillLifecycle
    from hermes_agent.learning.structured_output import StructuredAnswer

log = logging.getLogger("hermes.learning")

POLL_SECONDS = 60.0
DAY = 86_400.0
MAX_TRIES = 3
RETRY_SECONDS = 600.0
KEPT_SECONDS = 30 * DAY
"""How long finished tasks stay in the store."""
EMBEDDED = 32
"""Documents embedded at once."""
TITLE_CHARS = 80
SUMMARY_STEPS = 3
"""A session with fewer replies needs no summary."""

CASE_TRIES = 2
"""How often cases are written in one proof: those that turn out to be unusable are replaced."""


class NotYet(Exception):
    """It is too early for a task."""


class BackgroundTasks:
    def __init__(
        self,
        context: RuntimeContext,
        sessions: Sessions,
        completions: Completions,
        knowledge: Knowledge,
        runner: "Callable[[], TrialRunner]",
        catch_up: Callable[[str, int], Awaitable[str]],
        notify_provider: Callable[[str, int], Awaitable[str]],
        may_learn: Callable[[Session], Awaitable[bool]],
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._completions = completions
        self._knowledge = knowledge
        self._runner = runner
        self._store = context.store.knowledge
        self._catch_up = catch_up
        self._notify_provider = notify_provider
        self._may_learn = may_learn
        self._woken = asyncio.Event()
        self.busy = False

    @property
    def _has_model(self) -> bool:
        """Whether a model can review; a scripted one only where the settings name it for that."""
        uses = self._context.settings.models.uses
        if uses.review or uses.cheap:
            return True
        try:
            name = self._completions.models.resolve(self._context.settings.model)
        except HermesError:
            return False
        return not name.startswith(("scripted/", "builtin/"))

    # creating tasks

    async def _want(self, key: str, kind: TaskKind, body: Mapping[str, Any], due: float) -> None:
        await self._store.add_task(BackgroundTask(key, kind, dict(body), due))
        self._woken.set()

    async def after(
        self, session: Session, talk: ConversationState, events: Sequence[ev.Recorded]
    ) -> None:
        """Create the tasks that a finished turn calls for."""
        settings, now, turn = self._knowledge.settings, self._context.clock(), talk.turns
        since = {"session": session.id, "after": talk.turn_began - 1}
        if self._context.settings.memory.provider and await self._may_learn(session):
            await self._want(f"remember {session.id} {turn}", "remember", since, now)
        done = await self._store.count("turns", 1)
        if done % settings.every == 0:
            await self._settle_all()
        if not self._has_model:
            return
        upto = events[-1].number
        if settings.notes != "off" or settings.skills != "off":
            from hermes_agent.learning.review.triggers import worth

            triggers = worth(events, settings)
            if triggers and await self._may_learn(session):
                body = {**since, "upto": upto, "triggers": msgspec.to_builtins(triggers)}
                await self._want(f"review {session.id} {turn}", "review", body, now)
            if done % settings.every == 0:
                body = {"over": done, "last": settings.every}
                await self._want(f"review over all {done}", "review", body, now)
        if talk.session_usage.steps >= SUMMARY_STEPS:
            nudge = turn % settings.summary_turns == 0
            due = now if nudge else now + settings.summary_idle_seconds
            body = {"session": session.id, "turn": turn, "upto": upto, "nudge": nudge}
            await self._want(f"summary {session.id} {turn}", "summary", body, due)

    async def request_evaluation(self, name: str) -> str:
        """Prove the skill as it is now, because somebody asked for it; the task's key."""
        await self._knowledge.sync()
        record = await self._store.skill(name)
        now = self._context.clock()
        key = f"proof {name} {record.digest} {now:.0f}"
        await self._want(key, "proof", {"skill": name, "digest": record.digest}, now)
        return key

    async def save_skill(
        self, name: str, files: Mapping[str, bytes], why: str, by: Provenance
    ) -> str:
        """Store a skill that the agent wrote in the turn it is in, or propose it."""
        from hermes_agent.learning.review.provenance import sources

        turn = await self._context.store.unfinished_turn(by.session)
        number = turn.id if turn is not None else 0
        evidence = f"session {by.session}"
        records = {record.name: record for record in await self._store.skills()}
        mode, known = self._knowledge.settings.skills, records.get(name)
        if mode == "off":
            raise UsageError("skills are not learned here (learning.skills: off)")
        main = next((data for path, data in files.items() if path.lower() == "skill.md"), b"")
        wider = known is not None and await self.reviewer.widens(name, main.decode())
        asks = mode == "ask" or wider or (known is not None and known.by == "person")
        if asks or sources(await self._context.store.events(by.session)).remote:
            body = {
                "action": "improve" if known else "create", "name": name, "why": why,
                "base": known.digest if known else "",
                "files": {path: data.decode() for path, data in files.items()},
                "session": by.session, "turn": number,
            }  # fmt: skip
            return await self._propose("skill", f"skill {name}", body, evidence, by)
        kept = await self.reviewer.save_skill(
            name, files, by="agent", model=by.model, why=f"{why} ({evidence})",
            session=by.session, turn=number,
        )  # fmt: skip
        self._woken.set()
        return kept

    async def propose_note(self, edit: NoteEdit, by: Provenance) -> str:
        """Propose an edit that may be somebody else's; empty if it may be made at once."""
        from hermes_agent.learning.review.provenance import sources

        store = self._context.store
        found = sources(await store.events(by.session))
        prompt = await store.prompt((await store.session(by.session)).prompt)
        if "<context-file " in prompt.system:
            found = replace(found, others=True)
        notes = {note.id: note for note in await self._store.notes()}
        before = notes[edit.id].text if edit.id in notes else ""
        text = before if edit.text is None else edit.text
        if not found.doubts(text):
            return ""
        self._knowledge.memory.refuse_danger(text)
        title = f"remove: {text}" if edit.text is None else " ".join(text.split())
        body = {"view": edit.view, "text": edit.text, "confidence": edit.confidence, "id": edit.id}
        return await self._propose("note", title[:TITLE_CHARS], body, f"session {by.session}", by)

    async def _propose(
        self, kind: str, title: str, body: Mapping[str, Any], evidence: str, by: Provenance
    ) -> str:
        # After a crash the call is repeated; what it proposed before is not proposed twice.
        same = [one for one in await self._store.proposals() if one.body == body]
        made = same[0] if same else await self._store.propose(kind, title, body, evidence, by.model)
        return f"proposal {made.id}: needs approval (`hermes proposals`)"

    async def decide(self, id: int, *, accept: bool) -> Proposal:
        """Apply a proposal, or reject it."""
        found = [one for one in await self._store.proposals(state="open") if one.id == id]
        if not found:
            raise NotFound(f"no open proposal {id}", "`hermes proposals list` shows them")
        if not accept:
            return await self._store.decide_proposal(id, "rejected", "person")
        await self.reviewer.accept(found[0], "person")
        self._woken.set()
        return replace(found[0], state="accepted", by="person")

    async def _settle_all(self) -> None:
        """Retire candidates that nobody needs."""
        try:
            for words in await self.lifecycle.settle_all():
                log.warning("skills: %s", words)
        except HermesError as error:
            log.warning("could not update the states of skills: %s", error.message)

    async def settle(self, name: str) -> None:
        """Update a skill's state after a use."""
        try:
            done = await self.lifecycle.settle(name)
        except HermesError as error:
            log.warning("could not update the state of %s: %s", name, error.message)
            return
        if done:
            log.warning("skill %s: %s", name, done)

    # running tasks

    async def run(self) -> None:
        """Run what is due, for as long as the runtime lives."""
        begun = False
        while True:
            self._woken.clear()
            try:
                if not begun:
                    await self._begin()
                    begun = True
                await self._do_due()
            except Exception:
                log.exception("learning failed; it continues")
            finally:
                self.busy = False
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._woken.wait()

    async def _begin(self) -> None:
        if self._context.store.health.state == "well":
            await self._store.forget_tasks(self._context.clock() - KEPT_SECONDS)
        if (self._context.home.path / "proofs").is_dir():
            await self._runner().clear()

    async def _do_due(self) -> None:
        if self._context.store.health.state != "well":
            return
        while due := await self._store.due_tasks(self._context.clock()):  # one may create the next
            self.busy = True
            for task in due:
                await self._do(task)
        if self._knowledge.settings.semantic:
            await self._embed()

    async def _embed(self) -> None:
        from hermes_agent.learning.recall.embeddings import NoSemantics

        try:
            while await self._knowledge.recall.embed_some(EMBEDDED):
                pass
        except NoSemantics as error:
            self._knowledge.report("meaning", f"semantic recall is off: {error.message}")

    async def _do(self, task: BackgroundTask) -> None:
        from hermes_agent.learning.structured_output import NoBudget

        now = self._context.clock()
        try:
            result = await self._work(task)
        except NoBudget as error:
            log.warning("%s continues tomorrow: %s", task.key, error.message)
            await self._store.postpone(task.key, today(now) + DAY, error.message, tried=False)
        except NotYet as later:
            await self._store.postpone(task.key, now + POLL_SECONDS, str(later), tried=False)
        except Degraded:
            raise  # it stays due: the trouble is the store's
        except ModelError as error:
            await self._failed(task, now, error.message)
        except HermesError as error:
            await self._give_up(task, error.message)
        except Exception as error:
            # One that breaks must not block those behind it.
            log.exception("%s crashed", task.key)
            await self._failed(task, now, f"it crashed: {type(error).__name__}")
        else:
            log.info("%s: %s", task.key, result)
            await self._store.close_task(task.key, "done", result)

    async def _failed(self, task: BackgroundTask, now: float, why: str) -> None:
        if task.tries + 1 >= MAX_TRIES:
            await self._give_up(task, why)
        else:
            await self._store.postpone(task.key, now + RETRY_SECONDS * 2**task.tries, why)

    async def _give_up(self, task: BackgroundTask, why: str) -> None:
        log.warning("%s is given up: %s", task.key, why)
        await self._store.close_task(task.key, "given-up", why)

    async def _work(self, task: BackgroundTask) -> str:
        body = task.body
        match task.kind:
            case "turn":
                return await self._catch_up(body["session"], body["turn"])
            case "review":
                return await self._review(body)
            case "summary":
                return await self._summarise(body)
            case "proof":
                return await self._prove(body)
            case "remember":
                return await self._notify_provider(body["session"], body["after"])

    # handlers

    @cached_property
    def reviewer(self) -> "Reviewer":
        from hermes_agent.learning.review.reviewer import Reviewer

        return Reviewer(
            ask=self._ask,
            knowledge=self._store,
            memory=self._knowledge.memory,
            skills=self._knowledge.skills,
            settings=lambda: self._knowledge.settings,
            clock=self._context.clock,
        )

    @cached_property
    def evaluator(self) -> "SkillEvaluator":
        from hermes_agent.learning.evaluation.evaluator import SkillEvaluator

        return SkillEvaluator(
            ask=self._ask,
            knowledge=self._store,
            runner=self._runner(),
            settings=lambda: self._knowledge.settings,
        )

    @cached_property
    def lifecycle(self) -> "SkillLifecycle":
        from hermes_agent.learning.skills.lifecycle import SkillLifecycle

        return SkillLifecycle(
            knowledge=self._store,
            skills=self._knowledge.skills,
            clock=self._context.clock,
        )

    async def _ask(self, use: ModelRole, system: str, prompt: str, most: int) -> "StructuredAnswer":
        """Ask a model, within learning's own budget."""
        from hermes_agent.learning.structured_output import NoBudget, StructuredAnswer

        context, ledger = self._context, self._knowledge.budget
        request = Request(Prompt(system), (UserMessage(context.redact(prompt)),), max_output=most)
        try:
            reply = await self._completions.answer(
                use, context.settings.model, request, ledger.accounts(), ledger.add
            )
        except OverBudget as error:
            raise NoBudget(error.message, error.hint) from None
        return StructuredAnswer(reply.text, reply.model, reply.usage, reply.cost)

    async def _review(self, body: Mapping[str, Any]) -> str:
        from hermes_agent.learning.review.triggers import Trigger

        triggers: Sequence[Trigger] = ()
        if "over" in body:
            transcripts = await self._last_turns(body["last"])
        else:
            triggers = msgspec.convert(body["triggers"], list[Trigger])
            transcripts = [await self._transcript(body["session"], body["after"], body["upto"])]
        proposed = await self.reviewer.review(transcripts, triggers, over_all="over" in body)
        done = [one for one in await self.reviewer.apply(proposed) if one.state != "off"]
        return "; ".join(f"{one.state} {one.words}" for one in done) or "nothing to learn"

    async def _last_turns(self, many: int) -> list["ReviewTranscript"]:
        """The last turns of all sessions together."""
        from hermes_agent.learning.review.transcript import ReviewTranscript

        store = self._context.store
        found: list[tuple[float, ReviewTranscript]] = []
        for session in await store.sessions(many, parent=""):
            if session.source == TRIALS or not await self._may_learn(session):
                continue
            turns: dict[int, list[ev.Recorded]] = {}
            turn = 0
            for one in await store.events(session.id):
                turn = one.event.turn if isinstance(one.event, ev.TurnStarted) else turn
                turns.setdefault(turn, []).append(one)
            found += [
                (events[0].time, ReviewTranscript(session.id, turn, events, session.title))
                for turn, events in turns.items()
                if turn
            ]
        found.sort(key=lambda one: one[0])
        return [transcript for _, transcript in found[-many:]]

    async def _transcript(self, session: str, after: int, upto: int) -> "ReviewTranscript":
        from hermes_agent.learning.review.transcript import ReviewTranscript

        events = [
            one for one in await self._context.store.events(session, after) if one.number <= upto
        ]
        turns = [one.event.turn for one in events if isinstance(one.event, ev.TurnStarted)]
        return ReviewTranscript(session, turns[-1] if turns else 0, events)

    async def _prove(self, body: Mapping[str, Any]) -> str:
        """Find cases, play them, and apply the verdict."""
        from hermes_agent.learning.structured_output import NoBudget

        name, digest = body["skill"], body["digest"]
        if (await self._store.skill(name)).state not in OFFERED:
            return "it is no longer in use"
        if body.get("session") in self._sessions.working:
            raise NotYet("the turn it comes from has not ended")
        verdict: EvaluationVerdict | None = None
        unusable: list[EvaluationCase] = []
        for _ in range(CASE_TRIES):
            if await self.evaluator.needs_cases(name):
                transcript = await self._origin(body)
                if transcript is None:
                    break
                await self.evaluator.add_cases(name, transcript, unusable)
            before = await self._store.cases(name)
            verdict = await self.evaluator.prove(name, digest)
            if verdict.later:
                raise NoBudget(verdict.why)
            there = {case.id for case in await self._store.cases(name)}
            unusable = [case for case in before if case.id not in there]
            if verdict.harmful or not unusable:
                break
        if verdict is None:
            return await self._not_proven(name, "no cases: the turn it comes from is gone")
        done = await self.lifecycle.decide(verdict)
        return done or await self._not_proven(name, verdict.why)

    async def _not_proven(self, name: str, why: str) -> str:
        await self._store.log_skill(name, "not proven", why, "learning")
        return why

    async def _origin(self, body: Mapping[str, Any]) -> "ReviewTranscript | None":
        """The turn that a skill comes from, or the last one in which it helped."""
        name = body["skill"]
        for task in (body, *await self._store.proofs_of(name)):
            if task.get("turn") and (found := await self._turn(task["session"], task["turn"])):
                return found
        used = await self.evaluator.turn_for(name)
        return await self._turn(*used) if used else None

    async def _turn(self, session: str, turn: int) -> "ReviewTranscript | None":
        """One turn of a session by its id; None if it is gone."""
        try:
            events = await self._context.store.events(session) if session else ()
        except NotFound:
            return None
        first, last = None, events[-1].number if events else 0
        for one in events:
            if isinstance(one.event, ev.TurnStarted) and one.event.turn == turn:
                first = one.number
            elif isinstance(one.event, ev.TurnFinished) and one.event.turn == turn:
                last = one.number
        return None if first is None else await self._transcript(session, first - 1, last)

    async def _summarise(self, body: Mapping[str, Any]) -> str:
        """Summarise an idle session as a whole, one that goes on up to where it was asked for."""
        from hermes_agent.learning.review import summary as summaries

        id = body["session"]
        try:
            session = await self._context.store.session(id)
        except NotFound:
            return "the session is gone"
        resting = session.state in ("idle", "paused")
        if not body["nudge"] and (session.turns != body["turn"] or not resting):
            return "the session continued"
        events = await self._context.store.events(id)
        before = [one.event for one in events if isinstance(one.event, ev.Summarised)]
        upto = before[-1].upto if before else 0
        since = [one for one in events if upto < one.number <= body["upto"]]
        summary = await summaries.summarise(self._ask, since, before[-1].summary if before else "")
        if summary is None:
            return "nothing was said"
        await self._sessions.add(session, ev.Summarised(summary.text, summary.upto, summary.model))
        await self._knowledge.index(id)
        return "summarised"
