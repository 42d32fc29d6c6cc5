"""Sandboxes at E2B: whether they can be had, and the way to one."""

from collections.abc import Mapping
from pathlib import Path

from hermes_agent.core.errors import HermesError
from hermes_agent.core.places import E2bPlace
from hermes_agent.terminals.hosted import missing, unset
from hermes_agent.terminals.transport import Transport

KEYS = ("E2B_API_KEY",)


async def check(_place: E2bPlace | None, environ: Mapping[str, str]) -> str:
    """What is missing, as a sentence, or nothing. The place itself is tried when it is used."""
    return _lacking(environ)


def transport(
    place: E2bPlace,
    *,
    session: str,
    workspace: str,  # noqa: ARG001 - the session's folder on this machine is not there
    folder: Path,
    environ: Mapping[str, str],
) -> Transport:
    if lacking := _lacking(environ):
        raise HermesError(lacking, "keys are made at e2b.dev/dashboard")
    from hermes_agent.terminals.e2b_sandbox import E2bTransport

    return E2bTransport(place, session, folder, environ)


def _lacking(environ: Mapping[str, str]) -> str:
    return missing("e2b", "e2b", "E2B") or unset(environ, KEYS, "E2B")
