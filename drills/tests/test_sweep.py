"""Many runs in one go."""

from pathlib import Path

import pytest

from hermes_drills.compose import compose, faults
from hermes_drills.run.client import Runtime
from hermes_drills.run.runner import Mode
from hermes_drills.run.sweep import Sweep


def never() -> None:
    raise AssertionError("no runtime is needed")


def test_one_run_that_fails_does_not_end_the_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").write_text("a file where the home should be")
    some = [fault for fault in faults("first") if not fault.stacks][:2]
    cases = [compose(fault, seed, stack="web") for fault in some for seed in (1, 2)]
    sweep = Sweep(Runtime(tmp_path / "home", (), never), cases, Mode(), at_once=2)
    sweep.run()
    assert (len(sweep.results), len(sweep.failed), sweep.good) == (0, 4, False)
    assert "Not a directory" in sweep.failed[0]
    assert "[4/4]" in capsys.readouterr().err
