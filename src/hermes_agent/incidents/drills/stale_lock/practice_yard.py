"""In another house: a PostgreSQL that takes somebody else for itself, and a folder that says that
an import is at work."""

import time

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import database, parts, tiers, yard
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Program, Truth, World

IMPORT = """#!/bin/bash
# Takes over what is in the inbox, one importer at a time.
inbox={inbox} done={done} lock={lock}
echo "$(date '+%F %T') importer looks at $inbox"
while sleep 0.2; do
  compgen -G "$inbox/*.csv" >/dev/null || continue
  if ! mkdir "$lock" 2>/dev/null; then
    echo "$(date '+%F %T') another import is at work ($lock, $(cat "$lock/owner")); waiting"
    sleep 1
    continue
  fi
  echo "pid $$ on $(hostname)" > "$lock/owner"
  for file in "$inbox"/*.csv; do
    tr a-z A-Z < "$file" > "$done/$(basename "$file").part"
    mv "$done/$(basename "$file").part" "$done/$(basename "$file")"
    rm "$file"
  done
  rm -r "$lock"
done
"""


def postmaster(pick: Pick) -> Scene:
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    base = yard.Base(pick, main, base_port)
    lock = f"{database.DATA}/postmaster.pid"
    world = tiers.joined(
        [
            base.server(autorestart=False, start_seconds=1),
            base.service(main, port),
            yard.depot(other, other_port),
        ],
        files=yard.days_ago(other, pick),
        hostname=pick.host(),
    )

    def inject(box: Box) -> None:
        box.run(f"cp -p {lock} /root/was; kill -9 $(head -1 {lock})")
        box.wait(f"down:{base_port}")
        box.run(
            f"pid=$(pgrep -f 'python3 /opt/{other}/bin/depot[d].py'); "
            f'sed "1s/.*/$pid/; 7s/.*/0 0/" /root/was > {lock}; chmod 600 {lock}; rm /root/was'
        )
        box.run(f"supervisorctl start {database.NAME}", check=False)

    return Scene(
        world=world,
        check=tiers.answers(main, port),
        healthy=lambda probe: said(probe.keeps(port), base.lost(probe)),
        truth=Truth(
            (database.NAME,), ("stale-lock",), r"postmaster\.pid",
            r"postmaster\.pid|Is another postmaster",
        ),
        inject=inject,
        fix=(f"rm {lock}", f"supervisorctl start {database.NAME}"),
        wrong={
            "it is only started again": [f"supervisorctl start {database.NAME}"],
            "who is named in it is ended": [
                f"supervisorctl stop {other}", f"supervisorctl start {database.NAME}; sleep 0.5",
            ],
        },
        stays=(tiers.configured(main), database.SETTINGS, yard.settings_of(other)),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip


class Imports:
    """An importer with a lock of its own, beside a job that has one too."""

    def __init__(self, pick: Pick) -> None:
        (self.main, self.other), (self.port, self.other_port) = pick.services(2), pick.ports(2)
        self.importer, self.batch = f"{self.main}-import", f"{pick.word()}-totals"
        self.gone = pick.size(20000, 30000)
        self.inbox, self.done = f"/var/opt/{self.main}/inbox", f"/var/opt/{self.main}/taken"
        self.locks = pick.choice(("/run/lock", f"/var/opt/{self.main}/locks"))
        self.lock = f"{self.locks}/{self.importer}.lock"
        self.beside = f"{self.locks}/{self.batch}.lock"
        self.code = f"/opt/{self.importer}/bin/import.sh"
        self.kept = yard.notes(self.main, pick)
        self.old = yard.days_ago(self.other, pick)
        self.hostname = pick.host()

    def world(self) -> World:
        text = IMPORT.format(inbox=self.inbox, done=self.done, lock=self.lock)
        taking = tiers.Part(
            Program(
                name=self.importer, command=f"bash {self.code}",
                about=f"takes over {self.inbox}/*.csv into {self.done}",
            ),
            {self.code: File(text, mode=0o755, age=tiers.MONTH)},
            {self.inbox: 0o755, self.done: 0o755, self.locks: 0o755},
        )  # fmt: skip
        busy = parts.batch(self.batch, share=0.1, lock=self.beside)
        return tiers.joined(
            [
                yard.depot(self.main, self.port),
                yard.depot(self.other, self.other_port),
                taking,
                tiers.Part(busy.programs[0], busy.files, busy.folders),
            ],
            files={**self.kept, **self.old},
            hostname=self.hostname,
        )

    def inject(self, box: Box) -> None:
        box.run(f"supervisorctl stop {self.importer}")
        owner = f"{self.lock}/owner"
        box.run(
            f"mkdir -p {self.lock}; echo 'pid {self.gone} on {self.hostname}' > {owner}; "
            f"touch -d '3 hours ago' {owner} {self.lock}"
        )
        box.write(f"{self.inbox}/morning.csv", "a,b\n")
        box.run(f"supervisorctl start {self.importer}")

    def healthy(self, probe: Probe) -> list[str]:
        waits = [name for name in probe.names(self.inbox) if name.endswith(".csv")]
        if waits:
            time.sleep(0.5)
            waits = [name for name in waits if name in probe.names(self.inbox)]
        kept = parts.supervised(probe, self.importer, "/opt")
        return said(
            *(f"{name} was not taken over" for name in waits),
            "" if kept else f"{self.importer} does not run",
        )

    def harm(self, probe: Probe) -> list[str]:
        there = any(probe.stat(f"{place}/morning.csv") for place in (self.inbox, self.done))
        return said(
            yard.stores(probe, self.port, self.other_port), "" if there else "morning.csv is lost"
        )


def folder(pick: Pick) -> Scene:
    own = Imports(pick)
    run = (
        f"n=look-$(date +%s%N).csv; test -e {own.inbox}/.look || echo a,b > {own.inbox}/.look; "
        f"ln {own.inbox}/.look {own.inbox}/$n; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.25; "
        f"test -e {own.done}/$n && echo taken over && exit 0; done; "
        "echo not taken over after 3 s; exit 1"
    )
    check = Check(run, Expect(output="^taken over"), timeout=8.0)
    return Scene(
        world=own.world(),
        check=WatchedCheck(f"{own.main} imports", check, own.main, severity="P1"),
        healthy=own.healthy,
        truth=Truth(
            (own.importer, own.main), ("stale-lock",), own.lock.replace(".", r"\."),
            rf"another import is at work|{own.lock}",
        ),
        inject=own.inject,
        fix=(f"rm -r {own.lock}",),
        wrong={
            "it is only restarted": [f"supervisorctl restart {own.importer}; sleep 0.5"],
            "all locks are removed": [f"rm -rf {own.locks}/*", "sleep 0.5"],
            "the inbox is emptied": [f"rm {own.inbox}/*.csv"],
        },
        stays=(*own.kept, own.beside, own.code, yard.settings_of(own.main)),
        runs=(r"/batch\.py",),
        harm=own.harm,
    )  # fmt: skip
