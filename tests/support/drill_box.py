"""One box for all tests of a process; each has a folder of its own in it."""

import atexit
import contextlib
import functools
import os
import tempfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

from hermes_agent.core.settings.terminals import NamespaceSettings
from hermes_agent.terminals import namespace
from hermes_agent.terminals.transport import Transport
from hermes_drills.box.box import Box
from hermes_drills.types import Style, World
from tests.support.terminals import FarPlace, Place
from tests.support.transports import Way

EMPTY = World("none", Style("opt", "etc", "ini", "file", "bak", "supervisord"), "box", (), "")
"""A machine on which nothing runs."""


@functools.cache
def shared_box() -> Box:
    made = Box(Path(tempfile.mkdtemp(), "box"))
    made.boot(EMPTY)
    atexit.register(made.remove)
    return made


def _open(folder: Path) -> Transport:
    return namespace.transport(
        NamespaceSettings(str(shared_box().folder)),
        session="one",
        workspace="/root",
        folder=folder,
        environ=os.environ,
    )


def _own() -> str:
    path = f"/root/{uuid.uuid4().hex}"
    shared_box().run(f"mkdir {path}")
    return path


@contextlib.asynccontextmanager
async def box_way(folder: Path) -> AsyncIterator[Way]:
    transport = _open(folder)
    yield Way(transport, lambda: _open(folder), _own())
    await transport.destroy()


@contextlib.asynccontextmanager
async def box_place(folder: Path) -> AsyncIterator[Place]:
    yield FarPlace(lambda: _open(folder), _own(), folder, session=uuid.uuid4().hex)
