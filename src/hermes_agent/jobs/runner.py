"""Works a run: its script, its turn and its result. Every step can be repeated: a run that another
runtime began is continued where that left it."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec

from hermes_agent.core import events as ev
from hermes_agent.core.errors import Degraded, HermesError, NotFound, OutcomeUnknown, Stopping
from hermes_agent.core.gateway import SessionPlace
from hermes_agent.core.jobs import JOB_KEY, JOBS, Job, Run, RunState
from hermes_agent.core.ports import Sessions
from hermes_agent.core.protocols import Clock
from hermes_agent.core.records import ChildLimits, Session, SessionMessage
from hermes_agent.core.skills import ActivatedSkill
from hermes_agent.core.text.format import span
from hermes_agent.host.context import RuntimeContext
from hermes_agent.jobs import messages
from hermes_agent.jobs.alerts import JobAlerts
from hermes_agent.jobs.messages import JobInput, title
from hermes_agent.jobs.notifier import JobNotifier
from hermes_agent.jobs.scripts import ScriptOutput, Scripts
from hermes_agent.learning.service import Learning

log = logging.getLogger("hermes.jobs")

POLL_SECONDS = 0.5
"""How often a run is checked for its timeout."""
BEAT_SECONDS = 15.0
UNTAKEN_SECONDS = 60.0
"""How long after its timeout to wait for a turn to take the message."""
RETRY_SECONDS = 2.0
"""How long to wait while the store is degraded."""
BROKEN_SECONDS = 60.0
OPEN: frozenset[RunState] = frozenset({"claimed", "running", "parked"})
TIMEOUT = "the job's timeout"
REMOVED = "the removal of the job"
"""Who stopped a turn."""


class RunOutcome(NamedTuple):
    """The outcome of a run."""

    text: str
    said: bool = True
    error: str = ""
    cost: float | None = None
    tokens: int = 0


class ActiveTime:
    """The seconds a run has worked, by a monotonic clock that stops while the machine sleeps; the
    heartbeat preserves them over a restart."""

    def __init__(self, run: Run, ticks: Clock) -> None:
        self._ticks = ticks
        self._last = ticks()
        began = run.began
        self.seconds = 0.0 if began is None else max(0.0, (run.heartbeat or began) - began)

    def count(self, *, waits: bool = False) -> float:
        now = self._ticks()
        self.seconds += 0.0 if waits else max(0.0, now - self._last)
        self._last = now
        return self.seconds


class RunWorker:
    """Works one run to its end."""

    def __init__(
        self,
        context: RuntimeContext,
        sessions: Sessions,
        learning: Learning,
        notifier: JobNotifier,
        scripts: Scripts,
        alerts: JobAlerts,
        run: Run,
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._learning = learning
        self._store = context.store.jobs
        self._notifier = notifier
        self._scripts = scripts
        self._alerts = alerts
        self._run = run
        self._fresh = run.state == "claimed"
        self._worked = ActiveTime(run, context.ticks)
        self._waits = False
        """Whether it waits for a person; that time does not count."""
        self._taken = False
        """Whether a turn has taken its message."""
        self._stop = asyncio.Event()
        self._stopped_by = ""

    @property
    def key(self) -> str:
        return f"run:{self._run.id}"

    def stop(self, by: str) -> None:
        """Stop it early, in whatever phase."""
        self._stopped_by = self._stopped_by or by
        self._stop.set()

    async def work(self) -> None:
        while True:
            try:
                await self._work()
                return
            except Stopping:
                await asyncio.Event().wait()  # the next runtime goes on with it
            except Degraded as trouble:
                log.warning("run %s waits: %s", self._run.id, trouble.message)
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:  # left alone it would be under way for ever, and those after it wait
                log.exception("run %s crashed; resuming it", self._run.id)
                await asyncio.sleep(BROKEN_SECONDS)

    async def _work(self) -> None:
        job = await self._store.job(self._run.job)
        if not await self._begin(job):
            return
        if job.state == "removed":
            self.stop(REMOVED)
        try:
            done = await self._do(job)
        except OutcomeUnknown as unknown:
            await self._park(job, unknown.message)
            return
        except (Degraded, Stopping):
            raise
        except HermesError as error:
            hint = f" ({error.hint})" if error.hint else ""
            done = RunOutcome("", error=f"{error.message}{hint}")
        except Exception as error:
            log.exception("run %s crashed", self._run.id)
            done = RunOutcome("", error=f"{type(error).__name__}: {error}")
        await self.end(done)
        await self._scripts.forget(job, self._run)

    async def _begin(self, job: Job) -> bool:
        """Record the start, with an alert if it is late."""
        if self._run.began is not None:
            return True
        now, run = self._context.clock(), self._run
        late = max(0.0, now - run.slot)
        told = run.told
        if late > job.spec.grace and run.trigger == "schedule":
            why = "the runtime was down" if run.slot < self._context.started else ""
            await self._notifier.alert(job, run, "late", messages.late_text(job, run, late, why))
            told = (*told, "late")
        return await self._change(state="running", began=now, heartbeat=now, late=late, told=told)

    async def _change(self, **fields: object) -> bool:
        """False if the run is no longer ours."""
        changed = await self._store.change_run(self._run.id, OPEN, **fields)  # type: ignore[arg-type]  # fields of a run
        if changed is None:
            log.warning("run %s is no longer ours", self._run.id)
            return False
        self._run = changed
        return True

    # what is done

    async def _do(self, job: Job) -> RunOutcome:
        if self._run.session:
            return await self._turn(job)
        before = await self._inputs(job)
        if job.spec.script:
            found = await self._script(job)
            if found.error and job.spec.script_only:
                return RunOutcome(found.text, error=f"{found.error}\n{found.text}".strip())
            if job.spec.script_only or not found.wakes:
                return RunOutcome(found.text, said=found.wakes and bool(found.text))
            text = f"[{found.error}]\n{found.text}".strip() if found.error else found.text
            before.append(JobInput("script", job.spec.script.split("\n", 1)[0][:80], text))
        await self._submit(job, before)
        return await self._turn(job)

    async def _script(self, job: Job) -> ScriptOutput:
        if job.spec.is_builtin:
            return await self._unless_stopped(self._scripts.builtin(job))
        # One that another runtime began has its whole time, counted from its own start.
        left = max(1.0, job.spec.timeout - self._worked.count())
        fresh, self._fresh = self._fresh, False
        return await self._unless_stopped(self._scripts.run(job, self._run, left, fresh=fresh))

    async def _unless_stopped(
        self, script: Coroutine[object, object, ScriptOutput]
    ) -> ScriptOutput:
        running = asyncio.create_task(script)
        bell = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({running, bell}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
        finally:
            bell.cancel()
            running.cancel()
            await asyncio.wait({running})
        raise HermesError(f"its script was stopped by {self._stopped_by}")

    async def _inputs(self, job: Job) -> list[JobInput]:
        """The last results of the jobs this one depends on."""
        found = []
        for name in job.spec.after:
            try:
                other = await self._store.job(name)
                last = await self._store.runs(job=other.id, states=frozenset({"done"}), limit=1)
            except NotFound:
                found.append(JobInput("job", name, "[there is no such job]"))
                continue
            text = last[0].output if last and last[0].said else "[it has said nothing yet]"
            found.append(JobInput("job", title(other), text))
        return found

    async def _submit(self, job: Job, before: Sequence[JobInput]) -> None:
        """Submit the message; repeating this submits it once."""
        session = await self._session(job)
        places = [chat.target for chat in self._notifier.chats(job)]
        asked = [chat.target for chat in self._notifier.asked(job)]
        text = messages.message(job, self._run, before, places, asked)
        await self._sessions.set_title(session, title(job))
        after = await self._context.store.last_number(session.id)
        message = SessionMessage(
            self.key, text, JOBS, bool(asked), skills=await self._skills(job), waits=True
        )
        if not await self._sessions.submit(session, message):
            after = await self._before(session.id, after)
        await self._change(session=session.id, after=after)
        await self._scripts.forget(job, self._run)

    async def _skills(self, job: Job) -> tuple[ActivatedSkill, ...]:
        place = SessionPlace(JOBS)
        return tuple([await self._learning.opened(name, "", place) for name in job.spec.skills])

    async def _session(self, job: Job) -> Session:
        spec, folder = job.spec, await self._scripts.folder(job)
        fixed = (spec.model, spec.policy, spec.terminals, folder, spec.dollars, spec.tokens)
        kept = sha256(msgspec.json.encode(fixed)).hexdigest()[:8]
        which = f"kept-{kept}" if spec.keep_session else str(self._run.id)
        return await self._sessions.open_session(
            workspace=folder,
            model=spec.model,
            policy=spec.policy,
            source=JOBS,
            key=f"{JOB_KEY}{job.id}/{which}",
            once=True,
            terminals=spec.terminals,
            share=ChildLimits(spec.tokens, spec.dollars),
        )

    async def _before(self, session: str, last: int) -> int:
        """The event number before the message; `last` if it is still queued."""
        for recorded in await self._context.store.events(session):
            if isinstance(recorded.event, ev.MessageTaken) and recorded.event.key == self.key:
                return recorded.number - 1
        return last

    # its turn

    async def _turn(self, job: Job) -> RunOutcome:
        following = asyncio.create_task(self._follow(job))
        stopped, beat = False, float("-inf")
        try:
            while not (await asyncio.wait({following}, timeout=POLL_SECONDS))[0]:
                worked = self._worked.count(waits=self._waits)
                if worked >= job.spec.timeout and not self._waits:
                    self.stop(TIMEOUT)
                if self._stopped_by and self._taken and not stopped:
                    stopped = await self._sessions.interrupt(self._run.session, self._stopped_by)
                elif self._stopped_by and not self._taken and await self._gave_up(job):
                    return RunOutcome("", error=_untaken(job, self._stopped_by))
                if worked - beat >= BEAT_SECONDS:
                    beat = worked
                    await self._change(heartbeat=(self._run.began or 0.0) + worked)
            end, by = following.result()
        finally:
            following.cancel()
        return _came_to(job, end, by)

    async def _gave_up(self, job: Job) -> bool:
        """Cancel the message that no turn has taken."""
        patient = self._worked.seconds < job.spec.timeout + UNTAKEN_SECONDS
        if patient and self._stopped_by == TIMEOUT:
            return False
        return await self._context.store.cancel_message(self._run.session, self.key)

    async def _follow(self, job: Job) -> tuple[ev.TurnFinished, str]:
        """The end of the turn that took the message, and who stopped it. Effects and questions that
        wait for a person make the run wait."""
        known = await self._context.store.last_number(self._run.session)
        by = ""
        waiting: dict[str, str] = {}
        asked: dict[str, str] = {}
        followed = self._sessions.follow(self._run.session, self.key, self._run.after)
        async for recorded, taken in followed:
            self._taken = self._taken or taken
            match recorded.event:
                case ev.InterruptAsked():
                    by = recorded.event.by
                case ev.CallParked(effect=effect, tool=tool):
                    waiting[effect] = tool
                case ev.ParkDecided(effect=effect):
                    waiting.pop(effect, None)
                case ev.QuestionAsked(id=id, text=text):
                    asked[id] = text
                case ev.QuestionAnswered(id=id):
                    asked.pop(id, None)
                case ev.TurnFinished() if self._taken:
                    return recorded.event, by
            if not recorded.number or recorded.number >= known:
                await self._wait_or_go_on(job, waiting, asked)
        await asyncio.Event().wait()  # the runtime ends; the next one goes on
        raise AssertionError

    async def _wait_or_go_on(
        self, job: Job, waiting: Mapping[str, str], asked: Mapping[str, str]
    ) -> None:
        self._worked.count(waits=self._waits)  # up to now it did what it did before
        self._waits = bool(waiting or asked)
        if waiting and self._run.state == "running":
            tools = ", ".join(dict.fromkeys(waiting.values()))
            await self._park(job, f"the outcome of {tools} is unknown: `hermes parked` lists them")
        elif not waiting:
            error = messages.asked_text(list(asked.values())) if asked else ""
            if (self._run.state, self._run.error) != ("running", error):
                await self._change(state="running", error=error)

    async def _park(self, job: Job, error: str) -> None:
        told = self._run.told
        if "parked" not in told:
            text = messages.parked_text(job, self._run, error)
            await self._notifier.alert(job, self._run, "parked", text)
            told = (*told, "parked")
        await self._change(state="parked", error=error, told=told)

    # its end

    async def end(self, done: RunOutcome) -> None:
        """Deliver the result, then record the end: a key ensures that it is delivered once."""
        job = await self._store.job(self._run.job)
        output = self._context.redact(messages.cut(done.text, messages.OUTPUT))
        spent: dict[str, object] = {"cost": done.cost, "tokens": done.tokens, "output": output}
        if done.error:
            await self._failed(job, done.error, spent)
            return
        if done.said:
            sent_to, unsent = await self._notifier.result(job, self._run, done.text)
            spent |= {"sent_to": sent_to, "unsent": unsent}
        told = self._run.told
        await self._alerts.over(job, "it works again")
        if job.failures:
            text = messages.well_text(job, job.failures)
            await self._notifier.alert(job, self._run, "well", text)
            told = (*told, "well")
        await self._change(state="done", said=done.said, error="", told=told, **spent)

    async def _failed(self, job: Job, error: str, spent: Mapping[str, object]) -> None:
        error = self._context.redact(error)
        failures, told = job.failures + 1, self._run.told
        log.warning("job %s failed (run %s): %s", title(job), self._run.id, error)
        if job.state != "removed":
            await self._alerts.failed(job, self._run, error)
        if messages.is_told(failures) and job.state != "removed":
            text = messages.failed_text(job, self._run, error, failures)
            await self._notifier.alert(job, self._run, "failed", text)
            told = (*told, "failed")
        await self._change(state="failed", said=False, error=error, told=told, **spent)


def _untaken(job: Job, by: str) -> str:
    if by != TIMEOUT:
        return f"it was stopped by {by}"
    late = span(job.spec.timeout)
    return f"its session did not start on it for more than {late}"


def _way_out(job: Job, end: ev.TurnFinished) -> str:
    """Why the turn ended early; a budget of the job is changed on the job."""
    for unit, own in (("tokens", job.spec.tokens), ("dollars", job.spec.dollars)):
        if own is not None and end.reason == "budget" and f"budgets.turn_{unit}" in end.hint:
            return f"`hermes task edit {job.id} --{unit} NUMBER`"
    return end.hint


def _came_to(job: Job, end: ev.TurnFinished, by: str) -> RunOutcome:
    tokens = end.usage.total
    if end.reason == "done":
        said = not messages.says_nothing(job, end.text)
        return RunOutcome(end.text if said else "", said, cost=end.cost, tokens=tokens)
    if end.reason == "interrupted":
        late = f"it took longer than {span(job.spec.timeout)} and was stopped"
        error = late if by == TIMEOUT else f"it was stopped by {by or 'somebody'}"
    else:
        way_out = _way_out(job, end)
        error = f"{end.error or end.reason}" + (f" ({way_out})" if way_out else "")
    return RunOutcome(end.text, said=False, error=error, cost=end.cost, tokens=tokens)
