"""One run of a drill: the box is made and broken here, the runtime finds out by a health check and
heals it, and what became of it is judged here again."""

import errno
import json
import secrets
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hermes_agent.cli.client import Api, Gone, session_path
from hermes_agent.cli.incident_feed import Feed
from hermes_agent.cli.incident_view import Said, View
from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import Diagnosis
from hermes_agent.incidents.drills import left, results
from hermes_agent.incidents.drills.episode import Discarded, Episode
from hermes_agent.incidents.drills.format import Case, Drill, Tier
from hermes_agent.incidents.drills.results import Result
from hermes_agent.learning.runbook_model import RUNBOOK_MODEL

POLICY = "drill"
EVERY_SECONDS = 2
TRIES = 3
"""Episodes that are made before one must prove itself."""
DETECTION_SECONDS = 60.0
"""Within which an incident must be declared."""
LOOK_SECONDS = 0.25
ROOM = 1 << 18
"""Bytes that a run takes of the home: its check, its log and its result."""
ENDED = ("resolved", "escalated", "closed")
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM})
"""What the home may have against it, which is no mistake of ours."""
AFTERMATH_SECONDS = 120.0
"""How long the report and the skill may take once it is over."""


class Manner(NamedTuple):
    """How a run is done."""

    variant: str = ""
    tier: Tier = "practised"
    learning: bool = True
    model: str = ""
    keep: bool = False
    quiet: bool = False
    runbook: bool = False
    """The runbook of the skill that fits does it, without a model."""


class Worked(NamedTuple):
    steps: int = 0
    calls: int = 0
    tokens: int = 0
    cost: float | None = None
    model: str = ""


def run_drill(api: Api, drill: Drill, seed: int, manner: Manner) -> Result:
    case = drill.case(seed, drill.choose(seed, manner.variant, manner.tier))
    one = Run(api, case, manner)
    try:
        return one.through()
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        raise HermesError(
            f"cannot write {error.filename or api.home}: {error.strerror}",
            "a drill needs room and the right to write in the home; HERMES_HOME names another",
        ) from None
    finally:
        one.clear_up()


def close_incidents(api: Api, terminal: str, why: str = "the drill was killed") -> None:
    """Those of a box that is gone, where a runtime is there to close them."""
    said: dict[str, object] = {"why": why, "by": "drill"}
    try:
        for one in api.get("/v1/incidents", source="drill"):
            if one["terminal"] == terminal and one["state"] not in ENDED:
                api.post(f"/v1/incidents/{one['id']}/close", said)
    except Gone:
        return


class Run:
    """`_well`, `_broken` and `_noticed` are what the demo tells in its own way."""

    def __init__(self, api: Api, case: Case, manner: Manner) -> None:
        self._api, self._case, self._manner = api, case, manner
        self._home = Path(api.home)
        self._view = View(sys.stdout, time.time())
        self._id = ""
        self._episode: Episode | None = None
        self._incident = ""

    @property
    def _name(self) -> str:
        """Of the terminal, and of the check."""
        return f"drill-{self._id}"

    @property
    def _check_file(self) -> Path:
        return left.check_of(self._home, self._id)

    def through(self) -> Result:
        drill = self._case.drill
        self._try_room()
        self._heading(f"drill {drill.name}, {self._case.variant}, seed {self._case.seed}")
        episode = self._prepared()
        injected = time.time()
        feed = Feed(self._api, self._declared(episode))
        self._follow(feed)
        if not self._manner.keep:  # while it is judged, nobody is to go on because of the check
            self._check_file.unlink(missing_ok=True)
        self._say("judged", "the box is looked at from outside", "look")
        verdict = episode.judge()
        incident = self._asked(lambda: self._api.get(f"/v1/incidents/{self._incident}"))
        result = self._result(episode, verdict, incident, injected)
        self._asked(lambda: self._tell(result))
        results.keep(self._home / "drills", result)
        self._tell_outcome(result)
        return result

    def _try_room(self) -> None:
        """Raises where the home has no room for a box and its results."""
        folder = self._home / "drills"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(ROOM))
            file.flush()

    def _prepared(self) -> Episode:
        """A box that was well and is broken."""
        why = ""
        for number in range(1, TRIES + 1):
            self._id = secrets.token_hex(4)
            episode = Episode(self._case, self._home / "drills" / self._id)
            self._episode = episode
            try:
                episode.boot()
                self._well(episode)
                episode.inject()
            except Discarded as error:
                episode.remove()
                why = error.message
                self._say("discarded", f"episode {number}: {why}", "bad")
                continue
            if self._case.drill.about.fault:
                self._broken(episode)
            return episode
        raise HermesError(
            f"{TRIES} episodes of {self._case.drill.name!r} did not prove themselves: {why}",
            "the machine may be too busy; try again",
        )

    # the runtime's part

    def _declared(self, episode: Episode) -> str:
        """The incident that the fault raises."""
        labels = {"model": self._manner.model} if self._manner.model else {}
        if not self._manner.learning:
            labels["learning"] = "off"
        if self._manner.runbook:
            labels["runbook"] = "on"
        self._write_topology(episode)
        check = self._case.check
        if not self._case.drill.about.fault:
            said: dict[str, object] = {
                "title": self._case.signal or check.name, "fingerprint": f"check:{self._name}",
                "service": check.service, "severity": self._case.drill.about.severity,
                "labels": labels, "terminal": self._name, "policy": POLICY, "source": "drill",
                "check": {**msgspec.to_builtins(check), "name": self._name,
                          "terminal": self._name},
            }  # fmt: skip
            self._api.post("/v1/signals", said)
        else:
            self._write_check(labels)
        deadline = time.monotonic() + DETECTION_SECONDS
        while time.monotonic() < deadline:
            for one in self._asked(lambda: self._api.get("/v1/incidents", source="drill")):
                if one["fingerprint"] == f"check:{self._name}":
                    self._incident = one["id"]
                    return self._incident
            self._view_status("waiting for the health check")
            time.sleep(LOOK_SECONDS)
        well = not episode.judge().wrong
        raise HermesError(
            f"no incident was declared within {DETECTION_SECONDS:.0f} s"
            + ("; the box is well: the fault went away by itself" if well else ""),
            "`hermes watch list` shows what its check says, `hermes logs` the rest",
        )

    def _write_check(self, labels: dict[str, str]) -> None:
        check = self._case.check
        services = {one.name: one for one in self._case.services}
        needs = services[check.service].needs if check.service in services else ()
        entry = {
            "name": self._name, "service": check.service, "run": check.check.run,
            "expect": msgspec.to_builtins(check.check.expect),
            "timeout": check.check.timeout or 5.0, "every": EVERY_SECONDS, "after": 2,
            "severity": self._case.drill.about.severity, "terminal": self._name,
            "policy": POLICY, "source": "drill", "needs": list(needs), "labels": labels,
        }  # fmt: skip
        entry = {key: value for key, value in entry.items() if value not in ({}, [], "")}
        self._check_file.parent.mkdir(mode=0o700, exist_ok=True)
        draft = self._check_file.with_suffix(".new")
        draft.write_text(json.dumps(entry))  # which is YAML, too
        draft.rename(self._check_file)

    def _write_topology(self, episode: Episode) -> None:
        services = {
            one.name: {"needs": list(one.needs), "about": one.about, "terminal": self._name}
            for one in self._case.services
        }
        path = episode.box.folder / "topology.yaml"
        path.write_text(json.dumps({"services": services}))

    def _follow(self, feed: Feed) -> None:
        """Until its report is written, or nothing more is to be expected."""
        deadline = time.monotonic() + 60.0 * self._case.drill.about.minutes
        over = False
        while time.monotonic() < deadline:
            for said in self._asked(feed.poll):
                self._noticed(said, feed)
            if feed.done:
                return
            if feed.over and not over:
                over, deadline = True, time.monotonic() + AFTERMATH_SECONDS
            self._view_status(feed.standing)
            time.sleep(LOOK_SECONDS)

    def _tell(self, result: Result) -> None:
        self._api.post(
            f"/v1/incidents/{self._incident}/outcome",
            {
                "resolved": result.resolved, "cause": result.cause, "harm": list(result.harm),
                "drill": result.drill, "seed": result.seed, "variant": result.variant,
                "steps": result.steps, "seconds": result.seconds, "tokens": result.tokens,
                "dollars": result.cost,
            },
        )  # fmt: skip

    def _asked(self, ask: Any) -> Any:
        """What the runtime answers; one that died is started again."""
        while True:
            try:
                return ask()
            except Gone:
                self._say("runtime", "it went away; it is started again", "bad")
                self._api.ensure()

    # what became of it

    def _result(
        self, episode: Episode, verdict: Any, found: dict[str, Any], injected: float
    ) -> Result:
        incident, timeline = found["incident"], found["timeline"]
        told = incident.get("diagnosis")
        diagnosis = msgspec.convert(told, Diagnosis) if told else None
        grade = episode.grade(diagnosis)
        faulty = self._case.drill.about.fault
        ended = incident.get("ended") or time.time()
        worked = self._asked(lambda: self._worked(incident.get("session", ""), ended))
        quiet = not faulty and incident["state"] == "closed"
        kinds = {entry["kind"]: entry for entry in timeline}
        earlier = results.load(self._home / "drills")
        mine = [one for one in earlier if one.drill == self._case.drill.name and one.learning]
        return Result(
            self._case.drill.name, self._case.variant, self._case.seed,
            self._case.drill.tier(self._case.variant),
            resolved=verdict.resolved and (faulty or quiet),
            cause=grade.cause or quiet, evidence=grade.evidence or quiet,
            component=grade.component or quiet, category=grade.category or quiet,
            locus=grade.locus or quiet, wrong=verdict.wrong,
            harm=(*verdict.harm, *verdict.touched), incident=incident["id"],
            state=incident["state"], said=_diagnosis(diagnosis),
            steps=worked.steps, calls=worked.calls, seconds=round(ended - incident["opened"], 2),
            detected=round(incident["opened"] - injected, 2), tokens=worked.tokens,
            cost=worked.cost, model=worked.model, learning=self._manner.learning,
            skill=incident.get("skill", ""), report="report" in kinds,
            learned=str(kinds.get("learned", {}).get("data", {}).get("skill", "")),
            encounter=len(mine) + 1 if self._manner.learning else 1, time=time.time(),
        )  # fmt: skip

    def _worked(self, session: str, ended: float) -> Worked:
        """Of the session and its children, until it was over."""
        if not session:
            return Worked()
        children = self._api.get("/v1/sessions", parent=session, limit=100)
        replies, calls = [], 0
        for id in (session, *(child["id"] for child in children)):
            for row in self._api.get(f"{session_path(id)}/journal", after=0):
                if row["time"] <= ended and row["event"]["kind"] == "replied":
                    replies.append(row["event"])
                    calls += len(row["event"].get("calls", ()))
        thought = [one for one in replies if not one.get("model", "").startswith(RUNBOOK_MODEL)]
        usages = [one.get("usage", {}) for one in replies]
        tokens = sum(one.get("input", 0) + one.get("output", 0) for one in usages)
        costs = [one["cost"] for one in replies if one.get("cost") is not None]
        model = ", ".join(dict.fromkeys(one.get("model", "") for one in replies))
        return Worked(len(thought), calls, tokens, sum(costs) if costs else None, model)

    def clear_up(self) -> None:
        """The check first, so that it does not see the box go."""
        self._view.close()
        if self._manner.keep and self._incident:
            print(f"the box stays: terminal {self._name}; `hermes drill clean` removes it",
                  file=sys.stderr)  # fmt: skip
            if self._episode is not None:
                self._episode.box.keep()
            return
        self._check_file.unlink(missing_ok=True)
        if self._incident:
            self._close()
        if self._episode is not None:
            self._episode.remove()

    def _close(self) -> None:
        """Incidents whose box goes are over, whoever ended the drill."""
        try:
            close_incidents(self._api, self._name, "the drill has ended")
        except HermesError as error:
            print(f"{self._incident} may still be open: {error.message}", file=sys.stderr)

    # what is shown

    def _well(self, episode: Episode) -> None:
        names = ", ".join(program.name for program in episode.world.programs)
        self._say("healthy", f"{self._case.world.hostname} is up and well: {names}", "good")

    def _broken(self, episode: Episode) -> None:
        self._say("broken", "; ".join(episode.broken), "bad")

    def _noticed(self, said: Said, _feed: Feed) -> None:
        if not self._manner.quiet:
            self._view.say(said)

    def _heading(self, text: str) -> None:
        if not self._manner.quiet:
            self._view.heading(text)

    def _say(self, word: str, text: str, tone: str) -> None:
        if not self._manner.quiet:
            self._view.say(Said(time.time(), word, text, tone))

    def _view_status(self, text: str) -> None:
        if not self._manner.quiet:
            self._view.status(text, time.time())

    def _tell_outcome(self, result: Result) -> None:
        good = result.resolved
        word = "resolved" if good else "not healed"
        details = [*(f"still wrong: {said}" for said in result.wrong),
                   *(f"harm: {said}" for said in result.harm)]  # fmt: skip
        cause = "the cause is right" if result.cause else f"the cause is not ({result.said})"
        self._say(word, f"by the hidden checks; {cause}", "good" if good else "bad")
        for line in details:
            self._say("", line, "bad")
        how = f" by the skill {result.skill}" if result.skill else ""
        figures = f"{result.steps} steps, {result.calls} calls, {result.seconds:.1f} s{how}"
        self._say("figures", figures, "bold")


def _diagnosis(diagnosis: Diagnosis | None) -> str:
    if diagnosis is None:
        return "no diagnosis"
    return f"{diagnosis.component}, {diagnosis.category}, {diagnosis.locus}"
