"""Every part of the bench still runs. Its figures are not looked at here."""

import subprocess
import sys

import pytest

from bench.__main__ import PARTS
from tests.support.source import ROOT

LONG = {"drills", "gateway", "learning", "models", "recall"}


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=[pytest.mark.slow] * (part in LONG)) for part in PARTS]
)
def test_each_part_still_runs(part: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--short", part], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
