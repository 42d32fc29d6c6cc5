"""cron in a box, and a job of each minute whose product tells who ran it, and when."""

import re
from shlex import quote

from hermes_agent.core.errors import HermesError
from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills.needs import find
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.tiers import MONTH, Part
from hermes_agent.incidents.drills.world import File, Program

NAME = "cron"
FRESH_SECONDS = 70
"""The longest that the product of each minute may be old."""
PAM = (
    "auth required pam_permit.so\naccount required pam_permit.so\nsession required pam_permit.so\n"
)
SYSTEM = """\
SHELL=/bin/sh
PATH=/opt/bin:/usr/local/bin:/usr/bin:/bin

17 4 * * * root find /tmp -name 'sess-*' -mtime +2 -delete
"""
WHO = """\
by=hand
up=$PPID
while [ "$up" -gt 1 ]; do
    [ "$(cat /proc/$up/comm)" = cron ] && by=cron
    up=$(ps -o ppid= -p "$up" | tr -d ' ')
done
"""
"""Part of a script: by whom it was started."""


def cron(tables: dict[str, str]) -> Part:
    """The daemon, with a table for each file of /etc/cron.d."""
    daemon = find("cron")
    if daemon is None:
        raise HermesError("cron is not here", "apt-get install cron")
    return Part(
        Program(
            name=NAME,
            command=f"{daemon} -f",
            user="root",
            autorestart=False,
            ready="file:/run/crond.pid",
            about="runs jobs at their times: /etc/crontab, /etc/cron.d",
        ),
        {
            "/etc/pam.d/cron": File(PAM, age=MONTH),
            "/etc/crontab": File(SYSTEM, age=MONTH),
            **{f"/etc/cron.d/{name}": File(text, age=MONTH) for name, text in tables.items()},
        },
        {"/var/spool/cron/crontabs": 0o730, "/etc/cron.d": 0o755},
    )


def fresh(service: str, product: str) -> WatchedCheck:
    """The check of whoever reads the product."""
    run = (
        f"age=$(( $(date +%s) - $(stat -c %Y {quote(product)}) )); "
        f"echo {quote(product)} is $age s old; test $age -lt {FRESH_SECONDS + 20}"
    )
    check = Check(run, Expect(output="s old"), timeout=5.0)
    return WatchedCheck(f"{service} is fresh", check, service, severity="P2")


def stale(probe: Probe, product: str, now: float) -> str:
    """Why the product is not one that cron has just made; empty when it is."""
    facts = probe.stat(product)
    if facts is None:
        return f"{product} is not there"
    if now - facts.mtime > FRESH_SECONDS:
        return f"{product} is {now - facts.mtime:.0f} s old"
    if not any("/cron -f" in process.command for process in probe.processes()):
        return "cron does not run"
    made = re.search(r"by (\w+) at (\d+)$", probe.text(product).strip())
    if made is None or made[1] != NAME:
        return f"{product} was not made by cron"
    return "" if now - int(made[2]) < FRESH_SECONDS else f"what is in {product} is old"


def made(product: str) -> str:
    """A command for when the box is made: the product of the last minute."""
    return f'echo "# nothing yet, by {NAME} at $(date +%s)" > {product}'


def age(product: str) -> str:
    """A command that makes it look as if the job was missed for long."""
    return (
        "sleep 0.3; then=$(date -d '26 minutes ago' +%s); "
        f'sed -i "s/ at [0-9]*$/ at $then/" {product}; touch -d @$then {product}'
    )
