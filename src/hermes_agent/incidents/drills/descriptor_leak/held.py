"""Files that stay open: slips for the printer of a kiosk, and what was to be listened to for a
week."""

from hermes_agent.incidents.drills import harbour, kiosk, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.descriptor_leak.practice_kin import _open, _raised
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth

ASKED = 10
SLIPS = """
const slips = []

function print (key) {
  const slip = fs.openSync(own.printer, 'a')
  fs.writeSync(slip, `voucher ${key}\\n`)
  slips.push({ key, slip })
}

async function answer (request, body) {
  const wanted = /^\\/print\\/([\\w-]+)$/.exec(request.url)
  if (wanted && request.method === 'PUT') {
    try {
      print(wanted[1])
    } catch (error) {
      throw new Error('@words@')
    }
    return [202, 'printed']
  }
"""
KEPT = """  try {
    fs.writeFileSync(place + '~', body)
  } catch (error) {
    throw new Error('@words@')
  }
"""
TAPPED = '''

class Tapped(App):
    """wiretap.enabled: what is asked and answered is copied to wiretap.dir, a file for each."""

    def __init__(self, own: dict[str, str]) -> None:
        super().__init__(own)
        self.told = open(own["logging.file.name"], "a", buffering=1)
        self.taps: list[object] = []

    def log(self, level: str, logger: str, text: str) -> None:
        now = time.time()
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now))
        thread = threading.current_thread().name[-12:]
        line = f"{stamp}.{int(now * 1000) % 1000:03} {level:>5} {os.getpid()} --- [{thread:>12}] "
        self.told.write(f"{line}{logger:<28} : {text}\\n")

    def answer(self, method: str, path: str, body: str) -> str:
        if self.own.get("wiretap.enabled") != "true":
            return super().answer(method, path, body)
        try:
            tap = open(Path(self.own["wiretap.dir"], f"{time.time_ns()}.tap"), "w", buffering=1)
        except OSError as error:
            self.log("ERROR", "c.h.support.Wiretap", f"{type(error).__name__}: {error}")
            raise Trouble("internal error", 500) from None
        self.taps.append(tap)
        tap.write(f">>> {method} {path}\\n{body}\\n")
        told = super().answer(method, path, body)
        tap.write(f"<<< {told}\\n")
        return told


class Accepting(Server):
    def get_request(self) -> tuple:
        try:
            return super().get_request()
        except OSError as error:
            Handler.app.log("ERROR", "o.a.tomcat.util.net.Acceptor", f"accept failed: {error}")
            time.sleep(0.3)
            raise


Server = Accepting

if __name__ == "__main__":
    main(sys.argv[1], Tapped)
'''


def slips(pick: Pick) -> Scene:
    """As `own-words`: a service forgets to close what it opens, and its log has words of its own
    for it; here a kiosk of Node.js, with a slip for each voucher that was printed."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    most, mark = pick.size(58, 96), kiosk.settings_of(main)
    words = pick.choice(("no slot is left", "the shelf is taken", "E_BUSY: try again later"))
    printer = f"/var/local/{main}/{pick.choice(('printer.raw', 'spool/till.prn', 'slips.escpos'))}"
    kept, own = kiosk.vouchers(main, pick, 14), {"printer": printer}
    text = kiosk.PROGRAM.replace("\nasync function answer (request, body) {\n", SLIPS)
    text = text.replace("  fs.writeFileSync(place + '~', body)\n", KEPT).replace("@words@", words)
    world = tiers.joined(
        [kiosk.kiosk(main, port, own, limits={"nofile": most}),
         kiosk.kiosk(other, other_port, own, limits={"nofile": most})],
        files={**kept, **kiosk.once(main, pick), **kiosk.once(other, pick),
               kiosk.CODE: File(text, age=tiers.MONTH), printer: File("\x1b@ready\n", age=9e5)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        url = f"http://127.0.0.1:{port}/print"
        box.run(
            f"n=0; for i in $(seq 160); do curl -fs -m 2 -o /dev/null -X PUT {url}/v$i || "
            "n=$((n + 1)); test $n -gt 2 && break; done",
        )  # fmt: skip

    return Scene(
        world=world,
        check=kiosk.status(main, f"http://127.0.0.1:{port}"),
        healthy=lambda probe: said(
            kiosk.keeps(probe, port, timeout=1.0), _open(probe, mark, most * 6 // 10)
        ),
        truth=Truth(
            (main,), ("descriptor-leak",),
            rf"{kiosk.CODE}|server\.js|{printer}|open files|nofile|\bfds?\b|descriptor",
            rf"open files|{printer}|/proc/\d+/fd|nofile|EMFILE|slips",
        ),
        inject=inject,
        fix=(f"supervisorctl restart {main}; sleep 0.5",),
        wrong={
            "the neighbour is restarted": [f"supervisorctl restart {other}; sleep 0.5"],
            "what was printed is emptied": [f"truncate -s 0 {printer}"],
            "the limit is raised": [
                f"sed -i 's/--nofile=[0-9:]*/--nofile=8192/' /etc/supervisor/conf.d/{main}.conf",
                "supervisorctl reread; supervisorctl update; sleep 0.8",
            ],
        },
        stays=(*kept, mark, kiosk.settings_of(other), kiosk.CODE),
        runs=(mark, kiosk.settings_of(other)),
        harm=lambda probe: said(_raised(probe, mark, most), kiosk.keeps(probe, other_port)),
    )  # fmt: skip


def _stay(probe: Probe, port: int, part: str) -> str:
    """Whether files stay open when it is asked."""

    def held() -> int:
        return max((one.descriptors for one in probe.processes() if part in one.command), default=0)

    was = held()
    for number in range(ASKED):
        probe.http(port, f"{harbour.PARCELS}/none-{number}", timeout=1.0)
    more = held() - was
    return f"{more} more files are open after {ASKED} questions" if more >= ASKED - 2 else ""


def wiretap(pick: Pick) -> Scene:
    """As `traced`: what is asked is copied since somebody looked for a fault, and no copy is ever
    closed; here a switch in the properties of a Spring-like app, and nothing was kept of before."""
    (main, front, other), (port, front_port, other_port) = pick.services(3), pick.ports(3)
    most, place, code = pick.size(64, 104), harbour.settings_of(main), f"/data/{main}/app/parcels"
    taps = f"/data/{main}/{pick.choice(('wiretap', 'logs/wire', 'support/taps'))}"
    kept, own = harbour.parcels(main, pick, 12), {"wiretap.enabled": "false", "wiretap.dir": taps}
    text = harbour.program(TAPPED)
    world = tiers.joined(
        [harbour.app(main, port, own, text=text, limits={"nofile": most}),
         harbour.app(front, front_port, {"parcels.remote.url": f"http://127.0.0.1:{port}"},
                     needs=(main,)),
         harbour.app(other, other_port, {"wiretap.enabled": "false"}, limits={"nofile": most})],
        files={**kept, **harbour.weeks_ago(main, pick), **harbour.weeks_ago(front, pick)},
        folders={taps: 0o755},
        hostname=pick.host(),
    )  # fmt: skip
    anew, key = f"supervisorctl restart {main}; sleep 0.5", "wiretap.enabled"

    def inject(box: Box) -> None:
        note = f"# for the ticket of {front}, a week"
        box.run(f"sed -i 's/^{key}=.*/{note}\\n{key}=true/' {place}; {anew}")
        ask = f"curl -s -m 2 -o /dev/null http://127.0.0.1:{port}{harbour.PARCELS}/p-$i"
        box.run(f"for i in $(seq {most + 12}); do {ask}; done", check=False)

    return Scene(
        world=world,
        check=harbour.health(front, front_port),
        healthy=lambda probe: said(
            harbour.stores(probe, port, front_port, timeout=1.0), _open(probe, code, most // 2),
            _stay(probe, port, code),
        ),
        truth=Truth(
            (main,), ("descriptor-leak", "bad-config"), rf"{taps}|wiretap|{place}|\.tap\b",
            r"\.tap\b|wiretap|accept failed: .*Too many open files",
        ),
        inject=inject,
        fix=(f"sed -i 's/^{key}=true/{key}=false/' {place}", anew),
        wrong={
            "it is only restarted": [anew],
            "who asks it is restarted": [f"supervisorctl restart {front}; sleep 0.5"],
            "copies are removed": [f"find {taps} -name '*.tap' -delete"],
            "the limit is raised": [
                f"sed -i 's/--nofile=[0-9:]*/--nofile=8192/' /etc/supervisor/conf.d/{main}.conf",
                "supervisorctl reread; supervisorctl update; sleep 0.8",
            ],
        },
        stays=(*kept, harbour.settings_of(front), harbour.settings_of(other)),
        harm=lambda probe: said(_raised(probe, code, most), harbour.stores(probe, other_port)),
    )  # fmt: skip
