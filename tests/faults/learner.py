"""Starts real runtimes with all of their tools, which can be told to kill themselves with SIGKILL
at the n-th write of a name: `before:want` or `after:edit_notes`, or of any: `before:any`.

Run as `python -m tests.faults.learner HOME PHASE NUMBER`."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Literal

from tests.faults.harness import ForkServer

ANY = "any"


class Killer:
    """Counts the writes of a name and ends the process at one of them."""

    def __init__(self, phase: str, number: int) -> None:
        self._phase, _, self._name = phase.partition(":")
        self._left = number

    def __call__(self, phase: Literal["before", "after"], names: tuple[str, ...]) -> None:
        if phase == self._phase and (self._name in names or self._name == ANY):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class Learners(ForkServer):
    """Each runtime is a process of its own, for its settings may name models and tools."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, home: Path, phase: str = "never", number: int = 0) -> int:
        environment = {
            **os.environ,
            "HERMES_POLICY": "sandbox",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        words = [sys.executable, "-m", "tests.faults.learner", str(home), phase, str(number)]
        with (home / "fork.log").open("ab") as log:
            process = subprocess.Popen(
                words, env=environment, cwd=Path(__file__).parents[2], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self._started.append(process)
        return process.pid

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()


def main() -> None:
    from hermes_agent.runtime.process import serve

    home, phase, number = sys.argv[1:]
    serve(Path(home), dict(os.environ), store_hook=Killer(phase, int(number)))


if __name__ == "__main__":
    main()
