"""Pid files of former processes whose numbers belong to others now."""

from msgspec.structs import replace

from hermes_agent.incidents.drills import cabinets, harbour, parts, tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth

GIVEN_UP = "until supervisorctl status {} | grep -q FATAL || ((SECONDS > 25)); do sleep 0.2; done"

BOOT = '''

def boot() -> None:
    """One server at a time: its number is in PIDFILE."""
    path = read_env(sys.argv[1])["PIDFILE"]
    print("=> Booting records in production", flush=True)
    if os.path.exists(path):
        with open(path) as file:
            pid = file.read().strip()
        if os.path.exists(f"/proc/{pid}"):
            print(f"A server is already running (pid: {pid}, file: {path}).", flush=True)
            print("Exiting", flush=True)
            raise SystemExit(1)
    with open(path, "w") as file:
        file.write(f"{os.getpid()}\\n")
    try:
        main()
    finally:
        os.unlink(path)


if __name__ == "__main__":
    boot()
'''

RUN = """#!/bin/sh
# Starts {name} in the foreground, if it does not run yet.
PIDFILE={pid}
if [ -s "$PIDFILE" ]; then
    echo "Existing PID file found during start."
    PID=$(cat "$PIDFILE")
    if ps -p "$PID" > /dev/null 2>&1; then
        echo "{name} appears to still be running with PID $PID. Start aborted."
        echo "The process in question:"
        ps -f -p "$PID"
        exit 1
    fi
    echo "Removing/clearing stale PID file."
    rm -f "$PIDFILE"
fi
echo $$ > "$PIDFILE"
exec python3 /data/{name}/app/parcels.py {settings}
"""

JOB = """#!/bin/bash
# All tariffs anew. Takes until morning, and begins from the start when it is ended.
echo $$ > {pid}
row=0
while :; do
    row=$((row + 1))
    echo "$row rows" > {progress}
    sleep 0.4
done
"""


def booted_before(pick: Pick) -> Scene:
    """As `relative`: a pid file, named as its service sees it, has the number of another process;
    here an app with an .env file that says so on its standard output, as Rails does."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    rows, more = cabinets.Rows(pick), cabinets.Rows(pick)
    own = "tmp/pids/server.pid"
    held, theirs = (f"{cabinets.HOME}/{name}/{own}" for name in (main, other))
    setting, code = {"PIDFILE": own}, cabinets.program(BOOT)
    world = tiers.joined(
        [
            cabinets.app(main, port, rows, setting, code=code, start_seconds=3),
            cabinets.app(other, other_port, more, setting, code=code),
        ],
        files={
            **cabinets.weeks_ago(main, pick), **cabinets.weeks_ago(other, pick),
        },
        folders={held.rpartition("/")[0]: 0o755, theirs.rpartition("/")[0]: 0o755},
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        up = parts.supervised(probe, main, cabinets.HOME)
        return said(
            cabinets.saves(probe, port), rows.lost(probe, port),
            "" if up else f"{main} is not kept by the supervisor",
        )  # fmt: skip

    start = f"supervisorctl start {main}; sleep 1"
    return Scene(
        world=world,
        check=cabinets.is_up(main, port),
        healthy=healthy,
        truth=Truth((main,), ("stale-lock",), r"server\.pid|tmp/pids",
                    r"server\.pid|already running"),
        inject=lines(
            f"supervisorctl stop {main}",
            f"cat {theirs} > {held}; touch -d '-{pick.size(2, 9)} hours' {held}",
            f"supervisorctl start {main}",
            GIVEN_UP.format(main),
        ),
        fix=(f"rm {held}", start),
        wrong={
            "it is only started again": [f"supervisorctl restart {main}; sleep 1"],
            "whom the file names is ended": [f"kill $(cat {held}); sleep 1", start],
            "all pid files go": [f"rm -f {cabinets.HOME}/*/tmp/pids/*.pid", start],
        },
        stays=(cabinets.env_of(main), cabinets.env_of(other), theirs),
        runs=(f"{cabinets.HOME}/{other}/app.py",),
        harm=lambda probe: said(cabinets.saves(probe, other_port), more.lost(probe, other_port)),
    )  # fmt: skip


def _tariffs(name: str, script: str, progress: str, pid: str) -> tiers.Part:
    about = "all tariffs anew, until morning; begins from the start when it is ended"
    return tiers.Part(
        Program(name=name, command=script, ready=f"file:{progress}", about=about),
        {script: File(JOB.format(pid=pid, progress=progress), mode=0o755, age=tiers.MONTH)},
        {"/data/jobs": 0o755, pid.rpartition("/")[0]: 0o755},
    )


def start_aborted(pick: Pick) -> Scene:
    """As `reused-pid`: the number in its pid file is that of a job at work by now; here a script
    that starts the app looks at it, as Tomcat's does, and the job is a script."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    job, kept = f"{pick.word()}-job", harbour.parcels(main, pick)
    run = f"/data/{main}/bin/{pick.choice(('run', 'startup', 'catalina'))}.sh"
    folder = pick.choice(("/data/run", "/run/apps", f"/data/{main}/run"))
    held, theirs = f"{folder}/{main}.pid", f"{folder}/{job}.pid"
    script, progress = f"/data/jobs/{job}.sh", f"/data/jobs/{job}.progress"
    app = harbour.app(main, port)
    text = RUN.format(name=main, pid=held, settings=harbour.settings_of(main))
    world = tiers.joined(
        [
            replace(app, program=replace(app.program, command=run, start_seconds=3)),
            harbour.app(other, other_port),
            _tariffs(job, script, progress, theirs),
        ],
        files={
            **kept, **harbour.weeks_ago(main, pick), **harbour.weeks_ago(other, pick),
            run: File(text, mode=0o755, age=tiers.MONTH),
        },
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        number, up = probe.text(held).strip(), parts.supervised(probe, main, "/data")
        code = f"/data/{main}/app/parcels.py"
        own = [str(one.inner) for one in probe.processes() if code in one.command]
        return said(
            harbour.stores(probe, port), "" if up else f"{main} is not kept by the supervisor",
            "" if number in own else f"{held} has not its own number",
        )  # fmt: skip

    start = f"supervisorctl start {main}; sleep 1"
    return Scene(
        world=world,
        check=harbour.health(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("stale-lock",), rf"{main}\.pid",
            rf"{main}\.pid|still be running|Existing PID file|Start aborted",
        ),
        inject=lines(
            f"supervisorctl stop {main}",
            f"cat {theirs} > {held}; touch -d '-{pick.size(2, 20)} days' {held}",
            f"supervisorctl start {main}",
            GIVEN_UP.format(main),
        ),
        fix=(f"rm {held}", start),
        wrong={
            "it is only restarted": [f"supervisorctl restart {main}; sleep 1"],
            "all pid files go": [f"rm -f {folder}/*.pid", start],
            "the job at work is ended": [f"supervisorctl stop {job}", start],
        },
        stays=(*kept, theirs, run, script, harbour.settings_of(main), harbour.settings_of(other)),
        runs=(script,),
        harm=lambda probe: said(harbour.stores(probe, other_port)),
    )  # fmt: skip
