"""What the doctor says of jobs: whether each slot has its run, and whether anybody is there when
they are due."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from hermes_agent.core.errors import HermesError
from hermes_agent.host import inspect
from hermes_agent.host.home import Home
from hermes_agent.host.paths import unit_path
from hermes_agent.runtime.backup import owned
from hermes_agent.store.store import Store

Report = tuple[Literal["ok", "info", "warn", "fail"], str, str]


def look(home: Path, environ: Mapping[str, str], status: dict[str, Any] | None) -> Iterator[Report]:
    """`status` is what a runtime that is up says of itself."""
    try:
        report = status.get("jobs") if status is not None else _offline(home)
    except HermesError:  # the store is not well, which is said elsewhere
        return
    if not report or not (report["active"] or report["paused"]):
        return
    for trouble in report["troubles"]:
        yield "fail", trouble, "`hermes task check`"
    for run in report.get("parked", ()):
        yield (
            "warn", f"run {run['run']} of {run['name']} waits for a decision",
            "`hermes parked` decides it" if run.get("session") else (
                f"`hermes task decide {run['run']} done|again|failed`"
            ),
        )  # fmt: skip
    for run in report.get("running", ()):
        if run.get("waits"):
            yield "warn", f"run {run['run']} of {run['name']}: {run['waits']}", "`hermes approvals`"
    for name in report.get("failing", ()):
        yield "warn", f"the job {name} fails", f"`hermes task show {name}`"
    if report["active"] and status is None:
        some = f"{report['active']} active, but the runtime is stopped: due runs are missed"
        yield "warn", some, "`hermes up`"
    if report["active"] and not Path(unit_path(environ)).exists():
        yield (
            "warn", f"{report['active']} jobs, but nothing starts Hermes after a reboot",
            "`hermes watch install`, or let your service manager run `hermes serve`",
        )  # fmt: skip
    else:
        yield "ok", f"{report['active']} active, {report['paused']} paused", ""


def _offline(home: Path) -> dict[str, Any] | None:
    if not (home / "state.db").exists() or inspect.lock_owner(str(home)) is not None:
        return None
    with owned(Home(home)):
        return asyncio.run(_look_inside(home))


async def _look_inside(home: Path) -> dict[str, Any]:
    from hermes_agent.jobs import consistency

    store = await Store.open(home, readonly=True)
    try:
        jobs = await store.jobs.jobs()
        # What came due since nobody was there has its rows as soon as somebody is.
        seen = max((job.planned for job in jobs), default=0.0)
        return {
            "active": sum(job.state == "active" for job in jobs),
            "paused": sum(job.state == "paused" for job in jobs),
            "failing": [job.spec.name or job.id for job in jobs if job.failures],
            "troubles": await consistency.check(store.jobs, seen) if jobs else [],
        }
    finally:
        await store.close()
