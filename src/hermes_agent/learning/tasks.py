"""Work that learning has to do: reviews, summaries and proofs. It is kept in the store, done one
after the other in the background, and taken up by the next runtime when this one dies."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from hermes_agent.agent.budgets.limits import today
from hermes_agent.agent.conversation import ConversationState
from hermes_agent.core import events as ev
from hermes_agent.core.errors import (
    Degraded,
    HermesError,
    ModelError,
    NotFound,
    UsageError,
)
from hermes_agent.core.knowledge import BackgroundTask, Proposal
from hermes_agent.core.records import Session
from hermes_agent.core.tools import Provenance
from hermes_agent.host.context import RuntimeContext
from hermes_agent.learning.knowledge import Knowledge
from hermes_agent.learning.task_handlers import NotYet, TaskHandlers
from hermes_agent.models.registry import ModelRegistry

if TYPE_CHECKING:
    from hermes_agent.learning.evaluation.runner import TrialRunner

log = logging.getLogger("hermes.learning")

POLL_SECONDS = 60.0
"""How often it is looked for work that has become due."""
DAY = 86_400.0
TRIES = 3
"""How often work is tried that fails for a reason that may pass."""
RETRY_SECONDS = 600.0
KEPT_SECONDS = 30 * DAY
"""How long it is remembered what was done."""
EMBEDDED = 32
"""Documents whose meaning is worked out at once."""
SUMMARY_STEPS = 3
"""A session with fewer replies says itself what it was about."""


class BackgroundTasks:
    def __init__(
        self,
        context: RuntimeContext,
        models: ModelRegistry,
        knowledge: Knowledge,
        handlers: TaskHandlers,
        trials: "Callable[[], TrialRunner]",
        catch_up: Callable[[str, int], Awaitable[str]],
        notify_provider: Callable[[str, int], Awaitable[str]],
    ) -> None:
        self._context = context
        self._models = models
        self._knowledge = knowledge
        self.lessons = handlers
        self._trials = trials
        self._catch_up = catch_up
        self._notify_provider = notify_provider
        self._woken = asyncio.Event()
        self.busy = False
        """Whether work is under way."""

    @property
    def _has_model(self) -> bool:
        """Whether a model is there to look back with. A script cannot, unless it was named for
        it."""
        uses = self._context.settings.models.uses
        if uses.review or uses.cheap:
            return True
        try:
            name = self._models.resolve(self._context.settings.model)
        except HermesError:
            return False
        return not name.startswith(("scripted/", "builtin/"))

    # wanting

    async def after(
        self, session: Session, talk: ConversationState, events: Sequence[ev.Recorded]
    ) -> None:
        """A turn has ended: what is to be done because of it."""
        settings, knowledge = self._knowledge.settings, self._context.store.knowledge
        now, turn = self._context.clock(), talk.turns
        if self._context.settings.memory.provider:
            body: dict[str, Any] = {"session": session.id, "after": talk.turn_began - 1}
            await knowledge.want(
                BackgroundTask(f"remember {session.id} {turn}", "remember", body, now)
            )
            self._woken.set()
        done = await knowledge.count("turns", 1)
        if done % settings.every == 0:
            await self._settle_all()
        if not self._has_model:
            return
        if settings.notes != "off" or settings.skills != "off":
            await self._want_reviews(session, talk, events, now)
            if done % settings.every == 0:
                body = {"over": done, "last": settings.every}
                await knowledge.want(BackgroundTask(f"review over all {done}", "review", body, now))
        if talk.session_usage.steps >= SUMMARY_STEPS:
            nudge = turn % settings.summary_turns == 0
            body = {
                "session": session.id, "turn": turn, "upto": events[-1].number, "nudge": nudge,
            }  # fmt: skip
            due = now if nudge else now + settings.summary_idle_seconds
            await knowledge.want(
                BackgroundTask(f"summary {session.id} {turn}", "summary", body, due)
            )
        self._woken.set()

    async def _want_reviews(
        self, session: Session, talk: ConversationState, events: Sequence[ev.Recorded], now: float
    ) -> None:
        from hermes_agent.learning.review.triggers import worth

        knowledge, settings = self._context.store.knowledge, self._knowledge.settings
        triggers = worth(events, settings)
        if triggers:
            body: dict[str, Any] = {
                "session": session.id,
                "after": talk.turn_began - 1,
                "upto": events[-1].number,
                "triggers": msgspec.to_builtins(triggers),
            }
            key = f"review {session.id} {talk.turns}"
            await knowledge.want(BackgroundTask(key, "review", body, now))

    async def request_evaluation(self, name: str) -> str:
        """A proof of the skill as it is now, because somebody asks for it."""
        await self._knowledge.sync()
        record = await self._context.store.knowledge.skill(name)
        now = self._context.clock()
        key = f"proof {name} {record.digest} {now:.0f}"
        body = {"skill": name, "digest": record.digest}
        await self._context.store.knowledge.want(BackgroundTask(key, "proof", body, now))
        self._woken.set()
        return key

    async def save_skill(
        self, name: str, files: Mapping[str, bytes], why: str, by: Provenance
    ) -> str:
        """A skill that the agent has written, of the turn that it is in."""
        turn = await self._context.store.unfinished_turn(by.session)
        number = turn.id if turn is not None else 0
        knowledge, evidence = self._context.store.knowledge, f"session {by.session}"
        records = {record.name: record for record in await knowledge.skills()}
        mode, known = self._knowledge.settings.skills, records.get(name)
        if mode == "off":
            raise UsageError("no skills are to be learned here (learning.skills: off)")
        main = next((data for path, data in files.items() if path.lower() == "skill.md"), b"")
        wider = known is not None and await self.lessons.reviewer.widens(name, main.decode())
        if mode == "ask" or wider or (known is not None and known.by == "person"):
            body = {
                "action": "improve" if known else "create", "name": name, "why": why,
                "base": known.digest if known else "",
                "files": {path: data.decode() for path, data in files.items()},
                "session": by.session, "turn": number,
            }  # fmt: skip
            # After a death the call is made again; what it proposed by then is not proposed twice.
            same = [one for one in await knowledge.proposals() if one.body == body]
            made = (
                same[0]
                if same
                else await knowledge.propose("skill", f"skill {name}", body, evidence, by.model)
            )
            return f"proposal {made.id}: a person must agree (`hermes proposals`)"
        kept = await self.lessons.reviewer.save_skill(
            name, files, by="agent", model=by.model, why=f"{why} ({evidence})",
            session=by.session, turn=number,
        )  # fmt: skip
        self._woken.set()
        return kept

    async def decide(self, id: int, *, accept: bool) -> Proposal:
        """Do what a proposal says, or drop it."""
        knowledge = self._context.store.knowledge
        found = [one for one in await knowledge.proposals(state="open") if one.id == id]
        if not found:
            raise NotFound(f"no open proposal {id}", "`hermes proposals list` shows them")
        if not accept:
            return await knowledge.decide_proposal(id, "rejected", "person")
        await self.lessons.reviewer.accept(found[0], "person")
        self._woken.set()
        return replace(found[0], state="accepted", by="person")

    async def _settle_all(self) -> None:
        """Candidates that nobody needs are put away."""
        try:
            for words in await self.lessons.standing.settle_all():
                log.warning("skills: %s", words)
        except HermesError as error:
            log.warning("the standing of skills is not settled: %s", error.message)

    async def settle(self, name: str) -> None:
        """See what becomes of a skill after a use."""
        try:
            done = await self.lessons.standing.settle(name)
        except HermesError as error:
            log.warning("the standing of %s is not settled: %s", name, error.message)
            return
        if done:
            log.warning("skill %s: %s", name, done)

    # doing

    async def run(self) -> None:
        """Do what is due, for as long as the runtime lives."""
        begun = False
        while True:
            self._woken.clear()
            try:
                if not begun:
                    await self._begin()
                    begun = True
                await self._do_due()
            except Exception:
                log.exception("learning broke; it goes on")
            finally:
                self.busy = False
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._woken.wait()

    async def _begin(self) -> None:
        if self._context.store.health.state == "well":
            await self._context.store.knowledge.forget_chores(self._context.clock() - KEPT_SECONDS)
        if (self._context.home.path / "proofs").is_dir():
            await self._trials().clear()

    async def _do_due(self) -> None:
        if self._context.store.health.state != "well":
            return
        knowledge = self._context.store.knowledge
        while due := await knowledge.chores(self._context.clock()):  # one may bring the next
            self.busy = True
            for chore in due:
                await self._do(chore)
        if self._knowledge.settings.semantic:
            await self._embed()

    async def _embed(self) -> None:
        from hermes_agent.learning.recall.embeddings import NoSemantics

        try:
            while await self._knowledge.recalling.embed_some(EMBEDDED):
                pass
        except NoSemantics as error:
            self._knowledge.say("meaning", f"only words count: {error.message}")

    async def _do(self, chore: BackgroundTask) -> None:
        from hermes_agent.learning.structured_output import NoBudget

        knowledge, now = self._context.store.knowledge, self._context.clock()
        try:
            result = await self._work(chore)
        except NoBudget as error:
            log.warning("learning rests until tomorrow: %s", error.message)
            await knowledge.postpone(chore.key, today(now) + DAY, error.message, tried=False)
        except NotYet as later:
            await knowledge.postpone(chore.key, now + POLL_SECONDS, str(later), tried=False)
        except Degraded:
            raise  # it stays due: the trouble is the store's
        except ModelError as error:
            await self._failed(chore, now, error.message)
        except HermesError as error:
            log.warning("%s is given up: %s", chore.key, error.message)
            await knowledge.close_chore(chore.key, "given-up", error.message)
        except Exception as error:
            # One that breaks must not keep those behind it from being done, now and for ever.
            log.exception("%s broke", chore.key)
            await self._failed(chore, now, f"it broke: {type(error).__name__}")
        else:
            log.info("%s: %s", chore.key, result)
            await knowledge.close_chore(chore.key, "done", result)

    async def _failed(self, chore: BackgroundTask, now: float, why: str) -> None:
        knowledge = self._context.store.knowledge
        if chore.tries + 1 >= TRIES:
            log.warning("%s is given up: %s", chore.key, why)
            await knowledge.close_chore(chore.key, "given-up", why)
        else:
            await knowledge.postpone(chore.key, now + RETRY_SECONDS * 2**chore.tries, why)

    async def _work(self, chore: BackgroundTask) -> str:
        body = chore.body
        match chore.kind:
            case "turn":
                return await self._catch_up(body["session"], body["turn"])
            case "review":
                return await self.lessons.review(body)
            case "summary":
                return await self.lessons.summarise(body)
            case "proof":
                return await self.lessons.prove(body)
            case "remember":
                return await self._notify_provider(body["session"], body["after"])
