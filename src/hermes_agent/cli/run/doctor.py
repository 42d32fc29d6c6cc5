"""Check everything and say how to fix it. Nothing is changed, and the runtime is not started.

Exit code 1 when a check fails; warnings alone do not."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.actions import emit
from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone
from hermes_agent.cli.output.formatting import state, style
from hermes_agent.cli.output.progress import Progress
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
    lines, findings = [], []
    with Progress("checking everything"):
        found = [*examine(Path(api.home), os.environ, _running(api)), *_drills(api.home)]
    for one in found:
        findings.append(one._asdict())
        mark = state(MARKS[one.state].strip(), MARKS[one.state])
        lines.append(f"{mark}  {one.name:<10} {one.what}")
        if one.hint:
            lines.append(style(f"      hint: {one.hint}", "dim"))
    failed = any(one.state == "fail" for one in found)
    return emit(options, findings, "\n".join(lines), int(failed))


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
