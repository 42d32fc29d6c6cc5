"""One run: a box is made and broken, the runtime finds out by a health check and heals it, and what
became of it is judged from outside."""

import errno
import json
import secrets
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hermes_drills.compose import Case
from hermes_drills.episode import Episode
from hermes_drills.errors import Discarded, DrillError
from hermes_drills.run import left, results
from hermes_drills.run.client import Runtime, RuntimeGone
from hermes_drills.run.feed import OVER, IncidentFeed
from hermes_drills.run.results import Result
from hermes_drills.run.view import Line, View
from hermes_drills.types import Diagnosis, Verdict

POLICY = "drill"
EVERY_SECONDS = 2
TRIES = 3
"""Episodes that are made before one must prove itself."""
DETECTION_SECONDS = 60.0
MAX_SECONDS = 900.0
"""How long healing may take."""
REPORT_SECONDS = 120.0
"""How long the report and the skill may take once it is over."""
POLL_SECONDS = 0.25
ROOM = 1 << 18
"""Bytes of the home that a run needs."""
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM})


class Mode(Struct, frozen=True):
    """How a run is done."""

    learning: bool = True
    model: str = ""
    runbook: bool = False
    """The runbook of the skill that fits heals it, without a model."""
    keep: bool = False
    """The box stays."""


class Stopped(DrillError):
    """Somebody ended the sweep that this run is part of."""


def run_drill(
    runtime: Runtime, case: Case, mode: Mode, view: View | None, stop: threading.Event | None = None
) -> Result:
    runner = Runner(runtime, case, mode, view, stop)
    try:
        return runner.run()
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        raise DrillError(
            f"cannot write {error.filename or runtime.home}: {error.strerror}",
            "a drill needs free space and write access in the home; HERMES_HOME names another",
        ) from None
    finally:
        runner.close()


class Runner:
    def __init__(
        self, runtime: Runtime, case: Case, mode: Mode, view: View | None,
        stop: threading.Event | None = None,
    ) -> None:  # fmt: skip
        self.runtime, self.case, self.mode, self.view = runtime, case, mode, view
        self._stop = stop or threading.Event()
        self._folder = runtime.home / "drills"
        self._id = ""
        self.episode: Episode | None = None
        self.feed: IncidentFeed | None = None

    @property
    def terminal(self) -> str:
        """The name of the box's terminal, and of its check."""
        return f"drill-{self._id}"

    def run(self) -> Result:
        self._try_room()
        self.say("drill", f"{self.case.name} ({self.case.split})", "bold")
        episode = self.prepare()
        injected = time.time()
        self._raise_alert(episode)
        self.feed = IncidentFeed(self.runtime, self._incident_of(episode))
        self.follow(self.feed)
        if not self.mode.keep:  # nobody is to go on because of the check while it is judged
            self._check_path.unlink(missing_ok=True)
        verdict = episode.judge()
        self.feed.poll()
        result = self._result(episode, self.feed, verdict, injected)
        self._post_outcome(result)
        results.save(self._folder, result)
        self.say_outcome(result)
        return result

    @property
    def _check_path(self) -> Path:
        return left.check_path(self.runtime.home, self._id)

    def _try_room(self) -> None:
        """Raises where the home has no room for a box and its results."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self._folder) as file:
            file.write(bytes(ROOM))
            file.flush()

    def prepare(self) -> Episode:
        """A box that was proven well, and is proven broken."""
        why = ""
        for number in range(1, TRIES + 1):
            self._id = secrets.token_hex(4)
            self.episode = episode = Episode(self.case, self._folder / self._id)
            try:
                episode.boot()
                self.say_well()
                episode.inject()
            except Discarded as error:
                episode.remove()
                why = error.message
                self.say("discarded", f"attempt {number}: {why}", "bad")
                continue
            self.say_broken(episode)
            return episode
        raise DrillError(
            f"{self.case.name!r} could not be set up in {TRIES} attempts: {why}",
            "the machine may be too busy; try again",
        )

    # the alert

    def _raise_alert(self, episode: Episode) -> None:
        """By a health check in the home; where nothing is wrong, by a signal that is mistaken."""
        (episode.box.folder / "topology.yaml").write_text(json.dumps({"services": {
            one.name: {"needs": list(one.needs), "terminal": self.terminal}
            for one in self.case.world.services
        }}))  # fmt: skip
        check, labels = episode.check, self._labels()
        if self.case.split == "no-fault":
            watched = {
                "name": self.terminal, "service": check.service, "terminal": self.terminal,
                "check": {"run": check.run, "timeout": check.timeout}, "severity": check.severity,
            }  # fmt: skip
            self.runtime.post("/v1/signals", {
                "title": episode.truth.notes.get("signal", f"{check.service}: {check.name} failed"),
                "fingerprint": f"check:{self.terminal}", "service": check.service,
                "severity": check.severity, "labels": labels, "terminal": self.terminal,
                "policy": POLICY, "source": "drill", "check": watched,
            })  # fmt: skip
            return
        known = {one.name: one for one in self.case.world.services}
        entry = {
            "name": self.terminal, "service": check.service, "run": check.run,
            "timeout": check.timeout, "every": EVERY_SECONDS, "after": 2,
            "severity": check.severity, "terminal": self.terminal, "policy": POLICY,
            "source": "drill", "labels": labels,
            "needs": list(known[check.service].needs) if check.service in known else [],
        }  # fmt: skip
        self._check_path.parent.mkdir(mode=0o700, exist_ok=True)
        draft = self._check_path.with_suffix(".new")
        draft.write_text(json.dumps({key: value for key, value in entry.items() if value}))
        draft.rename(self._check_path)  # JSON is YAML, too

    def _labels(self) -> dict[str, str]:
        labels = {"model": self.mode.model} if self.mode.model else {}
        labels |= {} if self.mode.learning else {"learning": "off"}
        return labels | ({"runbook": "on"} if self.mode.runbook else {})

    def _incident_of(self, episode: Episode) -> str:
        """The incident that the fault raises."""
        deadline = time.monotonic() + DETECTION_SECONDS
        while time.monotonic() < deadline:
            for one in self.runtime.get("/v1/incidents", source="drill"):
                if one["fingerprint"] == f"check:{self.terminal}":
                    return str(one["id"])
            self.wait("waiting for the health check")
        away = "" if episode.judge().wrong else "; the fault disappeared on its own"
        raise DrillError(
            f"no incident was declared within {DETECTION_SECONDS:.0f} s{away}",
            "see `hermes watch list` and `hermes logs`",
        )

    def follow(self, feed: IncidentFeed) -> None:
        """Until its report is written, or nothing more is to be expected."""
        deadline, over = time.monotonic() + MAX_SECONDS, False
        while time.monotonic() < deadline:
            for line in feed.poll():
                self.noticed(line)
            if feed.over and feed.reported:
                return
            if feed.over and not over:
                over, deadline = True, time.monotonic() + REPORT_SECONDS
            self.wait(feed.status)

    def wait(self, status: str) -> None:
        if self.view is not None:
            self.view.status(status)
        if self._stop.wait(POLL_SECONDS):
            raise Stopped("stopped")

    # what became of it

    def _result(
        self, episode: Episode, feed: IncidentFeed, verdict: Verdict, injected: float
    ) -> Result:
        case, incident, work = self.case, feed.incident, feed.work()
        diagnosis = _diagnosis(incident.get("diagnosis"))
        grade = episode.grade(diagnosis)
        quiet = case.split == "no-fault" and incident["state"] == "closed"
        learned = [
            one["data"].get("skill", "") for one in feed.timeline if one["kind"] == "learned"
        ]
        earlier = [
            one for one in results.load(self._folder)
            if one.family == case.fault.category and one.learning
        ]  # fmt: skip
        ended = incident.get("ended") or time.time()
        said = (
            f"{diagnosis.component}, {diagnosis.category}, {diagnosis.locus}" if diagnosis else ""
        )
        return Result(
            case.fault.category, case.fault.mechanism, case.world.stack, case.world.boot,
            case.seed, case.split, verdict.resolved, grade.cause or quiet, grade.evidence or quiet,
            verdict.wrong, verdict.harm, incident["id"], incident["state"], said, work.steps,
            work.calls, round(ended - incident["opened"], 2),
            round(incident["opened"] - injected, 2), work.tokens, work.cost, work.model,
            self.mode.learning, incident.get("skill", ""), learned[-1] if learned else "",
            len(earlier) + 1 if self.mode.learning else 1, time.time(),
        )  # fmt: skip

    def _post_outcome(self, result: Result) -> None:
        self.runtime.post(f"/v1/incidents/{result.incident}/outcome", {
            "resolved": result.resolved, "cause": result.cause, "harm": list(result.harm),
            "drill": result.family, "seed": result.seed, "variant": result.mechanism,
            "steps": result.steps, "seconds": result.seconds, "tokens": result.tokens,
            "dollars": result.cost,
        })  # fmt: skip

    def close(self) -> None:
        """The check goes first, so that it does not see the box go."""
        if self.view is not None:
            self.view.close()
        if self.episode is None:
            return
        if self.mode.keep and self.feed is not None:
            self.say("kept", f"terminal {self.terminal}; `hermes drill clean` removes it", "bold")
            self.episode.box.keep()
            return
        self._check_path.unlink(missing_ok=True)
        if self.feed is not None:
            close_incidents(self.runtime, self.terminal, "the drill has ended")
        self.episode.remove()

    # what is shown

    def say(self, word: str, text: str, tone: str, *details: str) -> None:
        if self.view is not None:
            self.view.say(Line(time.time(), word, text, tone, details))

    def say_well(self) -> None:
        world = self.case.world
        names = ", ".join(one.name for one in world.services)
        self.say("healthy", f"{world.hostname}: {names}, under {world.boot}", "good")

    def say_broken(self, episode: Episode) -> None:
        if episode.broken:
            self.say("broken", "; ".join(episode.broken), "bad")

    def noticed(self, line: Line) -> None:
        if self.view is not None:
            self.view.say(line)

    def say_outcome(self, result: Result) -> None:
        cause = "correct cause" if result.cause else f"wrong cause ({result.said})"
        details = [f"still wrong: {said}" for said in result.wrong]
        details += [f"harm: {said}" for said in result.harm]
        tone = {"resolved": "good", "handed over": "act"}.get(result.outcome, "bad")
        self.say("judge", f"{result.outcome}; {cause}", tone, *details)
        by = f", using the skill {result.skill}" if result.skill else ""
        figures = f"{result.steps} replies, {result.calls} calls, {result.seconds:.1f} s{by}"
        self.say("figures", figures, "bold")


def close_incidents(runtime: Runtime, terminal: str, why: str) -> None:
    """Incidents of a box that goes are over, where a runtime is there to close them."""
    try:
        for one in runtime.ask("GET", "/v1/incidents?source=drill"):
            if one["terminal"] == terminal and one["state"] not in OVER:
                runtime.ask("POST", f"/v1/incidents/{one['id']}/close", {"why": why, "by": "drill"})
    except RuntimeGone:
        return


def _diagnosis(told: Any) -> Diagnosis | None:
    if not told:
        return None
    quotes = tuple(one["quote"] for one in told.get("evidence", ()))
    known = {key: told[key] for key in ("component", "category", "locus") if key in told}
    return msgspec.convert({**known, "quotes": quotes}, Diagnosis)
