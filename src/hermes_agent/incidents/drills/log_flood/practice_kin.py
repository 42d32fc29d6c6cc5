"""Logs that grow without measure: an app of the harbour that tells every step, and a script that
waits for a page which will not come."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import harbour, tiers, vhosts
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.log_flood import practice_quarter, practice_town
from hermes_agent.incidents.drills.log_flood.practice_quarter import _tight
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Truth

PLANNING = '''
LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR")
NEEDS = {f"dock-{number}": ["draught", "crane", "shift"] for number in range(6)}


class Planning(App):
    """Also plans berths. logging.level.root: TRACE, DEBUG, INFO, WARN or ERROR."""

    def __init__(self, own: dict[str, str]) -> None:
        super().__init__(own)
        threading.Thread(target=self.plan, name="planner-1", daemon=True).start()

    def log(self, level: str, logger: str, text: str) -> None:
        least = self.own.get("logging.level.root", "INFO").upper()
        if LEVELS.index(level) >= LEVELS.index(least):
            try:
                super().log(level, logger, text)
            except OSError:
                time.sleep(0.05)

    def plan(self) -> None:
        while True:
            for berth in range(30):
                told = f"berth {berth}: candidates=[], constraints={NEEDS}"
                self.log("DEBUG", "c.h.routing.BerthPlanner", told)
            time.sleep(0.03)


if __name__ == "__main__":
    main(sys.argv[1], Planning)
'''
WAITING = """#!/bin/bash
# tells me when the new start page is online
page="http://127.0.0.1:{port}/pages/{page}?from=wait-for-page&nocache={token}"
until curl -fs -m 5 -A 'Mozilla/5.0 (X11; Linux x86_64) wait-for-page' -o /dev/null "$page"; do
    sleep 0.005
done
echo "online since $(date)" >> {home}/online.txt
"""


def _takes(service: str, port: int) -> WatchedCheck:
    """The check of the desk: a new parcel is stored."""
    url = f"http://127.0.0.1:{port}{harbour.PARCELS}/desk-$(date +%s%N)"
    check = Check(f"curl -sS -m 4 -X PUT -d desk {url}", Expect(output="^stored"), timeout=8.0)
    return WatchedCheck(f"{service} stores parcels", check, service, severity="P1")


def every_step(pick: Pick) -> Scene:
    """As `louder`: somebody wanted to see more for a moment, and nothing was kept of how it was;
    here it is the level of a Spring-like app, in its properties."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    root, place = f"/quay/{main}", harbour.settings_of(main)
    log, scans = f"{root}/{pick.choice(('spring', 'app', main))}.log", f"{root}/customs-2025.zip"
    level, code = {"logging.level.root": "INFO"}, f"/data/{main}/app/parcels.py"
    own = {"parcels.dir": f"{root}/parcels", "logging.file.name": log, **level}
    kept = {f"{root}/parcels/p-{pick.token(8)}": File(f"{pick.token(30)}\n", age=9e6)
            for _ in range(30)}  # fmt: skip
    text, past = harbour.program(PLANNING), harbour.weeks_ago(main, pick)
    world = tiers.joined(
        [harbour.app(main, port, own, text=text, about=f"settings {place}, log {log}"),
         harbour.app(other, other_port, level)],
        files={**kept, log: past[harbour.log_of(main)], **harbour.weeks_ago(other, pick),
               scans: File(size=900_000, age=9e6)},
        mounts=(Mount(root, mb=pick.size(5, 9)),),
        hostname=pick.host(),
    )  # fmt: skip
    anew, loud = f"supervisorctl restart {main}", pick.choice(("DEBUG", "TRACE"))

    def inject(box: Box) -> None:
        box.run(f"sed -i 's/^logging.level.root=.*/logging.level.root={loud}/' {place}; {anew}")
        practice_town._since_hours(box, log)

    return Scene(
        world=world,
        check=_takes(main, port),
        healthy=lambda probe: said(
            harbour.stores(probe, port), _tight(probe, root), practice_town._grows(probe, root)
        ),
        truth=Truth(
            (main,), ("log-flood",), rf"{log}|{place}|logging\.level|BerthPlanner",
            rf"100% +{root}|logging\.level\.root={loud}|DEBUG \d+ ---|{log}",
        ),
        inject=inject,
        fix=(f"sed -i 's/^logging.level.root=.*/logging.level.root=INFO/' {place}",
             f"{anew}; sleep 0.5", f"truncate -s 0 {log}"),
        wrong={
            "the log is only emptied": [f"truncate -s 0 {log}; sleep 0.5"],
            "it is emptied and restarted": [f"truncate -s 0 {log}; {anew}; sleep 0.5"],
            "the biggest that is no log goes": [f"rm {scans}"],
            "it is quiet and full": [f"sed -i 's/root={loud}/root=WARN/' {place}",
                                     f"{anew}; sleep 0.5"],
        },
        stays=(*kept, scans, harbour.settings_of(other)),
        runs=(code,),
        harm=lambda probe: said(harbour.stores(probe, other_port)),
    )  # fmt: skip


def page_to_come(pick: Pick) -> Scene:
    """As `storm`: somebody's script asks for what is not there without a pause, and each time is
    noted; here by nginx, in the access log of a customer's site, and it is a loop of curl."""
    (main, other), (port, inner, other_port) = pick.services(2), pick.ports(3)
    home = f"/home/{pick.choice(('agency', 'ines', 'webmaster'))}"
    script = f"{home}/{pick.choice(('bin', 'tools'))}/{pick.choice(('await', 'wait-for'))}-page.sh"
    root, log = f"{vhosts.TOP}/{main}", f"{vhosts.TOP}/{main}/logs/access_log"
    site = (f"server {{\n    listen 127.0.0.1:{port};\n    access_log {log};\n\n    location / {{\n"
            f"        proxy_pass http://127.0.0.1:{inner};\n    }}\n}}\n")  # fmt: skip
    kept, film = vhosts.pages(main, pick, 20), f"{vhosts.var_of(main)}/choir.webm"
    page, token = f"start-{pick.size(2027, 2031)}", pick.token(300)
    text = WAITING.format(port=port, page=page, token=token, home=home)
    world = tiers.joined(
        [vhosts.site(main, inner), vhosts.site(other, other_port),
         tiers.nginx({main: site}, [main], port)],
        files={**kept, **vhosts.months_ago(main, pick), **vhosts.months_ago(other, pick),
               film: File(size=800_000, age=9e6), script: File(text, mode=0o755, age=9e4)},
        mounts=(Mount(root, mb=pick.size(5, 8)),),
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.spawn(f"exec bash {script}")
        practice_quarter._since_days(box, log)

    def healthy(probe: Probe) -> list[str]:
        asks = any(script in one.command for one in probe.processes())
        return said(
            vhosts.writes(probe, port), _tight(probe, root), practice_quarter._grows(probe, log),
            f"{script} still asks" if asks else "",
        )  # fmt: skip

    name, anew = script.rpartition("/")[2], "supervisorctl restart nginx; sleep 0.5"
    return Scene(
        world=world,
        check=vhosts.sound(main, port),
        healthy=healthy,
        truth=Truth(
            (main, "nginx", script, name, name.removesuffix(".sh")),
            ("log-flood", "runaway-process"), rf"{log}|{name}|{page}",
            rf"100% +{root}|{name}|{page}|access_log",
        ),
        inject=inject,
        fix=(f"kill $(pgrep -f '[/]{name}')", f"sleep 0.3; truncate -s 0 {log}"),
        wrong={
            "the log is only emptied": [f"truncate -s 0 {log}; sleep 1"],
            "it is emptied and nginx restarted": [f"truncate -s 0 {log}; {anew}; sleep 1"],
            "nothing is noted any more": [
                f"sed -i 's#access_log .*#access_log off;#' {tiers.site_file(main)}",
                f"{anew}; truncate -s 0 {log}",
            ],
            "the film goes": [f"rm {film}"],
        },
        stays=(*kept, film, vhosts.conf_of(main), vhosts.conf_of(other)),
        harm=lambda probe: said(vhosts.writes(probe, other_port)),
    )  # fmt: skip
