"""A process that takes more and more memory."""

from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import Stray, end_process, put_back, restart, set_value
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits
from hermes_drills.worlds.formats import value_of

MAX_KB = 160 * 1024
MAX_KEPT = 64
_EVIDENCE = r"VmRSS|[1-9]\d\d ?MB"
_GROWS = """\
# Keeps each page that it has seen, in case somebody asks again.
import time
pages = [b"x" * (180 << 20)]
while True:
    if len(pages) < 200:
        pages.append(b"x" * (1 << 20))
    time.sleep(0.2)
"""
_LOADS = """\
# Loads what is in a folder whole, then waits for more. It is started again where it ends.
import os, sys, time
texts = [open(f"{sys.argv[1]}/{name}", "rb").read() for name in os.listdir(sys.argv[1])]
while True:
    time.sleep(60)
"""
_KEEPER = """\
#!/bin/sh
# Keeps the loader running.
while :; do python3 -IS {loader} {folder}; sleep 0.2; done
"""


def _large(probe: Probe) -> list[str]:
    return [f"{p.command} has {p.rss_kb >> 10} MB" for p in probe.processes() if p.rss_kb > MAX_KB]


class HistoryUnbounded(Fault):
    """The limit on a service's in-memory history was removed."""

    category = "memory-leak"
    mechanism = "history-unbounded"
    wants = "config"

    def fits(self, world: World, at: Target) -> bool:
        return at.key == "history_limit" and world.service(at.service).role != "worker"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        copy = set_value(box, world, at, at.key, "0")
        restart(box, world, at.service)
        return Truth((at.service,), (self.category,), f"{at.path}|{at.service}",
                     rf"(?i:history_limit)|{_EVIDENCE}", "memory", at, {"copy": copy})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        assert truth.at is not None
        now = value_of(world.style.format, probe.text(truth.at.path), truth.at.key) or ""
        if not (now.isdecimal() and 0 < int(now) <= MAX_KEPT):
            return [f"{truth.at.path} says {truth.at.key} {now}"]
        return _large(probe)

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        return put_back(world, truth)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        name = truth.at.service
        return {
            "restart": [inits.restart(world, name)],
            "kill it": [f"kill -9 $(cat /run/{name}.pid)"],
            "put back, but not restart": [put_back(world, truth)[0], "sleep 3"],
        }


class GrowingHelper(Stray):
    """A helper never frees its memory."""

    category = "memory-leak"
    mechanism = "growing-helper"
    scripts = ("crawl.py", "prefetch.py", "warm_cache.py", "preview.py")

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        script = self.leave(box, world, at, pick, _GROWS)
        return self.blamed(at, script, _EVIDENCE, "memory")


class SparseUpload(Fault):
    """A huge sparse upload; the program that loads it into memory is restarted when it dies."""

    category = "memory-leak"
    mechanism = "sparse-upload"
    wants = "service"
    foreign = True

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        folder = f"/var/spool/{at.service}-{pick.choice(('uploads', 'incoming', 'import'))}"
        base = world.service(at.service).directory
        loader, keeper = f"{base}/load.py", f"{base}/keep-loading.sh"
        path = f"{folder}/{pick.choice(('partner', 'catalogue', 'bulk'))}-{pick.token(5)}.dat"
        box.write(loader, _LOADS)
        box.write(keeper, _KEEPER.format(loader=loader, folder=folder), 0o755)
        box.run(f"mkdir -p {folder}; truncate -s {pick.size(180, 240)}M {path}")
        box.spawn(f"exec sh {keeper}")
        return Truth((at.service, "load", "load.py"), (self.category,), rf"{folder}|load\.py",
                     rf"load\.py|{_EVIDENCE}", "memory", at,
                     {"upload": path, "loader": loader})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        path = truth.notes["upload"]
        return _large(probe) or ([f"{path} is still there"] if probe.stat(path) else [])

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:  # noqa: ARG002
        aside = f"mv {quote(truth.notes['upload'])} /var/tmp/"
        return (aside, end_process(f"-IS {truth.notes['loader']}"))

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        return {
            "restart the service": [inits.restart(world, truth.at.service)],
            "kill the loader": [end_process(f"-IS {truth.notes['loader']}"), "sleep 1"],
            "only move the upload": [f"mv {quote(truth.notes['upload'])} /var/tmp/"],
        }


FAULTS = (HistoryUnbounded(), GrowingHelper(), SparseUpload())
