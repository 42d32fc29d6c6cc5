"""An index of folders that lie in themselves."""

import secrets
import time
from collections.abc import Mapping

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import parish, tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.runaway_process.practice_quarter import NIGHTLY, _spins
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

INDEX = '''"""Keeps the list of all papers up to date: index.py SETTINGS"""

import os
import sys
import time

own = dict(line.split(None, 1) for line in open(sys.argv[1]) if not line.startswith("#"))
own = {name: value.strip() for name, value in own.items()}
print("index of", own["StoreRoot"], "in", own["Index"], flush=True)
while True:
    found = {}
    for folder, _, names in os.walk(own["StoreRoot"], followlinks=own["FollowLinks"] == "yes"):
        for name in names:
            found[name] = os.path.relpath(folder, own["StoreRoot"])
    with open(own["Index"] + ".new", "w") as file:
        for name in sorted(found):
            file.write(f"{name}\\t{found[name]}\\n")
    os.replace(own["Index"] + ".new", own["Index"])
    time.sleep(0.3)
'''

TOTALS = NIGHTLY.replace("sys.argv[1]", '"/var/lib/totals/begun.log"')


def _listed(service: str, port: int, index: str) -> WatchedCheck:
    """The check of whoever searches: a new paper is soon found."""
    url = f"http://127.0.0.1:{port}{parish.PAPERS}"
    run = (
        f"k=look-$(date +%s%N); curl -sS -m 2 -o /dev/null -X PUT -d looked {url}/$k; "
        "for n in 1 2 3 4 5 6 7 8; do sleep 0.4; "
        f"grep -q ^$k {index} && echo listed && exit; done; "
        "echo not listed after 3 s; exit 1"
    )
    check = Check(run, Expect(output="^listed"), timeout=9.0)
    return WatchedCheck(f"{service} finds new papers", check, service, severity="P2")


def _unlisted(probe: Probe, port: int, index: str) -> str:
    """Why a new paper is not in the index; empty when it is."""
    key = f"new-{secrets.token_hex(5)}"
    probe.http(port, f"{parish.PAPERS}/{key}", "PUT", b"x")
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        if key in probe.text(index):
            return ""
        time.sleep(0.1)
    return f"{key} is not in {index}"


def _missing(probe: Probe, job: str, index: str, more: Mapping[str, File], port: int) -> list[str]:
    """What was stopped, and what is not in the index any more."""
    whole = probe.text("/var/lib/totals/begun.log").count("began") == 1
    runs = any(f"/{job}.py" in one.command for one in probe.processes())
    listed = probe.text(index)
    maps = [path for path in more if path.rpartition("/")[2] not in listed]
    return said(
        "" if whole and runs else f"{job} was interrupted", parish.files(probe, port),
        f"{len(maps)} maps are not in the index any more" if maps else "",
    )  # fmt: skip


def folder_in_itself(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    name, job, store = f"{main}-index", f"{other}-totals", parish.store_of(main)
    index, link = f"/var/lib/parish/{main}.index", pick.choice(("all", "complete", "everything"))
    years, annex = ("2022", "2023", "2024", "2025"), f"/mnt/annex/{main}"
    kept = {
        path: file for year in years for path, file in parish.papers(main, pick, 6, year).items()
    }
    more = {f"{annex}/map-{pick.token(6)}": File(f"{pick.token(20)}\n", age=9e6) for _ in range(5)}
    settings = {"StoreRoot": store, "Index": index, "FollowLinks": "yes"}
    world = tiers.joined(
        [
            parish.binder(main, port), parish.binder(other, other_port),
            parish.helper(name, INDEX, settings, f"lists the papers of {main} in {index}", nice=5,
                          needs=(main,)),
            parish.helper(job, TOTALS, {"ServerName": job}, "works out the dues of the year, for "
                          "days", nice=15, ready="file:/var/lib/totals/begun.log"),
        ],
        files={**kept, **more, f"{store}/maps": File(link=annex), **parish.former(main, pick),
               **parish.former(other, pick)},
        folders={"/var/lib/parish": 0o755, "/var/lib/totals": 0o755},
        hostname=pick.host(),
    )  # fmt: skip
    links = " ".join(f"{store}/{year}/{link}" for year in years)

    def healthy(probe: Probe) -> list[str]:
        return said(
            parish.files(probe, port), _unlisted(probe, port, index), _spins(probe, f"/{job}.py")
        )

    place = parish.settings_of(name)
    return Scene(
        world=world,
        check=_listed(main, port, index),
        healthy=healthy,
        truth=Truth(
            (name, main), ("runaway-process",),
            rf"{store}/(\d+|\*|.*)/{link}|{name}|/{link}\b",
            rf"/{link}\b|{link} -> |{name}|\b\d\d+\.\d\b.*/{name}\.py",
        ),
        inject=lines(*(f"ln -s {store} {path}" for path in links.split()), "sleep 1"),
        fix=(*(f"mv {path} /var/tmp/{link}-{path.split('/')[-2]}" for path in links.split()),
             f"supervisorctl restart {name}; sleep 0.5"),
        wrong={
            "it is only restarted": [f"supervisorctl restart {name}; sleep 0.5"],
            "the other busy one is stopped": [f"supervisorctl stop {job}"],
            "no links are followed": [
                f"sed -i 's/^FollowLinks .*/FollowLinks no/' {place}",
                f"supervisorctl restart {name}; sleep 1",
            ],
            "the binder is restarted": [f"supervisorctl restart {main}"],
        },
        stays=(*kept, *more, parish.settings_of(main), f"{parish.CODE}/{name}/{name}.py"),
        runs=(f"/{name}.py",),
        harm=lambda probe: _missing(probe, job, index, more, other_port),
    )  # fmt: skip
