"""Schedules turns: starts them, resumes them after a crash, interrupts them, and passes on answers
and decisions."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any
from weakref import WeakValueDictionary

from hermes_agent.agent.conversation import ConversationState
from hermes_agent.agent.dependencies import TurnDependencies
from hermes_agent.agent.human_input import Adopt, parse_decision
from hermes_agent.agent.tools.executor import DIED, waiting_notice
from hermes_agent.agent.turn import TurnWorker, user_error
from hermes_agent.core import events as ev
from hermes_agent.core.errors import Degraded, Fenced, HermesError, NotFound
from hermes_agent.core.protocols import Clock
from hermes_agent.core.records import Session, Turn
from hermes_agent.host.bus import Bus
from hermes_agent.store.health import DamagedPage
from hermes_agent.store.store import Store

log = logging.getLogger("hermes.scheduler")

RETRY_SECONDS = 1.0


class TurnScheduler:
    """Runs the turns of one store. `dependencies` builds what a turn needs; `is_ours` says whether
    a session can run here, because a program's session needs the program's tools; `ended` runs in
    its own task after each turn."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        clock: Clock,
        dependencies: Callable[[Session], Awaitable[TurnDependencies]],
        is_ours: Callable[[Session], bool],
        ended: Callable[[Session, ConversationState], Coroutine[Any, Any, None]],
    ) -> None:
        self._store = store
        self._bus = bus
        self._clock = clock
        self._dependencies = dependencies
        self._is_ours = is_ours
        self._ended = ended
        self._follow_ups: set[asyncio.Task[None]] = set()
        self._workers: dict[str, TurnWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._claim_lock = asyncio.Lock()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._waiting: dict[str, Turn] = {}
        """Turns that cannot run yet, by session."""
        self._crashed: dict[str, ev.Recorded] = {}
        """Sessions whose turn crashed and is unfinished, with the end that listeners are told."""
        self._closing = False
        self.has_resumed = False
        """Whether the last runtime's unfinished turns have been resumed."""
        self.last_activity = clock()

    @property
    def busy(self) -> set[str]:
        """Sessions with a running turn."""
        return set(self._tasks)

    @property
    def is_active(self) -> bool:
        """Whether any turn runs or waits for an answer; those that are parked, or paused at a
        limit, do not count."""
        # A starting turn has no worker yet.
        return any(
            (worker := self._workers.get(session)) is None or not _is_parked(worker)
            for session in self._tasks
        )

    @property
    def must_not_be_dropped(self) -> bool:
        return any(worker.must_not_be_dropped for worker in self._workers.values())

    def close(self) -> None:
        """Start no more effects that could not be recovered after a crash."""
        self._closing = True
        for worker in self._workers.values():
            worker.close()

    async def settle(self, patience: float) -> None:
        """Wait for follow-up work, but not long: it may call a model."""
        if self._follow_ups:
            await asyncio.wait(self._follow_ups, timeout=patience)

    # starting and resuming

    async def resume(self) -> None:
        """Resume unfinished turns, and start turns for queued messages."""
        await self._claim_unfinished()
        for waiting in await self._store.sessions_with_queued_messages():
            with _isolated(waiting):
                session = await self._store.session(waiting)
                if self._is_ours(session):
                    await self.begin(session)

    async def _claim_unfinished(self) -> None:
        """Claim unfinished turns once, before starting one: claiming would fence that off, too."""
        async with self._claim_lock:
            if self.has_resumed:
                return
            unfinished = await self._store.claim_unfinished()
            self.has_resumed = True
            for turn in unfinished:
                with _isolated(turn.session):
                    await self._resume_turn(turn)

    async def _resume_turn(self, turn: Turn) -> None:
        session = await self._store.session(turn.session)
        if self._is_ours(session):
            log.info("resuming turn %s of session %s", turn.id, turn.session)
            self._work(session, turn)
        else:
            await self._park_for_program(turn)

    async def begin(self, session: Session) -> None:
        """Start a turn for queued messages, unless one is running."""
        if session.id in self._tasks or self._closing:
            return
        await self._claim_unfinished()
        async with self._lock(session):
            turn = None if session.id in self._tasks else await self._store.start_turn(session.id)
            if turn is not None:
                self._work(session, turn)
            elif session.id in self._crashed:
                await self.continue_turn(session)

    def crash_of(self, session: str) -> ev.Recorded | None:
        """The end of a turn that crashed. It is not in the journal: a later try may go well."""
        return self._crashed.get(session)

    async def continue_turn(self, session: Session) -> None:
        """Resume a turn that has waited for its program."""
        turn = await self._store.unfinished_turn(session.id)
        if turn is not None and session.id not in self._tasks:
            self._work(session, Turn(turn.id, turn.session, turn.fence, resumed=True))

    async def _park_for_program(self, turn: Turn) -> None:
        """Park a program's effects of unknown outcome, so that they show at once."""
        for call in (await self.conversation(turn.session)).all_calls:
            lost = call.intended is not None and call.intended.unrecoverable and not call.finished
            if lost and not call.parked:
                parked = ev.CallParked(call.effect, call.call.id, call.call.name, DIED)
                await self._store.append(turn, parked)

    async def _park_begun(self, turn: Turn, why: str) -> bool:
        """Park started effects of a turn that cannot run; True while a decision is missing."""
        all_calls = (await self.conversation(turn.session)).all_calls
        lost = [one for one in all_calls if one.intended is not None and not one.finished]
        waiting = [one for one in lost if one.decided is None]
        for call in waiting:
            if call.parked is None:
                parked = ev.CallParked(call.effect, call.call.id, call.call.name, why)
                await self._store.append(turn, parked)
        return bool(waiting)

    # working

    def _work(self, session: Session, turn: Turn) -> None:
        self._crashed.pop(session.id, None)
        task = asyncio.create_task(self._turn(session, turn), name=f"turn {turn.id}")
        self._tasks[session.id] = task
        task.add_done_callback(lambda done: self._turn_done(session, turn, done))

    async def _turn(self, session: Session, turn: Turn) -> None:
        try:
            worker = await self._worker(session, turn)
        except Exception as error:
            # Fail the turn, rather than leave it running for ever.
            log.exception("cannot run turn %s of session %s", turn.id, session.id)
            shown = user_error(error)
            if await self._park_begun(turn, shown.message):
                return
            end = ev.TurnFinished(turn.id, "failed", "", shown.message, shown.hint)
            for recorded in await self._store.append(turn, end):
                self._bus.publish(recorded)
            return
        end_of_turn = await worker.run()
        if end_of_turn is not None and end_of_turn.reason == "failed":
            log.warning("turn %s of %s failed: %s", turn.id, session.id, end_of_turn.error)
        if end_of_turn is not None and not self._closing:
            task = asyncio.create_task(self._follow_up(session, worker.conversation))
            self._follow_ups.add(task)
            task.add_done_callback(self._follow_up_done)

    async def _follow_up(self, session: Session, conversation: ConversationState) -> None:
        try:
            await self._ended(session, conversation)
        except NotFound:
            if await self._exists(session):
                raise
            log.info("session %s was deleted as its turn ended", session.id)

    async def _exists(self, session: Session) -> bool:
        try:
            await self._store.session(session.id)
        except NotFound:
            return False
        return True

    def _follow_up_done(self, task: asyncio.Task[None]) -> None:
        self._follow_ups.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the work after a turn crashed", exc_info=error)

    async def _worker(self, session: Session, turn: Turn) -> TurnWorker:
        try:
            conversation, dependencies = await self._wait_until_ready(session, turn)
        finally:
            self._waiting.pop(session.id, None)
        worker = TurnWorker(dependencies, turn, conversation)
        if self._closing:
            worker.close()
        self._workers[session.id] = worker
        if not turn.resumed:  # publish what `start_turn` wrote
            for recorded in await self._store.events(session.id, conversation.turn_began - 1):
                self._bus.publish(recorded)
        return worker

    async def _wait_until_ready(
        self, session: Session, turn: Turn
    ) -> tuple[ConversationState, TurnDependencies]:
        """Wait for the store and, if the turn is resumed, for whatever else it had when it began
        and lacks now. A resumed turn that has begun effects does not wait here: it is parked."""
        reason = ""
        while True:
            try:
                dependencies = await self._dependencies(session)
                if session.id not in self._waiting:
                    return await self.conversation(session.id), dependencies
                async with self._lock(session):  # what was added while it waited is read, too
                    conversation = await self.conversation(session.id)
                    del self._waiting[session.id]
                return conversation, dependencies
            except (NotFound, DamagedPage):
                raise
            except HermesError as trouble:
                if not isinstance(trouble, Degraded) and (
                    not turn.resumed or await self._park_begun(turn, trouble.message)
                ):
                    raise
                if trouble.message != reason:
                    reason = trouble.message
                    await self._say_waiting(turn, trouble)
            self._waiting[session.id] = turn
            await asyncio.sleep(RETRY_SECONDS)

    async def _say_waiting(self, turn: Turn, trouble: HermesError) -> None:
        log.warning("session %s waits: %s", turn.session, trouble.message)
        told = [ev.Recorded(turn.session, 0, self._clock(),
                            ev.RuntimeChanged("degraded", trouble.message))]  # fmt: skip
        with suppress(HermesError):  # the store cannot write; those who listen now are told
            told = list(await self._store.append(turn, waiting_notice(trouble)))
        for recorded in told:
            self._bus.publish(recorded)

    async def conversation(self, session: str) -> ConversationState:
        prompt = await self._store.prompt((await self._store.session(session)).prompt)
        return ConversationState(session, prompt).apply_all(await self._store.events(session))

    def _turn_done(self, session: Session, turn: Turn, task: asyncio.Task[None]) -> None:
        if self._tasks.get(session.id) is task:
            self._tasks.pop(session.id)
            self._workers.pop(session.id, None)
        self.last_activity = self._clock()
        if task.cancelled():
            return
        if (error := task.exception()) is not None and not isinstance(error, Fenced):
            log.error("the turn of session %s crashed", session.id, exc_info=error)
            shown = user_error(error) if isinstance(error, Exception) else HermesError(str(error))
            why = f"a turn of session {session.id} crashed: {shown.message}"
            end = ev.TurnFinished(turn.id, "failed", "", why, shown.hint)
            self._crashed[session.id] = ev.Recorded(session.id, 0, self._clock(), end)
            self._bus.publish(self._crashed[session.id])
        elif not self._closing:
            # A message may have arrived while the turn was ending.
            following = asyncio.create_task(self._begin_next(session))
            self._tasks.setdefault(session.id, following)

    async def _begin_next(self, session: Session) -> None:
        if self._tasks.get(session.id) is asyncio.current_task():
            self._tasks.pop(session.id)
        try:
            await self.begin(session)
        except (Degraded, NotFound, Fenced) as error:
            log.warning("session %s: %s", session.id, error.message)

    def is_asking(self, session: str, command: str) -> bool:
        """Whether the model is about to read the state of a background command: not if a person
        has to decide something first, nor if other calls come before."""
        worker = self._workers.get(session)
        calls = [] if worker is None else worker.conversation.all_calls
        open_calls = [one for one in calls if one.finished is None]
        return any(
            one.call.name == "process"
            and command in one.call.arguments
            and one.parked is None
            and (one.intended is not None or (len(open_calls) == 1 and not one.is_asked))
            for one in open_calls
        )

    # input from outside

    async def add(self, session: Session, *events: ev.Event) -> None:
        """Add events from outside its turns to a session's journal. A running turn sees them at
        once: a chosen model answers from the next request on."""
        async with self._lock(session):
            if not await self._add_to_turn(session, events):
                await self.add_at_rest(session, *events)

    @asynccontextmanager
    async def at_rest(self, session: Session) -> AsyncIterator[ConversationState]:
        """The conversation of a session that is not working; no turn starts meanwhile."""
        async with self._lock(session):
            await self._store.check_at_rest(session.id)
            yield await self.conversation(session.id)

    async def add_at_rest(self, session: Session, *events: ev.Event) -> None:
        """Add events, within `at_rest`."""
        for recorded in await self._store.note(session.id, *events):
            self._bus.publish(recorded)

    def _lock(self, session: Session) -> asyncio.Lock:
        """Keeps a turn from starting while events are added to the journal."""
        return self._locks.setdefault(session.id, asyncio.Lock())

    async def _add_to_turn(self, session: Session, events: Sequence[ev.Event]) -> bool:
        worker = await self._worker_of(session.id)
        try:
            if worker is not None:
                await worker.add(*events)
        except Fenced:
            return False  # the turn has just ended
        return worker is not None

    async def _worker_of(self, session: str) -> TurnWorker | None:
        while session in self._tasks.keys() - self._workers.keys() - self._waiting.keys():
            await asyncio.sleep(0.001)  # it is starting
        return self._workers.get(session)

    async def interrupt(self, session: Session, by: str) -> bool:
        """Stop the session's turn at once; False when it has none. Journaled before this returns,
        so that it survives a crash."""
        if session.id not in self._tasks:
            await self.continue_turn(session)
        if (turn := self._waiting.get(session.id)) is not None:
            return await self._stop_waiting(session, turn)
        worker = await self._worker_of(session.id)
        return worker is not None and await worker.interrupt(by)

    async def _stop_waiting(self, session: Session, turn: Turn) -> bool:
        """End a turn that cannot run. What it has begun is parked."""
        task = self._tasks[session.id]
        task.cancel()
        await asyncio.wait({task})
        if not await self._park_begun(turn, "the user interrupted"):
            for recorded in await self._store.append(turn, ev.TurnFinished(turn.id, "interrupted")):
                self._bus.publish(recorded)
        return True

    async def answer(
        self, id: str, answer: str, by: str, adopt: Adopt, names: Sequence[str] = ()
    ) -> None:
        """`names` are other names under which rules may know the person `by`."""
        while at := {one.id: one.session for one in await self._store.questions()}.get(id):
            if (worker := await self._worker_of(at)) is None:
                break
            if id in worker.conversation.questions:
                return await worker.human_input.answer(id, answer, by, adopt, names)
            await asyncio.sleep(0.001)  # journaled; the turn is about to know
        raise NotFound(f"no open question {id!r}", "`hermes approvals` lists the open ones")

    async def decide(self, effect: str, decision: str, by: str) -> None:
        while at := {one.effect: one.session for one in await self._store.parked()}.get(effect):
            if (worker := await self._worker_of(at)) is None:
                return await self._decide_without_worker(at, effect, decision, by)
            if any(call.effect == effect and call.parked for call in worker.conversation.all_calls):
                return await worker.human_input.decide(effect, decision, by)
            await asyncio.sleep(0.001)  # as in `answer`
        raise _no_parked(effect)

    async def _decide_without_worker(self, at: str, effect: str, decision: str, by: str) -> None:
        """Journal a decision for a turn that is not running, and resume the turn if it can run
        here; otherwise its program acts on the decision."""
        turn = await self._store.unfinished_turn(at)
        if turn is None or at in self._tasks:
            raise _no_parked(effect)
        await self._store.append(turn, ev.ParkDecided(effect, parse_decision(decision), by))
        session = await self._store.session(at)
        if self._is_ours(session):
            await self.continue_turn(session)


def _no_parked(effect: str) -> NotFound:
    return NotFound(f"no parked effect {effect!r}", "`hermes parked` lists them")


@contextmanager
def _isolated(session: str) -> Iterator[None]:
    """Log a session's failure, so that the others are still resumed."""
    try:
        yield
    except Exception:
        log.exception("cannot resume session %s", session)


def _is_parked(worker: TurnWorker) -> bool:
    waiting = {
        call.effect for call in worker.conversation.all_calls if call.parked and not call.decided
    }
    # A call waits as long as an inner call of it does; inner calls are last in the list.
    for call in reversed(worker.conversation.inner):
        if call.effect in waiting:
            waiting.add(call.by)
    if any(one.purpose == "budget" for one in worker.conversation.questions.values()):
        return True
    open_calls = worker.conversation.unfinished
    return bool(open_calls) and all(call.effect in waiting for call in open_calls)
