"""Of one account's server: the script of a job was edited on a PC, and a table that more
than root may write."""

import time

from hermes_agent.incidents.drills import cabinets as house
from hermes_agent.incidents.drills import crontab, tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth


def _script(product: str, base: str) -> str:
    return f"""#!/bin/sh
# What the dashboard shows: how many records there are.
set -e
{crontab.WHO}python3 - {base} > {product}.tmp <<'END'
import sqlite3, sys
base = sqlite3.connect(f"file:{{sys.argv[1]}}?mode=ro", uri=True)
print("records", base.execute("select count(*) from records").fetchone()[0])
END
echo "# by $by at $(date +%s)" >> {product}.tmp
mv {product}.tmp {product}
"""


class Job:
    """A job of each minute, of an app."""

    def __init__(self, pick: Pick, owner: str) -> None:
        self.owner, self.name = owner, f"{owner}-{pick.word()}"
        self.script = f"{house.HOME}/{owner}/bin/{self.name.partition('-')[2]}.sh"
        self.product = f"{house.HOME}/{owner}/public/dashboard.txt"
        self.log = f"{house.HOME}/{owner}/log/cron.log"
        self.table = f"/etc/cron.d/{self.name}"
        self.line = f"* * * * * root {self.script} >> {self.log} 2>&1"
        self.text = f"SHELL=/bin/sh\nPATH=/opt/bin:/usr/bin:/bin\n\n{self.line}\n"

    def files(self) -> dict[str, File]:
        text = _script(self.product, house.base_of(self.owner))
        old = "2026-08-02 cannot reach the mail server: Connection timed out\n"
        return {
            self.script: File(text, mode=0o755, age=tiers.MONTH),
            self.log: File(old, age=tiers.MONTH),
        }


def dos_lines(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    job, rows = Job(pick, main), house.Rows(pick)
    tidy = f"/etc/cron.d/{other}-logs"
    world = tiers.joined(
        [crontab.cron({job.name: job.text,
                       f"{other}-logs": "5 4 * * 7 root /usr/bin/find /tmp -mtime +9 -delete\n"}),
         house.app(main, port, rows), house.app(other, other_port)],
        files={**job.files(), **house.weeks_ago(main, pick)},
        folders={job.product.rpartition("/")[0]: 0o755},
        setup=[crontab.made(job.product)],
        hostname=pick.host(),
    )  # fmt: skip
    return Scene(
        world=world,
        check=crontab.fresh(job.name, job.product),
        healthy=lambda probe: said(
            crontab.stale(probe, job.product, time.time()), house.saves(probe, port)
        ),
        truth=Truth(
            (job.name, "cron", main), ("job-missed", "bad-config", "bad-deploy"),
            rf"{job.script}", r"not found|bad interpreter|CRLF|\^M|\\r|No such file",
        ),
        inject=lines(
            f"sed -i 's/$/\\r/' {job.script}",
            f"for n in 1 2 3; do /bin/sh -c {job.script} >> {job.log} 2>&1; done",
            crontab.age(job.product),
        ),
        fix=(f"sed -i 's/\\r$//' {job.script}",),
        wrong={
            "cron is restarted": ["supervisorctl restart cron"],
            "the product is touched": [f"touch {job.product}"],
            "it may be run by all": [f"chmod 755 {job.script}; touch {job.table}"],
            "run by hand": [f"tr -d '\\r' < {job.script} | sh"],
        },
        stays=(tidy, "/etc/crontab", house.env_of(main)),
        harm=lambda probe: said(rows.lost(probe, port), house.saves(probe, other_port)),
    )  # fmt: skip


def shared_table(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    job, rows = Job(pick, main), house.Rows(pick)
    beside = f"/etc/cron.d/{other}-mail"
    world = tiers.joined(
        [crontab.cron({job.name: job.text,
                       f"{other}-mail": f"*/20 * * * * root test -d {house.HOME}/{other}\n"}),
         house.app(main, port, rows), house.app(other, other_port)],
        files={
            **job.files(), **house.weeks_ago(main, pick), **house.weeks_ago(other, pick),
            f"{house.HOME}/{main}/config/crontab": File(job.text, mode=0o664, age=tiers.MONTH),
        },
        folders={job.product.rpartition("/")[0]: 0o755},
        setup=[crontab.made(job.product)],
        hostname=pick.host(),
    )  # fmt: skip
    deploys = f"{house.HOME}/{main}/log/deploy.log"
    return Scene(
        world=world,
        check=crontab.fresh(job.name, job.product),
        healthy=lambda probe: said(
            crontab.stale(probe, job.product, time.time()), house.saves(probe, port)
        ),
        truth=Truth(
            (job.name, "cron", main), ("job-missed", "permission-change", "bad-config"),
            rf"{job.table}", r"-rw-rw-r--|INSECURE MODE|\b0?664\b|group.writable",
        ),
        inject=lines(
            f"cp --preserve=mode {house.HOME}/{main}/config/crontab {job.table}.new && "
            f"mv {job.table}.new {job.table}; touch -d '26 minutes ago' {job.table}",
            f"echo \"$(date -d '26 minutes ago' '+%F %T') deployed {pick.token(7)}: code, assets, "
            f'{job.table}" >> {deploys}',
            crontab.age(job.product),
        ),
        fix=(f"chmod 644 {job.table}",),
        wrong={
            "cron is restarted": ["supervisorctl restart cron"],
            "the product is touched": [f"touch {job.product}"],
            "the script may be run": [f"chmod 755 {job.script}; touch {job.table}"],
            "run by hand": [f"sh {job.script}"],
        },
        stays=(beside, "/etc/crontab", house.env_of(main), job.script),
        harm=lambda probe: said(rows.lost(probe, port), house.saves(probe, other_port)),
    )  # fmt: skip
