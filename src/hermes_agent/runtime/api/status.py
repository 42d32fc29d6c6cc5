"""How a runtime is, in figures."""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes_agent.runtime.runtime import Runtime


async def of(runtime: "Runtime") -> dict[str, Any]:
    """What `hermes status` shows of a runtime."""
    health = runtime.store.health
    well = health.state == "well"
    return {
        "pid": os.getpid(),
        "state": "stopping" if runtime.is_stopping else "running" if well else "degraded",
        "reason": health.reason,
        "hint": health.hint,
        "home": str(runtime.home.path),
        "model": runtime.settings.model,
        "policy": runtime.settings.policy,
        "uptime": round(runtime.clock() - runtime.started, 1),
        "working": sorted(runtime.working),
        "parked": len(await runtime.store.parked()) if well else None,
        "questions": len(await runtime.store.questions()) if well else None,
        "listeners": runtime.bus.listeners,
        "learning": await runtime.learning.status() if well else None,
        "watch": await runtime.incidents.status(),
        "jobs": await runtime.jobs.status() if well else None,
        **(await runtime.services.status()),
    }
