"""In another house: a table whose name cron does not read, a line that ends at its first percent
sign, and a PATH that does not lead to what the job calls."""

import time

from hermes_agent.incidents.drills import crontab, tiers, yard
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth, World


class Job:
    """A digest of notes, made each minute by a tool of its own."""

    def __init__(self, pick: Pick) -> None:
        (self.main, self.other), (self.port, self.other_port) = pick.services(2), pick.ports(2)
        self.job = f"{self.main}-{pick.choice(('digest', 'summary', 'census'))}"
        self.tool = f"{pick.choice(('tally', 'gather', 'collate'))}-notes"
        self.product = f"/var/opt/{self.main}/{self.job}.txt"
        self.table = f"/etc/cron.d/{self.job}"
        self.log = f"/var/log/opt/{self.job}.log"
        self.kept = yard.notes(self.main, pick)
        self.old = yard.days_ago(self.other, pick)
        self.hostname = pick.host()
        self.text = (
            f"# a digest each minute, for {self.main}\nSHELL=/bin/sh\n"
            f"PATH=/opt/{self.main}/libexec:/usr/bin:/bin\n"
            f"* * * * * root {self.tool} {self.product} >>{self.log} 2>&1\n"
        )

    def world(self) -> World:
        tool = f"""#!/bin/sh
# Writes how many notes there are: {self.tool} FILE
{crontab.WHO}count=$(ls {yard.store_of(self.main)} | wc -l)
echo "$count notes, by $by at $(date +%s)" > "$1.draft"
mv "$1.draft" "$1"
"""
        return tiers.joined(
            [
                crontab.cron({self.job: self.text}),
                yard.depot(self.main, self.port),
                yard.depot(self.other, self.other_port),
            ],
            files={
                **self.kept,
                **self.old,
                f"/opt/{self.main}/libexec/{self.tool}": File(tool, mode=0o755, age=tiers.MONTH),
                self.log: File("", age=3e5),
            },
            hostname=self.hostname,
            setup=[crontab.made(self.product)],
        )

    def healthy(self, probe: Probe) -> list[str]:
        return said(crontab.stale(probe, self.product, time.time()), yard.stores(probe, self.port))

    def scene(
        self, changed: list[str], fix: list[str], locus: str, evidence: str, *, ran: bool = False
    ) -> Scene:
        failing = f"for n in 1 2 3; do sh -c '{self.tool}' >>{self.log} 2>&1; done"
        return Scene(
            world=self.world(),
            check=crontab.fresh(self.job, self.product),
            healthy=self.healthy,
            truth=Truth(
                (self.job, crontab.NAME, self.main), ("job-missed", "bad-config"), locus, evidence
            ),
            inject=lines(*changed, *([failing] if ran else []), crontab.age(self.product)),
            fix=tuple(fix),
            wrong={
                "cron is restarted": [f"supervisorctl restart {crontab.NAME}"],
                "the product is touched": [f"touch {self.product}"],
                "run by hand": [f"/opt/{self.main}/libexec/{self.tool} {self.product}"],
            },
            stays=(
                *self.kept, f"/opt/{self.main}/libexec/{self.tool}", "/etc/crontab",
                yard.settings_of(self.main),
            ),
            harm=lambda probe: said(yard.stores(probe, self.other_port)),
        )  # fmt: skip


def ignored_name(pick: Pick) -> Scene:
    job = Job(pick)
    called = f"{job.table}.{pick.choice(('cron', 'new', 'v2'))}"
    return job.scene(
        [f"mv {job.table} {called}"], [f"mv {called} {job.table}"],
        called.replace(".", r"\."), rf"{called}",
    )  # fmt: skip


def percent(pick: Pick) -> Scene:
    job = Job(pick)
    line = f"{job.tool} {job.product} >>{job.log}-$(date +%F) 2>&1"
    return job.scene(
        [
            f"cp -p {job.table} /var/opt/{job.main}/{job.job}.cron-before",
            f"sed -i 's#root .*#root {line.replace('&', chr(92) + '&')}#' {job.table}",
        ],
        [f"cp /var/opt/{job.main}/{job.job}.cron-before {job.table}"],
        job.table, r"\+%F",
    )  # fmt: skip


def path(pick: Pick) -> Scene:
    job = Job(pick)
    return job.scene(
        [f"sed -i 's#^PATH=.*#PATH=/usr/local/bin:/usr/bin:/bin#' {job.table}"],
        [f"sed -i 's#^PATH=.*#PATH=/opt/{job.main}/libexec:/usr/bin:/bin#' {job.table}"],
        rf"{job.table}|PATH|{job.tool}", rf"{job.tool}: not found|PATH=/usr/local/bin", ran=True,
    )  # fmt: skip
