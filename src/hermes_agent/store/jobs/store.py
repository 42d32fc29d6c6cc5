"""Jobs and their runs: a part of the store."""

from hermes_agent.store.engine.operations import StorePart, read, write
from hermes_agent.store.jobs import jobs as job_rows
from hermes_agent.store.jobs import runs as run_rows


class JobStore(StorePart):
    add = write(job_rows.add_job)
    job = read(job_rows.job)
    key_known = read(job_rows.key_known)
    jobs = read(job_rows.jobs)
    change = write(run_rows.change_job)
    due = read(job_rows.due)
    first = read(job_rows.first)
    plan = write(run_rows.plan)
    rewind = write(run_rows.rewind)
    ask = write(run_rows.ask)
    run = read(run_rows.run)
    runs = read(run_rows.runs)
    open = read(run_rows.open_runs)
    claim = write(run_rows.claim)
    change_run = write(run_rows.change_run)
    claim_unfinished = write(run_rows.claim_unfinished_runs)
    spans = read(job_rows.spans)
    all_slots = read(run_rows.all_slots)
    _tidy_some = write(run_rows.tidy_runs)

    async def tidy(self, keep: int) -> int:
        """Delete ended runs beyond the newest `keep` of each job, and the spans before them;
        returns how many."""
        gone = 0
        while some := await self._tidy_some(max(1, keep)):
            gone += some
        return gone
