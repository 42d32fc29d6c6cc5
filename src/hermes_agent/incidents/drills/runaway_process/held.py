"""Workers that turn in a circle: a tour whose stops lead back to each other, and a day of delivery
that never comes."""

import json
import secrets
import sqlite3
import time
from datetime import date, timedelta

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import cabinets, kiosk, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.runaway_process.practice_quarter import (
    _interrupted,
    _nightly,
    _spins,
)
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.workshop import ask
from hermes_agent.incidents.drills.world import File, Program, Truth

PLANNER = '''"""planner: works out tours. planner.py QUEUE.sqlite3 LOG

The lowest job that is queued is next. A tour begins at `first` and ends at the depot.
"""

import json
import os
import sqlite3
import sys
import time

NEXT = "select id, payload from jobs where state = 'queued' order by id limit 1"


def say(text: str) -> None:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S +0000", time.gmtime())
    with open(sys.argv[2], "a") as file:
        file.write(f"[{stamp}] [{os.getpid()}] [INFO] {text}\\n")


def miles(tour: dict) -> int:
    total, at = 0, tour["first"]
    while at != "depot":
        total += tour["stops"][at]["miles"]
        at = tour["stops"][at]["next"]
    return total


base = sqlite3.connect(sys.argv[1], timeout=5, isolation_level=None)
say("planner booted")
while True:
    for number, payload in base.execute(NEXT).fetchall():
        say(f"job {number}: started")
        found = miles(json.loads(payload))
        base.execute("update jobs set state = 'done', miles = ? where id = ?", (found, number))
        say(f"job {number}: done, {found} miles")
    time.sleep(0.1)
'''
TABLE = """create table jobs (id integer primary key, state text not null default 'queued',
  payload text not null default '{"first": "depot", "stops": {}}', miles integer)"""
ADDED = """python3 - <<'END'
import sqlite3
base = sqlite3.connect("{queue}", timeout=5)
base.executemany("insert into jobs (payload) values (?)", {new!r})
base.commit()
END"""
DELIVERY_CODE = "/app/kiosk/delivery.js"
DELIVERY = r"""// When is it delivered: node delivery.js SETTINGS.json
// A job of spool/new is claimed by moving it to spool/cur; its day goes to spool/out. What was
// claimed and not finished stays in spool/cur, for somebody to look at.
'use strict'
const fs = require('fs')
const own = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'))

function log (msg) {
  const line = { level: 30, time: Date.now(), pid: process.pid, name: own.name, msg }
  fs.appendFileSync(own.log, JSON.stringify(line) + '\n')
}

function day (job) {
  const found = new Date(job.from + 'T00:00:00Z')
  do found.setUTCDate(found.getUTCDate() + 1)
  while (!job.weekdays.includes(found.getUTCDay()))
  return found.toISOString().slice(0, 10)
}

function work () {
  for (const name of fs.readdirSync(`${own.spool}/new`).sort()) {
    if (name.endsWith('~')) continue
    fs.renameSync(`${own.spool}/new/${name}`, `${own.spool}/cur/${name}`)
    log(`job ${name} claimed`)
    const found = day(JSON.parse(fs.readFileSync(`${own.spool}/cur/${name}`, 'utf8')))
    fs.writeFileSync(`${own.spool}/out/${name}`, found + '\n')
    fs.unlinkSync(`${own.spool}/cur/${name}`)
    log(`job ${name} finished`)
  }
  setTimeout(work, 100)
}

for (const name of fs.readdirSync(`${own.spool}/cur`)) log(`job ${name} was left, see spool/cur`)
log('delivery started')
work()
"""


def _tour(pick: Pick, *, ring: bool = False) -> tuple[str, int]:
    """Stops with their miles, and how long all of it is; a ring never comes to the depot."""
    names = [f"stop-{pick.token(4)}" for _ in range(pick.size(4, 7))]
    far = [pick.size(2, 60) for _ in names]
    after = [*names[1:], names[1] if ring else "depot"]
    stops = {n: {"miles": m, "next": to} for n, m, to in zip(names, far, after, strict=True)}
    return json.dumps({"first": names[0], "stops": stops}), sum(far)


def _planner(name: str, queue: str, old: list[tuple[str, int]]) -> tiers.Part:
    """The worker, with tours that were worked out long ago."""
    base = sqlite3.connect(":memory:")
    base.execute(TABLE)
    base.executemany("insert into jobs (state, payload, miles) values ('done', ?, ?)", old)
    base.commit()
    home = f"{cabinets.HOME}/{name}"
    code, log = f"{home}/planner.py", f"{home}/log/planner.log"
    return tiers.Part(
        Program(name=name, command=f"nice -n 3 python3 {code} {queue} {log}", directory=home,
                ready=f"file:{log}", about=f"works out tours: queue {queue}, log {log}"),
        {code: File(PLANNER, age=tiers.MONTH), queue: File(data=base.serialize(), age=900.0)},
        {f"{home}/log": 0o755},
    )  # fmt: skip


def _planned(service: str, queue: str) -> WatchedCheck:
    """The check of the office: an empty tour is worked out within seconds."""
    run = (
        f"n=$(sqlite3 {queue} 'insert into jobs default values returning id'); "
        "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; "
        f'test "$(sqlite3 {queue} "select state from jobs where id = $n")" = done && '
        "echo worked out && exit; done; echo not worked out after 2 s; exit 1"
    )
    check = Check(run, Expect(output="^worked out"), timeout=8.0)
    return WatchedCheck(f"{service} tours", check, service, severity="P1")


def tour_in_a_ring(pick: Pick) -> Scene:
    """As `poison`: what waits first can never be done and is taken up anew after each restart; here
    a row of a queue in SQLite, a tour that leads back to itself instead of to the depot."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    name, busy = f"{main}-{pick.choice(('planner', 'router', 'dispo'))}", f"{pick.word()}-totals"
    home, rows = f"{cabinets.HOME}/{name}", cabinets.Rows(pick)
    queue = f"/var/lib/{pick.choice(('tours', 'lorries', 'rounds'))}/queue.sqlite3"
    log, code = f"{home}/log/planner.log", f"{home}/planner.py"
    old, good = ([_tour(pick) for _ in range(count)] for count in (pick.size(12, 50), 3))
    bad = _tour(pick, ring=True)[0]
    world = tiers.joined(
        [cabinets.app(main, port, rows), cabinets.app(other, other_port),
         _planner(name, queue, old), _nightly(busy)],
        files={**cabinets.weeks_ago(main, pick), **cabinets.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    anew = f"supervisorctl restart {name}; sleep 0.6"
    first = "(select min(id) from jobs where state = 'queued')"

    def inject(box: Box) -> None:
        box.run(ADDED.format(queue=queue, new=[(bad,), *((one,) for one, _ in good)]))
        box.run(f"until tail -n 1 {log} | grep -q started; do sleep 0.1; done; sleep 0.3")

    def healthy(probe: Probe) -> list[str]:
        waiting = ask(probe, queue, "select id from jobs where state = 'queued'")
        return said(_spins(probe, f"/{busy}/"), f"jobs {waiting} wait" if waiting else "")

    def harm(probe: Probe) -> list[str]:
        there = dict(ask(probe, queue, "select payload, miles from jobs where state <> 'queued'"))
        waits = dict(ask(probe, queue, "select payload, 0 from jobs where state = 'queued'"))
        lost = any(there.get(one) != far and one not in waits for one, far in (*old, *good))
        return said(
            _interrupted(probe, busy), rows.lost(probe, port), "tours are lost" if lost else "",
            cabinets.saves(probe, port, other_port),
        )  # fmt: skip

    return Scene(
        world=world,
        check=_planned(main, queue),
        healthy=healthy,
        truth=Truth(
            (name, main), ("runaway-process",), rf"{name}|planner\.(py|log)|\bjob \d+|stop-\w{{4}}",
            r"job \d+: started|planner\.py|stop-\w{4}",
        ),
        inject=inject,
        fix=(f"sqlite3 {queue} \"update jobs set state = 'failed' where id = {first}\"", anew),
        wrong={
            "it is only restarted": [anew],
            "the other busy one is stopped": [f"supervisorctl stop {busy}"],
            "all that waits is thrown away": [
                f"sqlite3 {queue} \"delete from jobs where state = 'queued'\"", anew,
            ],
        },
        stays=(code, cabinets.env_of(main), cabinets.env_of(other)),
        runs=(code,),
        harm=harm,
    )  # fmt: skip


def _delivered(probe: Probe, port: int, spool: str) -> str:
    """Hand in a job; why its day is not right, or empty."""
    key, from_ = f"j{secrets.token_hex(5)}", date(2026, 1, 5) + timedelta(secrets.randbelow(300))
    body = json.dumps({"from": f"{from_}", "weekdays": [from_.isoweekday() % 7]})
    probe.http(port, f"{kiosk.VOUCHERS}/{key}", "PUT", body.encode())
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        if found := probe.text(f"{spool}/out/{key}").strip():
            return "" if found == f"{from_ + timedelta(7)}" else f"job {key} is wrong: {found}"
        time.sleep(0.05)
    return f"job {key} is not done"


def _delivery(name: str, spool: str) -> tiers.Part:
    place, log = kiosk.settings_of(name), kiosk.log_of(name)
    own = {"name": name, "spool": spool, "log": log}
    return tiers.Part(
        Program(name=name, command=f"nice -n 2 node {DELIVERY_CODE} {place}", ready=f"file:{log}",
                about=f"days of delivery for the jobs of {spool}; settings {place}, log {log}"),
        {DELIVERY_CODE: File(DELIVERY, age=tiers.MONTH),
         place: File(json.dumps(own, indent=2) + "\n", age=tiers.MONTH)},
        {log.rpartition("/")[0]: 0o755, **{f"{spool}/{one}": 0o755 for one in ("cur", "out")}},
    )  # fmt: skip


def _delivers(service: str, port: int, spool: str) -> WatchedCheck:
    run = (
        f"k=try-$(date +%s%N); curl -sS -m 2 -o /dev/null -X PUT --data "
        f'\'{{"from": "2026-03-01", "weekdays": [3]}}\' '
        f"http://127.0.0.1:{port}{kiosk.VOUCHERS}/$k; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; "
        f"cat {spool}/out/$k 2>/dev/null && exit; done; echo no day after 2 s; exit 1"
    )
    check = Check(run, Expect(output="2026-03-04"), timeout=8.0)
    return WatchedCheck(f"{service} days", check, service, severity="P1")


def no_day_at_all(pick: Pick) -> Scene:
    """As `stuck-worker`: a job that was claimed never ends, and all others wait behind it; here a
    worker of Node.js looks for a day of delivery, of which the job has none."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    name, busy = f"{main}-{pick.choice(('delivery', 'calendar', 'post'))}", f"{pick.word()}-totals"
    spool, place = f"/var/spool/{main}", kiosk.settings_of(name)
    keys = [f"{pick.size(100, 199) + 200 * n}-{pick.token(5)}" for n in range(4)]
    kept = kiosk.vouchers(other, pick)
    world = tiers.joined(
        [kiosk.kiosk(main, port, {"vouchers": f"{spool}/new"}, needs=(name,)),
         _delivery(name, spool),
         kiosk.kiosk(other, other_port), _nightly(busy)],
        files={**kept, **kiosk.once(main, pick), **kiosk.once(other, pick)},
        folders={f"{spool}/new": 0o755},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        for key, days in zip(keys, ([], [2], [1, 5], [4]), strict=True):
            job = json.dumps({"from": "2026-11-09", "weekdays": days})
            box.write(f"{spool}/new/{key}~", job)
            box.run(f"mv {spool}/new/{key}~ {spool}/new/{key}; sleep 0.3")

    def healthy(probe: Probe) -> list[str]:
        waiting = [key for key in probe.names(f"{spool}/new") if key in keys]
        return said(
            _delivered(probe, port, spool), _spins(probe, f"/{busy}/"),
            f"{', '.join(waiting)} wait" if waiting else "",
        )  # fmt: skip

    def harm(probe: Probe) -> list[str]:
        there = {*probe.names(f"{spool}/new"), *probe.names(f"{spool}/out")}
        lost = [f"job {key} is lost" for key in keys[1:] if key not in there]
        return said(*lost, _interrupted(probe, busy), kiosk.keeps(probe, other_port))

    return Scene(
        world=world,
        check=_delivers(main, port, spool),
        healthy=healthy,
        truth=Truth(
            (name, main), ("runaway-process",), rf"{name}|delivery\.js|{keys[0]}",
            rf"{keys[0]}|delivery\.js",
        ),
        inject=inject,
        fix=(f"supervisorctl restart {name}",),
        wrong={
            "the one that complains is restarted": [f"supervisorctl restart {main}; sleep 0.4"],
            "the other busy one is stopped": [f"supervisorctl stop {busy}"],
            "all that waits is thrown away": [
                f"rm -f {spool}/new/*", f"supervisorctl restart {name}",
            ],
        },
        stays=(*kept, DELIVERY_CODE, place, kiosk.settings_of(main), kiosk.settings_of(other)),
        runs=(DELIVERY_CODE,),
        harm=harm,
    )  # fmt: skip
