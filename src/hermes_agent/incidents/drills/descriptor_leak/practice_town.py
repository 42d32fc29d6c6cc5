"""Traces that were switched on for a day and never closed; helpers that wait for somebody who was
asked something and went home."""

import secrets
import time

from hermes_agent.incidents.drills import parts, tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth

ASKED = 10


def _open(probe: Probe, name: str) -> int:
    of = f"/var/www/{name}/current"
    return max((one.descriptors for one in probe.processes() if of in one.command), default=0)


def _grows(probe: Probe, name: str, port: int) -> str:
    """Whether files stay open when it is used."""
    was = _open(probe, name)
    for _ in range(ASKED):
        probe.http(port, f"{house.RECORDS}/nothing", timeout=1.0)
    now = _open(probe, name)
    return f"{name} keeps {now - was} more files open" if now - was >= ASKED - 2 else ""


def _raised(probe: Probe, name: str, most: int) -> str:
    of = f"/var/www/{name}/current"
    own = [one.pid for one in probe.processes() if of in one.command]
    may = max((parts.open_files(pid) for pid in own), default=0)
    return f"{name} may have {may} files open now" if may > most else ""


def traced(pick: Pick) -> Scene:
    (main, other, third), (port, other_port, third_port) = pick.services(3), pick.ports(3)
    most = pick.size(70, 110)
    kept = house.records(main, pick)
    traces = f"/var/www/{main}/shared/{pick.choice(('trace', 'traces', 'tmp/trace'))}"
    env = house.env_of(main)
    world = tiers.joined(
        [house.app(main, port, limits={"nofile": most}), house.app(other, other_port),
         house.app(third, third_port, {"BACKEND_URL": f"http://127.0.0.1:{port}"}, needs=(main,))],
        files={**kept, **house.weeks_ago(main, pick), **house.weeks_ago(other, pick)},
        folders={traces: 0o755},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"cp -p {env} {env}.bak; printf 'TRACE_DIR={traces}\\n' >> {env}")
        box.run(f"supervisorctl restart {main}")
        box.wait(f"tcp:{port}")
        ask = f"curl -s -m 2 -o /dev/null http://127.0.0.1:{port}{house.RECORDS}/r-$i"
        box.run(f"for i in $(seq {most + 20}); do {ask} || break; done", check=False)

    def healthy(probe: Probe) -> list[str]:
        opened = _open(probe, main)
        many = f"{main} has {opened} files open" if opened > most // 2 else ""
        found = house.serves(probe, port, third_port, timeout=1.0)
        return said(found, many, _grows(probe, main, port))

    entry = f"/etc/supervisor/conf.d/{main}.conf"
    return Scene(
        world=world,
        check=house.up(third, third_port),
        healthy=healthy,
        truth=Truth(
            (main,), ("descriptor-leak", "bad-config"), rf"{traces}|TRACE_DIR|{env}|\.trace\b",
            r"\.trace\b|TRACE_DIR|accept: .*Too many open files",
        ),
        inject=inject,
        fix=(f"cp -p {env}.bak {env}", f"supervisorctl restart {main}"),
        wrong={
            "it is only restarted": [f"supervisorctl restart {main}"],
            "the limit is raised": [
                f"sed -i 's/--nofile=[0-9:]*/--nofile=8192/' {entry}", "supervisorctl update",
            ],
            "who asks it is restarted": [f"supervisorctl restart {third}"],
        },
        stays=(*kept, house.env_of(other), house.env_of(third)),
        harm=lambda probe: said(_raised(probe, main, most), house.serves(probe, other_port)),
    )  # fmt: skip


NOTIFY = """#!/bin/bash
# tells the warehouse of a record; one at a time
exec 9>>{lock}
flock 9
echo "$(date -u +%FT%TZ) told $1" >> {told}
"""
RESEND = """#!/bin/bash
# once more for everything of a day
exec 9>>{lock}
flock 9
read -r -p "resend {count} messages? [y/N] " answer
[[ $answer == y ]] || exit
"""


def _untold(probe: Probe, port: int, told: str) -> str:
    """Whether the helper does its work for a new record."""
    key = f"t-{secrets.token_hex(5)}"
    probe.http(port, f"{house.RECORDS}/{key}", "PUT", b"x", timeout=1.0)
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        if key in probe.text(told):
            return ""
        time.sleep(0.1)
    return f"nobody is told of {key}"


def waiting_helpers(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    most = pick.size(70, 110)
    shared = f"/var/www/{main}/shared"
    lock, told, helper = f"{shared}/var/notify.lock", f"{shared}/log/told.log", f"{shared}/notify"
    name = f"resend-{pick.token(4)}.sh"
    script = f"/home/{pick.choice(('ines', 'olaf', 'tomas'))}/{name}"
    kept = house.records(main, pick)
    world = tiers.joined(
        [house.app(main, port, {"AFTER_SAVE": helper}, limits={"nofile": most}),
         house.app(other, other_port)],
        files={
            **kept, **house.weeks_ago(main, pick), **house.weeks_ago(other, pick),
            helper: File(NOTIFY.format(lock=lock, told=told), mode=0o755, age=tiers.MONTH),
            script: File(RESEND.format(lock=lock, count=pick.size(900, 4000)), age=9e5),
        },
        folders={f"{shared}/var": 0o755},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.spawn(f"sleep 100000 | bash {script}")
        box.run(f"until ! flock -n {lock} true; do sleep 0.1; done", seconds=10)
        ask = f"curl -fs -m 2 -o /dev/null -X PUT -d x http://127.0.0.1:{port}{house.RECORDS}/p-$i"
        box.run(f"for i in $(seq {most}); do {ask} || break; done", check=False)

    def healthy(probe: Probe) -> list[str]:
        found = house.serves(probe, port, timeout=1.0)
        opened = _open(probe, main)
        return said(
            found, _untold(probe, port, told),
            f"{main} has {opened} files open" if opened > most // 2 else "",
        )  # fmt: skip

    entry = f"/etc/supervisor/conf.d/{main}.conf"
    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=healthy,
        truth=Truth(
            (main, name, name.removesuffix(".sh"), script), ("descriptor-leak",),
            rf"{name}|{lock}|notify", rf"{name}|notify|flock",
        ),
        inject=inject,
        fix=(f"kill $(pgrep -f '[/]{name}')",),
        wrong={
            "it is only restarted": [f"supervisorctl restart {main}"],
            "the limit is raised": [
                f"sed -i 's/--nofile=[0-9:]*/--nofile=8192/' {entry}", "supervisorctl update",
            ],
            "nobody is told any more": [
                f"sed -i '/^AFTER_SAVE/d' {house.env_of(main)}", f"supervisorctl restart {main}",
            ],
        },
        stays=(*kept, house.env_of(main), house.env_of(other), helper, script),
        harm=lambda probe: said(_raised(probe, main, most), house.serves(probe, other_port)),
    )  # fmt: skip
