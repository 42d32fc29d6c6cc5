"""Sandboxes at Modal: whether they can be had, and the way to one."""

from collections.abc import Mapping
from pathlib import Path

from hermes_agent.core.errors import HermesError
from hermes_agent.core.places import ModalPlace
from hermes_agent.terminals.hosted import missing, unset
from hermes_agent.terminals.transport import Transport

KEYS = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")


async def check(_place: ModalPlace | None, environ: Mapping[str, str]) -> str:
    """What is missing, as a sentence, or nothing. The place itself is tried when it is used."""
    return _lacking(environ)


def transport(
    place: ModalPlace,
    *,
    session: str,
    workspace: str,  # noqa: ARG001 - the session's folder on this machine is not there
    folder: Path,
    environ: Mapping[str, str],
) -> Transport:
    if lacking := _lacking(environ):
        raise HermesError(lacking, "`modal token new` makes a token")
    from hermes_agent.terminals.modal_sandbox import ModalTransport

    return ModalTransport(place, session, folder, environ)


def _lacking(environ: Mapping[str, str]) -> str:
    return missing("modal", "modal", "Modal") or unset(environ, KEYS, "Modal")
