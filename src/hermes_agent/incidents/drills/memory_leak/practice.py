"""Services that take more and more memory, in houses that do not look alike."""

from collections.abc import Callable

from msgspec.structs import replace

from hermes_agent.incidents.drills import parts, varied
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import Truth

KEEPING = """

class Keeping(Shelf):
    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, bytes] = {}

    def get(self, key: str, body: bytes) -> tuple[int, bytes]:
        found = super().get(key, body)
        try:
            most = int(self.own["@setting@"])
            self.seen[f"{key}-{time.time()}"] = bytes(bytearray(1 << 20))
            while most > 0 and len(self.seen) > most:
                del self.seen[next(iter(self.seen))]
        except MemoryError:
            raise RuntimeError("@words@") from None
        return found


serve(Keeping)
"""
WORDS = (
    "no buffer for it", "allocation of 1048576 bytes failed", "heap exhausted", "overloaded",
)  # fmt: skip
NAMES = ("cache_entries", "max_cached", "keep_recent", "page_cache_limit")


def _reads(home: varied.House, key: str, name: str, rounds: int) -> Callable[[Probe], list[str]]:
    """Many reads take no more memory than a few."""

    def memory(probe: Probe) -> int:
        return max((p.rss_kb for p in probe.processes() if home.code in p.command), default=0)

    def healthy(probe: Probe) -> list[str]:
        wrong = said(probe.keeps(home.port, varied.PREFIX))
        for _ in range(6):
            probe.http(home.port, f"{varied.PREFIX}/{key}")
        first = memory(probe)
        failed = sum(
            probe.http(home.port, f"{varied.PREFIX}/{key}").status != 200 for _ in range(rounds)
        )
        wrong += [f"{failed} reads failed"] if failed else []
        grown = memory(probe) - first
        return [*wrong, *([f"{name} takes {grown >> 10} MB more"] if grown > 14 << 10 else [])]

    return healthy


def _home(pick: Pick, bound: object) -> tuple[varied.House, str, varied.House]:
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    setting = pick.choice(NAMES)
    more = KEEPING.replace("@setting@", setting).replace("@words@", pick.choice(WORDS))
    home = replace(
        varied.house(pick, name, port), more=more, limits={"data": pick.size(80, 96) << 20}
    )
    return home.changed(**{setting: bound}), setting, varied.house(pick, other, other_port)


def _until_full(home: varied.House, key: str) -> Callable[[Box], None]:
    url = f"http://127.0.0.1:{home.port}{varied.PREFIX}/{key}"

    def fill(box: Box) -> None:
        box.run(f"for i in $(seq 140); do curl -fs -m 2 -o /dev/null {url} || break; done")

    return fill


def bound_forgotten(pick: Pick) -> Scene:
    """Whoever took the bound of a cache away kept nothing of how it was."""
    return bound_lifted(pick, keep=False)


def bound_lifted(pick: Pick, *, keep: bool = True) -> Scene:
    """Whoever wanted more hits took the bound of a cache away."""
    home, setting, other = _home(pick, 4)
    docs = home.docs(pick)
    key = next(iter(docs)).rpartition("/")[2]
    cache = f"{pick.service()}-warm"
    change = home.change(home.changed(**{setting: pick.choice((0, -1))}), keep=keep)
    fill = _until_full(home, key)

    def inject(box: Box) -> None:
        change(box)
        fill(box)

    return Scene(
        world=parts.joined(
            home.part, other.part, parts.hoard(cache, 110), parts.Part((), docs)
        ),
        check=home.check,
        inject=inject,
        healthy=_reads(home, key, home.name, 30),
        truth=Truth(
            component=(home.name,), category=("memory-leak", "bad-config"),
            locus=f"{home.file}|{home.code}", evidence=f"{setting}|{home.code}",
        ),
        fix=home.restore,
        wrong={
            "it is only restarted": [f"supervisorctl restart {home.name}"],
            "the big cache is restarted": [f"supervisorctl restart {cache}"],
        },
        stays=tuple(docs),
        runs=(home.code, other.code, "hoard"),
        harm=lambda probe: _limited(probe, home),
    )  # fmt: skip


def _limited(probe: Probe, home: varied.House) -> list[str]:
    may = [probe.limits(p.pid)["data"][0] for p in probe.processes() if home.code in p.command]
    fine = all(0 < one <= home.limits["data"] for one in may)
    return [] if fine else [f"{home.name} may take more memory than before"]


HOARDING = """

class Hoarding(Shelf):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[bytes] = []
        self.routes["POST", "begin"] = self.begin

    def begin(self, key: str, body: bytes) -> tuple[int, bytes]:
        self.open.append(bytes(bytearray(512 << 10)))
        return 202, b"begun\\n"

    def put(self, key: str, body: bytes) -> tuple[int, bytes]:
        try:
            bytes(bytearray(1 << 20))
        except MemoryError:
            raise RuntimeError("@words@") from None
        return super().put(key, body)


serve(Hoarding)
"""


def never_ended(pick: Pick) -> Scene:
    """What clients begin and never end stays; the log has its own words for it."""
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    more = HOARDING.replace("@words@", pick.choice(WORDS))
    home = replace(
        varied.house(pick, name, port), more=more, limits={"data": pick.size(70, 90) << 20}
    )
    docs = home.docs(pick)
    beside = varied.house(pick, other, other_port)
    cache = f"{pick.service()}-warm"
    base = f"http://127.0.0.1:{port}"

    def inject(box: Box) -> None:
        line = f"curl -fs -m 2 -o /dev/null -X POST {base}/begin/$i || break"
        box.run(f"for i in $(seq 300); do {line}; done")
        box.run(f"for i in $(seq 9); do curl -s -m 2 -X PUT --data x {base}/docs/n$i; done")

    def healthy(probe: Probe) -> list[str]:
        large = any(p.rss_kb > 60_000 for p in probe.processes() if home.code in p.command)
        return said(
            probe.keeps(port, varied.PREFIX), f"{name} has hardly any memory left" if large else ""
        )

    return Scene(
        world=parts.joined(
            home.part, beside.part, parts.hoard(cache, 110), parts.Part((), docs)
        ),
        check=home.check,
        inject=inject,
        healthy=healthy,
        truth=Truth(
            component=(name,), category=("memory-leak",), locus=home.code,
            evidence=home.code,
        ),
        fix=(f"supervisorctl restart {name}",),
        wrong={
            "the big cache is restarted": [f"supervisorctl restart {cache}"],
            "the neighbour is restarted": [f"supervisorctl restart {other}"],
        },
        stays=tuple(docs),
        runs=(home.code, beside.code, "hoard"),
        harm=lambda probe: _limited(probe, home),
    )  # fmt: skip


FAMILY = """

class Family(Shelf):
    \"\"\"Works in a child, which its parent only waits for.\"\"\"

    def __init__(self) -> None:
        super().__init__()
        self.drafts: list[bytes] = []
        self.routes["POST", "draft"] = self.draft

    def draft(self, key: str, body: bytes) -> tuple[int, bytes]:
        self.drafts.append(bytes(bytearray(700 << 10)))
        return 202, b"drafted\\n"

    def get(self, key: str, body: bytes) -> tuple[int, bytes]:
        bytes(bytearray(1 << 20))
        return super().get(key, body)


if __name__ == "__main__":
    import signal
    threading.stack_size(256 * 1024)
    child = os.fork()
    if not child:
        Family().serve_forever()
    signal.signal(signal.SIGTERM, lambda *_: (os.kill(child, 15), os._exit(0)))
    os.waitpid(child, 0)
"""


def child_behind(pick: Pick) -> Scene:
    """The child of the one behind has no memory left; the one that is watched is well."""
    name, behind = pick.services(2)
    port, behind_port = pick.ports(2)
    back = replace(
        varied.house(pick, behind, behind_port), more=FAMILY,
        limits={"data": pick.size(70, 90) << 20},
    )  # fmt: skip
    home = varied.front(pick, name, port, back)
    docs = back.docs(pick)
    cache = f"{pick.service()}-warm"

    def inject(box: Box) -> None:
        url = f"http://127.0.0.1:{behind_port}/draft"
        box.run(
            f"for i in $(seq 200); do curl -fs -m 2 -o /dev/null -X POST {url}/$i || break; done"
        )

    def healthy(probe: Probe) -> list[str]:
        large = any(p.rss_kb > 60_000 for p in probe.processes() if back.code in p.command)
        return said(
            probe.keeps(port, varied.PREFIX),
            f"{behind} has hardly any memory left" if large else "",
        )

    return Scene(
        world=parts.joined(
            home.part, back.part, parts.hoard(cache, 110), parts.Part((), docs)
        ),
        check=home.check,
        inject=inject,
        healthy=healthy,
        truth=Truth(
            component=(behind,), category=("memory-leak",), locus=rf"{back.code}|{behind}",
            evidence=f"{back.code}|{behind}|bytes|MemoryError",
        ),
        fix=(f"supervisorctl restart {behind}",),
        wrong={
            "the one that complains is restarted": [f"supervisorctl restart {name}"],
            "the big cache is restarted": [f"supervisorctl restart {cache}"],
        },
        stays=tuple(docs),
        runs=(home.code, back.code, "hoard"),
        harm=lambda probe: _limited(probe, back),
    )  # fmt: skip
