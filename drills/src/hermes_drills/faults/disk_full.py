"""A file system without room: what was left there, and nobody removed."""

import re
from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import end_process
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Kind, Target, Truth, World
from hermes_drills.worlds import inits

_FULL = r"\b(9\d|100) ?%|No space left|disk is full"
_SCRATCH = """\
# Sorts what is to be exported in a scratch file that no listing shows.
import os, sys, time
path = os.path.join(sys.argv[1], ".sort-scratch")
scratch = os.open(path, os.O_WRONLY | os.O_CREAT)
os.unlink(path)
try:
    while True:
        os.write(scratch, bytes(65536))
except OSError:
    pass
while True:
    time.sleep(60)
"""


class _Full(Fault):
    category = "disk-full"
    wants: Kind = "mount"

    def fits(self, world: World, at: Target) -> bool:
        return world.service(at.service).data == at.path

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        data = quote(truth.at.path)
        return {
            "restart": [inits.restart(world, truth.at.service)],
            "delete the archive": [f"rm -f {data}/archive*"],
            "wipe the data": [f"rm -rf {data}/*"],
        }


class RotatedLogs(_Full):
    """Logs were rotated for weeks, but never removed."""

    mechanism = "rotated-logs"
    wants = "log"

    def fits(self, world: World, at: Target) -> bool:  # noqa: ARG002
        return at.path.startswith("/var/log/")

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        count, sign = pick.size(5, 9), pick.choice((".", "-2026101"))
        log = quote(at.path)
        box.run(
            f"n=$(( $(df --output=avail -k /var/log | tail -1) * 97 / 100 / {count} )); "
            f"for i in {{1..{count}}}; do yes \"$(date '+%F %T') INFO GET /items: 200\" | "
            f'head -c ${{n}}k >{log}{sign}$i; touch -d "-$i days -2 hours" {log}{sign}$i; done'
        )
        logs = {one.log for one in world.services if one.role != "cron"}
        there = box.run(f"ls -d {' '.join(map(quote, sorted(logs)))}", check=False).stdout.split()
        return Truth((at.service,), (self.category,), "/var/log", _FULL, "disk", at,
                     {"sign": sign, "keep": " ".join(there)})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        lost = [path for path in truth.notes["keep"].split() if probe.stat(path) is None]
        return [f"{path} was removed, though it is in use" for path in lost]

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:  # noqa: ARG002
        assert truth.at is not None
        folder, _, name = truth.at.path.rpartition("/")
        pattern = quote(f"{name}{truth.notes['sign']}*")
        return (f"find {quote(folder)} -maxdepth 1 -name {pattern} -mtime +0 -delete",)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        return {
            "restart": [inits.restart(world, truth.at.service)],
            "empty the log in use": [f": > {quote(truth.at.path)}"],
            "wipe all logs": ["rm -rf /var/log/*"],
        }


class ForgottenExport(_Full):
    """A forgotten export takes up the space beside the data."""

    mechanism = "forgotten-export"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        folder = f"{at.path}/{pick.choice(('tmp', 'work', 'export', '.staging'))}"
        path = f"{folder}/{pick.choice(('export-2026-09-14.csv', 'dump.sql.part', 'full.tar'))}"
        box.run(f"mkdir -p {quote(folder)}")
        box.fill(path)
        box.run(f"touch -d '-40 days' {quote(path)}")
        return Truth((at.service,), (self.category,), re.escape(at.path), _FULL, "answers", at,
                     {"export": path})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        facts = probe.stat(truth.notes["export"])
        return [f"{truth.notes['export']} is still there"] if facts and facts.size > 1 << 20 else []

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:  # noqa: ARG002
        return (f"rm {quote(truth.notes['export'])}",)


class DeletedOpen(_Full):
    """A process still holds a large file that was deleted."""

    mechanism = "deleted-open"
    foreign = True

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        folder = world.service(at.service).directory
        script = f"{folder}/{pick.choice(('sort.py', 'merge.py', 'compact.py'))}"
        box.write(script, _SCRATCH)
        box.spawn(f"exec python3 -IS {quote(script)} {quote(at.path)}")
        return Truth((at.service,), (self.category,), re.escape(at.path), rf"{_FULL}|\(deleted\)",
                     "disk", at, {"script": script})  # fmt: skip

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:  # noqa: ARG002
        return (end_process(truth.notes["script"]),)


FAULTS = (RotatedLogs(), ForgottenExport(), DeletedOpen())
