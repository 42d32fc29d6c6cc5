"""Somebody else holds the lock of a SQLite database and does not let go."""

from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import Stray
from hermes_drills.pick import Pick
from hermes_drills.types import Target, Truth, World
from hermes_drills.worlds import inits

_OPEN = """\
import os, signal, sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], timeout=8, isolation_level=None)
"""


class _Locked(Stray):
    category = "database-lock"
    wants = "database"
    stacks = frozenset({"ledger"})
    program: str
    """What it does once it has connected."""

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        name = f"{pick.choice(self.scripts)}-{pick.token(3)}"
        script = f"/opt/{name}/{name}.py"
        box.write(
            script, f'"""Works on a database. usage: {name}.py DATABASE"""\n\n{_OPEN}{self.program}'
        )
        box.spawn(f"exec python3 -IS {script} {quote(at.value)}")
        return Truth(
            (at.service, name), (self.category,), f"{at.value}|{name}",
            f"database is locked|{name}",
            at=Target(at.kind, at.service, at.value), notes={"script": script},
        )  # fmt: skip

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        return (self._end(world, truth, "TERM"),)

    def _end(self, world: World, truth: Truth, signal: str) -> str:
        """Signal whoever has the database open, but for the service itself."""
        assert truth.at is not None
        config, path = quote(world.service(truth.at.service).config), quote(truth.at.path)
        return (
            f"for p in /proc/[0-9]*; do ls -l $p/fd 2>/dev/null | grep -qF {path} && "
            f"! grep -qzF {config} $p/cmdline && kill -{signal} ${{p#/proc/}}; done; true"
        )

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        name, path = truth.at.service, quote(truth.at.path)
        again = inits.restart(world, name)
        return {
            "restart": [again],
            "remove its journal": [f"rm -f {path}-journal {path}-wal {path}-shm", again],
            "start with an empty database": [f"mv {path} {path}.locked", again],
            "swap the file": [f"cp -p {path} {path}.new && mv {path}.new {path}", again],
        }


class StuckWriter(_Locked):
    """A batch job began to write and waits for input that never comes."""

    mechanism = "writer"
    scripts = ("import", "migrate", "rebuild")
    program = """\
database.execute("begin immediate")
database.execute("insert or replace into items values ('batch-1', 'begun')")
print("row 1 written, waiting for the next", flush=True)
while True:
    time.sleep(60)
"""


class StuckMaintenance(_Locked):
    """A backup holds an exclusive lock and writes to a pipe that nothing reads."""

    mechanism = "exclusive"
    scripts = ("backup", "snapshot", "vacuum")
    program = """\
pipe = f"/tmp/{os.path.basename(sys.argv[0])}.pipe"
os.mkfifo(pipe)
database.execute("begin exclusive")
with open(pipe, "w") as file:
    file.writelines(database.iterdump())
database.execute("commit")
"""


class Suspended(_Locked):
    """A program was suspended in the middle of a transaction, as by Ctrl-Z."""

    mechanism = "suspended"
    foreign = True
    scripts = ("correct", "adjust", "relabel")
    program = """\
database.execute("begin immediate")
database.execute("insert or replace into items values ('corrected-1', 'yes')")
os.kill(os.getpid(), signal.SIGSTOP)
database.execute("commit")
"""

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        return (self._end(world, truth, "CONT"),)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        ask = self._end(world, truth, "TERM")
        return {**super().wrong(world, truth), "ask it to end": [ask]}


FAULTS = (StuckWriter(), StuckMaintenance(), Suspended())
