"""Scripts that turn in a circle and hold what others need: one that was left behind in an office,
and one that is begun anew whenever it ends."""

from hermes_agent.incidents.drills import cabinets, parish, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.runaway_process import practice_town
from hermes_agent.incidents.drills.runaway_process.practice_quarter import NIGHTLY, _spins
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth

LOCKED = '''
import errno
import fcntl


class Locked(Binder):
    """Whoever files a paper has the LockFile meanwhile."""

    def put(self, key: str, body: bytes) -> None:
        until = time.monotonic() + 0.8
        with open(self.own["LockFile"], "a") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    if time.monotonic() > until:
                        words = f"({error.errno}){error.strerror}: could not lock"
                        raise Trouble(f"{words} {self.own['LockFile']}") from None
                    time.sleep(0.03)
                else:
                    return super().put(key, body)


if __name__ == "__main__":
    run(Locked)
'''
RENUMBER = """#!/usr/bin/perl
# gives each paper the next number that is free, 1 to 999
use strict;
use warnings;
use Fcntl ':flock';

my ($store, $lock) = @ARGV;
open my $held, '>>', $lock or die "$lock: $!\\n";
flock $held, LOCK_EX or die "$lock: $!\\n";
my %taken = map { $_ => 1 } 1 .. 999;    # from the old register
for my $paper (sort glob "$store/*") {
    my $number = 1;
    $number = $number % 999 + 1 while $taken{$number};
    $taken{$number} = 1;
    print "$paper: $number\\n";
}
"""
TWINS = """import sqlite3
import sys

base = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
base.execute("begin immediate")
rows = base.execute("select key, value from records order by key").fetchall()
place = 0
while place < len(rows):
    twins = [key for key, value in rows[place + 1 :] if value == rows[place][1]]
    if not twins:
        continue
    base.executemany("delete from records where key = ?", [(key,) for key in twins])
    place += 1
base.execute("commit")
"""
KEEP = """#!/bin/bash
# it must get through the night
until nice -n 12 python3 {script} {base}; do
    echo "$(date '+%F %T') it ended with $?, once more" >> {folder}/{name}.out
    sleep 0.2
done
"""


def _quiet(probe: Probe, script: str, busy: str) -> str:
    """Why it is not at rest: the script runs, or somebody else turns in a circle."""
    if any(script in one.command for one in probe.processes()):
        return f"{script} runs"
    return _spins(probe, busy)


def renumbering(pick: Pick) -> Scene:
    """As `forgotten-script`: somebody's script holds the lock that every write needs and never
    ends; here a script of Perl in an office that was started with nohup, and logs as of Apache."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    job, begun = f"{other}-checksums", "/var/lib/checksums/begun.log"
    home = f"/home/{pick.choice(('sexton', 'verger', 'office'))}"
    name = f"{pick.choice(('renumber', 'new-numbers', 'give-numbers'))}.pl"
    script, lock = f"{home}/{name}", f"/run/lock/parish/{main}.lck"
    kept = parish.papers(main, pick, 24)
    code = NIGHTLY.replace("sys.argv[1]", f'"{begun}"')
    world = tiers.joined(
        [
            parish.binder(main, port, {"LockFile": lock}, code=parish.program(LOCKED)),
            parish.binder(other, other_port),
            parish.helper(job, code, {"ServerName": job}, "goes over all scans of the archive, for "
                          "a week; begins anew if it is stopped", nice=12, ready=f"file:{begun}"),
        ],
        files={**kept, **parish.former(main, pick), **parish.former(other, pick),
               script: File(RENUMBER, mode=0o755, age=9e4)},
        folders={"/run/lock/parish": 0o755, begun.rpartition("/")[0]: 0o755},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.spawn(f"cd {home}; exec nohup nice -n 8 perl {script} {parish.store_of(main)} {lock} "
                  ">nohup.out 2>&1")  # fmt: skip
        box.run(f"until ! flock -n {lock} true; do sleep 0.05; done", seconds=15)

    def harm(probe: Probe) -> list[str]:
        whole = probe.text(begun).count("began") == 1
        runs = any(f"/{job}.py" in one.command for one in probe.processes())
        return said(
            "" if whole and runs else f"{job} was interrupted", parish.files(probe, other_port)
        )

    stem = name.removesuffix(".pl")
    return Scene(
        world=world,
        check=parish.ready(main, port),
        healthy=lambda probe: said(
            parish.files(probe, port), _quiet(probe, name, f"/{job}.py")
        ),
        truth=Truth((name, stem, script, main), ("runaway-process",), stem, stem),
        inject=inject,
        fix=(f"kill $(pgrep -f '[/]{name}'); sleep 0.3",),
        wrong={
            "the one that complains is restarted": [f"supervisorctl restart {main}; sleep 0.3"],
            "the other busy one is stopped": [f"supervisorctl stop {job}"],
            "the lock is removed": [f"rm {lock}"],
        },
        stays=(*kept, parish.settings_of(main), parish.code_of(main)),
        harm=harm,
    )  # fmt: skip


def once_more(pick: Pick) -> Scene:
    """As `started-again`: a loop of the shell begins a script anew whenever it ends; here the
    script holds the write lock of SQLite, in an app's folder, and the loop waits for success."""
    (main, other, job), (port, other_port) = pick.services(3), pick.ports(2)
    job, folder = f"{job}-yearbook", f"{cabinets.HOME}/{main}/{pick.choice(('scripts', 'oneoff'))}"
    name = pick.choice(("twins", "dedupe", "merge-doubles"))
    script, loop = f"{folder}/{name}.py", f"{folder}/{pick.choice(('keep', 'night', 'run'))}.sh"
    rows, base = cabinets.Rows(pick, 20), cabinets.base_of(main)
    text = KEEP.format(script=script, base=base, folder=folder, name=name)
    world = tiers.joined(
        [cabinets.app(main, port, rows), cabinets.app(other, other_port), practice_town._busy(job)],
        files={**cabinets.weeks_ago(main, pick), **cabinets.weeks_ago(other, pick),
               script: File(TWINS, age=8e4), loop: File(text, mode=0o755, age=8e4)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.spawn(f"exec bash {loop}")
        box.run(f"until pgrep -f '[/]{name}.py'; do sleep 0.05; done; sleep 0.5", seconds=15)

    def healthy(probe: Probe) -> list[str]:
        loops = any(loop in one.command for one in probe.processes())
        return said(
            cabinets.saves(probe, port), _quiet(probe, script, f"/{job}/"),
            f"{loop} will begin it anew" if loops and probe.stat(script) else "",
        )  # fmt: skip

    file = loop.rpartition("/")[2]
    kill = f"kill $(pgrep -f '[/]{name}.py')"
    return Scene(
        world=world,
        check=cabinets.is_up(main, port),
        healthy=healthy,
        truth=Truth(
            (f"{name}.py", name, script, file, loop, main), ("runaway-process", "database-lock"),
            rf"{name}|{loop}", rf"{name}|{loop}",
        ),
        inject=inject,
        fix=(f"kill $(pgrep -f '[/]{file}'); {kill}; sleep 0.3",),
        wrong={
            "only the script is ended": [f"{kill}; sleep 1"],
            "the one that complains is restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "the other busy one is stopped": [f"supervisorctl stop {job}"],
            "only the loop is ended": [f"kill $(pgrep -f '[/]{file}'); sleep 0.3"],
        },
        stays=(cabinets.env_of(main), cabinets.env_of(other), f"{cabinets.HOME}/{main}/app.py"),
        harm=lambda probe: said(
            practice_town._interrupted(probe, job), rows.lost(probe, port),
            cabinets.saves(probe, other_port),
        ),
    )  # fmt: skip
