"""In another house: backups that are kept for ever, and a capture that somebody forgot to stop."""

from hermes_agent.incidents.drills import parts, tiers, yard
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Truth

CAPTURE = """import os
import sys
import time

with open(sys.argv[1], "ab", buffering=0) as file:
    while True:
        try:
            file.write(os.urandom(65536))
        except OSError:
            pass
        time.sleep(0.02)
"""


def backups(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    root = pick.choice((f"/var/opt/{main}", f"/mnt/{main}", f"/export/{main}"))
    mb, store = pick.size(12, 18), f"{root}/notes"
    folder = f"{root}/{pick.choice(('backups', 'dumps', 'nightly'))}"
    kept = yard.notes(main, pick, store=store)
    newest = f"{folder}/{main}-2026-11-14.tar.gz"
    old = [f"{folder}/{main}-2026-{month:02}-{day:02}.tar.gz"
           for month in (8, 9, 10) for day in (3, 17)]  # fmt: skip
    each = mb * 2**20 // 9
    world = tiers.joined(
        [yard.depot(main, port, {"store": store}), yard.depot(other, other_port)],
        files={
            **kept,
            **yard.days_ago(other, pick),
            newest: File(size=each, age=30_000.0),
            f"{root}/index.bin": File(size=each, age=9e6),
        },
        folders={folder: 0o755, store: 0o755},
        mounts=(Mount(root, mb=mb),),
        hostname=pick.host(),
    )

    def inject(box: Box) -> None:
        for number, path in enumerate(old[:-1]):
            box.run(f"head -c {each} /dev/urandom > {path}", check=False)
            box.run(f"touch -d '{100 - number * 14} days ago' {path}")
        box.fill(old[-1])
        box.run(f"touch -d '26 days ago' {old[-1]}")

    def healthy(probe: Probe) -> list[str]:
        tight = parts.free_share(probe, root) < 0.25
        return said(yard.stores(probe, port), f"{root} has hardly any room" if tight else "")

    return Scene(
        world=world,
        check=yard.passes(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("disk-full",), rf"{folder}", rf"100% +{root}|{folder}|No space left",
        ),
        inject=inject,
        fix=(f"rm {' '.join(old)}",),
        wrong={
            "the service is restarted": [f"supervisorctl restart {main}"],
            "every backup is removed": [f"rm {folder}/*"],
            "the index is removed": [f"rm {root}/index.bin"],
        },
        stays=(*kept, newest, f"{root}/index.bin", yard.settings_of(main)),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip


def capture(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    root = pick.choice((f"/var/opt/{main}", f"/mnt/{main}", f"/export/{main}"))
    mb, store = pick.size(10, 16), f"{root}/notes"
    person, word = pick.words(2)
    script = f"/home/{person}/capture-{pick.token(4)}.py"
    file = f"{root}/{word}-{pick.token(4)}.pcap"
    kept = yard.notes(main, pick, store=store)
    world = tiers.joined(
        [yard.depot(main, port, {"store": store}), yard.depot(other, other_port)],
        files={
            **kept,
            **yard.days_ago(other, pick),
            script: File(CAPTURE, age=7000.0),
            f"{root}/ledger.bin": File(size=mb * 2**20 // 4, age=500.0),
        },
        folders={store: 0o755},
        mounts=(Mount(root, mb=mb),),
        hostname=pick.host(),
    )

    def inject(box: Box) -> None:
        box.spawn(f"exec python3 {script} {file}")
        box.wait(f"file:{file}")
        box.run(
            f"until (($(df --output=avail -k {root} | tail -1) < 4)); do sleep 0.1; done",
            seconds=50,
        )

    def healthy(probe: Probe) -> list[str]:
        tight = parts.free_share(probe, root) < 0.25
        alive = any(script in process.command for process in probe.processes())
        return said(
            yard.stores(probe, port), f"{root} has hardly any room" if tight else "",
            f"{script} still writes" if alive else "",
        )  # fmt: skip

    name = script.rpartition("/")[2]
    return Scene(
        world=world,
        check=yard.passes(main, port),
        healthy=healthy,
        truth=Truth(
            (main, name, script), ("disk-full", "runaway-process"), rf"{file}|{name}",
            rf"100% +{root}|{file}|{name}",
        ),
        inject=inject,
        fix=(f"kill $(pgrep -f '[/]{name}')", f"sleep 0.3; mv {file} /var/tmp/"),
        wrong={
            "the service is restarted": [f"supervisorctl restart {main}"],
            "only the file is removed": [f"rm {file}; sleep 0.5"],
            "the biggest old file is removed": [f"rm {root}/ledger.bin"],
        },
        stays=(*kept, f"{root}/ledger.bin", yard.settings_of(main)),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip
