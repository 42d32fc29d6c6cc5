"""What runs apart leaves nothing behind."""

import os
import subprocess
from pathlib import Path

from tests.support.source import ROOT

LEAVES = """
sleep 987654 &
echo hello > "${TMPDIR:-/tmp}/left" || exit 1
echo $$
exit 3
"""


def test_nothing_is_left_of_what_ran_apart(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [ROOT / "scripts/apart", "sh", "-c", LEAVES]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, timeout=60)
    assert done.returncode == 3
    assert int(done.stdout) < 100, "it saw the processes of this machine"
    assert list(tmp_path.iterdir()) == []
    assert b"sleep\x00987654\x00" not in [command_line(entry) for entry in Path("/proc").iterdir()]


def command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
