"""All workers of a service are taken, and new requests are turned away."""

from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import Stray, end_process, put_back, restart, set_value, value_left
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits

BUSY = r"workers are busy"
_CLIENT = '''\
"""Keeps connections open for requests to come. usage: {name}.py PORT CONNECTIONS"""

import select, socket, sys, time

port, wanted, held = int(sys.argv[1]), int(sys.argv[2]), []
while True:
    try:
        while len(held) < wanted:
            held.append(socket.create_connection(("127.0.0.1", port), 1))
    except OSError:
        time.sleep(0.1)
    for one in select.select(held, [], [], 0.3)[0]:
        one.close()
        held.remove(one)
    time.sleep(0.05)
'''


def hold_connections(box: Box, port: int, count: int, pick: Pick) -> str:
    """Start a client that holds so many idle connections; returns the path of its script."""
    name = f"{pick.choice(('poller', 'scraper', 'sync', 'uptime'))}-{pick.token(3)}"
    script = f"/opt/{name}/{name}.py"
    box.write(script, _CLIENT.format(name=name))
    box.spawn(f"exec python3 -IS {script} {port} {count}")
    return script


class IdleConnections(Stray):
    """A client holds more idle connections than there are workers, and reopens them."""

    category = "pool-exhausted"
    mechanism = "idle-connections"
    wants = "port"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        workers = int(world.settings[at.service]["workers"])
        script = hold_connections(box, at.port, workers + 2, pick)
        return self.blamed(at, script, BUSY, "answers")

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        service = world.service(truth.at.service)
        again = inits.restart(world, service.name)
        more = f"sed -i -E 's/^([ \"]*workers\\W+)[0-9]+/\\164/I' {quote(service.config)}"
        return {
            "restart": [again],
            "more workers": [more, again],
            "restart the entry": [inits.restart(world, world.entry)],
        }


class FewWorkers(Fault):
    """So few workers are configured that two slow clients take them all."""

    category = "pool-exhausted"
    mechanism = "few-workers"
    wants = "config"

    def fits(self, world: World, at: Target) -> bool:  # noqa: ARG002
        return at.key == "workers" and bool(at.port)

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        copy = set_value(box, world, at, at.key, "1")
        restart(box, world, at.service)
        script = hold_connections(box, at.port, 2, pick)
        return Truth((at.service,), (self.category,), at.path, BUSY, at=at,
                     notes={"copy": copy, "script": script})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:
        assert truth.at is not None
        return value_left(probe, world, truth.at, truth.at.key, truth.at.value)

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        return put_back(world, truth)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        again = inits.restart(world, truth.at.service)
        return {
            "restart": [again],
            "end the clients": [end_process(truth.notes["script"])],
            "put it back unread": [put_back(world, truth)[0]],
            "empty the configuration": [f": >{quote(truth.at.path)}", again],
        }


class BlockedOnPipe(Fault):
    """A named pipe is in the place of an item: each request for it blocks a worker forever."""

    category = "pool-exhausted"
    mechanism = "blocked-on-pipe"
    wants = "data"
    foreign = True

    def fits(self, world: World, at: Target) -> bool:
        return world.service(at.service).role == "store"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:  # noqa: ARG002
        pipe, count = f"{at.path}/.ready.new", int(world.settings[at.service]["workers"])
        ask = (
            f"import socket; held = [socket.create_connection(('127.0.0.1', {at.port})) "
            f"for _ in range({count})]; "
            r"[one.sendall(b'GET /ready HTTP/1.0\r\n\r\n') for one in held]"
        )
        box.run(f"rm -f {quote(pipe)}; mkfifo {quote(pipe)}; python3 -IS -c {quote(ask)}")
        return Truth((at.service,), (self.category,), f"{at.path}|{at.service}", rf"{BUSY}|^prw",
                     at=at, notes={"pipe": pipe})  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        facts = probe.stat(truth.notes["pipe"])
        return [f"{truth.notes['pipe']} is a pipe"] if facts and facts.kind == "other" else []

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        find = f"find {quote(truth.at.path)} -type p -delete"
        return (find, inits.restart(world, truth.at.service))

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        return {
            "restart": [inits.restart(world, truth.at.service)],
            "remove it and wait": [f"rm -f {quote(truth.notes['pipe'])}"],
        }


FAULTS = (IdleConnections(), FewWorkers(), BlockedOnPipe())
