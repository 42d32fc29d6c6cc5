"""Jobs that are missed for other reasons, in other houses: the line was put out of use, the folder
in which it works is gone, and a run that was halted holds its lock."""

import re
import time

from hermes_agent.incidents.drills import crontab, parts, tiers, troves
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.tiers import Part
from hermes_agent.incidents.drills.world import File, Truth, World


class _House:
    """A job of each minute that lists what a service keeps."""

    def __init__(self, pick: Pick, *, table: str) -> None:
        name = pick.service()
        self.home = troves.house(pick, name, pick.port())
        self.job = f"{name}-{pick.word()}"
        self.script = pick.choice((f"/opt/{name}/jobs/{self.job}.sh", f"/srv/jobs/{self.job}",
                                   f"/home/app/bin/{self.job}.sh"))  # fmt: skip
        self.product = pick.choice((f"/data/out/{self.job}.txt", f"/var/www/{self.job}.csv"))
        self.log = pick.choice(
            (f"/var/log/jobs/{self.job}.log", f"/opt/{name}/jobs/{self.job}.log")
        )
        self.work = f"/var/spool/{self.job}"
        self.table = table.format(self.job)
        self.kept = troves.entries(self.home, pick)
        self.host = pick.host()

    @property
    def text(self) -> str:
        return f"""#!/bin/sh
# {self.job}: writes {self.product}
set -e
cd {self.work}
{crontab.WHO}ls -l {self.home.store} > list
echo "# by $by at $(date +%s)" >> list
mv list {self.product}
"""

    def world(self, line: str) -> World:
        daemon = crontab.cron({self.table.rpartition("/")[2]: line})
        service = troves.trove(self.home)
        places = (self.product, self.log, f"{self.work}/list")
        folders = {path.rpartition("/")[0]: 0o755 for path in places}
        return tiers.joined(
            [
                daemon,
                Part(service.program, service.files, {**service.folders, **folders}),
            ],
            files={
                **self.kept,
                self.script: File(self.text, mode=0o755, age=tiers.MONTH),
                self.log: File(parts.old_log(len(self.job), 6), age=3e5),
            },
            hostname=self.host,
            setup=[crontab.made(self.product)],
        )  # fmt: skip

    def scene(
        self, world: World, truth: Truth, broken: tuple[str, ...], fix: tuple[str, ...]
    ) -> Scene:
        def inject(box: Box) -> None:
            for command in (*broken, crontab.age(self.product)):
                box.run(command)

        return Scene(
            world=world,
            check=crontab.fresh(self.job, self.product),
            healthy=lambda probe: said(
                crontab.stale(probe, self.product, time.time()),
                *troves.keeps(probe, self.home.port),
            ),
            truth=truth,
            inject=inject,
            fix=fix,
            wrong={
                "the product is touched": [f"touch {self.product}"],
                "run by hand": [f"sh {self.script} || true"],
            },
            stays=(self.script, "/etc/crontab", *self.kept),
        )


def put_out(pick: Pick) -> Scene:
    """The line was put out of use for some work, and forgotten."""
    house = _House(pick, table=f"/etc/cron.d/{pick.choice(('jobs', 'app', 'minutely'))}")
    line = f"* * * * * root {house.script} >>{house.log} 2>&1"
    mark = pick.choice(("#", "# ", "#off# ", "## paused for the move: "))
    table = house.table
    return house.scene(
        house.world(f"MAILTO=\"\"\n{line}\n17 5 * * 0 root /bin/true\n"),
        Truth((house.job, crontab.NAME), ("job-missed", "bad-config"), re.escape(table),
              rf"{mark}\* \* \* \* \*"),
        (f"sed -i 's|^\\* \\* \\* \\* \\* |{mark}&|' {table}; touch {table}",),
        (f"sed -i 's|^#.*\\(\\* \\* \\* \\* \\* \\)|\\1|' {table}; touch {table}",),
    )  # fmt: skip


def no_folder(pick: Pick) -> Scene:
    """The folder in which it works was tidied away."""
    house = _House(pick, table="/etc/cron.d/{0}")
    line = f"* * * * * root {house.script} >>{house.log} 2>&1\n"
    return house.scene(
        house.world(line),
        Truth((house.job, crontab.NAME), ("job-missed",), rf"{house.work}|{house.script}",
              r"can't cd|No such file"),
        (f"rmdir {house.work}", f"{house.script} >>{house.log} 2>&1 || true"),
        (f"mkdir {house.work}",),
    )  # fmt: skip


def halted_run(pick: Pick) -> Scene:
    """A run was halted by somebody, holds its lock, and all later ones go away at once."""
    house = _House(pick, table="/etc/cron.d/{0}")
    lock = pick.choice((f"/run/lock/{house.job}", f"/run/{house.job}.lock"))
    line = f"* * * * * root flock -n {lock} {house.script} >>{house.log} 2>&1\n"
    halted = f"flock -n {lock} sh -c 'sleep 100000; exit'"
    return house.scene(
        house.world(line),
        Truth((house.job, crontab.NAME), ("job-missed", "stale-lock"), rf"{lock}|flock|sleep|\d+",
              r"flock|\bT\b"),
        (f"mkdir -p /run/lock; setsid {halted} </dev/null >/dev/null 2>&1 & sleep 0.3",
         "kill -STOP $(pgrep -x sleep)"),
        ("kill -9 $(pgrep -x sleep)",),
    )  # fmt: skip
