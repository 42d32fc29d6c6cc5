"""A box: a machine of its own, from which nothing gets out and which outlives whoever made it."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.protocols import Terminal
from hermes_agent.core.settings import TerminalSettings
from hermes_agent.incidents.drills.box import Box, boxes
from hermes_agent.incidents.drills.format import drills, find
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Mount, Node, Program, World
from hermes_agent.terminals.kinds import open_terminal
from tests.support.terminals import Shell, lives

WORLD = World(
    (
        Program("web", "python3 -m http.server 8080 --directory /srv", ready="tcp:8080"),
        Program("far", "python3 -m http.server 80", node="b", ready="tcp:80"),
    ),
    {"/srv/secret": File("sesame", mode=0o000), "/srv/open": File("hello", mode=0o600)},
    mounts=(Mount("/var/lib/small", mb=1, inodes=20),),
    nodes=(Node("b"),),
    hostname="apart",
    mb=64,
)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    made = Box(tmp_path_factory.mktemp("boxes") / "one")
    made.boot(WORLD)
    yield made
    made.remove()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Box]:
    made = Box(tmp_path / "own")
    made.boot(World((Program("web", "python3 -m http.server 8080", ready="tcp:8080"),), mb=32))
    yield made
    made.remove()


def test_it_is_a_machine_of_its_own(box: Box) -> None:
    said = box.run("id -u; hostname; ps -e -o comm=; ls /; cat /proc/net/dev").stdout
    assert said.startswith("0\napart\n")
    assert "pytest" not in said
    assert "work" not in said.split()
    assert "eth0" not in box.run("ip -o link").stdout.replace("veth0", "")


def test_a_service_has_no_privileges_and_root_has_them(box: Box) -> None:
    with Probe(box) as probe:
        assert probe.http(8080, "/open").text == "hello"
        assert probe.http(8080, "/secret").status == 404
        assert probe.text("/srv/secret") == "sesame"
    assert box.read("/srv/secret") == "sesame"
    pid = box.run("supervisorctl pid web").stdout.strip()
    assert "CapEff:\t0000000000000000" in box.run(f"cat /proc/{pid}/status").stdout


def test_who_is_ended_right_after_the_boot_is_not_started_again_as_one_that_never_was(
    tmp_path: Path,
) -> None:
    box = Box(tmp_path / "slow")
    web = Program("web", "python3 -m http.server 8080", ready="tcp:8080",
                  autorestart=False, start_seconds=2)  # fmt: skip
    try:
        box.boot(World((web,), mb=32))
        box.run("kill -9 $(supervisorctl pid web)")
        box.run("until supervisorctl status web | grep -Eq 'EXITED|BACKOFF|STARTING'; do :; done")
        assert "EXITED" in box.run("supervisorctl status web", check=False).stdout
    finally:
        box.remove()


def test_what_is_small_fills_up_and_the_rest_does_not(box: Box) -> None:
    with Probe(box) as probe:
        assert box.run("touch /var/lib/small/{1..40}", check=False).code == 1
        assert probe.space("/var/lib/small").inodes_free == 0
        box.run("rm /var/lib/small/*")
        box.fill("/var/lib/small/big")
        assert probe.space("/var/lib/small").free == 0
        assert probe.space("/").free > 40_000_000
        box.run("rm /var/lib/small/big")


def test_nodes_reach_each_other_until_they_do_not(box: Box) -> None:
    with Probe(box, ["b"]) as probe:
        assert probe.tcp(80, "10.77.0.2")
        assert not probe.tcp(80)
        assert probe.tcp(80, node="b")
        box.run("ip link set veth0 down")
        assert not probe.tcp(80, "10.77.0.2", timeout=0.3)
        box.run("ip link set veth0 up")
        assert probe.tcp(80, "10.77.0.2", timeout=5.0)


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


def test_this_machine_stays_whole_when_the_box_does_not(own: Box, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("kept")
    own.run("rm -rf --no-preserve-root / 2>/dev/null", check=False)
    own.run("kill -9 -1", check=False)
    assert mine.read_text() == "kept"
    assert Path("/usr/bin/env").exists()
    assert own.alive


def test_processes_and_memory_are_bounded(own: Box) -> None:
    swarm = "for i in {1..2000}; do sleep 60 & done 2>/dev/null; wait"
    own.spawn(swarm)
    with Probe(own) as probe:
        own.run("sleep 0.5", check=False)
        assert len(probe.processes()) < 600
        own.run("dd if=/dev/zero of=/tmp/big bs=1M count=100 status=none", check=False)
        assert probe.space("/").total < 40_000_000


def test_what_came_while_whoever_waits_stood_still_has_come(own: Box) -> None:
    waits = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from hermes_agent.incidents.drills.box import Box
        Box(Path(sys.argv[1])).wait("file:/tmp/late", 2.0)
        """
    )
    with (
        Probe(own) as probe,
        subprocess.Popen([sys.executable, "-c", waits, str(own.folder)]) as process,
    ):
        while not any("/tmp/late" in one.command for one in probe.processes()):
            time.sleep(0.01)
        process.send_signal(signal.SIGSTOP)
        own.run("touch /tmp/late")
        time.sleep(2.5)
        process.send_signal(signal.SIGCONT)
        assert process.wait() == 0


def test_what_does_not_come_is_told(own: Box) -> None:
    with pytest.raises(HermesError, match="file:/tmp/never did not come in the box"):
        own.wait("file:/tmp/never", 0.2)


def test_it_outlives_whoever_made_it_and_is_found_and_removed(tmp_path: Path) -> None:
    maker = textwrap.dedent(
        """
        import sys, time
        from pathlib import Path
        from hermes_agent.incidents.drills.box import Box
        from hermes_agent.incidents.drills.world import Program, World
        box = Box(Path(sys.argv[1]))
        box.boot(World((Program("web", "python3 -m http.server 8080", ready="tcp:8080"),)))
        print(box.pid, flush=True)
        time.sleep(600)
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", maker, str(tmp_path / "drills" / "a")],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        first = int(process.stdout.readline())
        process.kill()
    (left,) = boxes(tmp_path / "drills")
    assert left.pid == first
    assert left.run("curl -sS -m 3 -o /dev/null -w '%{http_code}' 127.0.0.1:8080").stdout == "200"
    with Probe(left) as probe:
        inside = [process.pid for process in probe.processes()]
    left.remove()
    assert not any(map(lives, inside))
    assert boxes(tmp_path / "drills") == []


ANOTHER = 64_777
"""A user whom nobody knows."""
SHOWN = """
set -eu
for folder in $OPENED; do
    mkdir -p "$HOME/shown"
    mount --bind "$PREFIX" "$HOME/shown"
    mount -t tmpfs -o mode=755 tmpfs "$folder"
    mkdir -p "$PREFIX"
    mount --bind "$HOME/shown" "$PREFIX"
done
cd "$HOME"
exec setpriv --reuid="$USER" --regid="$USER" --clear-groups --inh-caps=-all --bounding-set=-all "$@"
"""
"""Run where only root may look at the interpreter: in a view of the files where others may, too."""


def as_another(home: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """A command as an ordinary user, with no privileges at all."""
    home.chmod(0o755)
    prefix = Path(sys.base_prefix).resolve()
    closed = [str(one) for one in prefix.parents if not one.stat().st_mode & 0o001]
    environ = {
        "PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "USER": str(ANOTHER),
        "XDG_CACHE_HOME": str(home), "PREFIX": str(prefix), "OPENED": " ".join(closed[-1:]),
    }  # fmt: skip
    if os.geteuid() == 0:
        os.chown(home, ANOTHER, ANOTHER)
        words = ["unshare", "--mount", "bash", "-c", SHOWN, "-", *words]
    return subprocess.run(words, env=environ, capture_output=True, text=True, check=False)


def test_it_is_made_by_an_ordinary_user_and_heals_there() -> None:
    with tempfile.TemporaryDirectory() as folder:  # where others may come, too
        prove = [sys.executable, "-m", "hermes_agent.incidents.drills.prove"]
        done = as_another(Path(folder), [*prove, "crashed_service", "killed"])
        assert done.returncode == 0, done.stderr
        assert "resolved=True" in done.stdout
        who = as_another(Path(folder), [sys.executable, "-c", "import os; print(os.getuid())"])
        assert who.stdout.strip() == str(ANOTHER if os.geteuid() == 0 else os.geteuid())


async def test_a_terminal_of_a_box_that_is_gone_says_so(own: Box, tmp_path: Path) -> None:
    def terminal() -> Terminal:
        return open_terminal(
            own.place, session="s", workspace="/", folder=tmp_path / "t",
            settings=TerminalSettings(), environ=os.environ,
        )  # fmt: skip

    first, second = terminal(), terminal()
    assert await Shell(first).says("hostname; pwd") == "box\n/root\n"
    os.kill(own.pid, signal.SIGKILL)
    with pytest.raises(HermesError, match="the box is gone"):
        await Shell(second, "later")("true", limit=1.0)
    await first.close()
    await second.close()


def test_a_seed_says_all_and_held_out_cases_look_different() -> None:
    drill = find("crashed-service")
    assert drill.case(7, "killed").plan == drill.case(7, "killed").plan
    assert drill.case(7, "killed").plan != drill.case(8, "killed").plan
    seen = {drill.case(seed, "killed").check.service for seed in range(40)}
    held = {drill.case(seed, "odd-letter").check.service for seed in range(40)}
    assert len(seen) > 9
    assert len(held) > 9
    assert not seen & held
    about = drill.about.variants
    assert {drill.choose(seed) for seed in range(len(about.practised))} == set(about.practised)
    assert {drill.choose(seed, tier="held") for seed in range(4)} == set(about.held)
    with pytest.raises(UsageError, match="no variant 'x'"):
        drill.choose(1, "x")


def test_a_few_seeds_are_spread_over_all_variants() -> None:
    for drill in drills().values():
        among = drill.among("practised")
        met = sorted({among.index(drill.choose(seed)) for seed in range(1, 6)})
        assert len(met) == min(5, len(among))
        assert met[0] <= len(among) / 3 <= 2 * len(among) / 3 <= met[-1] + 1


def test_there_are_enough_drills_and_each_keeps_something_apart() -> None:
    faults = [drill for drill in drills().values() if drill.about.fault]
    assert len(faults) >= 15
    assert len(drills()) - len(faults) >= 2
    for drill in drills().values():
        assert len(drill.about.variants.held) >= (2 if drill.about.fault else 1)
        for variant in drill.variants:
            case = drill.case(1, variant)
            assert case.check.service
            assert case.check.check.run
            assert case.truth.category[0] in (drill.about.category, *case.truth.category)
