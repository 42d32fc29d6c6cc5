"""A restart under way, so that whoever follows a turn can tell it from a stop. It is a lock on the
folder of the runtime's socket: it ends with the process that restarts, however that ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from hermes_agent.host.paths import socket_paths


@contextmanager
def restarting(home: str) -> Iterator[None]:
    """Until this ends, `is_restarted` says that the runtime comes back."""
    with ExitStack() as held:
        for folder in _folders(home, held):
            with suppress(OSError):  # a file system without locks: those who follow wait less long
                fcntl.flock(folder, fcntl.LOCK_SH)
        yield


def is_restarted(home: str) -> bool:
    with ExitStack() as held:
        for folder in _folders(home, held):
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            except OSError:
                continue
    return False


def _folders(home: str, held: ExitStack) -> Iterator[int]:
    for path in socket_paths(home):
        with suppress(OSError):
            folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
            held.callback(os.close, folder)
            yield folder
