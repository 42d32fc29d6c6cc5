"""Ports that others hold: a copy of the site that somebody left running, and a server for previews
that comes up again whenever it ends."""

from collections.abc import Callable

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import parts, tiers, troves, vhosts
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth

GIVEN_UP = "until supervisorctl status {} | grep -q FATAL || ((SECONDS > 25)); do sleep 0.2; done"

PREVIEW = '''"""preview: shows a folder in the browser while one works on it.

    preview.py PORT

The server runs in a process of its own, which is started again when it ends.
"""

import http.server
import subprocess
import sys
import time

port = int(sys.argv[1])
if sys.argv[2:] == ["--serve"]:
    handler = http.server.SimpleHTTPRequestHandler
    http.server.ThreadingHTTPServer(("127.0.0.1", port), handler).serve_forever()
while True:
    ended = subprocess.call(["python3", __file__, str(port), "--serve"])
    print(f"[preview] server ended with {ended}, starting it again", flush=True)
    time.sleep(0.4)
'''


def _taken(name: str, port: int, folder: str, command: str) -> Callable[[Box], None]:
    """Another is started while the service is away."""

    def inject(box: Box) -> None:
        box.run(f"supervisorctl stop {name}")
        box.wait(f"down:{port}")
        box.spawn(f"cd {folder} && exec {command}")
        box.wait(f"tcp:{port}")
        box.run(f"supervisorctl start {name}", check=False)
        box.run(GIVEN_UP.format(name), check=False)

    return inject


def staging_copy(pick: Pick) -> Scene:
    """As `old-instance`: a copy of the same program with data of its own has the port, and answers;
    here a customer's site with INI settings, whose copy was tried out from somebody's home."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    kept, more = vhosts.pages(main, pick), vhosts.pages(other, pick)
    copy = f"/home/{pick.choice(('ines', 'tomek', 'agency'))}/{pick.word()}/{main}"
    settings = {
        "site": {"name": main, "listen": f"127.0.0.1:{port}", "error_log": f"{copy}/error_log"},
        "pages": {"kind": "files", "dir": f"{copy}/pages"},
    }
    place, file = next(iter(kept.items()))
    key, text = place.rpartition("/")[2], file.text.strip()
    world = tiers.joined(
        [vhosts.site(main, port, start_seconds=3), vhosts.site(other, other_port)],
        files={
            **kept, **more, **vhosts.months_ago(main, pick), **vhosts.months_ago(other, pick),
            f"{copy}/app/folio.py": File(tiers.program_text("folio.py"), age=9e5),
            f"{copy}/app/pgline.py": File(tiers.program_text("pgline.py"), age=9e5),
            f"{copy}/site.ini": File(vhosts.ini(settings), age=9e5),
            f"{copy}/pages/start": File("<p>new look, please comment</p>\n", age=8e5),
        },
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        found = text in probe.http(port, f"{vhosts.PAGES}/{key}").text
        up = parts.supervised(probe, main, vhosts.TOP)
        return said(
            vhosts.writes(probe, port) if found else f"page {key} is not to be had",
            "" if up else f"{main} is not kept by the supervisor",
        )  # fmt: skip

    conf = vhosts.conf_of(main)
    run = f"curl -sS -m 3 -w '%{{http_code}}' http://127.0.0.1:{port}{vhosts.PAGES}/{key}"
    return Scene(
        world=world,
        check=WatchedCheck(
            f"{main} page", Check(run, Expect(output=text), timeout=6.0), main, severity="P1"
        ),
        healthy=healthy,
        truth=Truth(
            (main,), ("port-conflict",), copy,
            rf"Address already in use|LISTEN.*:{port}\b.*pid=|{copy}",
        ),
        inject=_taken(main, port, copy, f"as-app python3 {copy}/app/folio.py {copy}/site.ini"),
        fix=(f"kill $(pgrep -f '^python3 {copy}/app/folio.py')",
             f"sleep 0.5; supervisorctl start {main}; sleep 1"),
        wrong={
            "it is only started again": [f"supervisorctl restart {main}; sleep 1"],
            "it is moved to another port": [
                f"sed -i 's/:{port}$/:{port + 1}/' {conf}", f"supervisorctl restart {main}",
            ],
            "the page is put into the copy": [f"cp {place} {copy}/pages/{key}"],
        },
        stays=(*kept, conf, vhosts.conf_of(other), f"{copy}/pages"),
        runs=(f"{vhosts.TOP}/{other}/app/",),
        harm=lambda probe: said(vhosts.writes(probe, other_port)),
    )  # fmt: skip


def preview_left(pick: Pick) -> Scene:
    """As `comes-back`: whoever holds the port is started again when it is ended; here by a program
    that watches over its child, and it is the service itself that cannot listen, with no nginx."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    house, beside = troves.house(pick, main, port), troves.house(pick, other, other_port)
    kept = troves.entries(house, pick)
    folder = f"/home/{pick.choice(('marta', 'jon', 'design'))}/{pick.word()}-{pick.token(4)}"
    script = f"{folder}/preview.py"
    world = tiers.joined(
        [troves.trove(house, start_seconds=3), troves.trove(beside)],
        files={
            **kept, **troves.entries(beside, pick),
            script: File(PREVIEW, mode=0o755, age=4e5),
            f"{folder}/index.html": File("<h1>draft</h1>\n", age=3e5),
        },
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        watches = any(script in one.command for one in probe.processes())
        up = parts.supervised(probe, main, house.code.partition(f"/{main}/")[0])
        return said(
            *troves.keeps(probe, port), "the preview goes on" if watches else "",
            "" if up else f"{main} is not kept by the supervisor",
        )  # fmt: skip

    start = f"sleep 0.8; supervisorctl start {main}; sleep 1"
    return Scene(
        world=world,
        check=troves.is_up(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("port-conflict",), rf"{folder}|preview\.py",
            rf"Address already in use|LISTEN.*:{port}\b|{script}",
        ),
        inject=_taken(main, port, folder, f"as-app python3 {script} {port} > preview.log 2>&1"),
        fix=(f"kill $(pgrep -f '^python3 {script}')", start),
        wrong={
            "only the child is killed": [
                f"kill $(pgrep -f '^python3 {script} {port} --serve')", start,
            ],
            "it is only started again": [start],
            "it is moved": [f"sed -i s/:{port}/:{port + 1}/ {house.config}", start],
        },
        stays=(*kept, house.config, beside.config, script),
        runs=(beside.code,),
        harm=lambda probe: troves.keeps(probe, other_port),
    )  # fmt: skip
