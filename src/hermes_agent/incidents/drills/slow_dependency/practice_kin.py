"""A job that was told to catch up and takes all tickets, and a larder that nobody started again."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import cabinets, harbour, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth

CARD = '''
class Card(App):
    """Tickets are signed by a card with two slots, which takes a while over each."""

    def ticket(self) -> bytes:
        time.sleep(0.09)
        return super().ticket()


if __name__ == "__main__":
    main(Card)
'''
LANES = """import sys, threading, time, tomllib, urllib.request

with open(sys.argv[1], "rb") as file:
    own = tomllib.load(file)


def lane(number):
    done = 0
    while True:
        try:
            urllib.request.urlopen(own["tickets"]["from"], timeout=60).read()
            done += 1
        except OSError as error:
            print(f"lane {number}: {error} after {done} jobs", flush=True)
            time.sleep(1)
        time.sleep(own["pace"]["rest"])


print(own["pace"]["lanes"], "lanes, rest", own["pace"]["rest"], flush=True)
for number in range(own["pace"]["lanes"]):
    threading.Thread(target=lane, args=(number,), daemon=True).start()
threading.Event().wait()
"""
LARDED = '''
import socket


class Larder(Remote):
    """What the larder has need not be fetched, and what is new goes there."""

    log = print

    def asked(self, line: str) -> str:
        with socket.socket(socket.AF_UNIX) as wire:
            wire.settimeout(1)
            wire.connect(self.own["parcels.larder.socket"])
            wire.sendall(line.encode() + b"\\n")
            return wire.makefile().readline().strip()

    def get(self, key: str) -> str:
        try:
            word, _, text = self.asked(f"get {key}").partition(" ")
            if word == "have":
                return text
        except OSError as error:
            self.log("WARN", "c.h.larder.LarderClient", f"larder: {error}; fetching {key}")
        return super().get(key)

    def put(self, key: str, text: str) -> None:
        try:
            self.asked(f"put {key} {text}")
        except OSError as error:
            self.log("WARN", "c.h.larder.LarderClient", f"larder: {error}; sending {key} on")
            super().put(key, text)


class Larded(App):
    def __init__(self, own: dict[str, str]) -> None:
        super().__init__(own)
        self.store = Larder(own)
        self.store.own, self.store.log = own, self.log


if __name__ == "__main__":
    main(sys.argv[1], Larded)
'''
JUKEBOX = '''
class Jukebox(App):
    """Whatever is wanted, its disc is fetched first."""

    def answer(self, method: str, path: str, body: str) -> str:
        time.sleep(1.1)
        return super().answer(method, path, body)


if __name__ == "__main__":
    main(sys.argv[1], Jukebox)
'''
LARDER = """import os, socketserver, sys

path, kept = sys.argv[1], {}
if os.path.exists(sys.argv[2]):
    kept = dict(line.rstrip("\\n").split(" ", 1) for line in open(sys.argv[2]))


class Guest(socketserver.StreamRequestHandler):
    def handle(self):
        word, _, rest = self.rfile.readline().decode().strip().partition(" ")
        key, _, text = rest.partition(" ")
        if word == "put":
            kept[key] = text
            with open(sys.argv[2], "a") as file:
                file.write(f"{key} {text}\\n")
        self.wfile.write(f"have {kept[key]}\\n".encode() if key in kept else b"none\\n")


if os.path.exists(path):
    os.unlink(path)
server = socketserver.ThreadingUnixStreamServer(path, Guest)
server.daemon_threads = True
print("serving at", path, "with", len(kept), flush=True)
server.serve_forever()
"""


def catch_up(pick: Pick) -> Scene:
    """As `greedy-batch`: lanes of a job with a TOML file, a note beside the figures instead of a
    copy of the file, and a service that forks and gives out tickets."""
    (front, auth, other), (port, inner, other_port) = pick.services(3), pick.ports(3)
    job, secret, rows = f"{pick.word()}-lanes", pick.token(20), cabinets.Rows(pick)
    lanes, rest, many = pick.size(1, 3), pick.choice((0.8, 1.2, 1.5)), pick.size(48, 54)
    conf, code = f"/etc/{job}.toml", f"/opt/{job}/{job}.py"
    asks = {"AUTH_URL": f"http://127.0.0.1:{inner}", "AUTH_SECRET": secret}
    gives = {"TICKET_SECONDS": 240, "AUTH_SECRET": secret}
    text = (
        f'[tickets]\nfrom = "http://127.0.0.1:{inner}/tickets"\n\n'
        f"[pace]\nlanes = {lanes}\nrest = {rest}\n"
    )
    working = Program(name=job, command=f"python3 {code} {conf}", needs=(auth,),
                      about=f"works off old jobs, by day and night; {conf}")  # fmt: skip
    world = tiers.joined(
        [cabinets.app(auth, inner, None, gives, code=cabinets.program(CARD)),
         cabinets.app(front, port, rows, asks, needs=(auth,)),
         cabinets.app(other, other_port, None),
         tiers.Part(working, {code: File(LANES, age=tiers.MONTH),
                              conf: File(text, age=tiers.MONTH)})],
        files={**cabinets.weeks_ago(front, pick), **cabinets.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    check = cabinets.is_up(front, port)
    note = f"# {lanes} lanes and a rest of {rest} until the weekend; now we catch up"

    def inject(box: Box) -> None:
        box.run(f"sed -i 's/^lanes = .*/{note}\\nlanes = {many}/; s/^rest = .*/rest = 0/' {conf}")
        box.run(f"supervisorctl restart {job}")
        box.run(f"while {check.check.run} | grep -q OK; do sleep 0.1; done", seconds=30)

    def healthy(probe: Probe) -> list[str]:
        late = probe.http(inner, "/tickets", timeout=1.2).status != 200
        return said(cabinets.saves(probe, port), "tickets come late" if late else "")

    back = f"s/^lanes = .*/lanes = {lanes}/; s/^rest = .*/rest = {rest}/"
    return Scene(
        world=world,
        check=check,
        healthy=healthy,
        truth=Truth(
            (job, auth), ("slow-dependency", "bad-config"), rf"{job}|lanes",
            rf"lanes = {many}|{many} lanes|{job}|auth http\S+ timed out",
        ),
        inject=inject,
        fix=(f"sed -i '{back}' {conf}", f"supervisorctl restart {job}"),
        wrong={
            "restarting": [f"supervisorctl restart {front} {auth}"],
            "more workers": [
                f"sed -i 's/^WORKERS=.*/WORKERS=40/' {cabinets.env_of(auth)}",
                f"supervisorctl restart {auth}; sleep 1",
            ],
            "the job is stopped": [f"supervisorctl stop {job}"],
        },
        stays=tuple(map(cabinets.env_of, (front, auth, other))),
        runs=(code,),
        harm=lambda probe: said(cabinets.saves(probe, other_port)),
    )  # fmt: skip


def stopped_larder(pick: Pick) -> Scene:
    """As `cache-gone`: the cache is at a socket in the file system and was stopped by hand for
    work that is over; apps with properties and logs as of Spring."""
    (front, archive, other), (port, inner, other_port) = pick.services(3), pick.ports(3)
    larder, log = pick.choice(("larder", "pantry", "coldbox")), "/var/log/operators.log"
    sock, code = f"/run/{larder}/{larder}.sock", f"/opt/{larder}/{larder}.py"
    asks = {"parcels.remote.url": f"http://127.0.0.1:{inner}", "parcels.larder.socket": sock,
            "parcels.remote.timeout-ms": 4000}  # fmt: skip
    store, kept = f"/var/lib/{larder}/lately", harbour.parcels(archive, pick)
    cold = Program(name=larder, command=f"python3 {code} {sock} {store}", ready=f"unix:{sock}",
                   about=f"keeps what was wanted lately; socket {sock}")  # fmt: skip
    world = tiers.joined(
        [harbour.app(front, port, asks, text=harbour.program(LARDED), needs=(larder, archive)),
         harbour.app(archive, inner, text=harbour.program(JUKEBOX),
                     about="a jukebox of discs, a second for each"),
         harbour.app(other, other_port),
         tiers.Part(cold, {code: File(LARDER, age=tiers.MONTH)},
                    {f"/run/{larder}": 0o755, f"/var/lib/{larder}": 0o755})],
        files={**kept, **harbour.weeks_ago(front, pick), **harbour.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    run = f"curl -sS -m 1.5 http://127.0.0.1:{port}/actuator/health"
    did = {24: f"{larder} stopped, its folder is copied to the new disc",
           19: f"copy of /var/lib/{larder} done", 18: "nothing else today"}  # fmt: skip
    return Scene(
        world=world,
        check=WatchedCheck(f"{front} health", Check(run, Expect(output='"UP"'), timeout=6.0),
                           front, severity="P1"),
        healthy=lambda probe: said(harbour.late(probe, port), harbour.stores(probe, port)),
        truth=Truth(
            (larder,), ("slow-dependency", "service-crash"), rf"{larder}|{sock}",
            rf"{larder}\s+(STOPPED|EXITED)|larder: |{larder}",
        ),
        inject=lines(f"supervisorctl stop {larder}", *tiers.old_lines(log, did)),
        fix=(f"supervisorctl start {larder}",),
        wrong={
            "restarting": [f"supervisorctl restart {front} {archive}"],
            "more patience": [
                f"sed -i 's/timeout-ms=.*/timeout-ms=20000/' {harbour.settings_of(front)}",
                f"supervisorctl restart {front}",
            ],
        },
        stays=(*kept, *map(harbour.settings_of, (front, archive, other))),
        harm=lambda probe: said(harbour.stores(probe, other_port)),
    )  # fmt: skip
