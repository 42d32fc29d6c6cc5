"""A consumer whose feed was restarted, and that reads from the closed line ever since; a script
of somebody whose terminal is gone."""

import secrets
import time

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Program, Truth

FEED = '''"""Tells subscribers which records are new. feed.py FOLDER SOCKET"""

import os
import socket
import sys
import threading
import time

folder, path = sys.argv[1:]
subscribers = []


def accept(server):
    while True:
        line, _ = server.accept()
        subscribers.append(line)
        print("subscriber connected", flush=True)


if os.path.exists(path):
    os.remove(path)
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen(8)
threading.Thread(target=accept, args=(server,), daemon=True).start()
seen = {name: os.stat(f"{folder}/{name}").st_mtime_ns for name in os.listdir(folder)}
while True:
    for name in os.listdir(folder):
        changed = os.stat(f"{folder}/{name}").st_mtime_ns
        if seen.get(name) != changed:
            seen[name] = changed
            for line in list(subscribers):
                try:
                    line.sendall(f"{name}\\n".encode())
                except OSError:
                    subscribers.remove(line)
    time.sleep(0.1)
'''
CONSUMER = '''"""Makes a preview of each new record. previews.py SOCKET RECORDS PREVIEWS"""

import hashlib
import socket
import sys
import time

path, records, previews = sys.argv[1:]


def subscribe():
    while True:
        try:
            line = socket.socket(socket.AF_UNIX)
            line.connect(path)
            return line
        except OSError:
            time.sleep(0.2)


line = subscribe()
print("subscribed to", path, flush=True)
pending = b""
while True:
    pending += line.recv(4096)
    while b"\\n" in pending:
        name, _, pending = pending.partition(b"\\n")
        with open(f"{records}/{name.decode()}", "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        with open(f"{previews}/{name.decode()}", "w") as file:
            file.write(digest)
'''
BUSY = '''"""Renders the yearbook; takes until tomorrow. render.py STARTS"""

import sys
import time

with open(sys.argv[1], "a") as file:
    file.write(f"started {time.time():.0f}\\n")
while True:
    until = time.process_time() + 0.03
    while time.process_time() < until:
        pass
    time.sleep(0.07)
'''


def _busy(name: str) -> tiers.Part:
    """A job that is busy by design, and writes down each time that it is started."""
    return tiers.Part(
        Program(
            name=name,
            command=f"nice -n 15 python3 /var/www/{name}/render.py {_starts(name)}",
            about="renders the yearbook for days; an interruption costs all of it",
            ready=f"file:{_starts(name)}",
        ),
        {f"/var/www/{name}/render.py": File(BUSY, age=tiers.MONTH)},
        {f"/var/www/{name}/shared": 0o755},
    )


def _starts(name: str) -> str:
    return f"/var/www/{name}/shared/starts.log"


def _interrupted(probe: Probe, name: str) -> str:
    whole = probe.text(_starts(name)).count("started") == 1
    runs = any(f"/var/www/{name}/render.py" in one.command for one in probe.processes())
    return "" if whole and runs else f"{name} was interrupted"


def _spins(probe: Probe, besides: str) -> str:
    """Who turns in a circle: it is runnable whenever one looks, and uses the processor."""
    was = {one.pid: one.cpu_seconds for one in probe.processes()}
    time.sleep(0.5)
    for one in probe.processes():
        if besides not in one.command and one.cpu_seconds - was.get(one.pid, 1e9) > 0.15:
            return f"{one.command} ({one.inner}) eats the processor"
    return ""


def _feeding(name: str, data: str, sock: str) -> tiers.Part:
    code = f"/var/www/{name}/feed.py"
    return tiers.Part(
        Program(
            name=name,
            command=f"python3 {code} {data} {sock}",
            ready=f"unix:{sock}",
            about=f"tells subscribers of {sock} what is new in {data}",
        ),
        {code: File(FEED, age=tiers.MONTH)},
    )


def _consuming(name: str, feed: str, sock: str, data: str) -> tiers.Part:
    code, previews = f"/var/www/{name}/previews.py", f"/var/www/{name}/shared/out"
    return tiers.Part(
        Program(
            name=name,
            command=f"nice -n 5 python3 {code} {sock} {data} {previews}",
            needs=(feed,),
            about=f"makes previews of new records in {previews}, as {sock} tells of them",
        ),
        {code: File(CONSUMER, age=tiers.MONTH)},
        {previews: 0o755},
    )


def closed_feed(pick: Pick) -> Scene:
    (main, other, busy), (port, other_port) = pick.services(3), pick.ports(2)
    feed, consumer = f"{main}-feed", f"{main}-previews"
    previews, sock = f"/var/www/{consumer}/shared/out", f"/run/{feed}.sock"
    kept = house.records(main, pick)
    data, code = house.data_of(main), f"/var/www/{consumer}/previews.py"
    world = tiers.joined(
        [
            house.app(main, port),
            _feeding(feed, data, sock),
            _consuming(consumer, feed, sock, data),
            house.app(other, other_port),
            _busy(busy),
        ],
        files={**kept, **house.weeks_ago(main, pick), **house.weeks_ago(other, pick)},
        hostname=pick.host(),
    )

    def inject(box: Box) -> None:
        box.run(f"until grep -q connected /var/log/supervisor/{feed}.log; do sleep 0.1; done")
        box.run(f"supervisorctl restart {feed}")
        box.wait(f"unix:{sock}")

    def healthy(probe: Probe) -> list[str]:
        key = f"n-{secrets.token_hex(5)}"
        probe.http(port, f"{house.RECORDS}/{key}", "PUT", b"x")
        until = time.monotonic() + 1.5
        while not (made := probe.read(f"{previews}/{key}")) and time.monotonic() < until:
            time.sleep(0.1)
        missing = "" if made else f"no preview of {key}"
        return said(missing, house.serves(probe, port), _spins(probe, busy))

    run = (
        f"k=n-$(date +%s%N); curl -sS -m 2 -X PUT -d check http://127.0.0.1:{port}"
        f"{house.RECORDS}/$k; for i in $(seq 15); do sleep 0.2; test -s {previews}/$k && "
        "echo preview made && exit 0; done; echo no preview after 3 s; exit 1"
    )
    check = Check(run, Expect(output="preview made"), timeout=9.0)
    return Scene(
        world=world,
        check=WatchedCheck(f"previews of {main}", check, main, severity="P2"),
        healthy=healthy,
        truth=Truth(
            (consumer, feed), ("runaway-process",), rf"^{consumer}$|previews\.py|{feed}",
            r"previews\.py|recv",
        ),
        inject=inject,
        fix=(f"supervisorctl restart {consumer}",),
        wrong={
            "the app is restarted": [f"supervisorctl restart {main}"],
            "the feed is restarted": [f"supervisorctl restart {feed}"],
            "the other busy one is stopped": [f"supervisorctl stop {busy}"],
        },
        stays=(*kept, house.env_of(main), code),
        runs=(code, f"/var/www/{feed}/feed"),
        harm=lambda probe: said(_interrupted(probe, busy), house.serves(probe, other_port)),
    )  # fmt: skip


WATCH = """#!/bin/bash
# new records as they come; q ends it
log={log}
shown=0
while true; do
  mapfile -t lines < "$log"
  while (( shown < ${{#lines[@]}} )); do echo "${{lines[shown++]}}"; done
  read -rsn1 -t 2 key
  [[ $key == q ]] && exit
done
"""
BUSY_CHECK = """#!/bin/bash
# who is on the processor all the time? what runs with nice 10 and more may
seen=$(for i in 1 2 3 4 5 6 7 8; do ps -eo pid=,ni=,stat= ; sleep 0.2; done |
  awk '$2 < 10 && $3 ~ /^R/ {n[$1]++} END {for (p in n) if (n[p] == 8) c++; print c + 0}')
if (( seen )); then echo "BUSY CRITICAL - $seen all the time"; exit 2; fi
echo "BUSY OK"
"""


def lost_terminal(pick: Pick) -> Scene:
    (main, other, busy), (port, other_port) = pick.services(3), pick.ports(2)
    person, host = pick.choice(("ada", "kim", "joris", "mei")), pick.host()
    script = f"/home/{person}/bin/{pick.choice(('follow', 'show', 'tail'))}-{pick.token(4)}.sh"
    name = script.rpartition("/")[2]
    kept = house.records(main, pick)
    plugin = "/etc/monitoring/check_busy.sh"
    world = tiers.joined(
        [house.app(main, port), house.app(other, other_port), _busy(busy)],
        files={
            **kept, **house.weeks_ago(main, pick), **house.weeks_ago(other, pick),
            script: File(WATCH.format(log=house.log_of(main)), mode=0o755, age=9e6),
            plugin: File(BUSY_CHECK, mode=0o755, age=9e6),
        },
        hostname=host,
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        runs = any(script in one.command for one in probe.processes())
        return said(
            house.serves(probe, port), f"{script} runs" if runs else "", _spins(probe, busy),
        )  # fmt: skip

    check = Check(plugin, Expect(output="BUSY OK"), timeout=9.0)
    return Scene(
        world=world,
        check=WatchedCheck(f"busy on {host}", check, host, severity="P2"),
        healthy=healthy,
        truth=Truth(
            (name, name.removesuffix(".sh"), script, host, "bash"), ("runaway-process",),
            name, name,
        ),
        inject=lambda box: box.spawn(f"exec nice -n 5 bash {script}"),
        fix=(f"kill $(pgrep -f '[/]{name}')",),
        wrong={
            "the other busy one is stopped": [f"supervisorctl stop {busy}"],
            "it is only made nicer": [f"renice -n 19 -p $(pgrep -f '[/]{name}')"],
            "the app is restarted": [f"supervisorctl restart {main}"],
        },
        stays=(*kept, house.env_of(main), script, plugin),
        harm=lambda probe: said(_interrupted(probe, busy), house.serves(probe, port, other_port)),
    )  # fmt: skip
