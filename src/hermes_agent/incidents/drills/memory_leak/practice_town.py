"""Of one account's server: workers that are no longer replaced after so many requests, and
drawings that nobody clears away since the one that did has died."""

import time

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import cabinets as house
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth

LETTERS = """

class Letters(App):
    \"\"\"Also sets records as letters: GET /api/letters/KEY.\"\"\"

    def __init__(self, env: dict[str, str]) -> None:
        super().__init__(env)
        self.fonts: list[bytearray] = []

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        head, _, key = path.rpartition("/")
        if head != "/api/letters":
            return super().answer(method, path, body)
        text = self.load(key)
        self.fonts.append(bytearray(1 << 20))
        return 200, b"Dear customer,\\n" + text + b"\\n"


if __name__ == "__main__":
    main(Letters)
"""
CACHE = """import sys
import time

pages = bytearray(int(sys.argv[1]) << 20)
for place in range(0, len(pages), 4096):
    pages[place] = 1
while True:
    time.sleep(60)
"""
EXAMPLE = """# copy to .env
PORT=8000
WORKERS=2
# workers are replaced after so many requests
"""


def _cache(name: str, megabytes: int) -> tiers.Part:
    """A process that is big, and stays as big as it is."""
    path = f"{house.HOME}/{name}/warm.py"
    return tiers.Part(
        Program(name=name, command=f"python3 {path} {megabytes}",
                about=f"holds {megabytes} MB of pages in memory, as it should"),
        {path: File(CACHE, age=tiers.MONTH)},
    )  # fmt: skip


def _biggest(probe: Probe, name: str) -> int:
    """Megabytes of the biggest process of an app."""
    place = f"{house.HOME}/{name}/"
    return max((p.rss_kb for p in probe.processes() if place in p.command), default=0) >> 10


def _letter(name: str, port: int, key: str) -> WatchedCheck:
    run = f"curl -sS -m 3 -w ' %{{http_code}}' http://127.0.0.1:{port}/api/letters/{key}"
    check = Check(run, Expect(output="^Dear customer"), timeout=8.0)
    return WatchedCheck(f"{name} letters", check, name, severity="P1")


def no_recycling(pick: Pick) -> Scene:
    (main, other, cache), (port, other_port) = pick.services(3), pick.ports(2)
    rows, env, most = house.Rows(pick), house.env_of(main), pick.size(130, 160)
    often = pick.size(25, 40)
    settings = {"MAX_REQUESTS": often, "WORKER_MEMORY_MB": most}
    world = tiers.joined(
        [house.app(main, port, rows, settings, code=house.program(LETTERS),
                   environment={"MALLOC_ARENA_MAX": "1"}),
         house.app(other, other_port, None, {"MAX_REQUESTS": 0}),
         _cache(f"{cache}-warm", pick.size(90, 130))],
        files={
            **house.weeks_ago(main, pick),
            f"{house.HOME}/{main}/.env.example": File(f"{EXAMPLE}MAX_REQUESTS={often}\n", age=9e6),
        },
        hostname=pick.host(),
    )  # fmt: skip
    letter = f"http://127.0.0.1:{port}/api/letters/{rows.first}"

    def healthy(probe: Probe) -> list[str]:
        wrong = house.saves(probe, port)
        for number in range(most * 2):
            got = probe.http(port, f"/api/letters/{rows.first}")
            if rows.values[rows.first] not in got.text:
                return said(wrong, f"letter {number} is not set: {got.status} {got.error}")
        big = _biggest(probe, main)
        return said(wrong, f"a worker takes {big} MB" if big > most else "")

    return Scene(
        world=world,
        check=_letter(main, port, rows.first),
        healthy=healthy,
        truth=Truth(
            (main,), ("memory-leak", "bad-config"), rf"{env}|MAX_REQUESTS",
            rf"MAX_REQUESTS=0|Vm(Size|RSS|Peak)|\[ERROR\].*MemoryError|{main}/app\.py",
        ),
        inject=lines(
            f"sed -i 's/^MAX_REQUESTS=.*/MAX_REQUESTS=0/' {env}",
            f"supervisorctl restart {main}; sleep 0.5",
            f"n=0; until ((n++ > 11)); do curl -s -m 3 {letter} | grep -q Dear && n=0; done",
        ),
        fix=(f"sed -i 's/^MAX_REQUESTS=.*/MAX_REQUESTS={often}/' {env}",
             f"supervisorctl restart {main}", "sleep 0.5"),
        wrong={
            "it is only restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "it may take more": [
                f"sed -i 's/^WORKER_MEMORY_MB=.*/WORKER_MEMORY_MB=4000/' {env}",
                f"supervisorctl restart {main}; sleep 0.5",
            ],
            "the big one is stopped": [f"supervisorctl stop {cache}-warm"],
        },
        stays=(house.env_of(other), f"{house.HOME}/{main}/app.py"),
        runs=(f"{house.HOME}/{cache}-warm/warm.py",),
        harm=lambda probe: said(
            rows.lost(probe, port), house.saves(probe, other_port),
            "" if f"WORKER_MEMORY_MB={most}\n" in probe.text(env) else "it may take other memory",
        ),
    )  # fmt: skip


PREVIEWS = """

class Previews(App):
    \"\"\"Also draws records: GET /api/previews/KEY. A drawing is kept for PREVIEW_SECONDS.\"\"\"

    def __init__(self, env: dict[str, str]) -> None:
        super().__init__(env)
        self.drawn: list[tuple[float, bytearray]] = []
        self.sweeper: threading.Thread | None = None

    def sweep(self) -> None:
        while True:
            oldest = time.time() - float(self.env.get("PREVIEW_SECONDS", "1"))
            self.drawn = [one for one in self.drawn if one[0] > oldest]
            time.sleep(0.2)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        head, _, key = path.rpartition("/")
        if head != "/api/previews":
            return super().answer(method, path, body)
        if self.sweeper is None:
            self.sweeper = threading.Thread(target=self.sweep, name="sweeper", daemon=True)
            self.sweeper.start()
        text = self.load(key)
        self.drawn.append((time.time(), bytearray(1 << 20)))
        return 200, b"preview of " + text + b"\\n"


if __name__ == "__main__":
    main(Previews)
"""


def dead_sweeper(pick: Pick) -> Scene:
    (main, other, cache), (port, other_port) = pick.services(3), pick.ports(2)
    rows, env, most = house.Rows(pick), house.env_of(main), pick.size(88, 104)
    told = pick.choice(("1s", "1 s", "1sec", "1.0s"))
    settings = {"PREVIEW_SECONDS": 1, "WORKER_MEMORY_MB": most}
    code = house.program(PREVIEWS).replace("import sys\n", "import sys\nimport threading\n", 1)
    world = tiers.joined(
        [house.app(main, port, rows, settings, code=code, environment={"MALLOC_ARENA_MAX": "1"}),
         house.app(other, other_port), _cache(f"{cache}-warm", pick.size(90, 130))],
        files={**house.weeks_ago(main, pick), **house.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    path = f"/api/previews/{rows.first}"
    url = f"http://127.0.0.1:{port}{path}"

    def healthy(probe: Probe) -> list[str]:
        wrong = house.saves(probe, port)
        for number in range(most * 2):
            got = probe.http(port, path)
            if rows.values[rows.first] not in got.text:
                return said(wrong, f"preview {number} is not drawn: {got.status} {got.error}")
            if number % 36 == 35:
                time.sleep(1.3)
        big = _biggest(probe, main)
        return said(wrong, f"a worker takes {big} MB" if big > most else "")

    run = f"curl -sS -m 3 -w ' %{{http_code}}' {url}"
    check = Check(run, Expect(output="^preview of"), timeout=8.0)
    return Scene(
        world=world,
        check=WatchedCheck(f"{main} previews", check, main, severity="P1"),
        healthy=healthy,
        truth=Truth(
            (main,), ("memory-leak", "bad-config"), rf"{env}|PREVIEW_SECONDS|sweep",
            rf"PREVIEW_SECONDS|could not convert|sweeper|Vm(Size|RSS|Peak)|{main}/app\.py|"
            r"\[ERROR\].*MemoryError",
        ),
        inject=lines(
            f"sed -i 's/^PREVIEW_SECONDS=.*/PREVIEW_SECONDS={told}/' {env}",
            f"supervisorctl restart {main}; sleep 0.5",
            f"n=0; until ((n++ > 11)); do curl -s -m 3 {url} | grep -q preview && n=0; done",
        ),
        fix=(f"sed -i 's/^PREVIEW_SECONDS=.*/PREVIEW_SECONDS=1/' {env}",
             f"supervisorctl restart {main}", "sleep 0.5"),
        wrong={
            "it is only restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "it may take more": [
                f"sed -i 's/^WORKER_MEMORY_MB=.*/WORKER_MEMORY_MB=4000/' {env}",
                f"supervisorctl restart {main}; sleep 0.5",
            ],
            "the big one is stopped": [f"supervisorctl stop {cache}-warm"],
        },
        stays=(house.env_of(other), f"{house.HOME}/{main}/app.py"),
        runs=(f"{house.HOME}/{cache}-warm/warm.py",),
        harm=lambda probe: said(
            rows.lost(probe, port), house.saves(probe, other_port),
            "" if f"WORKER_MEMORY_MB={most}\n" in probe.text(env) else "it may take other memory",
        ),
    )  # fmt: skip
