"""The runtime: owns a home, hands messages to turns, and takes up what the last one left."""

import asyncio
import logging
import os
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from hermes_agent.agent.calls import DIED
from hermes_agent.agent.fold import Conversation
from hermes_agent.agent.parts import Parts
from hermes_agent.agent.people import as_decision
from hermes_agent.agent.prompt import build_prompt
from hermes_agent.agent.turn import TurnWorker
from hermes_agent.core import events as ev
from hermes_agent.core.errors import Degraded, HermesError, NotFound
from hermes_agent.core.protocols import Actor, Clock
from hermes_agent.core.records import Health, Inbound, NewSession, Session, Turn
from hermes_agent.core.settings import Settings
from hermes_agent.core.tools import Tool
from hermes_agent.policy.profiles import open_gate
from hermes_agent.policy.redact import Redactor
from hermes_agent.runtime.bus import Bus
from hermes_agent.runtime.config import load_settings
from hermes_agent.runtime.home import Home, HomeLock
from hermes_agent.runtime.shelf import Shelf
from hermes_agent.runtime.surroundings import look_around
from hermes_agent.store.store import Store
from hermes_agent.tools.builtin import load_tools

log = logging.getLogger("hermes.runtime")

WATCH_SECONDS = 2.0
"""How often the runtime looks after itself; a degraded store is tried again as often."""

Hook = Callable[[Literal["before", "after"], tuple[str, ...]], None]


class Runtime:
    """One per home. `start` takes the lock, opens the store and resumes; `stop` lets go."""

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str],
        *,
        settings: Settings | None = None,
        tools: Sequence[Tool] | None = None,
        clock: Clock = time.time,
        store_hook: Hook | None = None,
    ) -> None:
        self.home = Home(home)
        self.settings = settings or load_settings(self.home.config, environ)
        self._own_settings = settings is None
        self.bus = Bus()
        self.started = clock()
        self.touched = clock()
        self._environ = environ
        self._clock = clock
        self._tools = tuple(load_tools() if tools is None else tools)
        self._lent: dict[str, tuple[tuple[Tool, ...], frozenset[str]]] = {}
        self._store_hook = store_hook
        self._redactor = Redactor(environ)
        self._workers: dict[str, TurnWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._watch: asyncio.Task[None] | None = None
        self._taken_up = False
        self._stopping = False

    # life

    async def start(self) -> None:
        writable = self.home.make()
        self.run_folder = self.home.run_folder(writable)
        self._lock = HomeLock(self.run_folder, self.home.path)
        self._lock.take()
        try:
            self.store = await Store.open(
                self.home.path, clock=self._clock, hook=self._store_hook, readonly=not writable
            )
        except BaseException:
            self._lock.release()
            raise
        self._shelf = Shelf(self.settings, self._environ, self.home.terminals, self._clock)
        await self._take_up()
        self._watch = asyncio.create_task(self._keep_watch())

    async def _take_up(self) -> None:
        """Go on with what the last runtime left, as soon as the store can keep it."""
        if self.store.health.state != "well":
            log.error("degraded: %s", self.store.health.reason)
            return
        try:
            unfinished = [] if self._taken_up else await self.store.take_over()
        except Degraded as trouble:
            log.error("degraded: %s", trouble.message)
            return
        self._taken_up = True
        for turn in unfinished:
            session = await self.store.session(turn.session)
            if session.source == "library":  # a program's tools come back with the program
                await self._park_for_program(turn)
            else:
                log.info("resuming turn %s of session %s", turn.id, turn.session)
                self._work(session, turn)
        for id in await self.store.sessions_with_mail():
            session = await self.store.session(id)
            if session.source != "library":
                await self._begin(session)

    async def _park_for_program(self, turn: Turn) -> None:
        """Show at once what a program left undone that nobody can know the outcome of."""
        for call in (await self._conversation(turn.session)).unfinished:
            if call.intended and call.intended.traceless and not call.parked:
                await self.store.append(
                    turn, ev.CallParked(call.effect, call.call.id, call.call.name, DIED)
                )

    async def stop(self, *, patience: float = 10.0) -> None:
        """Let go of the home. Turns under way stay in the journal and are taken up next time;
        effects of which nothing could be found out later are waited for."""
        self._stopping = True
        deadline = self._clock() + patience
        while self._clock() < deadline and any(
            worker.must_not_be_dropped for worker in self._workers.values()
        ):
            await asyncio.sleep(0.05)
        self.bus.publish(
            ev.Recorded("", 0, self._clock(), ev.RuntimeChanged("stopping", "asked to stop"))
        )
        self.bus.end()
        if self._watch is not None:
            self._watch.cancel()
        await self.end_idle_shells()
        await self._shelf.close_models()
        await self.store.close()
        self._lock.release()

    async def end_idle_shells(self) -> None:
        """Shells of sessions at work are left to their keepers."""
        await self._shelf.end_shells(busy=set(self._tasks))

    async def _keep_watch(self) -> None:
        """Say when the store becomes unable to keep things, and when it is well again; let go of
        terminals that nobody uses."""
        last = Health()
        while True:
            if self.store.health.state == "degraded":
                await self.store.probe()
            now = self.store.health
            if now != last:
                log.warning("the store is %s: %s", now.state, now.reason)
                change = ev.RuntimeChanged(now.state, now.reason)
                self.bus.publish(ev.Recorded("", 0, self._clock(), change))
                await self._take_up()
                last = now
            await self._shelf.tidy(busy=set(self._tasks))
            await asyncio.sleep(WATCH_SECONDS)

    def touch(self) -> None:
        self.touched = self._clock()

    def idle_for(self) -> float:
        return self._clock() - self.touched

    def redact_log(self, record: logging.LogRecord) -> bool:
        """A log filter: no secret goes to a log file."""
        record.msg, record.args = self._redactor(record.getMessage()), None
        return True

    # sessions and messages

    async def open_session(
        self,
        *,
        workspace: str,
        model: str = "",
        policy: str = "",
        name: str = "",
        source: str = "cli",
        key: str = "",
        tools: Sequence[Tool] | None = None,
    ) -> Session:
        """A new conversation. Its prompt, tools, model and policy are fixed here."""
        self._refresh_settings()
        model = model or self.settings.model
        policy = policy or self.settings.policy
        self._shelf.model(model)  # an unknown model or profile is refused before anything is kept
        open_gate(policy, home=self.home.path)
        if not Path(workspace).is_dir():
            raise NotFound(f"no folder at {workspace!r}", "the workspace must exist")
        shown = self._tools if tools is None else tools
        prompt = build_prompt(look_around(workspace, self.home.soul, self._clock()), shown)
        new = NewSession(os.path.realpath(workspace), policy, model, source, name, key)
        return await self.store.open_session(new, prompt)

    def _refresh_settings(self) -> None:
        """What was changed in config.yaml since holds for new sessions and for turns that begin
        from now on."""
        if self._own_settings:
            self.settings = load_settings(self.home.config, self._environ)
            self._shelf.settings = self.settings

    def lend(self, session: str, tools: Sequence[Tool], granted: frozenset[str]) -> None:
        """Give a session the tools and capabilities of the program that opened it."""
        self._lent[session] = (tuple(tools), granted)

    async def submit(self, session: Session, message: Inbound) -> bool:
        """Keep a message and see that it is worked on. Once this returns, it is not lost.
        False when the same key was sent before."""
        self.touch()
        if self._stopping:
            raise Degraded("the runtime is stopping", "try again in a moment")
        if session.source == "library" and session.id not in self._lent:
            raise HermesError(
                f"session {session.id} belongs to a program ({session.key}) and has its tools",
                "only the program can go on with it: Agent(session=…)",
            )
        new = await self.store.receive(session.id, message)
        if new:
            queued = ev.MessageQueued(message.key, message.text)
            self.bus.publish(ev.Recorded(session.id, 0, self._clock(), queued))
        if session.id not in self._tasks:
            await self._begin(session)
        return new

    async def events(self, session: str, after: int = 0) -> AsyncGenerator[ev.Recorded]:
        """The journal of a session after a number, then what happens, without a gap."""
        with self.bus.listen(session) as listener:
            for recorded in await self.store.events(session, after):
                after = recorded.number
                yield recorded
            while (live := await listener.next()) is not None:
                if live.number == 0 or live.number > after:
                    after = max(after, live.number)
                    yield live

    async def delete_session(self, session: Session) -> None:
        if session.id in self._tasks:
            raise HermesError(
                f"session {session.id} is at work", f"`hermes interrupt {session.id}` stops it"
            )
        await self.store.delete_session(session.id)
        await self._shelf.forget(session.id)
        await asyncio.to_thread(shutil.rmtree, self.home.results / session.id, ignore_errors=True)

    # people

    async def interrupt(self, session: str) -> bool:
        """Stop the session's turn at once; False when it has none."""
        self.touch()
        if session not in self._tasks:
            await self.take_up(await self.store.session(session))
        task = self._tasks.get(session)
        while task is not None and not task.done() and session not in self._workers:
            await asyncio.sleep(0)  # it is just beginning
        worker = self._workers.get(session)
        if worker is not None:
            worker.interrupt()
        return worker is not None

    async def answer(self, id: str, answer: str, by: str) -> None:
        self.touch()
        for worker in self._workers.values():
            if id in worker.talk.questions:
                return await worker.people.answer(id, answer, by)
        raise NotFound(f"no open question {id!r}", "`hermes approvals` lists the open ones")

    async def decide(self, effect: str, decision: str, by: str) -> None:
        self.touch()
        for worker in self._workers.values():
            if any(call.effect == effect and call.parked for call in worker.talk.calls):
                return await worker.people.decide(effect, decision, by)
        return await self._decide_for_program(effect, decision, by)

    async def _decide_for_program(self, effect: str, decision: str, by: str) -> None:
        """Write the decision down; the program acts on it when it comes back."""
        parked = next((one for one in await self.store.parked() if one.effect == effect), None)
        turn = await self.store.unfinished_turn(parked.session) if parked else None
        if parked is None or turn is None:
            raise NotFound(f"no parked effect {effect!r}", "`hermes parked` lists them")
        await self.store.append(turn, ev.ParkDecided(effect, as_decision(decision), by))

    # turns

    async def _begin(self, session: Session) -> None:
        if session.id in self._tasks or self._stopping:
            return
        turn = await self.store.start_turn(session.id)
        if turn is not None:
            self._work(session, turn)

    async def take_up(self, session: Session) -> None:
        """Go on with a turn that waits for its program's tools."""
        turn = await self.store.unfinished_turn(session.id)
        if turn is not None and session.id not in self._tasks:
            self._work(session, Turn(turn.id, turn.session, turn.fence, resumed=True))

    def _work(self, session: Session, turn: Turn) -> None:
        task = asyncio.create_task(self._turn(session, turn), name=f"turn {turn.id}")
        self._tasks[session.id] = task
        task.add_done_callback(lambda done: self._worked(session, done))

    async def _turn(self, session: Session, turn: Turn) -> None:
        talk = await self._conversation(session.id)
        worker = TurnWorker(self._parts(session), turn, talk)
        self._workers[session.id] = worker
        if not turn.resumed:
            self._announce(await self.store.events(session.id, talk.turn_began - 1))
        end = await worker.run()
        if end is not None and end.reason == "failed":
            log.warning("turn %s of %s failed: %s", turn.id, session.id, end.error)

    async def _conversation(self, session: str) -> Conversation:
        prompt = await self.store.prompt((await self.store.session(session)).prompt)
        return Conversation(session, prompt).apply_all(await self.store.events(session))

    def _announce(self, recorded: Sequence[ev.Recorded]) -> None:
        """Tell listeners what `start_turn` wrote."""
        for one in recorded:
            self.bus.publish(one)

    def _worked(self, session: Session, task: asyncio.Task[None]) -> None:
        self._tasks.pop(session.id, None)
        self._workers.pop(session.id, None)
        self.touch()
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            log.error("the turn of session %s broke", session.id, exc_info=error)
            note = ev.RuntimeChanged("degraded", f"a turn of session {session.id} broke: {error}")
            self.bus.publish(ev.Recorded(session.id, 0, self._clock(), note))
        elif not self._stopping:
            # A message that came in while the turn was ending is the next turn's.
            self._tasks[session.id] = asyncio.create_task(self._after(session))

    async def _after(self, session: Session) -> None:
        self._tasks.pop(session.id, None)
        try:
            await self._begin(session)
        except (Degraded, NotFound) as error:
            log.warning("session %s: %s", session.id, error.message)

    def _parts(self, session: Session) -> Parts:
        tools, granted = self._lent.get(session.id, (self._tools, None))
        return Parts(
            journal=self.store,
            model=self._shelf.model_or_reason(session.model),
            tools={tool.name: tool for tool in tools},
            gate=open_gate(session.policy, home=self.home.path, granted=granted),
            terminal=self._shelf.terminal(session),
            settings=self.settings,
            publish=self.bus.publish,
            redact=self._redactor,
            results=self.home.results / session.id,
            clock=self._clock,
            actor=Actor("program" if session.source == "library" else "user", "", session.source),
        )

    # how it is

    async def is_needed(self) -> bool:
        """Somebody listens, a turn works or waits for an answer, or a command runs."""
        active = any(not worker_is_parked(worker) for worker in self._workers.values())
        return bool(self.bus.listeners) or active or await self._shelf.has_running_commands()

    async def status(self) -> dict[str, Any]:
        health = self.store.health
        well = health.state == "well"
        return {
            "pid": os.getpid(),
            "state": "stopping" if self._stopping else "running" if well else "degraded",
            "reason": health.reason,
            "hint": health.hint,
            "home": str(self.home.path),
            "model": self.settings.model,
            "policy": self.settings.policy,
            "uptime": round(self._clock() - self.started, 1),
            "working": sorted(self._workers),
            "parked": len(await self.store.parked()) if well else None,
            "questions": len(await self.store.questions()) if well else None,
            "listeners": self.bus.listeners,
        }


def worker_is_parked(worker: TurnWorker) -> bool:
    open_calls = worker.talk.unfinished
    return bool(open_calls) and all(call.parked and not call.decided for call in open_calls)
