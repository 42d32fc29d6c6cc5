"""A job that goes away at once because of a file that somebody left, and one that is begun once a
night only."""

import time

from hermes_agent.incidents.drills import crontab, tiers, yard
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth


class _Export:
    """A list of notes, made each minute by a script."""

    def __init__(self, pick: Pick) -> None:
        (self.main, self.other), (self.port, self.other_port) = pick.services(2), pick.ports(2)
        self.job = f"{self.main}-export"
        self.script = f"/srv/jobs/{self.job}.sh"
        self.product = f"/srv/exports/{self.main}.csv"
        self.table = f"/etc/cron.d/{self.main}"
        self.flag = f"/var/lib/jobs/{pick.choice(('HOLD', 'maintenance', 'paused'))}"
        self.kept = yard.notes(self.main, pick)
        self.files = {**self.kept, **yard.days_ago(self.other, pick)}
        self.hostname = pick.host()

    @property
    def text(self) -> str:
        return f"""#!/bin/sh
# Lists what {self.main} keeps, each minute.
if [ -f {self.flag} ]; then
    exit 0
fi
{crontab.WHO}ls {yard.store_of(self.main)} > {self.product}.tmp
echo "# by $by at $(date +%s)" >> {self.product}.tmp
mv {self.product}.tmp {self.product}
"""

    def scene(self, broken: str, fix: str, locus: str, evidence: str) -> Scene:
        return Scene(
            world=tiers.joined(
                [
                    crontab.cron({self.main: f"* * * * * root {self.script}\n"}),
                    yard.depot(self.main, self.port),
                    yard.depot(self.other, self.other_port),
                ],
                files={**self.files, self.script: File(self.text, mode=0o755, age=tiers.MONTH)},
                folders={"/srv/exports": 0o755, "/var/lib/jobs": 0o755},
                hostname=self.hostname,
                setup=[crontab.made(self.product)],
            ),
            check=crontab.fresh(self.job, self.product),
            healthy=lambda probe: said(
                crontab.stale(probe, self.product, time.time()), yard.stores(probe, self.port)
            ),
            truth=Truth(
                (self.job, crontab.NAME, self.main), ("job-missed", "bad-config"), locus, evidence
            ),
            inject=lines(broken, crontab.age(self.product)),
            fix=(fix,),
            wrong={
                "cron is restarted": [f"supervisorctl restart {crontab.NAME}"],
                "the product is touched": [f"touch {self.product}"],
            },
            stays=(*self.kept, self.script, "/etc/crontab"),
            harm=lambda probe: said(yard.stores(probe, self.other_port)),
        )


def held_off(pick: Pick) -> Scene:
    job = _Export(pick)
    return job.scene(f"touch {job.flag}", f"mv {job.flag} /root/", job.flag, job.flag)


def nightly(pick: Pick) -> Scene:
    job, hour = _Export(pick), pick.size(1, 4)
    return job.scene(
        f"sed -i 's/^[*] [*]/0 {hour}/' {job.table}",
        f"sed -i 's/^0 {hour}/* */' {job.table}",
        job.table,
        rf"0 {hour} \* \* \*",
    )
