"""Papers of a parish office that wait in memory for somebody who asks at the wrong door."""

import secrets
import time

from hermes_agent.incidents.drills import parish, tiers
from hermes_agent.incidents.drills.memory_leak.practice_quarter import WARM
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import Truth

OUTBOX = '''

class Outbox(Binder):
    """A paper that was filed waits in memory, ready to be printed, until the post takes it."""

    def __init__(self, own: dict[str, str]) -> None:
        super().__init__(own)
        self.waiting: list[tuple[str, bytearray]] = []

    def put(self, key: str, body: bytes) -> None:
        if key != "status-probe":
            try:
                pages = bytearray(b"p" * (1 << 20))
            except MemoryError:
                count = len(self.waiting)
                raise Trouble(f"MemoryError: {count} papers wait for the post") from None
            self.waiting.append((key, pages))
        super().put(key, body)

    def status(self) -> str:
        return f"{super().status()}Waiting: {len(self.waiting)}\\n"

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if (method, path) != ("POST", "/outbox"):
            return super().answer(method, path, body)
        taken, self.waiting = self.waiting[:8], self.waiting[8:]
        return 200, "".join(f"{key}\\n" for key, _ in taken).encode()


if __name__ == "__main__":
    run(Outbox)
'''

POST = '''"""Takes papers from the outbox of a binder to the printer: post.py SETTINGS"""

import sys
import time
import urllib.request

own = dict(line.split(None, 1) for line in open(sys.argv[1]) if not line.startswith("#"))
own = {name: value.strip() for name, value in own.items()}
while True:
    try:
        request = urllib.request.Request(own["Source"] + "/outbox", b"", method="POST")
        with urllib.request.urlopen(request, timeout=3) as reply:
            taken = reply.read().decode()
        with open(own["Printed"], "a") as file:
            file.write(taken)
        time.sleep(0.1)
    except OSError as error:
        stamp = time.strftime("%a %b %d %H:%M:%S %Y", time.gmtime())
        print(f"[{stamp}] [post:warn] {own['Source']}/outbox: {error}", flush=True)
        time.sleep(0.7)
'''


def _lost(probe: Probe, main: str, printed: str) -> str:
    """Papers that were filed and never came to the printer."""
    done = set(probe.text(printed).split())
    gone = [key for key in probe.names(parish.store_of(main)) if key.startswith("wedding-")]
    gone = [key for key in gone if key not in done]
    return f"{len(gone)} papers were not printed" if gone else ""


def _prints(probe: Probe, port: int, printed: str) -> list[str]:
    """Why a new paper does not come to the printer."""
    wrong, key = parish.files(probe, port), f"new-{secrets.token_hex(5)}"
    probe.http(port, f"{parish.PAPERS}/{key}", "PUT", b"x")
    until = time.monotonic() + 2.5
    while key not in probe.text(printed):
        if time.monotonic() > until:
            return said(wrong, f"{key} is not printed")
        time.sleep(0.1)
    return said(wrong)


def nobody_fetches(pick: Pick) -> Scene:
    (main, other, index), (port, other_port, old_port) = pick.services(3), pick.ports(3)
    post, memory, cache = f"{main}-post", pick.size(70, 95), f"{index}-register"
    printed, place = f"/srv/printed/{main}.txt", parish.settings_of(post)
    source, kept = f"http://127.0.0.1:{port}", parish.papers(main, pick)
    world = tiers.joined(
        [
            parish.binder(
                main, port, {"MemoryLimit": memory}, code=parish.program(OUTBOX),
                environment={"MALLOC_ARENA_MAX": "1"},
                about=f"papers in {parish.store_of(main)}; what is filed waits in memory until "
                f"{post} takes it; settings {parish.settings_of(main)}, log {parish.log_of(main)}",
            ),
            parish.helper(post, POST, {"ServerName": post, "Source": source, "Printed": printed},
                          f"takes papers of {main} to the printer, and notes them in {printed}",
                          needs=(main,)),
            parish.binder(other, other_port),
            parish.helper(cache, WARM.replace("sys.argv[1]", str(pick.size(150, 190))),
                          {"ServerName": cache}, "has the register in memory, as it should"),
        ],
        files={**kept, **parish.former(main, pick), **parish.former(other, pick)},
        folders={"/srv/printed": 0o755},
        hostname=pick.host(),
    )  # fmt: skip
    restart = f"supervisorctl restart {post}; sleep 1"

    filed = f"curl -s -m 3 -X PUT -d x {source}{parish.PAPERS}/wedding-$n"
    return Scene(
        world=world,
        check=parish.takes(main, port),
        healthy=lambda probe: _prints(probe, port, printed),
        truth=Truth(
            (post, main), ("memory-leak", "bad-config"),
            rf"{place}|{post}|\b{old_port}\b|outbox|Source",
            rf"\[binder:error\].*MemoryError|Waiting: \d\d|\b{old_port}\b|{post}",
        ),
        inject=lines(
            f"sed -i 's#^Source .*#Source http://127.0.0.1:{old_port}#' {place}",
            restart,
            f"for n in $(seq 120); do {filed} | grep -q filed || break; done",
        ),
        fix=(f"sed -i 's#^Source .*#Source {source}#' {place}", f"{restart}; sleep 1.5"),
        wrong={
            "the post is only restarted": [restart],
            "the binder is restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "restarted, and then the cause": [
                f"supervisorctl restart {main}; sleep 0.5",
                f"sed -i 's#^Source .*#Source {source}#' {place}", restart,
            ],
            "it may take more": [
                f"sed -i 's/^MemoryLimit .*/MemoryLimit 4000/' {parish.settings_of(main)}",
                f"supervisorctl restart {main}; sleep 0.5",
            ],
            "the big one is stopped": [f"supervisorctl stop {cache}"],
        },
        stays=(*kept, parish.settings_of(main), parish.code_of(main)),
        runs=(f"{cache}.py", f"{post}.py"),
        harm=lambda probe: said(_lost(probe, main, printed), parish.files(probe, other_port)),
    )  # fmt: skip
