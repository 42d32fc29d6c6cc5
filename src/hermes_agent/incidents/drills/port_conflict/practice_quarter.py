"""A watchdog of former days starts what is no longer used, on a port of another."""

from hermes_agent.incidents.drills import crontab, tiers
from hermes_agent.incidents.drills import workshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth

WATCHDOG = """#!/bin/bash
# Starts {name} when it does not answer.
curl -fs -m 2 -o /dev/null http://127.0.0.1:{port}/health && exit 0
echo "$(date '+%F %T') {name} does not answer, starting it" >> {log}
cd {old} && setsid nohup ./start </dev/null >> {log} 2>&1 &
"""

GIVEN_UP = "until supervisorctl status {} | grep -q FATAL || ((SECONDS > 25)); do sleep 0.2; done"


class _Former:
    """How a service ran before the supervisor: a copy of it, its data, and a watchdog."""

    def __init__(self, pick: Pick, name: str, port: int) -> None:
        self.folder = f"{house.HOME}/{pick.choice(('old', 'legacy', 'v1'))}/{name}"
        self.script = f"{house.HOME}/bin/{pick.choice(('keep-alive', 'watchdog', 'ensure'))}.sh"
        self.table = f"/etc/cron.d/{pick.choice(('local', 'web', 'deploy'))}"
        self.log = self.script.replace("/bin/", "/logs/").replace(".sh", ".log")
        self.code, base = f"{self.folder}/main.py", f"{self.folder}/records.sqlite3"
        start = f"#!/bin/bash\nexport PORT={port} DATABASE={base}\nexec python3 {self.code}\n"
        line = f"SHELL=/bin/bash\n*/5 * * * * root /opt/bin/as-app {self.script}\n"
        self.cron = crontab.cron({self.table.rpartition("/")[2]: line})
        text = WATCHDOG.format(name=name, port=port, log=self.log, old=self.folder)
        self.files = {
            self.script: File(text, mode=0o755, age=9e6),
            self.code: File(tiers.program_text("records.py"), age=9e6),
            f"{self.folder}/start": File(start, mode=0o755, age=9e6),
            base: File(data=house.base(house.rows(pick, 3)), mode=0o640, age=9e6),
            self.log: File(f"2026-02-08 04:10:01 {name} does not answer, starting it\n", age=9e6),
        }


def watchdog(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    kept, former = house.rows(pick), _Former(pick, main, port)
    world = tiers.joined(
        [house.app(main, port, rows=kept, start_seconds=3), house.app(other, other_port),
         former.cron],
        files={**former.files, **house.history(main, pick), **house.history(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(house.noted(f"{main}: new settings, stopped"))
        box.run(f"supervisorctl stop {main}")
        box.wait(f"down:{port}")
        box.spawn(f"exec /opt/bin/as-app {former.script}")
        box.wait(f"tcp:{port}")
        box.run(house.noted(f"{main}: started"))
        box.run(f"supervisorctl start {main}", check=False)
        box.run(GIVEN_UP.format(main), check=False)

    def healthy(probe: Probe) -> list[str]:
        key, body = next(iter(kept.items()))
        found = probe.http(port, f"{house.RECORDS}/{key}").text.strip() == body
        strays = any(former.code in process.command for process in probe.processes())
        return said(
            house.keeps(probe, port) if found else f"{key} is not to be had",
            house.minded(probe, main), "the former one still runs" if strays else "",
        )  # fmt: skip

    stray = f"kill $(pgrep -f 'python3 {former.code}')"
    return Scene(
        world=world,
        check=house.reads(main, port, kept),
        healthy=healthy,
        truth=Truth(
            (main, crontab.NAME), ("port-conflict",),
            rf"{former.folder}|{former.script}|{former.table}",
            rf"in use|LISTEN.*:{port}\b|{former.folder}|{former.script}",
        ),
        inject=inject,
        fix=(f"mv {former.table} /root/", stray, "sleep 0.5", f"supervisorctl start {main}"),
        wrong={
            "it is only started again": [f"supervisorctl start {main}"],
            "it is moved to another port": [
                f"sed -i 's/^PORT=.*/PORT={port + 1}/' {house.env_of(main)}",
                f"supervisorctl restart {main}",
            ],
            "the old records are replaced": [
                f"cp {house.base_of(main)} {former.folder}/records.sqlite3", stray,
                f"{former.script} &>/dev/null; sleep 1",
            ],
        },
        stays=(house.env_of(main), house.code_of(main)),
        runs=(house.code_of(other), "cron -f"),
        harm=lambda probe: said(
            house.keeps(probe, other_port), house.lost(probe, house.base_of(main), kept)
        ),
    )  # fmt: skip
