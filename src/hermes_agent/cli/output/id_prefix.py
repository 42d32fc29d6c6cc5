"""Finding what a person means by the beginning of an id."""

import os
from collections.abc import Sequence
from typing import Any

from hermes_agent.core.errors import NotFound


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
