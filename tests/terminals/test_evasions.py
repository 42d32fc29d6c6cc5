"""The commands of both lists of evasions that the gate allows, run for real."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "support" / "disposable.sh"
APART = ("unshare", "--mount", "--pid", "--net", "--fork", "--propagation", "private", "bash")


@pytest.mark.slow
def test_no_evasion_that_is_allowed_changes_reaches_or_reads_what_it_must_not() -> None:
    """As root, in a copy of this machine that is gone afterwards."""
    run = (*APART, str(SCRIPT), sys.executable, "-m", "tests.support.evasions_for_real")
    environment = {**os.environ, "HOME": "/root", "PYTHONPATH": str(ROOT)}
    report = json.loads(subprocess.check_output(run, env=environment, cwd=ROOT))
    assert report["damages"] == []
    assert report["noticed"] == [1, 1, 1]
    assert report["ran"] >= 600
