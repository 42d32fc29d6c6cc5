"""A log that grows faster than anybody can read or keep it."""

import time
from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import Stray, put_back, restart, set_value, value_left
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits

POLL_SECONDS, MAX_BYTES = 0.15, 8000
_RETRY = """\
# Hands batches on to the partner; what was not taken is tried again.
import socket, time
while True:
    try:
        socket.create_connection(("127.0.0.1", {port}), 1).close()
    except OSError as error:
        line = f"{{time.time():.3f}} ERROR no batch was taken: {{error}}; trying again at once\\n"
        try:
            with open("{log}", "a") as log:
                log.write(line * 80)
        except OSError:
            pass
    time.sleep(0.01)
"""


class DebugLevel(Fault):
    """The log level `debug` was left on after debugging something else."""

    category = "log-flood"
    mechanism = "debug-level"
    wants = "config"

    def fits(self, world: World, at: Target) -> bool:
        return at.key == "level" and world.service(at.service).role != "worker"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        log = world.service(at.service).log
        copy = set_value(box, world, at, at.key, "debug")
        restart(box, world, at.service)
        return Truth((at.service,), (self.category,), f"{at.path}|{log}",
                     r"DEBUG|(?i:level)\W+debug", "log", at,
                     {"copy": copy, "log": log})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        assert truth.at is not None
        if wrong := value_left(probe, world, truth.at, truth.at.key, truth.at.value):
            return wrong
        before = probe.stat(truth.notes["log"])
        time.sleep(POLL_SECONDS)
        after = probe.stat(truth.notes["log"])
        grown = after.size - before.size if after and before else 0
        return [f"{truth.notes['log']} still grows"] if grown > MAX_BYTES else []

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        return (*put_back(world, truth), f": > {quote(truth.notes['log'])}")

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        log, again = quote(truth.notes["log"]), inits.restart(world, truth.at.service)
        return {
            "restart": [again],
            "delete the log": [f"rm {log}", again],
            "throw the log away": [f"ln -sf /dev/null {log}", again],
            "put back, but not restart": [put_back(world, truth)[0]],
        }


class RetryLoop(Stray):
    """A helper retries without a pause, and logs each attempt."""

    category = "log-flood"
    mechanism = "retry-loop"
    scripts = ("deliver.py", "relay.py", "forward.py", "notify.py")

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        folder = world.service(at.service).log.rpartition("/")[0]
        log = f"{folder}/{at.service}-{pick.choice(('batch', 'partner', 'outbound'))}.log"
        script = self.leave(
            box, world, at, pick, _RETRY.format(port=pick.size(2000, 2900), log=log)
        )
        return self.blamed(at, script, r"trying again at once|grew by", "log", log)

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        return (*super().expert(world, truth), f": > {quote(truth.notes['log'])}")

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        return {
            **super().wrong(world, truth),
            "delete the log": [f"rm {quote(truth.notes['log'])}"],
        }


class TracedByCron(Fault):
    """A cron line left from debugging logs a whole file listing each minute."""

    category = "log-flood"
    mechanism = "cron-trace"
    wants = "job"
    foreign = True

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        log = world.job(at.service).log
        table = f"/etc/cron.d/{at.service}-{pick.choice(('trace', 'debug', 'tmp'))}"
        box.write(table, f"* * * * * root find /usr -ls 2>&1 | head -c 400000 >>{log}\n", 0o644)
        return Truth((at.service, "cron"), (self.category,), f"{table}|{log}", "find /usr|grew by",
                     "log", at, {"table": table, "log": log})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        lines = probe.text(truth.notes["table"]).splitlines()
        left = [line for line in lines if "find /usr" in line and not line.startswith("#")]
        return [f"{truth.notes['table']} still has: {line}" for line in left]

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:  # noqa: ARG002
        return (f"rm {quote(truth.notes['table'])}", f": > {quote(truth.notes['log'])}")

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        return {
            "delete the log": [f"rm {quote(truth.notes['log'])}"],
            "restart cron": [inits.restart(world, "cron")],
            "stop cron": [inits.command(world, "cron", "stop")],
        }


FAULTS = (DebugLevel(), RetryLoop(), TracedByCron())
