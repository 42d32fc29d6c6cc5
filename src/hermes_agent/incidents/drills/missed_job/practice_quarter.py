"""A table of cron that lost its last newline."""

import time

from hermes_agent.incidents.drills import crontab, tiers
from hermes_agent.incidents.drills import workshop as house
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth


def _script(base: str, product: str) -> str:
    return f"""#!/bin/bash
# Counts the records for the report of the morning.
set -e
{crontab.WHO}python3 -c '
import sqlite3, sys
base = sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True)
print("records:", base.execute("select count(*) from records").fetchone()[0])
' {base} > {product}.part
echo "# by $by at $(date +%s)" >> {product}.part
mv {product}.part {product}
"""


def last_line(pick: Pick) -> Scene:
    """Somebody added a line on top with an editor that ends no last line."""
    (main, other), (port, other_port), word = pick.services(2), pick.ports(2), pick.word()
    job, kept, base = f"{main}-{word}", house.rows(pick), house.base_of(main)
    script = f"{house.APPS}/{main}/bin/{word}"
    product, log = f"{house.HOME}/reports/{job}.txt", f"{house.HOME}/logs/{job}.log"
    table = f"/etc/cron.d/{job}"
    text = (
        f"# {job}\nSHELL=/bin/bash\nPATH=/opt/bin:/usr/bin:/bin\n\n"
        f"* * * * * root {script} >> {log} 2>&1\n"
    )
    tidy = f"30 5 * * 1 root find {house.HOME}/old -mtime +14 -delete\n"
    world = tiers.joined(
        [
            crontab.cron({job: text, f"{other}-tidy": tidy}),
            house.app(main, port, rows=kept),
            house.app(other, other_port),
        ],
        files={
            **house.history(main, pick),
            script: File(_script(base, product), mode=0o755, age=tiers.MONTH),
            log: File("2026-09-30 06:01:11 sqlite3.OperationalError: database is locked\n"),
        },
        folders={f"{house.HOME}/reports": 0o755, f"{house.HOME}/old": 0o755},
        setup=[crontab.made(product)],
        hostname=pick.host(),
    )
    mail = pick.choice(("ops@example.net", "cron@example.org", "root"))
    return Scene(
        world=world,
        check=crontab.fresh(job, product),
        healthy=lambda probe: said(
            crontab.stale(probe, product, time.time()), house.keeps(probe, port)
        ),
        truth=Truth(
            (job, crontab.NAME, main, word), ("job-missed", "bad-config"), table,
            r"(?i)no newline|missing newline|newline at (the )?end|\"nl\"|>&1\$?\[?(root|#|%)",
        ),
        inject=lines(
            f"printf 'MAILTO={mail}\\n%s' \"$(cat {table})\" > {table}.new; mv {table}.new {table}",
            f"touch -d '27 minutes ago' {table}",
            crontab.age(product),
        ),
        fix=(f"echo >> {table}",),
        wrong={
            "cron is restarted": [f"supervisorctl restart {crontab.NAME}"],
            "the product is touched": [f"touch {product}"],
            "the script may be run": [f"chmod 755 {script}; touch {table}"],
            "run by hand": [f"bash {script}"],
        },
        stays=(script, f"/etc/cron.d/{other}-tidy", "/etc/crontab", house.env_of(main)),
        harm=lambda probe: said(
            house.lost(probe, base, kept) if probe.read(base) else f"{base} is gone",
            house.keeps(probe, other_port),
        ),
    )  # fmt: skip
