"""A file system that has bytes left and no room for another file."""

import re
from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import end_process, process_of
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Mount, Target, Truth, World
from hermes_drills.worlds import inits

_POLLER = """\
# Leaves a file for each answer of a partner.
import os, sys, time
number = 0
while True:
    try:
        for _ in range(400):
            number += 1
            open(f"{sys.argv[1]}/answer-{number:07}.txt", "x").close()
    except OSError:
        pass
    time.sleep(0.1)
"""


def _mount(world: World, at: Target) -> Mount:
    return next(one for one in world.mounts if one.path == at.path)


class _Pile(Fault):
    category = "inode-full"
    wants = "mount"

    def fits(self, world: World, at: Target) -> bool:
        return bool(_mount(world, at).inodes) and world.service(at.service).data == at.path

    def _truth(self, at: Target, pile: str, script: str = "") -> Truth:
        evidence = r"No space left|\b(9\d|100)%|disk is full|unable to open|disk I/O"
        return Truth((at.service,), (self.category,), re.escape(at.path), evidence, "answers", at,
                     {"pile": pile, "script": script})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        assert truth.at is not None
        pile = truth.notes["pile"]
        names = probe.names(pile)
        left = sum(len(probe.names(f"{pile}/{one}")) or 1 for one in names[:64]) + len(names[64:])
        most = _mount(world, truth.at).inodes // 2
        return [f"{pile} still has {left} files"] if left > most else []

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:  # noqa: ARG002
        return (f"find {quote(truth.notes['pile'])} -type f -delete",)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        data = quote(truth.at.path)
        return {
            "restart": [inits.restart(world, truth.at.service)],
            "delete what is large": [f"find {data} -size +100k -delete"],
            "wipe the data": [f"rm -rf {data}/*"],
        }


class Sessions(_Pile):
    """There is a file for each session, and none was ever removed."""

    mechanism = "sessions"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        pile = f"{at.path}/{pick.choice(('sessions', 'sess', 'tmp/sessions'))}"
        name = f"sess_{pick.token(8)}%06g"
        box.run(
            f"mkdir -p {quote(pile)} && cd {quote(pile)} && seq -f {name} "
            f"{_mount(world, at).inodes + 50} | xargs touch -d '-40 days' 2>/dev/null; true"
        )
        return self._truth(at, pile)


class CacheShards(_Pile):
    """An unbounded cache, in folders named by the first letters of its keys."""

    mechanism = "cache-shards"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        pile = f"{at.path}/{pick.choice(('cache', '.cache', 'thumbs'))}"
        shards, ending = pick.size(20, 48), pick.choice(("bin", "cache", "json"))
        box.run(
            f"mkdir -p {quote(pile)} && cd {quote(pile)} && "
            f"printf '%02x ' {{1..{shards}}} | xargs mkdir; "
            f"awk 'BEGIN {{ for (n = 0; n < {_mount(world, at).inodes + 50}; n++) "
            f'printf "%02x/%08x.{ending}\\n", n % {shards} + 1, n * 1299721 }}\' | '
            "xargs touch -d '-9 days' 2>/dev/null; true"
        )
        return self._truth(at, pile)


class Poller(_Pile):
    """A running process leaves a file behind at each poll."""

    mechanism = "poller"
    foreign = True

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        pile = f"{at.path}/{pick.choice(('inbox', 'answers', 'results'))}"
        folder = world.service(at.service).directory
        script = f"{folder}/{pick.choice(('poll.py', 'collect.py', 'sync_partner.py'))}"
        box.write(script, _POLLER)
        box.run(f"mkdir -p {quote(pile)}")
        box.spawn(f"exec python3 -IS {quote(script)} {quote(pile)}")
        return self._truth(at, pile, script)

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        script = truth.notes["script"]
        runs = [f"{script} still runs"] if process_of(probe, re.escape(script)) else []
        return runs or super().gone(probe, world, truth)

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        return (end_process(truth.notes["script"]), *super().expert(world, truth))

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        return {**super().wrong(world, truth), "only delete": super().expert(world, truth)}


FAULTS = (Sessions(), CacheShards(), Poller())
