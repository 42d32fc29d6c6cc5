"""Finding what a person means by the beginning of an id, and acting on it."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from hermes_agent.cli.client import Api
from hermes_agent.core.errors import NotFound

TRIES = 30
PAUSE = 0.1


def myself() -> str:
    """Whose answer it is, by login name: several people may share a machine's account."""
    if name := os.environ.get("SUDO_USER"):
        return name
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def pick(rows: Sequence[dict[str, Any]], key: str, beginning: str, what: str) -> dict[str, Any]:
    """The one row whose id begins so."""
    fitting = [row for row in rows if row[key] == beginning]
    fitting = fitting or [row for row in rows if beginning and row[key].startswith(beginning)]
    if len(fitting) == 1:
        return fitting[0]
    command = {"effect": "parked", "id": "approvals"}[key]
    if fitting:
        several = ", ".join(row[key] for row in fitting[:4])
        raise NotFound(f"{beginning!r} begins several", f"write more of it: {several}")
    raise NotFound(f"no {what} {beginning!r}", f"`hermes {command}` lists them")


def settle(api: Api, act: Callable[[], Any]) -> Any:
    """A runtime that is just being started lists what it has not taken up yet: give it a moment
    once it answers. One that died is started again, however long that takes."""
    from hermes_agent.cli.follow import reach

    for _ in range(TRIES):
        try:
            return reach(api, act)
        except NotFound:
            time.sleep(PAUSE)
    return reach(api, act)
