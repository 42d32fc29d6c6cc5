"""How a runtime is, in figures."""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes_agent.runtime.runtime import Runtime


async def status(runtime: "Runtime") -> dict[str, Any]:
    """What `hermes status` shows of a runtime."""
    health = runtime.context.store.health
    well = health.state == "well"
    return {
        "pid": os.getpid(),
        "state": "stopping" if runtime.sessions.is_stopping else "running" if well else "degraded",
        "reason": health.reason,
        "hint": health.hint,
        "home": str(runtime.context.home.path),
        "model": runtime.context.settings.model,
        "policy": runtime.context.settings.policy,
        "uptime": round(runtime.context.clock() - runtime.context.started, 1),
        "working": sorted(runtime.sessions.working),
        "parked": len(await runtime.context.store.parked()) if well else None,
        "questions": len(await runtime.context.store.questions()) if well else None,
        "listeners": runtime.context.bus.listeners,
        "learning": await runtime.learning.status() if well else None,
        "watch": await runtime.incidents.status(),
        "jobs": await runtime.jobs.status() if well else None,
        **(await runtime.services.status()),
    }
