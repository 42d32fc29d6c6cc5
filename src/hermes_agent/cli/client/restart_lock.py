"""Marks a restart under way, so that a client following a turn can tell it from a stop. The mark is
a lock on the folder of the runtime's socket; it ends with the restarting process."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from hermes_agent.host.paths import socket_paths


@contextmanager
def restarting(home: str) -> Iterator[None]:
    """Inside this, `is_restarted` tells other processes that the runtime will come back."""
    with ExitStack() as held:
        for folder in _folders(home, held):
            with suppress(OSError):  # no locks on this file system: followers wait a shorter time
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
