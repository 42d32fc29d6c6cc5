"""Edits text in the user's editor."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hermes_agent.core.errors import HermesError, UsageError

USUAL = ("editor", "nano", "vi")
"""Tried when neither VISUAL nor EDITOR is set."""


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def edited(text: str, file_name: str) -> str:
    """The text after editing. `file_name` tells the editor its type."""
    import shlex
    import subprocess
    import tempfile

    command = shlex.split(_chosen())
    with tempfile.TemporaryDirectory(prefix="hermes-edit-") as folder:
        path = os.path.join(folder, os.path.basename(file_name))
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        try:
            code = subprocess.run([*command, path], check=False).returncode
        except OSError as error:
            raise UsageError(
                f"cannot start the editor {command[0]!r}: {error.strerror}",
                "set EDITOR to an installed editor",
            ) from None
        if code:
            raise HermesError(f"{command[0]} exited with code {code}", "nothing was changed")
        try:
            with open(path, encoding="utf-8", newline="") as file:
                return file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise HermesError(
                f"cannot read what the editor wrote: {error}", "nothing was changed"
            ) from None


@contextmanager
def save_draft_on_error(text: str, file_name: str) -> Iterator[None]:
    """Save what was written to a file if it cannot be used."""
    try:
        yield
    except HermesError as error:
        place = f"your text is in {_save_draft(text, file_name)}"
        between = "\n" if "\n" in error.hint else "; "
        error.hint = f"{error.hint}{between}{place}" if error.hint else place
        raise


def _save_draft(text: str, file_name: str) -> str:
    import tempfile

    path = os.path.join(tempfile.mkdtemp(prefix="hermes-draft-"), os.path.basename(file_name))
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return path


def _chosen() -> str:
    for name in ("VISUAL", "EDITOR"):
        if command := os.environ.get(name, "").strip():
            return command
    import shutil

    found = next((name for name in USUAL if shutil.which(name)), "") if has_terminal() else ""
    if not found:
        raise UsageError("no editor found", "set EDITOR, as in EDITOR=nano")
    return found
