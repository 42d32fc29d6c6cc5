"""Ports that others hold: a server for a demonstration that somebody left, and a program that two
entries start."""

from collections.abc import Callable

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import bakery, harbour, layout, parts, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth

GIVEN_UP = "until supervisorctl status {} | grep -q FATAL || ((SECONDS > 25)); do sleep 0.2; done"

JOB = """#!/bin/bash
# Counts what lies in the yard, all day long.
while sleep 0.5; do
    ls /data/*/parcels | wc -l > {counted}
done
"""


def _left_running(name: str, port: int, folder: str) -> Callable[[Box], None]:
    """A server for a folder is started by hand while the service is away."""

    def inject(box: Box) -> None:
        box.run(f"supervisorctl stop {name}")
        box.wait(f"down:{port}")
        box.spawn(f"cd {folder} && exec as-app busybox httpd -f -p 127.0.0.1:{port} -h .")
        box.wait(f"tcp:{port}")
        box.run(f"supervisorctl start {name}", check=False)
        box.run(GIVEN_UP.format(name), check=False)

    return inject


def demo_server(pick: Pick) -> Scene:
    """As `left-over`: a plain file server that somebody started by hand has the port; here that of
    BusyBox, beside one that is needed, and a counter that says so as Redis does."""
    (main, docs), (port, docs_port) = pick.services(2), pick.ports(2)
    kept = bakery.orders(pick)
    person = pick.choice(("ines", "tomek", "trainee", "sales"))
    folder = f"/home/{person}/{pick.choice(('demo', 'fair', 'menu'))}-{pick.token(4)}"
    manual = Program(
        name=docs, command=f"busybox httpd -f -p 127.0.0.1:{docs_port} -h /srv/{docs}",
        about=f"the handbook of /srv/{docs}", ready=f"tcp:{docs_port}",
    )  # fmt: skip
    world = tiers.joined(
        [
            bakery.counter(main, port, kept),
            tiers.Part(manual, {f"/srv/{docs}/index.html": File("handbook\n", age=tiers.MONTH)}),
        ],
        files={
            **bakery.months_ago(main, pick),
            f"{folder}/index.html": File("<h1>Our counter, soon</h1>\n", age=2e5),
        },
        hostname=pick.host(),
    )

    def harm(probe: Probe) -> list[str]:
        there = "handbook" in probe.http(docs_port, "/index.html").text
        return said("" if there else "the handbook is not to be had")

    number, text = next(iter(kept.items()))
    run = f"curl -sS -m 3 http://127.0.0.1:{port}{bakery.ORDERS}/{number}"
    conf, start = bakery.conf_of(main), f"supervisorctl start {main}; sleep 1"
    return Scene(
        world=world,
        check=WatchedCheck(f"{main} looks up", Check(run, Expect(output=text), timeout=6.0), main,
                           severity="P1"),
        healthy=lambda probe: said(
            bakery.takes(probe, port), bakery.lost(probe, port, kept), bakery.minded(probe, main)
        ),
        truth=Truth(
            (main,), ("port-conflict",), rf"{folder}|busybox|httpd|/home/{person}",
            rf"Address already in use|LISTEN.*:{port}\b.*pid=|busybox httpd|{folder}",
        ),
        inject=_left_running(main, port, folder),
        fix=(f"kill $(pgrep -f '^busybox httpd .*:{port} ')", "sleep 0.3", start),
        wrong={
            "it is only started again": [start],
            "it is moved to another port": [
                f"sed -i 's/:{port}$/:{port + 1}/' {conf}", f"supervisorctl restart {main}; sleep 1"
            ],
            "all file servers go": [
                f"supervisorctl stop {docs}; kill $(pgrep -x busybox); sleep 0.3", start
            ],
        },
        stays=(conf, f"{folder}/index.html", f"/srv/{docs}/index.html"),
        runs=(rf"httpd .*:{docs_port}",),
        harm=harm,
    )  # fmt: skip


def _reads(name: str, port: int, key: str, text: str) -> WatchedCheck:
    run = f"curl -sS -m 3 -w ' %{{http_code}}' http://127.0.0.1:{port}{harbour.PARCELS}/{key}"
    check = Check(run, Expect(output=text), timeout=6.0)
    return WatchedCheck(f"{name} parcel", check, name, severity="P1")


def _settings(name: str, port: int) -> str:
    told = {
        "spring.application.name": name, "server.address": "127.0.0.1", "server.port": port,
        "logging.file.name": harbour.log_of(name), "parcels.dir": f"/data/{name}/parcels",
    }  # fmt: skip
    return "".join(f"{key}={value}\n" for key, value in told.items())


def in_one_file(pick: Pick) -> Scene:
    """As `second-entry`: a second entry starts the same program with other settings at the same
    port; here it was added to a file of the supervisor that has a job of every day in it, too."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    twin, job = f"{main}{pick.choice(('2', '-blue', '-new'))}", f"{pick.word()}-count"
    file = f"/etc/supervisor/conf.d/{pick.choice(('apps', 'data', 'local', 'zz-more'))}.conf"
    kept, conf = harbour.parcels(main, pick), harbour.settings_of(main)
    script, counted, own = "/data/jobs/count.sh", "/data/jobs/counted", harbour.settings_of(twin)
    counts, code = Program(name=job, command=script), f"/data/{main}/app/parcels.py"
    second = Program(name=twin, command=f"python3 {code} {own}", directory=f"/data/{twin}")
    world = tiers.joined(
        [harbour.app(main, port, start_seconds=1), harbour.app(other, other_port)],
        files={
            **kept, **harbour.weeks_ago(main, pick), **harbour.weeks_ago(other, pick),
            own: File(_settings(twin, port), age=9000.0),
            file: File(layout.entry(counts), age=tiers.MONTH),
            f"{file}.new": File(layout.entry(counts) + "\n" + layout.entry(second), age=9000.0),
            script: File(JOB.format(counted=counted), mode=0o755, age=tiers.MONTH),
        },
        folders={f"/data/{twin}/parcels": 0o755, f"/data/{twin}/logs": 0o755}, hostname=pick.host(),
    )  # fmt: skip
    path, first = next(iter(kept.items()))
    key, text = path.rpartition("/")[2], first.text.strip()

    def healthy(probe: Probe) -> list[str]:
        up = parts.supervised(probe, f"{main}/config", "/data")
        found = text in probe.http(port, f"{harbour.PARCELS}/{key}").text
        return said(
            harbour.stores(probe, port), "" if found else f"parcel {key} is not to be had",
            "" if up else f"{main} is not kept by the supervisor",
        )  # fmt: skip

    start = f"supervisorctl start {main}; sleep 1"
    return Scene(
        world=world,
        check=_reads(main, port, key, text),
        healthy=healthy,
        truth=Truth(
            (main, twin), ("port-conflict", "bad-config"), rf"{twin}|{file}",
            rf"Address already in use|LISTEN.*:{port}\b.*pid=|{twin}",
        ),
        inject=lines(
            f"supervisorctl stop {main}",
            f"mv {file}.new {file}; supervisorctl reread; supervisorctl add {twin}; sleep 1.2",
            f"supervisorctl start {main}", GIVEN_UP.format(main),
        ),
        fix=(f"supervisorctl stop {twin}", rf"sed -i '/^\[program:{twin}\]/,$d' {file}",
             "supervisorctl reread", "supervisorctl update", start),
        wrong={
            "it is only started again": [start],
            "it is moved to another port": [
                f"sed -i 's/^server.port=.*/server.port={port + 1}/' {conf}",
                f"supervisorctl restart {main}; sleep 1",
            ],
            "the whole file goes": [f"mv {file} /root/", "supervisorctl update", start],
        },
        stays=(*kept, conf, code, harbour.settings_of(other)),
        runs=(script,),
        harm=lambda probe: said(harbour.stores(probe, other_port)),
    )  # fmt: skip
