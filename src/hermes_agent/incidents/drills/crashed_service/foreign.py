"""A service that is ended each hour by a job that means another."""

import re

from hermes_agent.incidents.drills import bakery, crontab, layout, tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth

SWEEP = """#!/bin/bash
# Exports of {main} that hang are ended.
found=$(pgrep -f {pattern} | wc -l)
if [ "$found" -gt 0 ]; then
    pkill -TERM -f {pattern}
    echo "$(date '+%F %T') ended $found" >> {log}
fi
"""

EXPORT = """#!/bin/bash
# Writes out the orders again and again.
while sleep 1; do
    cut -c 1-60 {journal} > {out}.part && mv {out}.part {out}
done
"""


class _Sweep:
    """A job of each hour that ends exports which hang, and whom it takes for one."""

    def __init__(self, pick: Pick, main: str) -> None:
        self.main, self.export = main, f"{main}-{pick.word()}"
        self.script = f"/opt/bakery/sbin/{pick.choice(('end-stuck', 'sweep', 'tidy-up'))}"
        self.table = f"/etc/cron.d/{pick.choice(('bakery', 'housekeeping', 'exports'))}"
        self.log = "/var/log/bakery/sweep.log"
        self.command = f"python3 {bakery.CODE} {bakery.conf_of(main)}"
        line = f"MINUTE * * * * root {self.script}\n"
        self.cron = crontab.cron({self.table.rpartition("/")[2]: line})
        job = f"/opt/bakery/bin/{self.export}"
        where = {"journal": bakery.journal_of(main), "out": f"{bakery.STORED}/{main}/export.txt"}
        self.exports = tiers.Part(
            Program(name=self.export, command=job, about="writes out the orders"),
            {
                job: File(EXPORT.format(**where), mode=0o755, age=tiers.MONTH),
                self.script: File(
                    SWEEP.format(main=main, pattern=f"bin/{self.export}", log=self.log), mode=0o755
                ),
                self.log: File("", age=9000.0),
            },
        )
        self.setup = f"sed -i \"s/^MINUTE/$(date -d '-3 min' +%-M)/\" {self.table}"

    def threat(self, probe: Probe) -> str:
        """Whether the job would end the counter again."""
        tables = [f"/etc/cron.d/{name}" for name in probe.names("/etc/cron.d")]
        due = [
            line
            for path in (*tables, "/etc/crontab")
            for line in probe.text(path).splitlines()
            if self.script in line and not line.lstrip().startswith("#")
        ]
        rows = [row.partition("#")[0] for row in probe.text(self.script).splitlines()]
        found = re.findall(r"pkill\b.*?\s-f\s+(?:--\s+)?[\"']?([^\"'\s]+)", "\n".join(rows))
        hit = any(re.search(pattern, self.command) for pattern in found)
        facts = probe.stat(self.script)
        runs = facts is not None and facts.mode & 0o100
        return f"{self.script} will end it again" if due and hit and runs else ""


def swept_away(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    kept, more, sweep = bakery.orders(pick), bakery.orders(pick), _Sweep(pick, main)
    made = bakery.counter(main, port, kept)
    entry = layout.entry(made.program).replace("autorestart=true", "autorestart=unexpected")
    world = tiers.joined(
        [made, bakery.counter(other, other_port, more), sweep.exports, sweep.cron],
        files={
            bakery.entry_of(main): File(entry, age=tiers.MONTH),
            **bakery.months_ago(main, pick), **bakery.months_ago(other, pick),
        },
        setup=(sweep.setup,),
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        return said(
            bakery.takes(probe, port), bakery.lost(probe, port, kept), bakery.minded(probe, main),
            sweep.threat(probe),
        )  # fmt: skip

    start = f"supervisorctl start {main}"
    return Scene(
        world=world,
        check=bakery.is_open(main, port),
        healthy=healthy,
        truth=Truth(
            (main, crontab.NAME), ("service-crash", "bad-config"),
            rf"{sweep.script}|{sweep.table}|pkill|process",
            rf"{main}\s+EXITED|exited: {main} |Received SIGTERM|pkill|{sweep.script}|ended \d",
        ),
        inject=lines(
            f"until supervisorctl status {main} | grep -q RUNNING; do sleep 0.1; done",
            f"sed -i 's#-f bin/{sweep.export}#-f {main}#' {sweep.script}; {sweep.script}",
            f"until supervisorctl status {main} | grep -q EXITED; do sleep 0.1; done",
        ),
        fix=(f"sed -i 's#-f {main}\\b#-f bin/{sweep.export}#' {sweep.script}", start),
        wrong={
            "it is only started again": [f"{start}; sleep 1"],
            "the other one is restarted": [f"supervisorctl restart {other}"],
            "it is started by hand": [
                f"mv {sweep.table} /root/",
                f"setsid as-app {sweep.command} </dev/null &>/dev/null & sleep 0.8",
            ],
        },
        stays=(bakery.conf_of(main), bakery.conf_of(other), bakery.CODE),
        runs=("cron -f", f"bin/{sweep.export}"),
        harm=lambda probe: said(
            bakery.takes(probe, other_port), bakery.lost(probe, other_port, more)
        ),
    )  # fmt: skip
