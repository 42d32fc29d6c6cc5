"""An app that keeps all that it asked of its database, for a toolbar that nobody opens any more."""

from hermes_agent.incidents.drills import cabinets as house
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth

TOOLBAR = """

class Toolbar(App):
    \"\"\"With DEBUG, queries and their results are kept for the toolbar: GET /debug/queries.\"\"\"

    def __init__(self, env: dict[str, str]) -> None:
        super().__init__(env)
        self.debug = env.get("DEBUG", "false").lower() in ("1", "true", "yes", "on")
        self.queries: list[tuple[str, bytes, bytearray]] = []

    def load(self, key: str) -> bytes:
        value = super().load(key)
        if self.debug:
            frames = bytearray(1 << 20)  # where it was asked from
            self.queries.append((f"select value from records where key = {key!r}", value, frames))
        return value

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if path == "/debug/queries" and self.debug:
            return 200, "".join(f"{query}\\n" for query, *_ in self.queries[-50:]).encode()
        return super().answer(method, path, body)


if __name__ == "__main__":
    main(Toolbar)
"""

WARM = """import sys
import time

pages = bytearray(int(sys.argv[1]) << 20)
for place in range(0, len(pages), 4096):
    pages[place] = 1
while True:
    time.sleep(60)
"""


def _warm(name: str, megabytes: int) -> tiers.Part:
    """A process that is big, and stays as big as it is."""
    path = f"{house.HOME}/{name}/search.py"
    return tiers.Part(
        Program(name=name, command=f"python3 {path} {megabytes}",
                about=f"has the search index in memory, {megabytes} MB, all day"),
        {path: File(WARM, age=tiers.MONTH)},
    )  # fmt: skip


def _biggest(probe: Probe, name: str) -> int:
    """Megabytes of the biggest process of an app."""
    place = f"{house.HOME}/{name}/"
    return max((p.rss_kb for p in probe.processes() if place in p.command), default=0) >> 10


def toolbar_left_on(pick: Pick) -> Scene:
    (main, other, index), (port, other_port) = pick.services(3), pick.ports(2)
    rows, env, most = house.Rows(pick), house.env_of(main), pick.size(110, 150)
    settings = {"DEBUG": "false", "WORKER_MEMORY_MB": most}
    world = tiers.joined(
        [house.app(main, port, rows, settings, code=house.program(TOOLBAR),
                   environment={"MALLOC_ARENA_MAX": "1"}),
         house.app(other, other_port), _warm(f"{index}-search", pick.size(160, 190))],
        files={**house.weeks_ago(main, pick), **house.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    path = f"{house.RECORDS}/{rows.first}"
    url, up = f"http://127.0.0.1:{port}{path}", f"http://127.0.0.1:{port}/up"

    def healthy(probe: Probe) -> list[str]:
        wrong = house.saves(probe, port)
        for number in range(most * 2):
            got = probe.http(port, path)
            if got.text != rows.values[rows.first]:
                return said(wrong, f"read {number} failed: {got.status} {got.error}")
        big = _biggest(probe, main)
        return said(wrong, f"a worker takes {big} MB" if big > most // 2 else "")

    anew = f"supervisorctl restart {main}; sleep 0.5"
    return Scene(
        world=world,
        check=house.is_up(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("memory-leak", "bad-config"), rf"{env}|DEBUG|{main}/app\.py|queries",
            rf"DEBUG=(true|on|1)|Vm(Size|RSS|Peak)|\[ERROR\].*MemoryError|{main}/app\.py|queries",
        ),
        inject=lines(
            f"sed -i 's/^DEBUG=.*/DEBUG={pick.choice(('true', 'True', '1', 'on'))}/' {env}",
            anew,
            f"n=0; until ((n++ > 11)); do curl -s -m 3 {url} | grep -qv DOWN && n=0; done",
            f"for n in $(seq 8); do curl -s -m 3 {up}; done",
        ),
        fix=(f"sed -i 's/^DEBUG=.*/DEBUG=false/' {env}", anew),
        wrong={
            "it is only restarted": [anew],
            "it may take more": [
                f"sed -i 's/^WORKER_MEMORY_MB=.*/WORKER_MEMORY_MB=4000/' {env}", anew,
            ],
            "the big one is stopped": [f"supervisorctl stop {index}-search"],
        },
        stays=(house.env_of(other), f"{house.HOME}/{main}/app.py"),
        runs=(f"{house.HOME}/{index}-search/search.py",),
        harm=lambda probe: said(
            rows.lost(probe, port), house.saves(probe, other_port),
            "" if f"WORKER_MEMORY_MB={most}\n" in probe.text(env) else "it may take other memory",
        ),
    )  # fmt: skip
