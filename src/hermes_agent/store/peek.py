"""Reads a store that no runtime has open. Nothing is created or changed."""

from pathlib import Path

import apsw
from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.store.engine.connection import DATABASE, StoreContext
from hermes_agent.store.engine.database import connect_reader


class Waiting(Struct, frozen=True):
    """Jobs waiting for a runtime."""

    active: int
    paused: int
    next: float | None
    """When the first of them is due."""


_JOBS = """
select count(*) filter (where state = 'active'), count(*) filter (where state = 'paused'),
  min(next) filter (where state = 'active')
from jobs
"""


def waiting_jobs(home: Path) -> Waiting | None:
    """None if it cannot be read."""
    if not (home / DATABASE).exists():
        return None
    try:
        db = connect_reader(StoreContext(home))
    except (HermesError, apsw.Error, OSError):
        return None
    try:
        ((active, paused, next),) = db.rows(_JOBS)
    except apsw.Error:
        return None
    finally:
        db.close()
    return Waiting(active, paused, next)
