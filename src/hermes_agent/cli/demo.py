"""`make demo`: a machine is broken for real, and Hermes finds it, heals it, and is faster the next
time. A fresh home, no key, no network; the runtime is killed with SIGKILL in the middle."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.client import Api
from hermes_agent.cli.down import stop
from hermes_agent.cli.incident_view import View
from hermes_agent.cli.main import CUT_SHORT
from hermes_agent.core.errors import HermesError
from hermes_agent.runtime.places import other_run_folder

if TYPE_CHECKING:
    from hermes_agent.cli.demo_round import Round
    from hermes_agent.incidents.drills.format import Drill
    from hermes_agent.incidents.drills.results import Result

DRILLS = ("disk_full", "cascading_failure", "crashed_service")
"""The first of them that this machine has the programs for."""
SEEDS = (7, 20)
"""Of the first and the second time: other names, ports and paths."""
ALONE = ("unshare", "--user", "--map-root-user", "--mount", "--pid", "--net", "--fork")
"""What making a box begins with."""
RULES = 6
RUNBOOK_LINES = 16


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="hermes-demo-"))
    for name in [name for name in os.environ if name.startswith("HERMES_")]:
        del os.environ[name]  # what is configured here is no part of it
    os.environ["HERMES_HOME"] = str(folder / "home")
    api = Api()
    view = View(sys.stdout, time.time())
    view.text("Hermes with nothing configured: a fresh home, no key, no network.", "bold")
    try:
        return _play(api, view, folder)
    except KeyboardInterrupt:
        return CUT_SHORT
    except HermesError as error:
        view.text(f"The demo went wrong: {error}", "bad")
        return 1
    finally:
        view.close()
        stop(api)
        for left in (str(folder), other_run_folder(api.home)):
            shutil.rmtree(left, ignore_errors=True)


def _play(api: Api, view: View, folder: Path) -> int:
    try:
        drill = _drill()
    except HermesError as error:
        from hermes_agent.cli import demo_kill

        view.text(f"No machine can be broken here: {error.message}.")
        view.text(f"hint: {error.hint}\nSo only what survives kill -9 is shown.", "faint")
        return demo_kill.play(api, folder)
    from hermes_agent.cli.demo_round import Round

    api.ensure()
    first = Round(api, view, drill, SEEDS[0], kill=True)
    once = first.play()
    _what_is_left(api, view, first)
    view.heading("The same kind of fault again")
    known = " There is a skill for it now." if once.learned else ""
    view.text(f"Another machine: other names, ports and paths.{known}")
    second = Round(api, view, drill, SEEDS[1], kill=False)
    again = second.play()
    view.heading("First and second")
    view.table(("", "first", "second"), _compared(once, again))
    good = once.resolved and once.cause and again.resolved and again.cause
    if not good or not first.killed or again.steps >= once.steps or first.heard != 1:
        view.text("\nThis is not how it should have gone.", "bad")
        return 1
    begun = first.work.again
    view.text(
        f"\nRuntime {first.killed} was killed in the middle. The next one went on; calls begun a "
        f"second time: {begun}; times that the team was told of the incident: {first.heard}."
    )
    view.text(
        "Next: `.venv/bin/hermes drill list` has more faults. With HERMES_MODEL and a key, your "
        "own model heals them (docs/guides/first-steps.md)."
    )
    return 0


def _drill() -> "Drill":
    from hermes_agent.incidents.drills.format import drills
    from hermes_agent.incidents.drills.needs import advice, lacking

    known = drills()
    if (
        shutil.which("unshare")
        and subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode
    ):
        hint = "a container needs --security-opt seccomp=unconfined, some kernels a sysctl"
        raise HermesError("namespaces are not allowed", hint)
    for name in DRILLS:
        if name in known and not known[name].lacking():
            return known[name]
    missing = lacking(known[DRILLS[-1]].about.needs)
    raise HermesError(f"{', '.join(missing)} not found", advice(missing))


def _what_is_left(api: Api, view: View, first: "Round") -> None:
    view.heading("What is left of it")
    home = Path(api.home)
    report = api.get(f"/v1/incidents/{first.incident}/report")
    view.text(f"The report, {home / 'incidents' / first.incident}.md:")
    diagnosis = report.get("diagnosis") or {}
    view.rows(
        [
            ("cause", f"{diagnosis.get('category', '')} in {diagnosis.get('component', '')}"),
            ("where", diagnosis.get("locus", "")),
            ("summary", diagnosis.get("summary", "")),
            *(("evidence", one["quote"]) for one in report.get("evidence", ())[:2]),
            *(("done", one["what"]) for one in report.get("actions", ())),
            *(("prevent", one) for one in report.get("prevent", ())[:1]),
        ]
    )
    view.text("\nWhat the gate answered, by the policy of the demo (profile `drill`):")
    view.rows(
        (f"{times} x {action}", f"{rule}: {reason}")
        for action, rule, reason, times in first.work.rules[:RULES]
    )
    learned = report.get("learned")
    if learned:
        view.text(f"\nThe skill {learned}, with the runbook:")
        for line in _runbook(home / "skills" / learned / "runbook.yaml"):
            view.text(f"  {line}", "faint")


def _runbook(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()[:RUNBOOK_LINES]
    except OSError:
        return []


def _compared(once: "Result", again: "Result") -> list[tuple[str, str, str]]:
    words = {True: "yes", False: "no"}
    return [
        ("healed, seen from outside", words[once.resolved], words[again.resolved]),
        ("cause right", words[once.cause], words[again.cause]),
        ("by a skill", words[bool(once.skill)], words[bool(again.skill)]),
        ("replies", f"{once.steps}", f"{again.steps}"),
        ("tool calls", f"{once.calls}", f"{again.calls}"),
        ("seconds to recover", f"{once.seconds:.1f}", f"{again.seconds:.1f}"),
    ]


if __name__ == "__main__":
    sys.exit(main())
