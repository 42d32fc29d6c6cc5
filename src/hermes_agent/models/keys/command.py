"""A key that a command prints: a password manager, a cloud's CLI, a script."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ModelError
from hermes_agent.core.protocols import Clock
from hermes_agent.core.timeouts import awake
from hermes_agent.models.keys.validation import Learn, checked
from hermes_agent.models.wires.base import Credential

LIMIT_SECONDS = 30.0
PAUSE_SECONDS = 5.0
"""A command is not run again sooner than this, even after a failure."""
EARLY_SECONDS = 60.0
"""Fetch a new key this long before the old one expires."""
_MAX_BYTES = 65_536
_SHOWN_CHARS = 200


class KeyCommandOutput(Struct, frozen=True):
    """What a command prints if it is more than a key."""

    secret: str
    id: str = ""
    session: str = ""
    expires: float | str | None = None


class CommandSource:
    """Runs a shell command to get the key: at first, when it expires, and after a refusal."""

    where = "a command"

    def __init__(
        self,
        label: str,
        command: str,
        environ: Mapping[str, str],
        folder: Path,
        learn: Learn,
        clock: Clock,
        limit: float = LIMIT_SECONDS,
    ) -> None:
        # Not the command itself: people write keys into commands.
        self.label = label
        self._argv = ("/bin/sh", "-c", command)
        self._environ, self._folder = environ, folder
        self._learn, self._clock, self._limit = learn, clock, limit
        self._one_run = asyncio.Lock()
        self._ran: float | None = None
        self._last: Credential | ModelError = ModelError("auth", f"{label} has not run yet")
        self._expires: float | None = None
        self._again = False

    async def credential(self) -> Credential:
        async with self._one_run:
            if self._due():
                self._again, self._expires = False, None
                try:
                    self._last = await self._run()
                except ModelError as error:
                    self._last = error
                self._ran = self._clock()
            match self._last:
                case ModelError(kind=kind, message=message, hint=hint):
                    raise ModelError(kind, message, hint)  # a new one: each raise adds to it
                case kept:
                    return kept

    def refused(self) -> None:
        self._again = True

    def present(self) -> bool | None:
        return True if isinstance(self._last, Credential) else None

    def _due(self) -> bool:
        now = self._clock()
        if self._ran is None:
            return True
        if 0 <= now - self._ran < PAUSE_SECONDS:
            return False
        late = self._expires is not None and now > self._expires - EARLY_SECONDS
        return self._again or late or isinstance(self._last, ModelError)

    async def _run(self) -> Credential:
        output = await run_program(self._argv, self._environ, self._folder, self._limit, self.label)
        printed = _printed(output, self.label)
        for secret in (printed.secret, printed.session):
            if secret:
                self._learn(self.label, secret)
        self._expires = moment(printed.expires, self.label)
        session = checked(printed.session, self.label) if printed.session else ""
        return Credential(
            checked(printed.secret, self.label), id=printed.id, session=session, label=self.label
        )


def _printed(output: str, label: str) -> KeyCommandOutput:
    text = output.strip()
    if not text.startswith("{"):
        return KeyCommandOutput(text.split("\n", 1)[0].strip())
    try:
        return msgspec.json.decode(text, type=KeyCommandOutput)
    except msgspec.MsgspecError:
        # msgspec's message may quote the output.
        raise ModelError(
            "auth",
            f"{label} printed an object without a valid key",
            'print the key alone, or {"secret": …, "id": …, "session": …, "expires": …}',
        ) from None


def moment(said: Any, label: str) -> float | None:
    """Seconds since the epoch, from a number or an ISO 8601 date."""
    if said is None or isinstance(said, int | float):
        return said
    try:
        date = datetime.fromisoformat(said)
    except (TypeError, ValueError):
        date = None
    if date is None or date.tzinfo is None:
        raise ModelError(
            "auth",
            f"{label} printed an unreadable expiry date",
            "give seconds since 1970, or a date like 2031-05-01T12:00:00Z",
        )
    return date.timestamp()


async def _begun(starting: "asyncio.Future[asyncio.subprocess.Process]") -> Any:
    """The process, or None if it could not be started."""
    await asyncio.wait({starting})
    return None if starting.exception() is not None else starting.result()


async def run_program(
    argv: Sequence[str], environ: Mapping[str, str], folder: Path | None, limit: float, label: str
) -> str:
    """The output of a program. After `limit` seconds, or if the caller is cancelled, the program is
    killed together with its children."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            env=dict(environ),
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    )
    ended = False
    try:
        # Shielded: a start that is cancelled half-way leaves a process that cannot be killed.
        process = await asyncio.shield(starting)
        async with awake(limit):
            stdout, stderr = await process.communicate()
        ended = True
    except OSError as error:
        if not isinstance(error, TimeoutError):
            raise ModelError("auth", f"{label} cannot be run: {error.strerror}") from None
        raise ModelError(
            "auth",
            f"{label} printed no key in {limit:g} seconds",
            "it cannot prompt here; run it in a terminal to check",
        ) from None
    finally:
        if not ended and (process := await _begun(starting)) is not None:
            # The group may outlive its leader: something in it still holds the output open.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    text = stdout[:_MAX_BYTES].decode(errors="replace")
    if process.returncode != 0:
        raise ModelError(
            "auth",
            f"{label} failed (exit {process.returncode}){_complaint(stderr, text)}",
            "run it in a terminal to see what is wrong",
        )
    return text


def _complaint(stderr: bytes, output: str) -> str:
    """The first line of its error output, without what may be the key."""
    lines = stderr[:_MAX_BYTES].decode(errors="replace").strip().splitlines()
    if not lines:
        return ""
    line = lines[0]
    for printed in output.split():
        line = line.replace(printed, "[key]")
    return f": {line[:_SHOWN_CHARS]}"
