"""Processes that eat the processor, in houses that do not look alike."""

import time
from collections.abc import Callable

from msgspec.structs import replace

from hermes_agent.incidents.drills import parts, varied
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth

ONE_BY_ONE = """

class OneByOne(Shelf):
    \"\"\"Asks are done one after the other, at most a few of them wait.\"\"\"

    daemon_threads = True
    turn = threading.Semaphore(2)

    def put(self, key: str, body: bytes) -> tuple[int, bytes]:
        return self.in_turn(super().put, key, body)

    def get(self, key: str, body: bytes) -> tuple[int, bytes]:
        return self.in_turn(super().get, key, body)

    def in_turn(self, do, key: str, body: bytes) -> tuple[int, bytes]:
        if not self.turn.acquire(blocking=False):
            raise RuntimeError("too many at a time")
        try:
            time.sleep(0.02)
            return do(key, body)
        finally:
            self.turn.release()


serve(OneByOne)
"""
HAMMER = """\
import http.client, sys, threading

def ask():
    while True:
        try:
            line = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=1)
            line.request("GET", "/docs/" + sys.argv[2])
            line.getresponse().read()
        except OSError:
            pass

for _ in range(24):
    threading.Thread(target=ask).start()
"""
CHILDREN = """

def checker(lock: str, work: str) -> None:
    import fcntl
    with open(lock, "a") as file:
        while True:
            for path in sorted(Path(work).glob("*.todo")):
                fcntl.flock(file, fcntl.LOCK_EX)
                left = int(path.read_text() or 0)
                while left:  # never comes to 0 from below
                    left -= 1 if left > 0 else 0
                path.unlink()
                fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(0.1)


class Locked(Shelf):
    def put(self, key: str, body: bytes) -> tuple[int, bytes]:
        import fcntl
        with open(self.own["guard"], "a") as file:
            for _ in range(20):
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return super().put(key, body)
                except BlockingIOError:
                    time.sleep(0.05)
        raise RuntimeError("the guard is not free")


if __name__ == "__main__":
    own = settings()
    threading.stack_size(256 * 1024)
    if not os.fork():
        checker(own["guard"], own["work"])
    Locked().serve_forever()
"""


def _quiet(home: varied.House, batch: str, script: str = "") -> Callable[[Probe], list[str]]:
    """It works, and nobody but the long job is busy."""

    def healthy(probe: Probe) -> list[str]:
        wrong = said(probe.keeps(home.port, varied.PREFIX, timeout=3.0))
        was = {process.pid: process.cpu_seconds for process in probe.processes()}
        time.sleep(0.5)
        for process in probe.processes():
            used = process.cpu_seconds - was.get(process.pid, process.cpu_seconds)
            if batch not in process.command and used > 0.2:
                wrong.append(f"{process.name} eats the processor")
            if script and script in process.command:
                wrong.append(f"{script} runs")
        return wrong

    return healthy


def _undisturbed(batch: str) -> Callable[[Probe], list[str]]:
    return lambda probe: (
        []
        if any(f"/{batch}/" in one.command for one in probe.processes())
        else [f"{batch} was stopped"]
    )


def hammering(pick: Pick) -> Scene:
    """A script that somebody left asks as fast as it can, and nobody else gets a turn."""
    name, word, batch = pick.service(), pick.word(), f"{pick.word()}-recalc"
    home = replace(varied.house(pick, name, pick.port()), more=ONE_BY_ONE)
    docs = home.docs(pick)
    key = next(iter(docs)).rpartition("/")[2]
    script = pick.choice((f"/home/{word}/probe-{pick.token()}.py", f"/root/{word}.py"))

    def inject(box: Box) -> None:
        box.spawn(f"exec python3 {script} {home.port} {key}")

    return Scene(
        world=parts.joined(
            home.part, parts.batch(batch, share=0.4), parts.Part((), {script: File(HAMMER), **docs})
        ),
        check=home.check,
        inject=inject,
        healthy=_quiet(home, batch, script),
        truth=Truth(
            component=(name, script, script.rpartition("/")[2]),
            category=("runaway-process", "pool-exhausted"),
            locus=script,
            evidence=script,
        ),
        fix=(f"kill $(pgrep -f '[/]{script.rpartition('/')[2]}')",),
        wrong={
            "the one that complains is restarted": [f"supervisorctl restart {name}"],
            "the other busy one is stopped": [f"supervisorctl stop {batch}"],
        },
        stays=tuple(docs),
        runs=(home.code,),
        harm=_undisturbed(batch),
    )


def spinning_child(pick: Pick) -> Scene:
    """A child of the service turns in a circle on one piece of work, and holds the guard."""
    name, batch = pick.service(), f"{pick.word()}-recalc"
    home = varied.house(pick, name, pick.port())
    work = pick.choice((f"/srv/{name}/queue", f"/var/spool/{name}/pending"))
    guard = pick.choice((f"/run/{name}.guard", f"{work}/.busy"))
    home = replace(home, more=CHILDREN).changed(guard=guard, work=work)
    docs = home.docs(pick)
    bad, good = f"{work}/a-{pick.token()}.todo", f"{work}/b-{pick.token()}.todo"

    def inject(box: Box) -> None:
        box.write(good, "500\n")
        box.write(bad + ".new", "-1\n")
        box.run(f"chmod 666 {good} {bad}.new; mv {bad}.new {bad}")
        box.run(
            f"for i in $(seq 100); do flock -n {guard} true || exit 0; sleep 0.05; done; exit 1"
        )

    def harm(probe: Probe) -> list[str]:
        return _undisturbed(batch)(probe)

    return Scene(
        world=parts.joined(
            home.part,
            parts.batch(batch, share=0.4),
            parts.Part((), docs, {work: 0o777, "/run": 0o777}),
        ),
        check=home.check,
        inject=inject,
        healthy=_quiet(home, batch),
        truth=Truth(
            component=(name,),
            category=("runaway-process",),
            locus=rf"{home.code}|{bad}|{guard}",
            evidence=f"{home.code}|{guard}|{bad}",
        ),
        fix=(f"mv {bad} /var/tmp/; supervisorctl restart {name}",),
        wrong={
            "it is only restarted": [f"supervisorctl restart {name}; sleep 1.5"],
            "the other busy one is stopped": [f"supervisorctl stop {batch}"],
        },
        stays=tuple(docs),
        runs=(home.code,),
        harm=harm,
    )


SWEEPING = """

class Sweeping(Shelf):
    def __init__(self) -> None:
        super().__init__()
        self.sweep = threading.Lock()
        threading.Thread(target=self.clean, daemon=True).start()

    def clean(self) -> None:
        pause = float(self.own["@pause@"])
        while True:
            with self.sweep:
                self.look()
                while not pause:
                    self.look()
            time.sleep(pause)

    def look(self) -> None:
        for path in self.data.iterdir():
            path.stat()

    def put(self, key: str, body: bytes) -> tuple[int, bytes]:
        if not self.sweep.acquire(timeout=0.8):
            raise RuntimeError("the sweep has not ended")
        try:
            return super().put(key, body)
        finally:
            self.sweep.release()


serve(Sweeping)
"""


def no_pause(pick: Pick) -> Scene:
    """Somebody took away the pause between two rounds of a service's own housekeeping."""
    name, batch = pick.service(), f"{pick.word()}-recalc"
    setting = pick.choice(("sweep_every", "clean_interval", "gc_pause"))
    home = replace(
        varied.house(pick, name, pick.port()), more=SWEEPING.replace("@pause@", setting)
    ).changed(**{setting: 4})
    docs = home.docs(pick)

    return Scene(
        world=parts.joined(home.part, parts.batch(batch, share=0.4), parts.Part((), docs)),
        check=home.check,
        inject=home.change(home.changed(**{setting: 0})),
        healthy=_quiet(home, batch),
        truth=Truth(
            component=(name,),
            category=("runaway-process", "bad-config"),
            locus=f"{home.file}|{home.code}",
            evidence=f"{setting}|{home.code}",
        ),
        fix=home.restore,
        wrong={
            "it is only restarted": [f"supervisorctl restart {name}"],
            "the other busy one is stopped": [f"supervisorctl stop {batch}"],
        },
        stays=tuple(docs),
        runs=(home.code,),
        harm=_undisturbed(batch),
    )
