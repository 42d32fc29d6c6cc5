"""Entries that do not come up: a version that was tidied away below its link, and a format whose
signs mean something else to the supervisor."""

import re

from msgspec.structs import replace

from hermes_agent.incidents.drills import cabinets, kiosk, parts, tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

GIVEN_UP = "until supervisorctl status {} | grep -q FATAL || ((SECONDS > 25)); do sleep 0.2; done"

TIDY = """#!/bin/sh
# Old versions take room: the last two of each program stay.
for folder in {top}/*/versions; do
    cd "$folder" || continue
    for old in $(ls | sort | head -n -2); do
        rm -r "$old"
        echo "$(date '+%F %T') $folder/$old removed" >> {log}
    done
done
"""

FORMATTED = '''

class Formatted(App):
    """With --access-logformat each visit is logged so."""

    form = sys.argv[3] if sys.argv[2:3] == ["--access-logformat"] else ""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        status, text = super().answer(method, path, body)
        if self.form:
            now = time.strftime("%d/%b/%Y:%H:%M:%S")
            words = {"h": "127.0.0.1", "r": f"{method} {path}", "s": status, "b": len(text)}
            self.log("INFO", self.form % {**words, "t": f"[{now}]"})
        return status, text


if __name__ == "__main__":
    main(Formatted)
'''


def pruned_release(pick: Pick) -> Scene:
    """As `dangling-release`: a link of the path that is started leads to a version that is not
    there; here of a program of Node.js that cannot find itself, since a script tidied it away."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    top, major = pick.choice(("/opt/apps", "/home/www", "/app")), pick.size(2, 6)
    home, log = f"{top}/{main}", "/var/log/tidy.log"
    versions = [f"{major}.{minor}.{pick.size(0, 7)}" for minor in (8, 9, 10)]
    link = f"{home}/{pick.choice(('stable', 'now', 'run'))}"
    script = f"/etc/cron.weekly/{pick.choice(('tidy-versions', 'old-versions', 'keep-two'))}"
    kept = kiosk.vouchers(main, pick)
    command = f"node {link}/server.js {kiosk.settings_of(main)}"
    world = tiers.joined(
        [
            kiosk.kiosk(main, port, command=command, start_seconds=3),
            kiosk.kiosk(other, other_port),
        ],
        files={
            **kept, **kiosk.once(main, pick), **kiosk.once(other, pick),
            **{f"{home}/versions/{one}/server.js": File(kiosk.PROGRAM, age=tiers.MONTH)
               for one in versions},
            link: File(link=f"versions/{versions[2]}"),
            script: File(TIDY.format(top=top, log=log), mode=0o755, age=9e6),
            log: File(f"2026-09-06 06:47:02 {home}/versions/{major}.7.1 removed\n"),
        },
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        up = parts.supervised(probe, main, top)
        return said(kiosk.keeps(probe, port), "" if up else f"{main} is not kept by the supervisor")

    start = f"supervisorctl start {main}; sleep 1"
    gone = f"{home}/versions/{versions[2]}"
    return Scene(
        world=world,
        check=kiosk.status(main, f"http://127.0.0.1:{port}"),
        healthy=healthy,
        truth=Truth(
            (main,), ("bad-deploy", "bad-config", "service-crash"),
            rf"{link}|{re.escape(gone)}|{script}|{home}/versions",
            rf"Cannot find module|MODULE_NOT_FOUND|No such file|{re.escape(gone)} removed|"
            rf"-> \S*versions/{re.escape(versions[2])}|broken symbolic link",
        ),
        inject=lines(script, f"supervisorctl restart {main}", GIVEN_UP.format(main)),
        fix=(f"ln -sfn versions/{versions[1]} {link}", start),
        wrong={
            "it is only started again": [start],
            "an empty folder is made": [f"mkdir -p {gone}", start],
            "it is started by hand": [
                (f"setsid as-app node {home}/versions/{versions[1]}/server.js "
                f"{kiosk.settings_of(main)} </dev/null &>/dev/null & sleep 1")
            ],
        },
        stays=(*kept, kiosk.settings_of(main), kiosk.settings_of(other)),
        runs=(kiosk.settings_of(other),),
        harm=lambda probe: said(kiosk.keeps(probe, other_port)),
    )  # fmt: skip


def _formed(probe: Probe, name: str, entry: str, form: str) -> str:
    """Whether its process has the format, where its entry has one."""
    ours = [one.command for one in probe.processes() if f"/{name}/app.py" in one.command]
    formed = all(form in one for one in ours if "logformat" in one)
    due = "logformat" not in probe.text(entry) or any("logformat" in one for one in ours)
    return "" if formed and due else "visits are logged in another form"


def log_format(pick: Pick) -> Scene:
    """As `percent-sign`: an entry was written anew with percent signs that the supervisor takes for
    its own, and the program is known to it no more; here the format of a log, in the command."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    rows, entry = cabinets.Rows(pick), f"/etc/supervisor/conf.d/{main}.conf"
    form = pick.choice(('%(h)s %(t)s "%(r)s" %(s)s', '%(t)s %(s)s %(b)s "%(r)s"', "%(h)s %(r)s"))
    notes, code = f"{cabinets.HOME}/CHANGES.txt", cabinets.program(FORMATTED)
    part = cabinets.app(main, port, rows, code=code, start_seconds=1)
    beside = cabinets.app(other, other_port, code=code)
    path = f"{cabinets.HOME}/{other}/app.py {cabinets.env_of(other)}"
    plain = replace(beside.program, command=f"python3 {path} --access-logformat '{form}'")
    world = tiers.joined(
        [part, replace(beside, program=plain)],
        files={
            **cabinets.weeks_ago(main, pick), **cabinets.weeks_ago(other, pick),
            notes: File(f"2026-07-02 {other}: visits are logged\n"),
        },
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        up = parts.supervised(probe, main, cabinets.HOME)
        return said(
            cabinets.saves(probe, port), rows.lost(probe, port), _formed(probe, main, entry, form),
            "" if up else f"{main} is not kept by the supervisor",
        )  # fmt: skip

    took = "supervisorctl reread; supervisorctl update"
    doubled = f"sed -i '/^command=/s/%(/%%(/g' {entry}"
    more = form.replace('"', '\\"')
    return Scene(
        world=world,
        check=cabinets.is_up(main, port),
        healthy=healthy,
        truth=Truth(
            (main, "supervisor", "supervisord"), ("bad-config", "service-crash"),
            rf"{entry}|access-logformat|command",
            r"CANT_REREAD|Format string|badly formatted|cannot be expanded|access-logformat|"
            r"no such process",
        ),
        inject=lines(
            f"supervisorctl stop {main}; supervisorctl remove {main}",
            f"sed -i \"/^command=/s#\\$# --access-logformat '{more}'#\" {entry}",
            f"echo \"$(date +%F) {main}: visits are logged, as those of {other}\" >> {notes}",
            took,
        ),
        fix=(doubled, "supervisorctl reread", "supervisorctl update"),
        wrong={
            "it is only started again": [f"supervisorctl start {main}"],
            "it runs as before": [f"supervisorctl add {main}; sleep 1.5"],
            "the signs go": [f"sed -i '/^command=/s/%(/(/g' {entry}", took, "sleep 1.5"],
            "it is started by hand": [
                (f"cd {cabinets.HOME}/{main}; setsid as-app python3 {cabinets.HOME}/{main}/app.py "
                ".env </dev/null &>/dev/null & sleep 1")
            ],
        },
        stays=(cabinets.env_of(main), cabinets.env_of(other)),
        runs=(f"{cabinets.HOME}/{other}/app.py",),
        harm=lambda probe: said(cabinets.saves(probe, other_port)),
    )  # fmt: skip
