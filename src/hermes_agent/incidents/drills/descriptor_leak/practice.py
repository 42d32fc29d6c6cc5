"""Services that run out of open files, in houses that do not look alike."""

from collections.abc import Callable

from msgspec.structs import replace

from hermes_agent.incidents.drills import parts, varied
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Program, Truth

QUIET = """

class Quiet(Shelf):
    def __init__(self) -> None:
        super().__init__()
        self.held: list[object] = []
        self.routes["POST", "lease"] = self.lease

    def lease(self, key: str, body: bytes) -> tuple[int, bytes]:
        @leak@
        return 202, b"leased\\n"

    def put(self, key: str, body: bytes) -> tuple[int, bytes]:
        try:
            return super().put(key, body)
        except OSError:
            raise RuntimeError("@words@") from None

    def get_request(self):
        try:
            return super().get_request()
        except OSError:
            self.say("warn", "@words@")
            time.sleep(0.2)
            raise


serve(Quiet)
"""
LEAKS = (
    "self.held.append(os.eventfd(0))",
    'self.held.append(open("/dev/null"))',
    "import socket; self.held.append(socket.socket())",
    'self.held.append(open(self.data / f".lease-{len(self.held)}", "w"))',
)
WORDS = ("cannot go on right now", "resource limit reached", "open failed: EMFILE", "table is full")
CLIENT = """\
import http.client, sys, time

lines = []
while True:
    try:
        line = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=1)
        line.request("GET", "/up")
        lines.append((line, line.getresponse()))
    except OSError as error:
        print("cannot ask:", error, flush=True)
        time.sleep(0.5)
    time.sleep(float(sys.argv[2]) if len(lines) < 4 else 0.01)
"""


def _few(home: varied.House, most: int) -> Callable[[Probe], list[str]]:
    def healthy(probe: Probe) -> list[str]:
        wrong = said(probe.keeps(home.port, varied.PREFIX, timeout=1.0))
        for process in probe.processes():
            if home.code in process.command and process.descriptors > most:
                wrong.append(f"{home.name} has {process.descriptors} files open")
        return wrong

    return healthy


def _limited(home: varied.House) -> Callable[[Probe], list[str]]:
    def harm(probe: Probe) -> list[str]:
        running = [p.pid for p in probe.processes() if home.code in p.command]
        raised = any(parts.open_files(pid) > home.limits["nofile"] for pid in running)
        return [f"{home.name} may have more files open"] if raised else []

    return harm


def own_words(pick: Pick) -> Scene:
    """It forgets to close something, and its log does not say what the kernel said."""
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    more = QUIET.replace("@leak@", pick.choice(LEAKS)).replace("@words@", pick.choice(WORDS))
    home = replace(varied.house(pick, name, port), more=more, limits={"nofile": pick.size(50, 90)})
    beside = varied.house(pick, other, other_port)
    docs = home.docs(pick)

    def inject(box: Box) -> None:
        url = f"http://127.0.0.1:{port}/lease"
        box.run(
            f"for i in $(seq 120); do curl -fs -m 1 -o /dev/null -X POST {url}/$i || break; done"
        )

    return Scene(
        world=parts.joined(home.part, beside.part, parts.Part((), docs)),
        check=home.check,
        inject=inject,
        healthy=_few(home, home.limits["nofile"] // 2),
        truth=Truth(
            component=(name,), category=("descriptor-leak",), locus=home.code,
            evidence=r"open files|files|eventfd|socket|/dev/null|lease",
        ),
        fix=(f"supervisorctl restart {name}",),
        wrong={"the neighbour is restarted": [f"supervisorctl restart {other}"]},
        stays=tuple(docs),
        runs=(home.code, beside.code),
        harm=_limited(home),
    )  # fmt: skip


def greedy_client(pick: Pick) -> Scene:
    """A program that is looked after asks too, and never hangs up."""
    name, client = pick.service(), f"{pick.word()}-{pick.choice(('agent', 'mirror', 'meter'))}"
    home = varied.house(pick, name, pick.port())
    home = replace(home, limits={"nofile": pick.size(50, 90)}, more=HOLDING)
    docs = home.docs(pick)
    script = f"/opt/{client}/run.py"
    calm = "600"
    program = Program(
        name=client,
        command=f"python3 {script} {home.port} {calm}",
        needs=(name,),
        about=f"asks {name} how it is",
    )
    entry = f"/etc/supervisor/conf.d/{client}.conf"

    def inject(box: Box) -> None:
        box.run(f"cp -p {entry} /var/backups/{client}.conf 2>/dev/null", check=False)
        box.run(f"sed -i 's/ {calm}$/ 0.01/' {entry}; supervisorctl reread; supervisorctl update")
        box.run(
            f"for i in $(seq 200); do curl -s -m 1 http://127.0.0.1:{home.port}/up || exit 0; "
            "sleep 0.05; done; exit 1"
        )

    def hangs_up(probe: Probe) -> list[str]:
        many = any(script in p.command and p.descriptors > 20 for p in probe.processes())
        return [
            *_few(home, home.limits["nofile"] // 2)(probe),
            *(["it holds many"] if many else []),
        ]

    return Scene(
        world=parts.joined(
            home.part,
            parts.Part((program,), {script: File(CLIENT), **docs}, {"/var/backups": 0o755}),
        ),
        check=home.check,
        inject=inject,
        healthy=hangs_up,
        truth=Truth(
            component=(client, name),
            category=("descriptor-leak", "bad-config"),
            locus=rf"{client}|{script}",
            evidence=rf"{client}|{script}|open files",
        ),
        fix=(
            f"sed -i 's/ 0.01$/ {calm}/' {entry}; supervisorctl reread; supervisorctl update",
            f"supervisorctl restart {name}",
        ),
        wrong={"only the service is restarted": [f"supervisorctl restart {name}; sleep 2"]},
        stays=tuple(docs),
        runs=(home.code,),
        harm=_limited(home),
    )


HOLDING = """

class Holding(Shelf):
    def get_request(self):
        try:
            return super().get_request()
        except OSError as error:
            self.say("warn", f"accept: {error.strerror}")
            time.sleep(0.2)
            raise


Asked.protocol_version = "HTTP/1.1"
Asked.timeout = 900
serve(Holding)
"""


def one_behind(pick: Pick) -> Scene:
    """The one that is watched only asks another, and that one has run out."""
    name, behind, other = pick.services(3)
    port, behind_port, other_port = pick.ports(3)
    more = QUIET.replace("@leak@", pick.choice(LEAKS)).replace("@words@", pick.choice(WORDS))
    back = replace(
        varied.house(pick, behind, behind_port), more=more, limits={"nofile": pick.size(50, 90)}
    )
    home = varied.front(pick, name, port, back)
    beside = varied.house(pick, other, other_port)
    docs = back.docs(pick)

    def inject(box: Box) -> None:
        url = f"http://127.0.0.1:{behind_port}/lease"
        box.run(
            f"for i in $(seq 120); do curl -fs -m 1 -o /dev/null -X POST {url}/$i || break; done"
        )

    def healthy(probe: Probe) -> list[str]:
        few = _few(back, back.limits["nofile"] // 2)(probe)
        return [*said(probe.keeps(port, varied.PREFIX, timeout=3.0)), *few]

    return Scene(
        world=parts.joined(home.part, back.part, beside.part, parts.Part((), docs)),
        check=home.check,
        inject=inject,
        healthy=healthy,
        truth=Truth(
            component=(behind,), category=("descriptor-leak",),
            locus=rf"{behind}|{back.code}",
            evidence=r"open files|files|eventfd|socket|/dev/null|lease",
        ),
        fix=(f"supervisorctl restart {behind}",),
        wrong={
            "the one that complains is restarted": [f"supervisorctl restart {name}"],
            "the neighbour is restarted": [f"supervisorctl restart {other}"],
        },
        stays=tuple(docs),
        runs=(home.code, back.code, beside.code),
        harm=_limited(back),
    )  # fmt: skip
