"""Sandboxes at Daytona: whether they can be had, and the way to one."""

from collections.abc import Mapping
from pathlib import Path

from hermes_agent.core.errors import HermesError
from hermes_agent.core.places import DaytonaPlace
from hermes_agent.terminals.hosted import missing, unset
from hermes_agent.terminals.transport import Transport

KEYS = ("DAYTONA_API_KEY",)


async def check(_place: DaytonaPlace | None, environ: Mapping[str, str]) -> str:
    """What is missing, as a sentence, or nothing. The place itself is tried when it is used."""
    return _lacking(environ)


def transport(
    place: DaytonaPlace,
    *,
    session: str,
    workspace: str,  # noqa: ARG001 - the session's folder on this machine is not there
    folder: Path,
    environ: Mapping[str, str],
) -> Transport:
    if lacking := _lacking(environ):
        raise HermesError(lacking, "keys are made at app.daytona.io/dashboard/keys")
    from hermes_agent.terminals.daytona_sandbox import DaytonaTransport

    return DaytonaTransport(place, session, folder, environ)


def _lacking(environ: Mapping[str, str]) -> str:
    return missing("daytona", "daytona", "Daytona") or unset(environ, KEYS, "Daytona")
