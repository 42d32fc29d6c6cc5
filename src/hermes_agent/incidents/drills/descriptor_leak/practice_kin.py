"""Files and lines that stay open: logs of an office that were rotated away, and a board on the wall
that asks anew each time."""

import json

from hermes_agent.incidents.drills import parish, parts, tiers
from hermes_agent.incidents.drills import workshop as shop
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Program, Truth

GRACEFUL = '''
import signal


class Graceful(Binder):
    """Visits are noted in the TransferLog, which is opened anew at SIGUSR1."""

    def __init__(self, own: dict[str, str]) -> None:
        super().__init__(own)
        self.transfer = self.opened()
        signal.signal(signal.SIGUSR1, self.graceful)

    def opened(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        return os.open(self.own["TransferLog"], flags, 0o644)

    def graceful(self, *_: object) -> None:
        try:
            self.transfer = self.opened()
        except OSError as error:
            words = f"({error.errno}){error.strerror}: could not open transfer log file"
            self.log("error", f"{words} {self.own['TransferLog']}")
            return
        self.log("notice", "SIGUSR1 received. Doing graceful restart")

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        status, text = super().answer(method, path, body)
        stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime())
        line = f'127.0.0.1 - - [{stamp}] "{method} {path} HTTP/1.1" {status} {len(text)}\\n'
        os.write(self.transfer, line.encode())
        return status, text


if __name__ == "__main__":
    run(Graceful)
'''
ROTATE = """#!/bin/sh
# from the crontab of root, at night
log={log}
for n in 6 5 4 3 2 1; do
    [ -e $log.$n ] && mv $log.$n $log.$((n + 1))
done
mv $log $log.1
kill -USR1 $(pgrep -f 'python3 {code}')
"""
BOARD = """import http.client
import json
import sys
import time

with open(sys.argv[1]) as file:
    own = json.load(file)
lines = []
while True:
    try:
        line = http.client.HTTPConnection(own["host"], own["port"], timeout=2)
        lines.append(line)
        line.request("GET", "/health", headers={"Connection": "keep-alive"})
        shown = json.loads(line.getresponse().read())
        with open(own["picture"], "w") as file:
            file.write(f"<h1>{own['title']}</h1><p>{shown['records']} records</p>\\n")
    except (OSError, ValueError, http.client.HTTPException) as error:
        print(time.strftime("%H:%M:%S"), "no picture:", error, flush=True)
        time.sleep(0.4)
        continue
    time.sleep(own["refresh_seconds"])
"""
ACCEPTING = """    def get_request(self) -> Any:
        try:
            return super().get_request()
        except OSError as error:
            self.log.say("ERROR", f"Error accepting connection: {error}")
            time.sleep(0.3)
            raise

    def handle_error(self"""
KEEPALIVE = (("timeout = 20", "timeout = 900"), ("    def handle_error(self", ACCEPTING))
"""What lets lines stay open, and says so where no more can be taken."""


def _open(probe: Probe, part: str, most: int) -> str:
    """Whether a process has more than so many files open."""
    held = max((one.descriptors for one in probe.processes() if part in one.command), default=0)
    return f"{part} has {held} files open" if held > most else ""


def _raised(probe: Probe, part: str, most: int) -> str:
    may = (parts.open_files(one.pid) for one in probe.processes() if part in one.command)
    return f"{part} may have more files open than before" if max(may, default=0) > most else ""


def each_night(pick: Pick) -> Scene:
    """As `rotations`: a service opens its log anew when that was rotated, and never closes the old
    one; here an access log as of Apache, a script of the night and another signal."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    most, code = pick.size(38, 64), parish.code_of(main)
    log = f"/var/log/parish/{main}-access.log"
    script, kept = f"/etc/parish/rotate-{main}.sh", parish.papers(main, pick, 18)
    world = tiers.joined(
        [parish.binder(main, port, {"TransferLog": log}, code=parish.program(GRACEFUL),
                       limits={"nofile": most}),
         parish.binder(other, other_port, limits={"nofile": most})],
        files={**kept, **parish.former(main, pick), **parish.former(other, pick),
               script: File(ROTATE.format(log=log, code=code), mode=0o755, age=9e6)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"for n in $(seq {most}); do {script}; sleep 0.03; done", check=False)

    return Scene(
        world=world,
        check=parish.takes(main, port),
        healthy=lambda probe: said(
            parish.files(probe, port, timeout=1.0), _open(probe, code, most * 6 // 10)
        ),
        truth=Truth(
            (main,), ("descriptor-leak",),
            rf"{log}|TransferLog|{script}|{code}|open files|nofile|\bfds?\b|descriptor",
            r"Too many open files|access\.log|SIGUSR1|transfer log",
        ),
        inject=inject,
        fix=(f"supervisorctl restart {main}; sleep 0.3",),
        wrong={
            "the neighbour is restarted": [f"supervisorctl restart {other}"],
            "old logs are removed": [f"rm {log}.?"],
            "it is told once more": [f"pkill -USR1 -f {code}; sleep 0.3"],
            "the limit is raised": [
                f"sed -i 's/--nofile=[0-9:]*/--nofile=8192/' /etc/supervisor/conf.d/{main}.conf",
                "supervisorctl reread; supervisorctl update; sleep 0.5",
            ],
        },
        stays=(*kept, parish.settings_of(main), parish.settings_of(other)),
        runs=(code,),
        harm=lambda probe: said(_raised(probe, code, most), parish.files(probe, other_port)),
    )  # fmt: skip


def _board(name: str, main: str, port: int, calm: int) -> tiers.Part:
    home = f"{shop.APPS}/{name}"
    own = {"title": f"{main} today", "host": "127.0.0.1", "port": port, "refresh_seconds": calm,
           "picture": f"{home}/picture.html"}  # fmt: skip
    return tiers.Part(
        Program(
            name=name, command=f"python3 {home}/board.py {home}/board.json", directory=home,
            about=f"the board in the hall; settings {home}/board.json", needs=(main,),
            ready=f"file:{home}/picture.html",
        ),
        {f"{home}/board.py": File(BOARD, age=tiers.MONTH),
         f"{home}/board.json": File(json.dumps(own, indent=4) + "\n", age=tiers.MONTH)},
        {home: 0o755},
    )  # fmt: skip


def board_on_the_wall(pick: Pick) -> Scene:
    """As `greedy-client`: a program that is looked after asks too often since somebody changed it,
    and never hangs up; here a board with its own JSON file, beside an app with records."""
    (main, other, hall), (port, other_port) = pick.services(3), pick.ports(2)
    most, rows, calm = pick.size(44, 72), shop.rows(pick), pick.choice((300, 600, 900))
    name = f"{hall}-{pick.choice(('board', 'screen', 'wall'))}"
    place, code = f"{shop.APPS}/{name}/board.json", f"{shop.APPS}/{name}/board.py"
    fast, usual = pick.choice((0.01, 0.02, 0.03)), shop.program(*KEEPALIVE)
    world = tiers.joined(
        [shop.app(main, port, rows=rows, text=usual, limits={"nofile": most}),
         shop.app(other, other_port, text=usual, limits={"nofile": most}),
         _board(name, main, port, calm)],
        files={**shop.history(main, pick), **shop.history(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    anew = f"supervisorctl restart {name}; sleep 0.5"

    def change(value: float) -> str:
        return f'sed -i \'s/"refresh_seconds": .*,/"refresh_seconds": {value},/\' {place}'

    def inject(box: Box) -> None:
        box.run(f"{change(fast)}; {anew}")
        full = f"tail -n 4 {shop.log_of(main)} | grep -q 'Too many open files'"
        box.run(f"until {full}; do sleep 0.1; done; sleep 1", seconds=30)

    def healthy(probe: Probe) -> list[str]:
        return said(
            probe.keeps(port, shop.RECORDS, timeout=1.0),
            _open(probe, shop.code_of(main), most // 2),
            _open(probe, code, 24),
        )

    return Scene(
        world=world,
        check=shop.up(main, port),
        healthy=healthy,
        truth=Truth(
            (name, main), ("descriptor-leak", "bad-config"), rf"{name}|board\.|refresh_seconds",
            rf"{name}|board\.(py|json)|refresh_seconds|Too many open files|open files",
        ),
        inject=inject,
        fix=(f"{change(calm)}; {anew}", f"supervisorctl restart {main}; sleep 0.5"),
        wrong={
            "only the service is restarted": [f"supervisorctl restart {main}; sleep 3"],
            "both are only restarted": [f"supervisorctl restart {name} {main}; sleep 3"],
            "the limit is raised": [
                f"sed -i 's/--nofile=[0-9:]*/--nofile=8192/' {shop.entry_of(main)}",
                "supervisorctl reread; supervisorctl update; sleep 0.5",
            ],
        },
        stays=(shop.env_of(main), shop.env_of(other), code),
        harm=lambda probe: said(
            _raised(probe, shop.code_of(main), most), shop.lost(probe, shop.base_of(main), rows),
            shop.keeps(probe, other_port),
        ),
    )  # fmt: skip
