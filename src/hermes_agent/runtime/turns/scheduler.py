"""The desk: which session is being worked on, and by whom. Turns are begun, taken up after a
death, interrupted and answered for here."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from hermes_agent.agent.conversation import ConversationState
from hermes_agent.agent.dependencies import TurnDependencies
from hermes_agent.agent.human_input import Adopt, as_decision
from hermes_agent.agent.tools.executor import DIED
from hermes_agent.agent.turn import TurnWorker, as_told
from hermes_agent.core import events as ev
from hermes_agent.core.errors import Degraded, Fenced, NotFound
from hermes_agent.core.protocols import Clock
from hermes_agent.core.records import Session, Turn
from hermes_agent.host.bus import Bus
from hermes_agent.store.store import Store

log = logging.getLogger("hermes.desk")

RETRY_SECONDS = 1.0
"""How long to wait before a turn that could not be read is tried again."""


class TurnScheduler:
    """Works the turns of one store. `parts` puts together what a session's turn is handed;
    `is_ours` says whether a session can be worked here: a program's tools come with the program;
    `ended` is called, apart, when a turn has come to its end."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        clock: Clock,
        parts: Callable[[Session], Awaitable[TurnDependencies]],
        is_ours: Callable[[Session], bool],
        ended: Callable[[Session, ConversationState], Coroutine[Any, Any, None]],
    ) -> None:
        self._store = store
        self._bus = bus
        self._clock = clock
        self._parts = parts
        self._is_ours = is_ours
        self._ended = ended
        self._afterwards: set[asyncio.Task[None]] = set()
        self._workers: dict[str, TurnWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._taking_over = asyncio.Lock()
        self._doors: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._closing = False
        self.taken_over = False
        """Whether what the last runtime left has been taken up."""
        self.last_activity = clock()

    @property
    def busy(self) -> set[str]:
        """Sessions with a turn under way."""
        return set(self._tasks)

    @property
    def is_active(self) -> bool:
        """Whether any turn works, or waits for an answer; parked ones wait for ever."""
        # One that is still being put together has no worker yet.
        return any(
            (worker := self._workers.get(session)) is None or not _is_parked(worker)
            for session in self._tasks
        )

    @property
    def must_not_be_dropped(self) -> bool:
        return any(worker.must_not_be_dropped for worker in self._workers.values())

    def close(self) -> None:
        """Begin nothing more of which nothing could be found out after a sudden end."""
        self._closing = True
        for worker in self._workers.values():
            worker.close()

    async def settle(self, patience: float) -> None:
        """Wait for what comes after turns, but not for long: a model may be asked in it."""
        if self._afterwards:
            await asyncio.wait(self._afterwards, timeout=patience)

    # beginning

    async def resume(self) -> None:
        """Go on with what the last runtime left, and with messages that no turn has taken."""
        await self._take_over()
        for waiting in await self._store.sessions_with_queued_messages():
            with _on_its_own(waiting):
                session = await self._store.session(waiting)
                if self._is_ours(session):
                    await self.begin(session)

    async def _take_over(self) -> None:
        """Once, and before a turn of our own begins: it would be fenced off with the rest."""
        async with self._taking_over:
            if self.taken_over:
                return
            unfinished = await self._store.claim_unfinished()
            self.taken_over = True
            for turn in unfinished:
                with _on_its_own(turn.session):
                    await self._take_up_turn(turn)

    async def _take_up_turn(self, turn: Turn) -> None:
        session = await self._store.session(turn.session)
        if self._is_ours(session):
            log.info("resuming turn %s of session %s", turn.id, turn.session)
            self._work(session, turn)
        else:
            await self._park_for_program(turn)

    async def begin(self, session: Session) -> None:
        """Work on the messages that wait, unless somebody does already."""
        if session.id in self._tasks or self._closing:
            return
        await self._take_over()
        async with self._door(session):
            turn = None if session.id in self._tasks else await self._store.start_turn(session.id)
            if turn is not None:
                self._work(session, turn)

    async def continue_turn(self, session: Session) -> None:
        """Go on with a turn that has waited for its program."""
        turn = await self._store.unfinished_turn(session.id)
        if turn is not None and session.id not in self._tasks:
            self._work(session, Turn(turn.id, turn.session, turn.fence, resumed=True))

    async def _park_for_program(self, turn: Turn) -> None:
        """Show at once what a program left undone that nobody can know the outcome of."""
        for call in (await self._conversation(turn.session)).every:
            lost = call.intended is not None and call.intended.unrecoverable and not call.finished
            if lost and not call.parked:
                parked = ev.CallParked(call.effect, call.call.id, call.call.name, DIED)
                await self._store.append(turn, parked)

    async def _park_begun(self, turn: Turn, why: str) -> bool:
        """Show what was begun and cannot be looked after now; True while a person has not said
        what became of it."""
        every = (await self._conversation(turn.session)).every
        lost = [one for one in every if one.intended is not None and not one.finished]
        waiting = [one for one in lost if one.decided is None]
        for call in waiting:
            if call.parked is None:
                parked = ev.CallParked(call.effect, call.call.id, call.call.name, why)
                await self._store.append(turn, parked)
        return bool(waiting)

    # working

    def _work(self, session: Session, turn: Turn) -> None:
        task = asyncio.create_task(self._turn(session, turn), name=f"turn {turn.id}")
        self._tasks[session.id] = task
        task.add_done_callback(lambda done: self._worked(session, done))

    async def _turn(self, session: Session, turn: Turn) -> None:
        try:
            worker = await self._worker(session, turn)
        except Exception as error:
            # Nothing can be done for it now: say so, rather than leave it running for ever.
            log.exception("cannot run turn %s of session %s", turn.id, session.id)
            told = as_told(error)
            if await self._park_begun(turn, told.message):
                return
            end = ev.TurnFinished(turn.id, "failed", "", told.message, told.hint)
            for recorded in await self._store.append(turn, end):
                self._bus.publish(recorded)
            return
        end_of_turn = await worker.run()
        if end_of_turn is not None and end_of_turn.reason == "failed":
            log.warning("turn %s of %s failed: %s", turn.id, session.id, end_of_turn.error)
        if end_of_turn is not None and not self._closing:
            after = asyncio.create_task(self._come_after(session, worker.conversation))
            self._afterwards.add(after)
            after.add_done_callback(self._came_after)

    async def _come_after(self, session: Session, conversation: ConversationState) -> None:
        try:
            await self._ended(session, conversation)
        except NotFound:
            if await self._is_there(session):
                raise
            log.info("session %s was deleted as its turn ended", session.id)

    async def _is_there(self, session: Session) -> bool:
        try:
            await self._store.session(session.id)
        except NotFound:
            return False
        return True

    def _came_after(self, task: asyncio.Task[None]) -> None:
        self._afterwards.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the work after a turn crashed", exc_info=error)

    async def _worker(self, session: Session, turn: Turn) -> TurnWorker:
        while True:
            try:
                conversation = await self._conversation(session.id)
                break
            except Degraded as trouble:
                log.warning("cannot read session %s: %s", session.id, trouble.message)
                await asyncio.sleep(RETRY_SECONDS)
        worker = TurnWorker(await self._parts(session), turn, conversation)
        if self._closing:
            worker.close()
        self._workers[session.id] = worker
        if not turn.resumed:  # tell listeners what `start_turn` wrote
            for recorded in await self._store.events(session.id, conversation.turn_began - 1):
                self._bus.publish(recorded)
        return worker

    async def _conversation(self, session: str) -> ConversationState:
        prompt = await self._store.prompt((await self._store.session(session)).prompt)
        return ConversationState(session, prompt).apply_all(await self._store.events(session))

    def _worked(self, session: Session, task: asyncio.Task[None]) -> None:
        if self._tasks.get(session.id) is task:
            self._tasks.pop(session.id)
            self._workers.pop(session.id, None)
        self.last_activity = self._clock()
        if task.cancelled():
            return
        if (error := task.exception()) is not None and not isinstance(error, Fenced):
            log.error("the turn of session %s crashed", session.id, exc_info=error)
            change = ev.RuntimeChanged("degraded", f"a turn of {session.id} crashed: {error}")
            self._bus.publish(ev.Recorded(session.id, 0, self._clock(), change))
        elif not self._closing:
            # A message that came in while the turn was ending is the next turn's.
            after = asyncio.create_task(self._after(session))
            self._tasks.setdefault(session.id, after)

    async def _after(self, session: Session) -> None:
        if self._tasks.get(session.id) is asyncio.current_task():
            self._tasks.pop(session.id)
        try:
            await self.begin(session)
        except (Degraded, NotFound, Fenced) as error:
            log.warning("session %s: %s", session.id, error.message)

    # people

    async def add(self, session: Session, *events: ev.Event) -> None:
        """Add to a session's journal what comes from outside of its turns. One that is at work
        knows of it at once: a model that was chosen is asked from the next request on."""
        async with self._door(session):
            if not await self._add_to_turn(session, events):
                for recorded in await self._store.note(session.id, *events):
                    self._bus.publish(recorded)

    def _door(self, session: Session) -> asyncio.Lock:
        """No turn of a session begins while something is added to its journal."""
        return self._doors.setdefault(session.id, asyncio.Lock())

    async def _add_to_turn(self, session: Session, events: Sequence[ev.Event]) -> bool:
        worker = await self._worker_of(session.id)
        try:
            if worker is not None:
                await worker.add(*events)
        except Fenced:
            return False  # it has just ended
        return worker is not None

    async def _worker_of(self, session: str) -> TurnWorker | None:
        while session in self._tasks and session not in self._workers:
            await asyncio.sleep(0.001)  # it is just beginning
        return self._workers.get(session)

    async def interrupt(self, session: Session, by: str) -> bool:
        """Stop the session's turn at once; False when it has none. Written down before this
        returns: a runtime that dies now does not forget it."""
        if session.id not in self._tasks:
            await self.continue_turn(session)
        worker = await self._worker_of(session.id)
        return worker is not None and await worker.interrupt(by)

    async def answer(
        self, id: str, answer: str, by: str, adopt: Adopt, names: Sequence[str] = ()
    ) -> None:
        """`names` are those that rules may know whoever answers by, beside `by`."""
        asking = next((one.session for one in await self._store.questions() if one.id == id), "")
        worker = await self._worker_of(asking)
        if worker is not None and id in worker.conversation.questions:
            return await worker.people.answer(id, answer, by, adopt, names)
        raise NotFound(f"no open question {id!r}", "`hermes approvals` lists the open ones")

    async def decide(self, effect: str, decision: str, by: str) -> None:
        parked = await self._store.parked()
        at = next((one.session for one in parked if one.effect == effect), "")
        worker = await self._worker_of(at)
        if worker is None:
            return await self._decide_for_absent(at, effect, decision, by)
        if any(call.effect == effect and call.parked for call in worker.conversation.every):
            return await worker.people.decide(effect, decision, by)
        raise _no_parked(effect)

    async def _decide_for_absent(self, at: str, effect: str, decision: str, by: str) -> None:
        """Write the decision down; whoever works on the turn acts on it: a program when it comes
        back, or we, where what was missing is there again."""
        turn = await self._store.unfinished_turn(at) if at else None
        if turn is None or at in self._tasks:
            raise _no_parked(effect)
        await self._store.append(turn, ev.ParkDecided(effect, as_decision(decision), by))
        session = await self._store.session(at)
        if self._is_ours(session):
            await self.continue_turn(session)


def _no_parked(effect: str) -> NotFound:
    return NotFound(f"no parked effect {effect!r}", "`hermes parked` lists them")


@contextmanager
def _on_its_own(session: str) -> Iterator[None]:
    """What is wrong with one session does not keep the others from being taken up."""
    try:
        yield
    except Exception:
        log.exception("cannot resume session %s", session)


def _is_parked(worker: TurnWorker) -> bool:
    waiting = {
        call.effect for call in worker.conversation.every if call.parked and not call.decided
    }
    # A call waits, too, as long as one that it has made does: what was made last comes first.
    for call in reversed(worker.conversation.inner):
        if call.effect in waiting:
            waiting.add(call.by)
    open_calls = worker.conversation.unfinished
    return bool(open_calls) and all(call.effect in waiting for call in open_calls)
