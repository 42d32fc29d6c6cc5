"""`make demo`: a machine is broken for real, and Hermes finds out why, heals it and is quicker the
next time. A fresh home, no key, no network; the runtime is killed with SIGKILL in the middle.

    python -m hermes_drills.demo [--model NAME]
"""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from hermes_drills.compose import Case, compose, faults, missing
from hermes_drills.errors import DrillError
from hermes_drills.needs import lacking
from hermes_drills.run.feed import IncidentFeed
from hermes_drills.run.results import Result
from hermes_drills.run.runner import Mode, Runner
from hermes_drills.run.view import Line, View, cut
from hermes_drills.small_demo import LocalRuntime, no_namespaces, play_small
from hermes_drills.types import Init

FAULTS = ("bad-config/syntax", "service-crash/stopped")
"""The first of them that this machine has the programs for."""
SEED, STACK = 7, "web"
INIT: Init = "systemd"
RESPONDER = "builtin/responder"
KEYS = {
    "ANTHROPIC_API_KEY": "anthropic", "OPENAI_API_KEY": "openai", "GEMINI_API_KEY": "google",
    "MISTRAL_API_KEY": "mistral", "OPENROUTER_API_KEY": "openrouter",
}  # fmt: skip
LOOKS = 3
"""Calls after which the runtime is killed."""
OWN = ("machine", "broken", "kill -9", "resumes")
SHOWN = {
    "alert": 1, "looks": 1, "suspects": 1, "acts": 2, "verified": 1, "resolved": 1,
    "handed over": 1, "learned": 1, "report": 1,
}  # fmt: skip
"""How many of each kind the first round shows, each with a detail; the rest is in the report."""
AGAIN = {"alert": 1, "looks": 1, "suspects": 1, "acts": 1, "resolved": 1, "handed over": 1}


class Round(Runner):
    """A run that is told in a few lines, and whose runtime may be killed in the middle."""

    def __init__(
        self, runtime: LocalRuntime, case: Case, mode: Mode, view: View, *, kill: bool
    ) -> None:
        super().__init__(runtime, case, mode, view)
        self._kills, self._left = kill, dict(SHOWN if kill else AGAIN)
        self._said: set[tuple[str, str]] = set()
        self.killed = 0
        """The process id of the runtime that was killed."""

    def play(self) -> Result:
        try:
            return self.run()
        finally:
            self.close()

    def say(self, word: str, text: str, tone: str, *details: str) -> None:
        if word == "discarded" or (self._kills and word in OWN):
            super().say(word, text, tone, *details)

    def say_well(self) -> None:
        world = self.case.world
        parts = [
            f"{one.name} (needs {', '.join(one.needs)})" if one.needs else one.name
            for one in world.services
        ]
        self.say(
            "machine", f"{world.hostname} with {', '.join(parts)}, under {world.style.init}", "good"
        )

    def noticed(self, line: Line) -> None:
        key = (line.word, cut(line.text, 80))
        if self._left.get(line.word) and key not in self._said and self.view is not None:
            self._said.add(key)
            self._left[line.word] -= 1
            details = line.details[-1:] if line.word == "alert" else line.details[:1]
            details = details if self._kills else ()
            line = line._replace(text=line.text.replace(f"{Path.cwd()}/", ""))
            self.view.say(line._replace(details=tuple(cut(one, 150) for one in details)))

    def follow(self, feed: IncidentFeed) -> None:
        """Kill the runtime as soon as it is at work, then go on as ever."""
        while self._kills and not self.killed and not feed.over:
            for line in feed.poll():
                self.noticed(line)
            if len(feed.calls) >= LOOKS or feed.incident.get("hypotheses"):
                if looked := feed.looked():
                    self.noticed(looked)
                self._kill()
            self.wait(feed.status)
        super().follow(feed)

    def _kill(self) -> None:
        self.killed = int(self.runtime.ask("GET", "/v1/status")["pid"])
        os.kill(self.killed, signal.SIGKILL)
        self.say("kill -9", f"{self.killed}    # the runtime, in the middle of its work", "bad")
        now = self.runtime.get("/v1/status")["pid"]
        self.say("resumes", f"runtime {now} continues where the work stopped", "good")

    def say_outcome(self, result: Result) -> None:
        wrong = "; ".join((*result.harm, *result.wrong))
        said = "healthy, the cause is gone, nothing else changed"
        said = said if result.resolved else f"{result.outcome}: {wrong}"
        cause = f"diagnosis: {result.said}" + ("" if result.cause else " (wrong)")
        tone = "good" if result.resolved else "bad"
        details = (cause,) if self._kills else ()
        super().say("proof", f"checked from outside: {said}", tone, *details)


def _case() -> Case:
    known = {fault.name: fault for fault in faults("first")}
    for name in FAULTS:
        if name in known and not missing(
            case := compose(known[name], SEED, stack=STACK, init=INIT)
        ):
            return case
    raise DrillError(f"{', '.join(lacking(()))} not found", "apt-get install util-linux")


def _play(runtime: LocalRuntime, view: View, model: str) -> int:
    mode = Mode(model=model or RESPONDER)
    if model:
        runtime.post("/v1/models/test", {"model": model, "ask": False})
    first = Round(runtime, _case(), mode, view, kill=True)
    once = first.play()
    view.write(view.tint("\n  It happens again, on a new machine of the same kind:", "bold"))
    again = Round(runtime, _case(), mode, view, kill=False).play()
    twice = first.feed.work().again if first.feed else 0
    view.write(f"""
                        first    second
  healed                {_yes(once.resolved):>5}    {_yes(again.resolved):>6}
  tool calls            {once.calls:>5}    {again.calls:>6}
  seconds to recover    {once.seconds:>5.1f}    {again.seconds:>6.1f}
  kill -9 survived      {_yes(bool(first.killed)):>5}         -    (calls repeated: {twice})

Next: `.venv/bin/hermes drill list` has more faults; docs/guides/first-steps.md shows the rest.""")
    return 0 if once.resolved and again.resolved and first.killed else 1


def _yes(good: bool) -> str:
    return "yes" if good else "no"


def _folder() -> Path:
    """Where the home stays after the demo; the next one replaces it."""
    here = Path(".demo").absolute()
    with contextlib.suppress(OSError):
        here.mkdir(mode=0o700, exist_ok=True)
        return here
    return Path(tempfile.gettempdir(), f"hermes-demo-{os.getuid()}")


def _greet(view: View, model: str) -> None:
    who = f"healed by {model}" if model else "no key, no network"
    view.write(view.tint(f"Hermes in a fresh home, {who}.", "bold"))
    found = next((name for name in KEYS if os.environ.get(name)), "")
    if found and not model:
        view.write(f"{found} is set: `make demo MODEL={KEYS[found]}/…` lets that model heal it.")
    view.write("")


def main() -> int:
    parser = argparse.ArgumentParser(description="Break a machine, and watch Hermes heal it.")
    parser.add_argument("--model", default="", help="the model; default: the embedded responder")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    for name in [name for name in os.environ if name.startswith("HERMES_")]:
        del os.environ[name]  # what is configured here is no part of it
    view, folder = View(sys.stdout, rows=1), _folder()
    runtime = LocalRuntime(folder / "home")
    try:
        runtime.stop()  # of a demo that was killed
        shutil.rmtree(folder, ignore_errors=True)
        _greet(view, options.model)
        runtime.start()
        if why := no_namespaces():
            view.write(f"The full demo cannot run here: {why}. This shows only a kill -9.")
            return play_small(runtime, folder / "work", view)
        return _play(runtime, view, options.model)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0  # whoever read it has seen enough
    except DrillError as error:
        view.write(f"The demo failed: {error}")
        return 1
    finally:
        view.close()
        runtime.stop()


if __name__ == "__main__":
    sys.exit(main())
