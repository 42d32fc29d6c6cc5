"""Open files that run out."""

import re
from collections.abc import Mapping, Sequence

from hermes_drills.box.box import Box
from hermes_drills.faults import common
from hermes_drills.faults.common import Stray, put_back, rewrite, set_value
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe, Process
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits
from hermes_drills.worlds.formats import value_of

_EVIDENCE = r"Too many open files|files open|idle_close|Max open files"
_ASK = """\
import socket, ssl
asked = 0
while asked < 41:
    try:
        server = socket.create_connection(("127.0.0.1", {port}), 2)
        server = ssl._create_unverified_context().wrap_socket(server) if {tls} else server
        server.sendall(b"GET /ready HTTP/1.0\\r\\n\\r\\n")
        asked += b" 200 " in server.recv(4096)
        server.close()
    except OSError:
        continue
"""
_OPENS = """\
# Looks for a change of the names, again and again.
import time
seen = []
while True:
    if len(seen) < 250:
        seen.append(open("/etc/hosts"))
    time.sleep(0 if len(seen) < 230 else 0.5)
"""


class _Limited(Fault):
    """Of a service that may open so many files and no more."""

    category = "descriptor-leak"
    wants = "upstream"

    def fits(self, world: World, at: Target) -> bool:
        return "nofile" in world.service(at.service).limits

    def _process(self, probe: Probe, world: World, truth: Truth) -> Process | None:
        words = world.service(truth.component[0]).command.removeprefix("python3 ")
        return next((p for p in probe.processes() if p.command.endswith(words)), None)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        name = truth.component[0]
        return {
            "restart": [inits.restart(world, name)],
            "allow more": [f"prlimit --pid $(cat /run/{name}.pid) --nofile=4096"],
            "put back, but not restart": [put_back(world, truth)[0]],
        }


class IdleConnections(_Limited):
    """Connections to another service are pooled, but never reused or closed."""

    mechanism = "idle-connections"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        copy = set_value(box, world, at, "idle_close", "no")
        common.restart(box, world, at.service)
        common.await_port(box, at.port)
        tls = bool(world.service(at.service).certificate)
        box.run(
            f"python3 -IS - <<'END'\n{_ASK.format(port=at.port, tls=tls)}\nEND\n",
            check=False,
            seconds=10,
        )
        return Truth((at.service,), (self.category,), f"{at.path}|{at.service}", _EVIDENCE,
                     "descriptors", at, {"copy": copy})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        assert truth.at is not None
        now = value_of(world.style.format, probe.text(truth.at.path), "idle_close") or "yes"
        if now != "yes":
            return [f"{truth.at.path} sets idle_close to {now}"]
        runs = self._process(probe, world, truth)
        most = world.service(truth.at.service).limits["nofile"] * 0.6
        return [f"{runs.descriptors} files are open"] if runs and runs.descriptors > most else []

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        return put_back(world, truth)


class OpeningHelper(Stray):
    """A helper opens a file at each poll, and closes none."""

    category = "descriptor-leak"
    mechanism = "opening-helper"
    scripts = ("watch.py", "reload_watcher.py", "follow.py", "monitor.py")

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        run = "prlimit --nofile=256 python3 -IS"
        return self.blamed(
            at, self.leave(box, world, at, pick, _OPENS, run), _EVIDENCE, "descriptors"
        )


class LimitLowered(_Limited):
    """The init entry allows so few open files that one request is too many."""

    mechanism = "limit-lowered"
    foreign = True

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        entry = Target("service", at.service, inits.entry_path(world.style.init, at.service))
        most = world.service(at.service).limits["nofile"]
        text = re.sub(rf"(?i)(nofile=){most}", r"\g<1>5", box.read(entry.path))
        copy = rewrite(box, world, entry, text)
        box.run(inits.reload(world, at.service), check=False)
        return Truth((at.service,), (self.category, "bad-config", "entry-broken"), entry.path,
                     _EVIDENCE, "answers", entry, {"copy": copy})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        runs = self._process(probe, world, truth)
        soft = probe.limits(runs.pid)["nofile"][0] if runs else 0
        right = soft == world.service(truth.component[0]).limits["nofile"]
        return [] if right else [f"it may open {soft} files"]

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        return (put_back(world, truth)[0], inits.reload(world, truth.component[0]))


FAULTS = (IdleConnections(), OpeningHelper(), LimitLowered())
