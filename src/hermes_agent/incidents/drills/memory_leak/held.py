"""Memory that is never given back: prints of every paper in an office, and a list of tariffs that
does not come to its end, in the app behind the one that complains."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import harbour, parish, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.memory_leak.practice_kin import _big, _lifted
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

PRINTS = '''

class Printing(Binder):
    """GET /prints/KEY draws a paper. The last KeepPrints are kept for who asks again; 0: all."""

    def __init__(self, own: dict[str, str]) -> None:
        super().__init__(own)
        self.prints: dict[str, bytes] = {}

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        head, _, key = path.rpartition("/")
        if head != "/prints":
            return super().answer(method, path, body)
        paper = self.get(key)
        try:
            drawn = self.prints.pop(key, b"") or bytes(bytearray(paper.ljust(2 << 20)))
            self.prints[key] = drawn
        except MemoryError:
            raise Trouble(f"(12)Cannot allocate memory: could not draw {key}") from None
        most = int(self.own["KeepPrints"])
        while most and len(self.prints) > most:
            del self.prints[next(iter(self.prints))]
        return 200, b"print of " + paper


if __name__ == "__main__":
    run(Printing)
'''
TARIFFS = '''

class Tariffs(App):
    """Also weighs: a parcel is put on the scales before it is stored. PUT /tariffs/load takes over
    tariffs.file; as long as its last line is not EOF, whoever brings it is still at it."""

    def __init__(self, own: dict[str, str]) -> None:
        super().__init__(own)
        self.pending: list[bytes] = []

    def load(self) -> None:
        while not self.pending or not self.pending[-1].endswith(b"EOF\\n"):
            try:
                self.pending.append(Path(self.own["tariffs.file"]).read_bytes())
            except MemoryError:
                told = f"OutOfMemoryError: Java heap space ({len(self.pending)} pending)"
                self.log("ERROR", "c.h.tariffs.TariffLoader", f"{self.own['tariffs.file']}: {told}")
                time.sleep(2)
            time.sleep(0.01)
        self.pending.clear()

    def answer(self, method: str, path: str, body: str) -> str:
        if (method, path) == ("PUT", "/tariffs/load"):
            threading.Thread(target=self.load, name="tariffs-1", daemon=True).start()
            return "loading"
        try:
            bytes(bytearray(2 << 20))
        except MemoryError:
            self.log("ERROR", "c.h.parcels.Scales", "OutOfMemoryError: Java heap space")
            raise Trouble("the parcel was not weighed", 500) from None
        return super().answer(method, path, body)


if __name__ == "__main__":
    threading.stack_size(256 * 1024)
    main(sys.argv[1], Tariffs)
'''
ONE_HEAP = {"MALLOC_ARENA_MAX": "1"}


def _prints(name: str, port: int, key: str) -> WatchedCheck:
    """The check of the office: a deed of long ago can be printed."""
    run = f"curl -sS -m 4 http://127.0.0.1:{port}/prints/{key}"
    check = Check(run, Expect(output="^print of "), timeout=8.0)
    return WatchedCheck(f"{name} prints", check, name, severity="P1")


def every_print(pick: Pick) -> Scene:
    """As `unbounded`: a bound of what is kept in memory was set to 0, which is none, and how it was
    lies beside; here a directive of an office, with its former file among the backups."""
    (main, other, cache), (port, other_port) = pick.services(3), pick.ports(2)
    most, keep, code = pick.size(58, 84), pick.size(5, 9), parish.code_of(main)
    place, before = parish.settings_of(main), f"/var/backups/parish/{main}.cfg"
    kept, big = parish.papers(main, pick, 60), f"{cache}-index"
    keys = [path.rpartition("/")[2] for path in kept]
    text, limit = parish.program(PRINTS), {"MemoryLimit": most, "KeepPrints": keep}
    world = tiers.joined(
        [parish.binder(main, port, limit, code=text, environment=ONE_HEAP),
         parish.binder(other, other_port, {**limit, "KeepPrints": pick.size(3, 9)}, code=text,
                       environment=ONE_HEAP),
         _big(big, f"{parish.CODE}/{big}", pick.size(115, 150))],
        files={**kept, **parish.former(main, pick), **parish.former(other, pick)},
        folders={"/var/backups/parish": 0o755},
        hostname=pick.host(),
    )  # fmt: skip
    anew = f"supervisorctl restart {main}; sleep 0.6"

    def healthy(probe: Probe) -> list[str]:
        got = [probe.http(port, f"/prints/{key}").text for key in keys]
        right = [f"print of {file.text}" for file in kept.values()]
        failed = sum(one != two for one, two in zip(got, right, strict=True))
        return said(
            parish.files(probe, port), f"{failed} papers were not printed" if failed else ""
        )

    return Scene(
        world=world,
        check=_prints(main, port, keys[-1]),
        healthy=healthy,
        truth=Truth(
            (main,), ("memory-leak", "bad-config"), rf"{place}|KeepPrints|{code}",
            rf"Cannot allocate memory: could not draw|KeepPrints|{code}|Vm(RSS|Data|Size)",
        ),
        inject=lines(
            f"cp -p {place} {before}; sed -i 's/^KeepPrints .*/KeepPrints 0/' {place}; {anew}",
            f"n=0; for key in {' '.join(keys)}; do curl -fs -m 5 -o /dev/null "
            f"http://127.0.0.1:{port}/prints/$key || n=$((n + 1)); test $n -gt 4 && break; done",
        ),
        fix=(f"cp -p {before} {place}", anew),
        wrong={
            "it is only restarted": [anew],
            "the big one is stopped": [f"supervisorctl stop {big}"],
            "it may take more": [f"sed -i 's/^MemoryLimit .*/MemoryLimit 900/' {place}", anew],
        },
        stays=(*kept, code, parish.settings_of(other)),
        runs=(code, f"{big}.py"),
        harm=lambda probe: said(
            _lifted(probe, main, code, most << 20), parish.files(probe, other_port)
        ),
    )  # fmt: skip


def list_without_end(pick: Pick) -> Scene:
    """As `dependency`: the one behind took over a file that its writer never finished, and has no
    memory left for those who ask; here tariffs, between two Spring-like apps with properties."""
    (main, behind, cache), (port, inner) = pick.services(3), pick.ports(2)
    most, code = pick.size(66, 92) << 20, f"/data/{behind}/app/parcels.py"
    late = f"/data/{behind}/{pick.choice(('import', 'inbox'))}/tariffs-{pick.size(2027, 2029)}.csv"
    kept, big = harbour.parcels(behind, pick, 12), f"{cache}-maps"
    size, url = pick.size(700_000, 1_200_000), f"http://127.0.0.1:{inner}"
    world = tiers.joined(
        [harbour.app(behind, inner, {"tariffs.file": late}, text=harbour.program(TARIFFS),
                     limits={"data": most}, environment=ONE_HEAP),
         harbour.app(main, port, {"parcels.remote.url": url}, needs=(behind,)),
         _big(big, f"/data/{big}", pick.size(120, 160))],
        files={**kept, **harbour.weeks_ago(main, pick), **harbour.weeks_ago(behind, pick),
               late: File("from;to;price\nEOF\n", age=9e6)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"yes 'OSL;LIS;17.40;valid' | head -c {size} > {late}")
        box.run(f"curl -sS -m 3 -X PUT -d '' {url}/tariffs/load")
        full = f"grep -q TariffLoader {harbour.log_of(behind)}"
        box.run(f"until {full}; do sleep 0.1; done", seconds=30)

    def healthy(probe: Probe) -> list[str]:
        took = max((one.rss_kb for one in probe.processes() if code in one.command), default=0)
        full = f"{behind} takes {took >> 10} MB" if took << 10 > most * 0.75 else ""
        return said(harbour.stores(probe, port), full)

    return Scene(
        world=world,
        check=harbour.health(main, port),
        healthy=healthy,
        truth=Truth(
            (behind,), ("memory-leak",), rf"{behind}|\b{inner}\b|tariffs|TariffLoader",
            rf"(TariffLoader|Scales) .*OutOfMemoryError|{late}|{code}|Vm(RSS|Data|Size)",
        ),
        inject=inject,
        fix=(f"supervisorctl restart {behind}; sleep 0.5",),
        wrong={
            "the one that complains is restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "the big one is restarted": [f"supervisorctl restart {big}"],
            "it may take more": [
                f"sed -i 's/--data=[0-9]*/--data=900000000/' /etc/supervisor/conf.d/{behind}.conf",
                "supervisorctl reread; supervisorctl update; sleep 0.6",
            ],
        },
        stays=(*kept, code, harbour.settings_of(main), harbour.settings_of(behind)),
        runs=(code, f"{big}.py", f"/data/{main}/app/parcels.py"),
        harm=lambda probe: said(_lifted(probe, behind, code, most)),
    )  # fmt: skip
