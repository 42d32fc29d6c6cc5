"""A tally of log lines that counts those of its own log."""

import time

from hermes_agent.incidents.drills import tiers, vhosts
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.log_flood.practice_quarter import _tight
from hermes_agent.incidents.drills.log_flood.practice_town import _grows, _since_hours
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Program, Truth

TALLY_CODE = "/opt/tally/tally.py"
TALLY = '''"""tally: counts lines of logs, for the graphs.

    tally.py --logs=PATTERN [--skip=NAME] --metrics=FILE --log-file=FILE
"""

import collections
import fnmatch
import glob
import os
import sys
import time

flags = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:])
seen: dict[str, int] = {}
counts: collections.Counter[str] = collections.Counter()


def note(text: str) -> None:
    stamp = time.strftime("I%m%d %H:%M:%S")
    try:
        with open(flags["log-file"], "a") as file:
            file.write(f"{stamp} {os.getpid()} tally.py:31] {text[:280]}\\n")
    except OSError as error:
        print(f"log: {error}", file=sys.stderr, flush=True)


def follow(path: str) -> None:
    name, size = os.path.basename(path), os.path.getsize(path)
    start = seen.setdefault(path, size)
    with open(path, "rb") as file:
        file.seek(start if start <= size else 0)
        lines = [one for one in file.readlines()[:400] if one.endswith(b"\\n")]
        seen[path] = (start if start <= size else 0) + sum(map(len, lines))
    for line in lines:
        text = line.decode("utf-8", "replace").strip()
        counts[name] += 1
        note(f"{name}: line of {len(text)} bytes, no error")
        note(f"{name}: counted {text!r}")


note(f"following {flags['logs']}")
while True:
    for path in sorted(glob.glob(flags["logs"])):
        if not fnmatch.fnmatch(os.path.basename(path), flags.get("skip", "")):
            follow(path)
    with open(flags["metrics"] + ".new", "w") as file:
        file.writelines(f'log_lines_total{{file="{one}"}} {counts[one]}\\n' for one in counts)
    os.replace(flags["metrics"] + ".new", flags["metrics"])
    time.sleep(0.1)
'''


def _counts(probe: Probe, port: int, metrics: str) -> str:
    """Why a line of a site's log is not counted; empty when it is."""
    was, until = probe.text(metrics), time.monotonic() + 2.5
    while time.monotonic() < until:
        probe.http(port, f"{vhosts.PAGES}/tally", "PUT", b"<p>tally</p>")
        time.sleep(0.2)
        if probe.text(metrics) not in ("", was):
            return ""
    return "lines are not counted"


def _tally(name: str, pattern: str, metrics: str, own: str) -> tiers.Part:
    flags = f"--logs={pattern} --metrics={metrics} --log-file={own}"
    return tiers.Part(
        Program(name=name, command=f"python3 {TALLY_CODE} {flags}", ready=f"file:{metrics}",
                about=f"counts lines of logs for the graphs: {metrics}"),
        {TALLY_CODE: File(TALLY, age=tiers.MONTH)},
        {metrics.rpartition("/")[0]: 0o755},
    )  # fmt: skip


def counts_itself(pick: Pick) -> Scene:
    """As `own-tail`: what reads logs reads its own, and notes each line of it; here it counts lines
    for graphs, is told so by flags, and somebody made its pattern wider."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    root, name = f"{vhosts.TOP}/{main}", f"{pick.choice(('line', 'log', 'graph'))}-tally"
    folder, entry = f"{root}/logs", f"/etc/supervisor/conf.d/{name}.conf"
    own, metrics = f"{folder}/{name}.log", f"/srv/graphs/{name}.prom"
    narrow, wide = f"{folder}/error_log", f"{folder}/*"
    kept, film = vhosts.pages(main, pick, 20), f"{vhosts.var_of(main)}/window-2025.mov"
    text = tiers.program_text("folio.py").replace(
        "        self.preview(key, body)\n        return 201",
        '        self.preview(key, body)\n        self.log("info", f"page {key} written")\n'
        "        return 201",
    )
    world = tiers.joined(
        [vhosts.site(main, port), vhosts.site(other, other_port),
         _tally(name, narrow, metrics, own)],
        files={**kept, **vhosts.months_ago(main, pick), **vhosts.months_ago(other, pick),
               f"{root}/app/folio.py": File(text, age=tiers.MONTH),
               film: File(size=900_000, age=9e6)},
        mounts=(Mount(root, mb=pick.size(5, 8)),),
        hostname=pick.host(),
    )  # fmt: skip
    anew = "supervisorctl reread; supervisorctl update; sleep 0.5"

    def inject(box: Box) -> None:
        box.run(f"sed -i 's#--logs={narrow}#--logs={wide}#' {entry}; {anew}")
        box.run(f"curl -s -X PUT -d news http://127.0.0.1:{port}{vhosts.PAGES}/news")
        _since_hours(box, own)

    return Scene(
        world=world,
        check=vhosts.sound(main, port),
        healthy=lambda probe: said(
            vhosts.writes(probe, port), _tight(probe, root), _counts(probe, port, metrics),
            _grows(probe, root),
        ),
        truth=Truth(
            (name, main), ("log-flood", "bad-config"), rf"{own}|{entry}|{name}|tally\.py|--logs",
            rf"100% +{root}|{name}|tally\.py|--logs=",
        ),
        inject=inject,
        fix=(f"sed -i 's#--logs={folder}/[*]#--logs={narrow}#' {entry}", anew,
             f"truncate -s 0 {own}"),
        wrong={
            "the log is only emptied": [f"truncate -s 0 {own}; sleep 1"],
            "it is emptied and restarted": [
                f"truncate -s 0 {own}; supervisorctl restart {name}; sleep 1",
            ],
            "nobody counts any more": [f"supervisorctl stop {name}; rm {own}"],
            "the film goes": [f"rm {film}"],
        },
        stays=(*kept, film, vhosts.conf_of(main), vhosts.conf_of(other), TALLY_CODE),
        runs=(TALLY_CODE,),
        harm=lambda probe: said(vhosts.writes(probe, other_port)),
    )  # fmt: skip
