"""Check everything and say how to fix it. Nothing is changed, and the runtime is not started.

Exit code 1 when a check fails; warnings alone do not."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone
from hermes_agent.cli.output.formatting import print_json
from hermes_agent.core.errors import HermesError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes_agent.runtime.doctor import DoctorFinding, RunningRuntime

MARKS = {"ok": "ok  ", "info": "info", "warn": "warn", "fail": "FAIL"}
ANSWER_SECONDS = 120.0
"""Checking a large database takes a while."""


def run(options: argparse.Namespace) -> int:
    from hermes_agent.runtime.doctor import examine

    api = RuntimeClient(timeout=ANSWER_SECONDS)
    failed = False
    findings = []
    for found in (*examine(Path(api.home), os.environ, _running(api)), *_drills(api.home)):
        failed = failed or found.state == "fail"
        findings.append(found._asdict())
        if not options.json:
            print(f"{MARKS[found.state]}  {found.name:<10} {found.what}")
            if found.hint:
                print(f"      hint: {found.hint}")
    if options.json:
        print_json(findings)
    return 1 if failed else 0


def _drills(home: str) -> "Iterator[DoctorFinding]":
    from hermes_agent.cli.work.drill import abandoned
    from hermes_agent.runtime.doctor import DoctorFinding

    if names := abandoned(home):
        what = f"left behind by killed drills: boxes {', '.join(names)} and their checks"
        yield DoctorFinding("drills", "warn", what, "the next `hermes drill` command removes them")


def _running(api: RuntimeClient) -> "RunningRuntime | None":
    from hermes_agent.runtime.doctor import RunningRuntime

    try:
        status = api.get("/v1/status")
        faults = api.get("/v1/check")
    except RuntimeGone:
        return None
    except HermesError as error:
        return RunningRuntime(status, [error.message])
    return RunningRuntime(status, faults)
