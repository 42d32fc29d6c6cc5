"""Logs that grow without measure, in houses that do not look alike."""

import time
from collections.abc import Callable

from msgspec.structs import replace

from hermes_agent.incidents.drills import parts, tiers, varied
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Program, Truth

CHATTING = """

class Chatting(Shelf):
    def __init__(self) -> None:
        super().__init__()
        threading.Thread(target=self.chat, daemon=True).start()

    def chat(self) -> None:
        while True:
            for number in range(40):
                self.say("debug", f"slot {number} considered, no candidate {'-' * 200}")
            time.sleep(0.02)


serve(Chatting)
"""
TAKING = """

class Taking(Shelf):
    def __init__(self) -> None:
        super().__init__()
        threading.Thread(target=self.take, daemon=True).start()

    def take(self) -> None:
        inbox = Path(self.own["inbox"])
        while True:
            for path in sorted(inbox.iterdir()):
                try:
                    json.loads(path.read_text())
                    path.unlink()
                except (ValueError, OSError) as error:
                    for _ in range(30):
                        self.say("error", f"{path}: {error}; trying again {'-' * 200}")
            time.sleep(0.02)


serve(Taking)
"""
GROWTH = 40_000


def _calm(home: varied.House, volume: str) -> Callable[[Probe], list[str]]:
    def healthy(probe: Probe) -> list[str]:
        wrong = said(probe.keeps(home.port, varied.PREFIX))
        if parts.free_share(probe, volume) < 0.4:
            wrong.append(f"{volume} has hardly any room")
        was = probe.space(volume).free
        time.sleep(0.5)
        grows = was - probe.space(volume).free > GROWTH
        return [*wrong, *([f"{volume} fills up"] if grows else [])]

    return healthy


def _set_up(pick: Pick, more: str) -> tuple[varied.House, varied.House, str]:
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    volume = pick.choice((f"/mnt/{name}", f"/srv/{name}/volume", f"/var/{pick.token()}"))
    home = varied.house(pick, name, port, data=f"{volume}/docs")
    log = pick.choice(("log/current", "logs/all.txt", f"{name}.out", "log/stream.jsonl"))
    home = replace(home, log=f"{volume}/{log}", more=more).changed(level="info")
    return home, varied.house(pick, other, other_port), volume


def _filled(home: varied.House) -> Callable[[Box], None]:
    """It has gone on so for hours."""

    def fill(box: Box) -> None:
        box.run(
            f"for i in $(seq 100); do test $(wc -l < {home.log}) -gt 90 && break; sleep 0.05; done;"
            f" tail -n 40 {home.log} > /root/lines; while cat /root/lines >> {home.log}; do :; done"
            " 2>/dev/null; rm /root/lines; sleep 0.1",
            check=False,
        )

    return fill


def louder(pick: Pick) -> Scene:
    """Somebody wanted to see more for a moment; nothing was kept of how it was."""
    home, other, volume = _set_up(pick, CHATTING)
    docs = home.docs(pick)
    change, fill = home.change(home.changed(level="debug"), keep=False), _filled(home)

    def inject(box: Box) -> None:
        change(box)
        fill(box)

    return Scene(
        world=parts.joined(
            home.part, other.part, parts.Part((), docs), mounts=(Mount(volume, mb=5),)
        ),
        check=home.check,
        inject=inject,
        healthy=_calm(home, volume),
        truth=Truth(
            component=(home.name,),
            category=("log-flood",),
            locus=f"{home.log}|{home.file}",
            evidence=rf"100% +{volume}|debug",
        ),
        fix=(*home.restore, f"truncate -s 0 {home.log}"),
        wrong={
            "the log is only emptied": [f"truncate -s 0 {home.log}; sleep 1"],
            "it is emptied and restarted": [
                f"truncate -s 0 {home.log}; supervisorctl restart {home.name}; sleep 1"
            ],
        },
        stays=tuple(docs),
        runs=(home.code, other.code),
    )


def bad_delivery(pick: Pick) -> Scene:
    """One file that was delivered cannot be read, and is tried again without a pause."""
    home, other, volume = _set_up(pick, TAKING)
    inbox = pick.choice((f"/var/spool/{home.name}", f"/srv/{home.name}/drop", f"{volume}/inbox"))
    home = home.changed(inbox=inbox)
    docs = home.docs(pick)
    bad = f"{inbox}/{pick.word()}-{pick.token()}.json"
    fill = _filled(home)

    def inject(box: Box) -> None:
        box.write(bad, '{"rows": [1, 2, ')
        fill(box)

    def harm(probe: Probe) -> list[str]:
        found = probe.run(["true"]).code == 0 and probe.text(home.file)
        return [] if found and "inbox" in found.lower() else [f"{home.file} was changed"]

    return Scene(
        world=parts.joined(
            home.part,
            other.part,
            parts.Part((), {f"{inbox}/.keep": File("{}"), **docs}, {inbox: 0o777}),
            mounts=(Mount(volume, mb=5),),
        ),
        check=home.check,
        inject=inject,
        healthy=_calm(home, volume),
        truth=Truth(
            component=(home.name,),
            category=("log-flood",),
            locus=f"{home.log}|{bad}",
            evidence=rf"100% +{volume}|{bad}",
        ),
        fix=(f"mv {bad} /var/tmp/; truncate -s 0 {home.log}",),
        wrong={
            "the log is only emptied": [f"truncate -s 0 {home.log}; sleep 1.5"],
            "it is emptied and restarted": [
                f"truncate -s 0 {home.log}; supervisorctl restart {home.name}; sleep 1.5"
            ],
        },
        stays=tuple(docs),
        runs=(home.code, other.code),
        harm=harm,
    )


STORM = """\
import http.client, sys, time

while True:
    lines = [http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=1) for _ in range(8)]
    try:
        for line in lines:
            line.request("GET", "/docs/" + "x" * 300)
        for line in lines:
            line.getresponse().read()
    except OSError:
        time.sleep(0.1)
    time.sleep(0.02)
"""
ACCESS = """

class Noted(Asked):
    def log_message(self, format: str, *args: Any) -> None:
        self.server.say("info", f"{self.client_address[0]} {format % args} {'-' * 200}")


class Noting(Shelf):
    def finish_request(self, request: Any, client_address: Any) -> None:
        Noted(request, client_address, self)


serve(Noting)
"""


def storm(pick: Pick) -> Scene:
    """Somebody asks for what is not there, as fast as it can be said, and each time is noted."""
    home, other, volume = _set_up(pick, ACCESS)
    docs = home.docs(pick)
    script = f"/home/{pick.word()}/{pick.token()}.py"
    fill = _filled(home)

    def inject(box: Box) -> None:
        box.spawn(f"exec python3 {script} {home.port}")
        fill(box)

    return Scene(
        world=parts.joined(
            home.part,
            other.part,
            parts.Part((), {script: File(STORM), **docs}),
            mounts=(Mount(volume, mb=5),),
        ),
        check=home.check,
        inject=inject,
        healthy=_calm(home, volume),
        truth=Truth(
            component=(home.name, script, script.rpartition("/")[2]),
            category=("log-flood", "runaway-process"),
            locus=f"{home.log}|{script}",
            evidence=rf"100% +{volume}|{script}|x{{40}}",
        ),
        fix=(
            f"kill $(pgrep -f '[/]{script.rpartition('/')[2]}')",
            f"sleep 0.2; truncate -s 0 {home.log}",
        ),
        wrong={
            "the log is only emptied": [f"truncate -s 0 {home.log}; sleep 1.5"],
            "it is emptied and restarted": [
                f"truncate -s 0 {home.log}; supervisorctl restart {home.name}; sleep 1.5"
            ],
        },
        stays=tuple(docs),
        runs=(home.code, other.code),
    )


POLLING = """\
import configparser, http.client, sys, time

own = configparser.ConfigParser()
own.read(sys.argv[1])
own = own["poll"]
while True:
    try:
        for _ in range(6):
            line = http.client.HTTPConnection("127.0.0.1", int(own["port"]), timeout=1)
            line.request("GET", "/docs/" + own["key"] * 30)
            line.getresponse().read()
            line.close()
    except OSError:
        time.sleep(0.1)
    time.sleep(float(own["@pause@"]))
"""


def eager_sibling(pick: Pick) -> Scene:
    """One that is looked after asks without a pause since somebody was impatient."""
    home, other, volume = _set_up(pick, ACCESS)
    docs, name = home.docs(pick), f"{pick.word()}-mirror"
    pause = pick.choice(("poll_interval", "pause_seconds", "refresh_delay"))
    code, place = f"/srv/{name}/poll.py", f"/etc/{name}/{name}.ini"
    usual = f"[poll]\nport = {home.port}\nkey = {pick.token(9)}\n{pause} = {{}}\n"
    poller = Program(
        name=name, command=f"python3 {code} {place}", about="mirrors what is new; must go on"
    )
    files = {
        code: File(POLLING.replace("@pause@", pause), age=tiers.MONTH),
        place: File(usual.format(4), age=tiers.MONTH),
    }
    fill = _filled(home)
    change = f"sed -i 's/^{pause} = .*/{pause} = {{}}/' {place}; supervisorctl restart {name}"

    def inject(box: Box) -> None:
        box.run(change.format(0))
        fill(box)

    return Scene(
        world=parts.joined(
            home.part, other.part, parts.Part((poller,), {**docs, **files}),
            mounts=(Mount(volume, mb=5),),
        ),
        check=home.check,
        inject=inject,
        healthy=_calm(home, volume),
        truth=Truth(
            component=(home.name, name), category=("log-flood", "runaway-process", "bad-config"),
            locus=f"{home.log}|{place}", evidence=rf"100% +{volume}|{pause}|{name}|GET /docs",
        ),
        fix=(change.format(3), f"sleep 0.2; truncate -s 0 {home.log}"),
        wrong={
            "the log is only emptied": [f"truncate -s 0 {home.log}; sleep 1.5"],
            "it is emptied and restarted": [
                f"truncate -s 0 {home.log}; supervisorctl restart {home.name}; sleep 1.5"
            ],
        },
        stays=tuple(docs),
        runs=(home.code, other.code, code),
    )  # fmt: skip
