"""In another house: sessions that never end by a setting, and a listener that does not read what is
put aside for it."""

from hermes_agent.incidents.drills import tiers, yard
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Program, Truth

ONE_HEAP = {"MALLOC_ARENA_MAX": "1"}
SESSIONS = '''
import resource

SIZE = 1 << 20


class Sessions(Depot):
    """Each note that is stored has a session, which is forgotten after its time."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.open: dict[float, bytearray] = {}
        limit = settings["memory_mb"] << 20
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    def put(self, key: str, body: bytes) -> None:
        kept = self.settings["session_seconds"]
        now = time.monotonic()
        if kept:
            for begun in [begun for begun in self.open if now - begun > kept]:
                del self.open[begun]
        try:
            self.open[now] = bytearray(b"s" * SIZE)
        except MemoryError:
            raise Failure(f"MemoryError: {len(self.open)} sessions are open", 500) from None
        super().put(key, body)


if __name__ == "__main__":
    run(Sessions)
'''
FEEDS = '''
import resource

SIZE = 1 << 20


class Feeds(Depot):
    """Whoever connects to the feed hears of each note; what it has not read is put aside."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.aside: dict[Any, list[bytearray]] = {}
        self.feed = socket.create_server(("127.0.0.1", settings["feed_port"]))
        threading.Thread(target=self.welcome, daemon=True).start()
        limit = settings["memory_mb"] << 20
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    def welcome(self) -> None:
        while True:
            line, _ = self.feed.accept()
            line.setblocking(False)
            self.aside[line] = []

    def put(self, key: str, body: bytes) -> None:
        for line, waiting in list(self.aside.items()):
            try:
                if line.recv(1) == b"":
                    raise ConnectionResetError
            except BlockingIOError:
                pass
            except OSError:
                del self.aside[line]
                line.close()
                continue
            try:
                waiting.append(bytearray(b"n" * SIZE))
            except MemoryError:
                peer = line.getpeername()
                count = len(waiting)
                raise Failure(f"MemoryError: {count} events wait for {peer[0]}:{peer[1]}") from None
        super().put(key, body)


if __name__ == "__main__":
    run(Feeds)
'''
LISTENER = """import select
import socket
import sys
import time

while True:
    try:
        line = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    except OSError:
        time.sleep(0.2)
        continue
    print("listening", flush=True)
    gone = select.poll()
    gone.register(line, select.POLLRDHUP)
    gone.poll()  # what is said is looked at another time
    line.close()
"""


def _many(box: Box, port: int, count: int) -> None:
    url = f"http://127.0.0.1:{port}{yard.NOTES}/load-$n"
    box.run(
        f"for n in $(seq {count}); do curl -s -m 3 -o /dev/null -X PUT --data x {url}; done",
        check=False,
    )


def _big(name: str, pick: Pick) -> tiers.Part:
    return tiers.Part(
        Program(
            name=name, command=f"python3 /opt/{name}/bin/warm.py {pick.size(90, 120)}",
            about="a warm index in memory, as big as it is to be",
        ),
        {f"/opt/{name}/bin/warm.py": File(tiers.program_text("hoard.py"), age=tiers.MONTH)},
    )  # fmt: skip


def endless_sessions(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    index, memory = f"{pick.word()}-index", pick.size(60, 80)
    kept = yard.notes(main, pick)
    place = yard.settings_of(main)
    world = tiers.joined(
        [yard.depot(main, port, {"session_seconds": 1, "memory_mb": memory},
                    code=yard.program(SESSIONS), environment=ONE_HEAP),
         yard.depot(other, other_port), _big(index, pick)],
        files={**kept, **yard.days_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"cp -p {place} {place}.2026-10-01")
        box.run(f"sed -i 's/^session_seconds = .*/session_seconds = 0/' {place}")
        box.run(f"supervisorctl restart {main}")
        box.wait(f"tcp:{port}")
        _many(box, port, memory)

    def healthy(probe: Probe) -> list[str]:
        wrong = yard.stores(probe, port)
        if not wrong and "session_seconds = 0\n" in probe.text(place):
            wrong = "sessions never end"
        return said(wrong)

    return Scene(
        world=world,
        check=yard.passes(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("memory-leak", "bad-config"), rf"{place}|session_seconds",
            r"MemoryError|session_seconds = 0|start new thread",
        ),
        inject=inject,
        fix=(f"cp -p {place}.2026-10-01 {place}", f"supervisorctl restart {main}"),
        wrong={
            "the big one is restarted": [f"supervisorctl restart {index}"],
            "it is only restarted": [f"supervisorctl restart {main}"],
            "more memory": [
                f"sed -i 's/^memory_mb = .*/memory_mb = 4000/' {place}",
                f"supervisorctl restart {main}",
            ],
        },
        stays=tuple(kept),
        runs=(rf"/opt/{index}/bin/warm\.py",),
        harm=lambda probe: said(
            yard.stores(probe, other_port),
            "" if f"memory_mb = {memory}\n" in probe.text(place)
            else f"the memory that {main} may take was changed",
        ),
    )  # fmt: skip


def deaf_listener(pick: Pick) -> Scene:
    (main, other), (port, other_port, feed) = pick.services(2), pick.ports(3)
    index, memory = f"{pick.word()}-index", pick.size(60, 80)
    person, word = "ops", pick.word()
    script = f"/home/{person}/{word}-{pick.token(4)}.py"
    name = script.rpartition("/")[2]
    kept = yard.notes(main, pick)
    world = tiers.joined(
        [yard.depot(main, port, {"feed_port": feed, "memory_mb": memory},
                    code=yard.program(FEEDS), environment=ONE_HEAP,
                    about=f"depot with a feed at port {feed}; settings {yard.settings_of(main)}, "
                    f"log {yard.log_of(main)}"),
         yard.depot(other, other_port), _big(index, pick)],
        files={**kept, **yard.days_ago(other, pick), script: File(LISTENER, age=5000.0)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.spawn(f"exec python3 {script} {feed} >/tmp/{word}.out")
        box.run(f"until grep -q listening /tmp/{word}.out; do sleep 0.05; done", seconds=10)
        _many(box, port, memory)

    def healthy(probe: Probe) -> list[str]:
        deaf = any(script in process.command for process in probe.processes())
        return said(yard.stores(probe, port), f"{script} still listens" if deaf else "")

    return Scene(
        world=world,
        check=yard.passes(main, port),
        healthy=healthy,
        truth=Truth(
            (main, name, script), ("memory-leak",), rf"{name}|\b{feed}\b",
            rf"MemoryError|{name}|start new thread",
        ),
        inject=inject,
        fix=(f"kill $(pgrep -f '[/]{name}')",),
        wrong={
            "the big one is restarted": [f"supervisorctl restart {index}"],
            "it is only restarted": [f"supervisorctl restart {main}; sleep 0.4"],
            "more memory": [
                f"sed -i 's/^memory_mb = .*/memory_mb = 4000/' {yard.settings_of(main)}",
                f"supervisorctl restart {main}",
            ],
        },
        stays=(*kept, yard.settings_of(main)),
        runs=(rf"/opt/{index}/bin/warm\.py",),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip
