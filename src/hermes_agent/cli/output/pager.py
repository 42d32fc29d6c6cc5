"""Texts that are longer than the screen are shown in a pager, on a terminal only."""

import os
import sys

from hermes_agent.cli.output.formatting import cells, headed


def show(text: str, *, end: bool = False) -> None:
    """Print a text; page it if it does not fit on the terminal, from its end if that matters."""
    text = headed(text)
    if not (sys.stdout.isatty() and sys.stdin.isatty() and _is_long(text) and _page(text, end)):
        print(text, flush=True)


def _is_long(text: str) -> bool:
    import shutil

    width, height = shutil.get_terminal_size()
    lines = text.split("\n")
    return len(lines) >= height or sum(cells(one) // width + 1 for one in lines) >= height


def _page(text: str, end: bool) -> bool:
    """False if there is no pager, or it cannot be run."""
    import shutil
    import signal
    import subprocess

    less = "less -FRX" if shutil.which("less") else ""
    command = os.environ.get("HERMES_PAGER", os.environ.get("PAGER", less))
    if command in ("", "cat") or os.environ.get("TERM", "dumb") == "dumb":
        return False
    if "HERMES_SPOOL" in os.environ:  # the agent's shell: a pager could run other programs
        return False
    before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is the pager's
    try:
        pager = subprocess.Popen(  # noqa: S602 - PAGER is a command line of the user
            command,
            shell=True,
            stdin=subprocess.PIPE,
            env={"LESS": "FRX+G" if end else "FRX", **os.environ},
        )
        pager.communicate(f"{text}\n".encode(errors="backslashreplace"))  # it may end early
    finally:
        signal.signal(signal.SIGINT, before)
    return pager.returncode not in (126, 127)
