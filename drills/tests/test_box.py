"""A box: a machine of its own, from which nothing gets out and which outlives whoever made it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_drills.box.box import Box, boxes
from hermes_drills.probe.probe import Probe
from hermes_drills.run import left
from hermes_drills.types import Mount, Style, World

WORLD = World(
    "none", Style("opt", "etc", "ini", "file", "bak", "supervisord"), "apart", (), "",
    mounts=(Mount("/var/lib/small", mb=1, inodes=20),), mb=64,
)  # fmt: skip
MAKER = """
import sys
from pathlib import Path
from hermes_drills.box.box import Box
from hermes_drills.types import Style, World
world = World("none", Style("opt", "etc", "ini", "file", "bak", "supervisord"), "apart", (), "")
made = {name: Box(Path(sys.argv[1], "drills", name)) for name in ("dead", "kept")}
for box in made.values():
    box.boot(world)
made["kept"].keep()
print("made", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    made = Box(tmp_path_factory.mktemp("boxes") / "one")
    made.boot(WORLD)
    yield made
    made.remove()


def test_it_is_a_machine_of_its_own(box: Box) -> None:
    said = box.run("id -u; hostname; cat /proc/[0-9]*/comm; ls /; cat /proc/net/dev").stdout
    assert said.startswith("0\napart\n")
    assert "pytest" not in said
    assert "work" not in said.split()
    assert "eth0" not in said


def test_what_is_small_fills_up_and_the_rest_does_not(box: Box) -> None:
    probe = Probe(box)
    try:
        assert box.run("touch /var/lib/small/{1..40}", check=False).code == 1
        assert probe.space("/var/lib/small").inodes_free == 0
        box.run("rm /var/lib/small/*")
        box.fill("/var/lib/small/big")
        assert probe.space("/var/lib/small").free == 0
        assert probe.space("/").free > 40_000_000
    finally:
        probe.close()


@pytest.mark.parametrize(
    "attempt",
    [
        "touch /usr/bin/new",
        "umount /proc && ls /proc/1/root",
        "umount /usr",
        "mount -o remount,rw /usr",
        "echo 1 > /proc/sys/kernel/panic",
        "echo b > /proc/sysrq-trigger",
        "mknod /dev/disk b 254 0",
        "ls /proc/1/root/boot",
        "chroot /proc/1/root ls /boot",
        "nsenter -t 1 -m ls /boot",
    ],
)
def test_there_is_no_way_out(box: Box, attempt: str) -> None:
    assert box.run(attempt, check=False).code != 0


def test_nothing_of_the_drills_can_be_read_in_a_box(box: Box) -> None:
    found = box.run("find / -xdev -name 'hermes_drills*' -not -empty 2>/dev/null", check=False)
    assert found.stdout == ""


def test_this_machine_stays_whole_when_the_box_does_not(tmp_path: Path) -> None:
    mine, own = tmp_path / "mine", Box(tmp_path / "own")
    mine.write_text("kept")
    own.boot(WORLD)
    try:
        own.run("rm -rf --no-preserve-root / 2>/dev/null", check=False)
        own.run("kill -9 -1", check=False)
        assert mine.read_text() == "kept"
        assert Path("/usr/bin/env").exists()
        assert own.alive
    finally:
        own.remove()


def test_what_a_killed_drill_left_is_swept_and_what_was_kept_stays(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MAKER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"made\n"
        assert left.abandoned(tmp_path) == []
        process.kill()
    checks = tmp_path / "checks"
    checks.mkdir()
    for name in ("drill-dead", "drill-kept", "mine"):
        (checks / f"{name}.yaml").write_text("{}")
    assert left.sweep(tmp_path) == ["dead"]
    (kept,) = boxes(tmp_path / "drills")
    assert kept.alive
    assert sorted(path.name for path in checks.iterdir()) == ["drill-kept.yaml", "mine.yaml"]
    assert left.remove_all(tmp_path) == ["kept"]
    assert not kept.alive
    assert [path.name for path in checks.iterdir()] == ["mine.yaml"]
