"""Memory that is never given back: labels of all parcels, and tabs that nobody pays."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import bakery, harbour, tiers
from hermes_agent.incidents.drills.memory_leak.practice_quarter import WARM
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth

LABELS = '''

class Labels(App):
    """Also draws labels: GET /labels/KEY. They are kept as spring.cache.caffeine.spec says, which
    is maximumSize=COUNT and expireAfterAccess=SECONDSs with a comma between, unless
    spring.cache.type is none."""

    def __init__(self, own: dict[str, str]) -> None:
        super().__init__(own)
        self.labels: dict[str, tuple[float, str]] = {}
        spec = own.get("spring.cache.caffeine.spec", "")
        self.spec = dict(one.strip().split("=") for one in spec.split(",") if one.strip())

    def answer(self, method: str, path: str, body: str) -> str:
        head, _, key = path.rpartition("/")
        if head != "/labels":
            return super().answer(method, path, body)
        try:
            drawn = self.labels.pop(key, (0.0, ""))[1]
            drawn = drawn or self.store.get(key).ljust(1 << 20)
            if self.own.get("spring.cache.type", "caffeine") != "none":
                self.labels[key] = time.monotonic(), drawn
        except MemoryError:
            raise Trouble("OutOfMemoryError: Java heap space", 500) from None
        self.evict()
        return f"label: {drawn.strip()}"

    def evict(self) -> None:
        if "maximumSize" in self.spec:
            while len(self.labels) > int(self.spec["maximumSize"]):
                del self.labels[next(iter(self.labels))]
        if "expireAfterAccess" in self.spec:
            oldest = time.monotonic() - float(self.spec["expireAfterAccess"].rstrip("s"))
            self.labels = {key: one for key, one in self.labels.items() if one[0] > oldest}


if __name__ == "__main__":
    threading.stack_size(256 * 1024)
    main(sys.argv[1], Labels)
'''
TABS = '''
import resource

KNOWN["maxmemory"] = "0mb"


class Tabs(Counter):
    """Also has tabs: POST /tabs/TABLE opens one, DELETE /tabs/TABLE when it is paid.
    Further directive: maxmemory MEGABYTESmb."""

    def __init__(self, conf: dict[str, str]) -> None:
        super().__init__(conf)
        self.tabs: dict[str, bytearray] = {}
        if most := int(conf["maxmemory"].removesuffix("mb")) << 20:
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))

    def take(self, number: str, text: str) -> None:
        try:
            bytes(bytearray(1 << 20))  # the slip for the oven
        except MemoryError:
            raise OSError("OOM command not allowed when used memory > 'maxmemory'") from None
        super().take(number, text)


class Asked(Handler):
    counter: Tabs

    def do_POST(self) -> None:
        self.counter.tabs[self.path] = bytearray(b" " * (448 << 10))
        self.answer(201, f"opened, {len(self.counter.tabs)} tabs\\n")

    def do_DELETE(self) -> None:
        paid = self.counter.tabs.pop(self.path, None) is not None
        self.answer(200 if paid else 404, "paid\\n" if paid else "no such tab\\n")


if __name__ == "__main__":
    threading.stack_size(256 * 1024)
    main(sys.argv[1], Tabs, Asked)
'''


def _big(name: str, folder: str, megabytes: int) -> tiers.Part:
    """A process that is big, and stays as big as it is."""
    path = f"{folder}/{name}.py"
    return tiers.Part(
        Program(name=name, command=f"python3 {path} {megabytes}",
                about=f"keeps {megabytes} MB in memory, as planned"),
        {path: File(WARM, age=tiers.MONTH)},
    )  # fmt: skip


def _lifted(probe: Probe, name: str, part: str, most: int) -> str:
    """Whether it may take more than before."""
    may = [probe.limits(one.pid)["data"][0] for one in probe.processes() if part in one.command]
    return "" if all(0 < one <= most for one in may) else f"{name} may take more memory than before"


def _labelled(name: str, port: int) -> WatchedCheck:
    """The check of the desk: a new parcel gets its label."""
    base = f"http://127.0.0.1:{port}"
    run = (
        f"k=desk-$(date +%s%N); curl -sS -m 3 -o /dev/null -X PUT -d desk {base}/parcels/$k; "
        f"curl -sS -m 3 {base}/labels/$k"
    )
    return WatchedCheck(
        f"{name} labels", Check(run, Expect(output="^label: "), timeout=8.0), name, severity="P1"
    )


def every_label(pick: Pick) -> Scene:
    """As `bound-forgotten`: whoever wanted more hits took the bound of a cache away, and kept
    nothing of how it was; here it is one word of a specification in an app's properties."""
    (main, other, cache), (port, other_port) = pick.services(3), pick.ports(2)
    most, code = pick.size(76, 95) << 20, f"/data/{main}/app/parcels.py"
    place, kept = harbour.settings_of(main), harbour.parcels(main, pick, 130)
    keys, idle = [path.rpartition("/")[2] for path in kept], pick.size(3600, 9000)
    count, big = pick.size(14, 32), f"{cache}-tariffs"
    spec = f"maximumSize={count},expireAfterAccess={idle}s"
    theirs = {"spring.cache.caffeine.spec": f"maximumSize={pick.size(12, 30)}"}
    world = tiers.joined(
        [harbour.app(main, port, {"spring.cache.caffeine.spec": spec}, limits={"data": most},
                     text=harbour.program(LABELS), environment={"MALLOC_ARENA_MAX": "1"}),
         harbour.app(other, other_port, theirs),
         _big(big, f"/data/{big}", pick.size(110, 150))],
        files={**kept, **harbour.weeks_ago(main, pick), **harbour.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    anew, url = f"supervisorctl restart {main}; sleep 0.6", f"http://127.0.0.1:{port}/labels"

    def healthy(probe: Probe) -> list[str]:
        got = [probe.http(port, f"/labels/{key}").text.strip() for key in keys]
        right = [f"label: {file.text.strip()}" for file in kept.values()]
        failed = sum(one != two for one, two in zip(got, right, strict=True))
        return said(
            harbour.stores(probe, port), f"{failed} labels were not drawn" if failed else ""
        )

    return Scene(
        world=world,
        check=_labelled(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("memory-leak", "bad-config"), rf"{place}|caffeine|maximumSize|{code}",
            rf"caffeine|maximumSize|{code}|Vm(RSS|Data|Size)|ERROR .*OutOfMemoryError",
        ),
        inject=lines(
            f"sed -i 's/maximumSize={count},//' {place}", anew,
            f"n=0; for key in {' '.join(keys)}; do curl -fs -m 5 -o /dev/null {url}/$key || "
            "n=$((n + 1)); test $n -gt 6 && break; done",
        ),
        fix=(f"sed -i 's/caffeine.spec=/caffeine.spec=maximumSize=20,/' {place}", anew),
        wrong={
            "it is only restarted": [anew],
            "the big one is restarted": [f"supervisorctl restart {big}"],
            "it may take more": [
                f"sed -i 's/--data=[0-9]*/--data=900000000/' /etc/supervisor/conf.d/{main}.conf",
                "supervisorctl reread; supervisorctl update; sleep 0.6",
            ],
        },
        stays=(*kept, code, harbour.settings_of(other)),
        runs=(code, f"{big}.py"),
        harm=lambda probe: said(
            _lifted(probe, main, code, most), harbour.stores(probe, other_port)
        ),
    )  # fmt: skip


def unpaid_tabs(pick: Pick) -> Scene:
    """As `never-ended`: what clients begin and never end stays in memory, and the log has its own
    words for it; here tabs of a counter, with a bound in its directives and words as of Redis."""
    (main, other, cache), (port, other_port) = pick.services(3), pick.ports(2)
    kept, most, big = bakery.orders(pick, 14), pick.size(64, 88), f"{cache}-recipes"
    text = tiers.program_text("counter.py").partition('\nif __name__ == "__main__":')[0] + TABS
    how, mark = {"MALLOC_ARENA_MAX": "1"}, f"{bakery.TOP}/{main}/"
    limit = {"maxmemory": f"{most}mb"}
    world = tiers.joined(
        [bakery.counter(main, port, kept, limit, environment=how),
         bakery.counter(other, other_port, bakery.orders(pick), limit, environment=how),
         _big(big, "/opt/bakery/lib", pick.size(105, 140))],
        files={**bakery.months_ago(main, pick), **bakery.months_ago(other, pick),
               bakery.CODE: File(text, mode=0o755, age=tiers.MONTH)},
        hostname=pick.host(),
    )  # fmt: skip
    base = f"http://127.0.0.1:{port}"

    def healthy(probe: Probe) -> list[str]:
        took = max((one.rss_kb for one in probe.processes() if mark in one.command), default=0)
        full = f"{main} takes {took >> 10} MB" if took > most * 1024 * 0.75 else ""
        return said(bakery.takes(probe, port), full)

    return Scene(
        world=world,
        check=bakery.is_open(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("memory-leak",), rf"{bakery.CODE}|counter\.py|\btabs?\b|maxmemory|{mark}",
            rf"Order refused: OOM|{bakery.CODE}|counter\.py|maxmemory \d|Vm(RSS|Data|Size)|{mark}",
        ),
        inject=lines(
            f"for n in $(seq 400); do curl -fs -m 3 -o /dev/null -X POST {base}/tabs/t$n || break; "
            "done",
            f"for n in $(seq 8); do curl -s -m 3 -X PUT -d rye {base}/orders/late-$n; done",
        ),
        fix=(f"supervisorctl restart {main}; sleep 0.5",),
        wrong={
            "the big one is restarted": [f"supervisorctl restart {big}"],
            "the neighbour is restarted": [f"supervisorctl restart {other}"],
            "it may take more": [
                f"sed -i 's/^maxmemory .*/maxmemory 900mb/' {bakery.conf_of(main)}",
                f"supervisorctl restart {main}; sleep 0.5",
            ],
        },
        stays=(bakery.conf_of(other), bakery.CODE),
        runs=(f"{big}.py",),
        harm=lambda probe: said(
            _lifted(probe, main, mark, most << 20), bakery.lost(probe, port, kept),
            bakery.takes(probe, other_port),
        ),
    )  # fmt: skip
