"""One round of the demo: a run of a drill, told in more words, and with the runtime killed in the
middle."""

import os
import signal
import time

from hermes_agent.cli.client import Api
from hermes_agent.cli.drill_run import Manner, Run
from hermes_agent.cli.incident_feed import Feed, Work
from hermes_agent.cli.incident_view import Said, View, cut
from hermes_agent.incidents.drills.episode import Episode
from hermes_agent.incidents.drills.format import Drill
from hermes_agent.incidents.drills.results import Result

LONGEST_COMMAND = 110
MIDDLE = ("splits up", "believes")
"""What is going on when the runtime is killed."""


class Round(Run):
    def __init__(self, api: Api, view: View, drill: Drill, seed: int, *, kill: bool) -> None:
        variant = drill.about.variants.practised[0]
        super().__init__(api, drill.case(seed, variant), Manner())
        self._view = view
        self._kills = kill
        self.killed = 0
        """The process id of the runtime that was killed in the middle."""
        self._feed: Feed | None = None

    def play(self) -> Result:
        try:
            return self.through()
        finally:
            self.clear_up()

    @property
    def work(self) -> Work:
        return self._feed.work() if self._feed is not None else Work(0, 0, (), 0)

    @property
    def heard(self) -> int:
        """How often the team was told of the incident: what arrived, not what was meant to."""
        told = (self._home / "incidents" / "notices.log").read_text()
        return sum(line.startswith(f"[{self._incident}/declared/") for line in told.splitlines())

    @property
    def incident(self) -> str:
        return self._incident

    def _heading(self, text: str) -> None:
        """The rounds have headings of their own."""

    def _well(self, episode: Episode) -> None:
        view = self._view
        view.heading("A machine that is well")
        view.text(
            f"{len(episode.world.programs)} services under a supervisor, in namespaces of their "
            "own, made without privileges:"
        )
        view.rows(
            (one.name, f"needs {', '.join(one.needs)}" if one.needs else one.about or "-")
            for one in self._case.services
        )
        self._tell_check(episode, "well", "good")

    def _broken(self, episode: Episode) -> None:
        self._view.heading("Something breaks, for real")
        self._view.text(f"It is the drill {self._case.drill.name}. All that Hermes has is a check:")
        self._tell_check(episode, "fails", "bad")
        self._view.heading("Hermes notices")
        self._view.began = time.time()

    def _tell_check(self, episode: Episode, word: str, tone: str) -> None:
        ran = episode.look()
        seen = (ran.stdout + ran.stderr).strip() or f"exit code {ran.code}"
        run = cut(self._case.check.check.run, LONGEST_COMMAND)
        self._view.say(Said(time.time(), word, f"$ {run}", tone, (seen,)))

    def _noticed(self, said: Said, feed: Feed) -> None:
        self._feed = feed
        self._view.say(said)
        if self._kills and not self.killed and said.word in MIDDLE and not feed.over:
            self.killed = int(self._api.get("/v1/status")["pid"])
            os.kill(self.killed, signal.SIGKILL)
            text = f"{self.killed}    # the runtime is gone, in the middle of its work"
            self._view.say(Said(time.time(), "kill -9", text, "bad"))
