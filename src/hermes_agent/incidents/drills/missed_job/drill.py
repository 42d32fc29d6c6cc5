"""A job of each minute is missed: cron is gone, its line lacks the user, the script may not be run,
or the lock of a run that was killed lies there."""

import time

from msgspec import Struct

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import crontab, parts, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Truth, World


class Plan(Struct, frozen=True):
    variant: str
    host: str
    service: str
    port: int
    job: str
    pid: int
    """Of a run that is no more."""
    salt: int

    @property
    def script(self) -> str:
        return f"/srv/{self.job}/run"

    @property
    def product(self) -> str:
        return f"/var/lib/{self.service}/{self.job}.csv"

    @property
    def log(self) -> str:
        return f"/var/log/{self.job}.log"

    @property
    def lock(self) -> str:
        return f"/run/{self.job}.lock"

    @property
    def table(self) -> str:
        return f"/etc/cron.d/{self.job}"

    @property
    def line(self) -> str:
        return f"* * * * * root {self.script} >>{self.log} 2>&1"


def plan(pick: Pick, variant: str) -> Plan:
    service = pick.service()
    return Plan(
        variant, pick.host(), service, pick.port(), f"{service}-{pick.word()}",
        pick.size(20000, 32000), pick.size(1, 10**6),
    )  # fmt: skip


def _script(plan: Plan) -> str:
    return f"""#!/bin/sh
# Lists what {plan.service} keeps. One at a time: a run that is at work holds {plan.lock}.
if [ -e {plan.lock} ]; then
    echo "$(date '+%F %T') an earlier run ($(cat {plan.lock})) is still at work, leaving"
    exit 1
fi
echo "pid $$" > {plan.lock}
{crontab.WHO}ls -l /var/lib/{plan.service}/items > {plan.product}.new
echo "# by $by at $(date +%s)" >> {plan.product}.new
mv {plan.product}.new {plan.product}
rm {plan.lock}
"""


def world(plan: Plan) -> World:
    daemon = crontab.cron({
        plan.job: f"# product: {plan.product}\n{plan.line}\n",
        "tidy": "40 3 * * 0 root /bin/true\n",
    })  # fmt: skip
    keeper = parts.keeper(plan.service, plan.port)
    return tiers.joined(
        [daemon, tiers.Part(keeper.programs[0], keeper.files, keeper.folders)],
        files={
            **parts.items(f"/var/lib/{plan.service}", plan.salt),
            plan.script: File(_script(plan), mode=0o755, age=tiers.MONTH),
            plan.log: File(parts.old_log(plan.salt, 12), age=3e5),
        },
        hostname=plan.host,
        setup=[crontab.made(plan.product)],
    )


def inject(box: Box, plan: Plan) -> None:
    match plan.variant:
        case "daemon":
            box.run(f"kill -9 $(supervisorctl pid {crontab.NAME})")
        case "no-user":
            box.run(f"cp -p {plan.table} /root/{plan.job}.before")
            box.run(f"sed -i 's/ root / /' {plan.table}")
        case "not-executable":
            box.run(f"chmod 644 {plan.script}")
        case _:
            box.run(f"echo 'pid {plan.pid}' > {plan.lock}; touch -d '27 minutes ago' {plan.lock}")
    if plan.variant in ("not-executable", "own-lock"):  # as in the minutes before
        box.run(f"for n in 1 2 3; do {plan.script} >>{plan.log} 2>&1; done", check=False)
    box.run(crontab.age(plan.product))


def check(plan: Plan) -> WatchedCheck:
    return crontab.fresh(plan.job, plan.product)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    said = [crontab.stale(probe, plan.product, time.time()), probe.keeps(plan.port)]
    return [sentence for sentence in said if sentence]


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    return parts.digest(
        probe, plan.script, "/etc/cron.d/tidy", "/etc/crontab",
        *parts.items(f"/var/lib/{plan.service}", plan.salt),
    )  # fmt: skip


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    return parts.changed(probe, before)


def truth(plan: Plan) -> Truth:
    category, locus, evidence = {
        "daemon": ("service-crash", "cron|crond", r"cron\s+(EXITED|STOPPED|FATAL)"),
        "no-user": ("bad-config", plan.table, rf"\* \* \* \* \* {plan.script}"),
        "not-executable": ("permission-change", plan.script, r"Permission denied|-rw-r--r--"),
        "own-lock": ("stale-lock", plan.lock, "still at work"),
    }[plan.variant]
    return Truth((plan.job, crontab.NAME, plan.service), ("job-missed", category), locus, evidence)


def reference(plan: Plan) -> list[str]:
    return {
        "daemon": [f"supervisorctl start {crontab.NAME}"],
        "no-user": [f"cp -p /root/{plan.job}.before {plan.table}; touch {plan.table}"],
        "not-executable": [f"chmod 755 {plan.script}"],
        "own-lock": [f"rm {plan.lock}"],
    }[plan.variant]


def wrong(plan: Plan) -> dict[str, list[str]]:
    return {
        "cron is restarted": [
            f"supervisorctl restart {plan.service}"
            if plan.variant == "daemon"
            else f"supervisorctl restart {crontab.NAME}"
        ],
        "the product is touched": [f"touch {plan.product}"],
        "run by hand": [f"rm -f {plan.lock}.gone; sh {plan.script}"],
    }
