"""A script of the shop that tells each of its steps, since somebody looked for a fault in it."""

import secrets
import time

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import parts, tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Program, Truth

GROWTH = 1500
"""Bytes in half a second that no log may gain when all is well."""

SPARE = 0.4

MIRROR = """#!/bin/bash
# copies new records to where the warehouse fetches them
set -u
cd {shared}
exec >>log/{name}.log 2>&1
echo "$(date '+%F %T') started, $(ls data | wc -l) records"
while true; do
  for file in data/*; do
    [[ -e {mirror}/${{file##*/}} ]] && continue
    cp "$file" {mirror}/ && echo "$(date '+%F %T') copied ${{file##*/}}"
  done
  sleep 0.1
done
"""


def _grows(probe: Probe, log: str) -> str:
    def size() -> int:
        facts = probe.stat(log)
        return facts.size if facts else 0

    was = size()
    time.sleep(0.5)
    return f"{log} grows" if size() - was > GROWTH else ""


def _tight(probe: Probe, root: str) -> str:
    return f"{root} has hardly any room" if parts.free_share(probe, root) < SPARE else ""


def _since_days(box: Box, log: str) -> None:
    """What it said is said again, until nothing fits any more."""
    box.run(
        f"until (($(stat -c %s {log}) > 40000)); do sleep 0.1; done; tail -n 300 {log} > /root/t; "
        f"while cat /root/t >> {log}; do :; done 2>/dev/null; rm /root/t; sleep 0.2",
        seconds=50,
    )


def _takes(service: str, port: int) -> WatchedCheck:
    """The check of whoever uses it: is a new record taken."""
    url = f"http://127.0.0.1:{port}{house.RECORDS}/watch-$(date +%s%N)"
    check = Check(f"curl -sS -m 3 -X PUT -d watched {url}", Expect(output="^saved"), timeout=8.0)
    return WatchedCheck(f"{service} takes records", check, service, severity="P1")


def _behind(probe: Probe, port: int, name: str, mirror: str) -> str:
    """Why a new record is not copied; empty when it is."""
    key = f"n-{secrets.token_hex(5)}"
    probe.http(port, f"{house.RECORDS}/{key}", "PUT", b"x")
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        if probe.stat(f"{mirror}/{key}"):
            return ""
        time.sleep(0.1)
    return f"{name} does not copy {key}"


def told_step_by_step(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    name = f"{main}-{pick.choice(('mirror', 'handover', 'copies'))}"
    shared, mirror = f"{house.TOP}/{main}/shared", f"/srv/warehouse/{main}"
    script, log = f"{house.TOP}/{main}/bin/{name}.sh", f"{shared}/log/{name}.log"
    text, orders = MIRROR.format(shared=shared, name=name, mirror=mirror), f"{shared}/orders.zip"
    copying = tiers.Part(
        Program(
            name=name, command=f"bash {script}",
            about=f"copies new records to {mirror}; log {log}",
        ),
        {script: File(text, mode=0o755, age=tiers.MONTH)},
        {mirror: 0o755},
    )  # fmt: skip
    kept = house.records(main, pick, 120)
    world = tiers.joined(
        [house.app(main, port), house.app(other, other_port), copying],
        files={
            **kept, **house.weeks_ago(main, pick), **house.weeks_ago(other, pick),
            orders: File(size=900_000, age=9e6),
        },
        mounts=(Mount(shared, mb=pick.size(5, 8)),),
        hostname=pick.host(),
    )  # fmt: skip
    anew = f"supervisorctl restart {name}"

    def inject(box: Box) -> None:
        box.run(f"sed -i 's/^set -u$/set -ux/' {script}; {anew}")
        _since_days(box, log)

    return Scene(
        world=world,
        check=_takes(main, port),
        healthy=lambda probe: said(
            house.serves(probe, port), _tight(probe, shared), _grows(probe, log),
            _behind(probe, port, name, mirror)
        ),
        truth=Truth(
            (name, main), ("log-flood",), rf"{log}|{script}|{name}|xtrace|set -\w*x",
            rf"100% +{shared}|{name}\.log|set -\w*x|^\+|\+ (for|\[\[|continue|sleep)",
        ),
        inject=inject,
        fix=(f"sed -i 's/^set -ux$/set -u/' {script}", f"{anew}; sleep 0.3",
             f"truncate -s 0 {log}"),
        wrong={
            "the log is only emptied": [f"truncate -s 0 {log}; sleep 0.5"],
            "it is emptied and restarted": [f"truncate -s 0 {log}; {anew}; sleep 0.5"],
            "it is stopped": [f"supervisorctl stop {name}; truncate -s 0 {log}"],
            "old orders go": [f"rm {orders}"],
        },
        stays=(*kept, orders, house.env_of(main)),
        harm=lambda probe: said(house.serves(probe, other_port)),
    )  # fmt: skip
