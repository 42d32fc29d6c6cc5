"""Locks of processes that are gone: a file that a worker waits for, and a folder that a service
finds at its start."""

import secrets
import time

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import kiosk, parts, tiers, webshop
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth

GIVEN_UP = "until supervisorctl status {} | grep -q FATAL || ((SECONDS > 25)); do sleep 0.2; done"

ASK = """#!/bin/sh
# Asks for a label for what was saved.
echo "$1 $(date +%s)" > {queue}/.$1 && mv {queue}/.$1 {queue}/$1.req
"""

LABELS = """#!/bin/bash
# Makes the labels that were asked for. One at a time: whoever is at it has LOCKFILE.
. {env}
say() {{ echo "$(date '+%b %e %H:%M:%S') $(hostname) {name}: $*" >> "$LOGFILE"; }}
say "started"
trap '[ -z "$mine" ] || rm -f "$LOCKFILE"' EXIT
while sleep 0.2; do
    [ -n "$(ls "$QUEUE")" ] || continue
    if ! (set -o noclobber; echo "$$ $(hostname)" > "$LOCKFILE") 2> /dev/null; then
        say "cannot lock $LOCKFILE: File exists, trying again"
        sleep 1
        continue
    fi
    mine=yes
    for asked in "$QUEUE"/*.req; do
        key=$(basename "$asked" .req)
        printf '*%s*\\n' "${{key^^}}" > "$LABELS/.$key" && mv "$LABELS/.$key" "$LABELS/$key"
        rm "$asked"
    done
    rm -f "$LOCKFILE"
    mine=
done
"""

STOCK = """#!/bin/bash
# Counts the stock. Takes the whole day, and begins from the start when it is ended.
echo "$$ $(hostname)" > {lock}
while :; do
    echo "shelf $((shelf += 1))" > {progress}
    sleep 0.5
done
"""

LOCKED = """let count = 0

try {
  fs.mkdirSync(own.lock)
} catch (error) {
  log(60, `ELOCKED: ${own.vouchers} is in use by another process (${error.message})`)
  process.exit(1)
}
process.on('SIGTERM', () => {
  fs.rmdirSync(own.lock)
  process.exit(0)
})
"""


def _labelled(probe: Probe, port: int, labels: str) -> str:
    """Save a record; why there is no label for it, or empty."""
    key = f"k{secrets.token_hex(5)}"
    probe.http(port, f"{webshop.RECORDS}/{key}", "PUT", b"something")
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        if probe.text(f"{labels}/{key}").strip() == f"*{key.upper()}*":
            return ""
        time.sleep(0.1)
    return f"{key} has no label"


def _makes_labels(name: str, port: int, labels: str) -> WatchedCheck:
    """The check of the shop: what is saved gets its label."""
    run = (
        f"k=c$(date +%s%N); curl -sS -m 2 -X PUT -d test http://127.0.0.1:{port}"
        f"{webshop.RECORDS}/$k; for i in 1 2 3 4 5 6 7 8; do sleep 0.25; "
        f"test -s {labels}/$k && echo label made && exit; done; echo no label after 2 s; exit 1"
    )
    check = Check(run, Expect(output="label made"), timeout=8.0)
    return WatchedCheck(f"{name} labels", check, name, severity="P1")


def dot_lock(pick: Pick) -> Scene:
    """As `worker-lock`: a worker waits for the lock of a former one, beside the lock of a job that
    is at work; here a script of the shell that makes labels for what an app saves."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    name, job, top = f"{main}-labels", f"{pick.word()}-stock", f"/var/spool/{main}"
    folder = pick.choice((f"/run/{main}", "/run/lock", f"{top}/locks"))
    lock, theirs = f"{folder}/{name}.lck", f"{folder}/{job}.lck"
    queue, labels = f"{top}/asked", f"{top}/labels"
    env, log = f"/etc/default/{name}", f"/var/log/{name}.log"
    told = {"QUEUE": queue, "LABELS": labels, "LOCKFILE": lock, "LOGFILE": log}
    ask, script, count = (f"/opt/{main}/bin/{one}" for one in ("ask-label", "labels", "stock"))
    progress, kept = f"{top}/stock.progress", webshop.records(main, pick)
    worker = tiers.Part(
        Program(name=name, command=script, about=f"makes labels; settings {env}, log {log}"),
        {script: File(LABELS.format(env=env, name=name), mode=0o755, age=tiers.MONTH),
         env: File(webshop.dotenv(told), age=tiers.MONTH),
         ask: File(ASK.format(queue=queue), mode=0o755, age=tiers.MONTH)},
        {queue: 0o755, labels: 0o755, folder: 0o755},
    )  # fmt: skip
    long = tiers.Part(
        Program(name=job, command=count, ready=f"file:{progress}",
                about="counts the stock, all day; begins from the start when it is ended"),
        {count: File(STOCK.format(lock=theirs, progress=progress), mode=0o755, age=tiers.MONTH)},
    )  # fmt: skip
    world = tiers.joined(
        [
            worker, long, webshop.app(main, port, {"AFTER_SAVE": ask}, needs=(name,)),
            webshop.app(other, other_port),
        ],
        files={**kept, **webshop.weeks_ago(main, pick), **webshop.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    dead = pick.size(21_000, 31_000)
    return Scene(
        world=world,
        check=_makes_labels(main, port, labels),
        healthy=lambda probe: said(_labelled(probe, port, labels), webshop.serves(probe, port)),
        truth=Truth(
            (name, main), ("stale-lock",), lock.replace(".", r"\."),
            rf"{lock}|cannot lock|{dead} |trying again".replace(".", r"\."),
        ),
        inject=lines(
            f"supervisorctl stop {name}",
            f"echo \"{dead} $(hostname)\" > {lock}; touch -d '-{pick.size(3, 15)} hours' {lock}",
            f"supervisorctl start {name}",
        ),
        fix=(f"rm {lock}", "sleep 1.5"),
        wrong={
            "it is only restarted": [f"supervisorctl restart {name} {main}; sleep 1.5"],
            "all locks go": [f"rm -f {folder}/*.lck; sleep 1.5"],
            "the job at work is ended": [f"supervisorctl stop {job}; rm {lock}; sleep 1.5"],
        },
        stays=(*kept, theirs, env, webshop.env_of(main), webshop.env_of(other)),
        runs=(script, count),
        harm=lambda probe: said(webshop.serves(probe, other_port)),
    )  # fmt: skip


def made_folder(pick: Pick) -> Scene:
    """As `lock-folder`: a service that makes a folder for its lock was killed, and finds it there;
    here one of Node.js, which only its own log tells, in lines of JSON."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    where = pick.choice(("/var/local/locks", "/run/kiosk", "/var/local/{}"))
    ending = pick.choice((".lock", ".busy", ""))
    lock, theirs = (f"{where.format(name)}/{name}{ending}" for name in (main, other))
    kept, more = kiosk.vouchers(main, pick), kiosk.vouchers(other, pick)
    code = kiosk.PROGRAM.replace("let count = 0\n", LOCKED)
    run = [f"node /app/{one}/server.js {kiosk.settings_of(one)}" for one in (main, other)]
    world = tiers.joined(
        [
            kiosk.kiosk(main, port, {"lock": lock}, command=run[0], start_seconds=3),
            kiosk.kiosk(other, other_port, {"lock": theirs}, command=run[1]),
        ],
        files={
            **kept, **more, **kiosk.once(main, pick), **kiosk.once(other, pick),
            **{f"/app/{one}/server.js": File(code, age=tiers.MONTH) for one in (main, other)},
        },
        folders={lock.rpartition("/")[0]: 0o755, theirs.rpartition("/")[0]: 0o755},
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        up = parts.supervised(probe, main, "/app")
        return said(kiosk.keeps(probe, port), "" if up else f"{main} is not kept by the supervisor")

    start = f"supervisorctl start {main}; sleep 1"
    return Scene(
        world=world,
        check=kiosk.status(main, f"http://127.0.0.1:{port}"),
        healthy=healthy,
        truth=Truth(
            (main,), ("stale-lock",), rf"{lock}\b", rf"ELOCKED|is in use by another|{lock}\b"
        ),
        inject=lines(
            f"kill -9 $(supervisorctl pid {main})", GIVEN_UP.format(main),
            f"touch -d '-{pick.size(20, 90)} min' {lock}",
        ),
        fix=(f"rmdir {lock}", start),
        wrong={
            "it is only started": [f"supervisorctl restart {main}; sleep 1"],
            "another's lock goes": [f"rmdir {theirs}", start],
        },
        stays=(*kept, *more, kiosk.settings_of(main), kiosk.settings_of(other)),
        runs=(kiosk.settings_of(other),),
        harm=lambda probe: said(
            kiosk.keeps(probe, other_port), "" if probe.stat(theirs) else "a lock is gone"
        ),
    )  # fmt: skip
