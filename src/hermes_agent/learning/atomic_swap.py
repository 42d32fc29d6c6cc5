"""Swaps two files or folders atomically, where the file system supports it."""

import errno
import functools
import os
import sys
from pathlib import Path
from typing import Any

_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EXDEV}
_HERE = -100
"""AT_FDCWD of Linux."""
_SWAP = 2
"""RENAME_EXCHANGE of Linux and RENAME_SWAP of macOS."""


def exchange(one: Path, other: Path) -> bool:
    """Swap the two; False if the file system cannot, and then nothing has changed."""
    import ctypes  # at the leaf, here and below: most turns swap nothing

    call = _call()
    if call is None:
        return False
    if call(os.fsencode(one), os.fsencode(other)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(one))


@functools.cache
def _call() -> Any:
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        swap = getattr(library, "renamex_np", None)
        return swap and (lambda one, other: swap(one, other, ctypes.c_uint(_SWAP)))
    rename = getattr(library, "renameat2", None)
    return rename and (lambda one, other: rename(_HERE, one, _HERE, other, ctypes.c_uint(_SWAP)))
