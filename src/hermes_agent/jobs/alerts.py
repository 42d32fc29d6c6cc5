"""Raises a signal when a job fails, if the job asks for that: one signal for consecutive failures,
and its end when a run succeeds."""

import logging

from hermes_agent.core.errors import Degraded, HermesError
from hermes_agent.core.incidents import Signal
from hermes_agent.core.jobs import Job, Run
from hermes_agent.core.ports import RaiseSignal
from hermes_agent.core.protocols import Clock
from hermes_agent.jobs.messages import cut, title

log = logging.getLogger("hermes.jobs")

DETAIL = 3_000


class JobAlerts:
    def __init__(self, raise_signal: RaiseSignal, clock: Clock) -> None:
        self._raise_signal = raise_signal
        self._clock = clock

    async def failed(self, job: Job, run: Run, error: str) -> None:
        """Raised on every failure; repeats count as one signal."""
        if job.spec.incident == "":
            return
        reason = (error.strip().splitlines() or ["it failed"])[0]
        await self._raise(
            Signal(
                "job",
                _fingerprint(job),
                f"job {title(job)} is failing: {reason}",
                title(job),
                job.spec.incident,
                detail=cut(f"run {run.id} of {job.id}: {error}", DETAIL),
                at=self._clock(),
                labels={"job": job.id, "run": str(run.id)},
                terminal=job.spec.terminals[0] if job.spec.terminals else "",
            )
        )

    async def over(self, job: Job, why: str) -> None:
        """The job works again, or no longer matters."""
        if job.spec.incident and job.failures:
            name, at = title(job), self._clock()
            await self._raise(
                Signal(
                    "job", _fingerprint(job), f"job {name}: {why}", name, job.spec.incident,
                    firing=False, at=at,
                )
            )  # fmt: skip

    async def _raise(self, signal: Signal) -> None:
        try:
            await self._raise_signal(signal)
        except Degraded:
            raise
        except HermesError as error:
            log.error("%s was not raised: %s", signal.title, error.message)


def _fingerprint(job: Job) -> str:
    return f"job:{job.id}"
