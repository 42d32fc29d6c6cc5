"""Starts real runtimes quickly: everything is imported once, and each runtime is a fork of this
process that owns a home, answers on its socket, and can be told to kill itself with SIGKILL at a
chosen journal write.

Run as `python -m tests.faults.fork_server`; reads `HOME PHASE NUMBER` lines, answers `pid`."""

import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Literal

from hermes_agent.core.tools import Tool
from hermes_agent.runtime.process import serve
from hermes_agent.runtime.tools.builtin import load_tools


def append_line(path: str, line: str) -> str:
    """Add a line to a file. Twice is not once."""
    with Path(path).open("a") as file:
        file.write(line + "\n")
    return f"added {line}"


def count_lines(path: str) -> str:
    """How many lines a file has."""
    try:
        return str(len(Path(path).read_text().splitlines()))
    except FileNotFoundError:
        return "0"


TOOLS = (
    Tool("append_line", append_line, "Add a line to a file"),
    Tool("count_lines", count_lines, "Count the lines of a file", repeatable=True),
)


class Killer:
    """Counts journal writes and ends the process at one of them."""

    def __init__(self, home: Path, phase: str, number: int) -> None:
        self._counter = home / "writes"
        self._phase = phase
        self._number = number
        self._writes = 0

    def __call__(self, phase: Literal["before", "after"], names: tuple[str, ...]) -> None:
        self._writes += phase == "before"
        if phase == self._phase and self._writes == self._number:
            os.kill(os.getpid(), signal.SIGKILL)
        if phase == "after":
            self._counter.write_text(str(self._writes))


def run(home: Path, phase: str, number: int) -> None:
    os.setsid()
    log = os.open(home / "fork.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    empty = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((empty, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    serve(
        home,
        dict(os.environ),
        tools=(*load_tools(("terminal", "files", "people", "base", "delegate", "code")), *TOOLS),
        store_hook=Killer(home, phase, number),
    )


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children need no burial
    for line in sys.stdin:
        home, phase, number = line.rsplit(" ", 2)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                run(Path(home), phase, int(number))
            finally:  # a fork must never go on with this loop
                traceback.print_exc()
                os._exit(1)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
