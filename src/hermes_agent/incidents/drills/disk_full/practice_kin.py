"""Requests that are saved since somebody looked for a fault, and dumps that nobody thins out."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from hermes_agent.incidents.drills import kiosk, parish, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.disk_full.practice_quarter import _tight
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Truth

ELSEWHERE = ("/var", "/srv", "/root", "/home", "/mnt", "/opt")
"""Where packs may have been moved."""


def _still(probe: Probe, conf: str, folder: str, port: int) -> str:
    """Why requests would fill the disk again; empty when they would not."""
    try:
        told = json.loads(probe.text(conf)).get("saveRequests")
    except ValueError:
        return f"{conf} cannot be read"
    was = set(probe.names(folder))
    probe.http(port, f"{kiosk.VOUCHERS}/one-more", "PUT", b"more")
    more = set(probe.names(folder)) - was
    return "requests are saved" if told or more else ""


def _save(conf: str, folder: str, name: str, port: int) -> Callable[[Box], None]:
    """Each request is saved from now on, and many came."""

    def inject(box: Box) -> None:
        line = f'  "saveRequests": "{folder}",'
        box.run(f"mkdir -p {folder}; sed -i 's#^  \"vouchers\"#{line}\\n&#' {conf}")
        box.run(f"supervisorctl restart {name}; sleep 0.6")
        for number in range(3):
            box.run(f"head -c 40000 /dev/urandom | base64 -w0 | curl -s -X PUT --data-binary @- "
                    f"http://127.0.0.1:{port}{kiosk.VOUCHERS}/scan-{number}")  # fmt: skip
        box.run(
            f"cd {folder}; n=900; at=$(date +%s); while f=$((at - n * 60))$((n * 7 % 900 + 100))-$n"
            ".body; head -c 140000 /dev/urandom > $f; do touch -d @$((at - n * 60)) $f; "
            "n=$((n - 1)); done 2>/dev/null; true"
        )

    return inject


def saved_requests(pick: Pick) -> Scene:
    """As `kept-bodies`: a program of Node.js leaves the body of each request in a folder, by a line
    of its JSON settings from the days of a fault; all that it has is on that disk."""
    (main, other), (port, other_port), mb = pick.services(2), pick.ports(2), pick.size(11, 17)
    volume, conf = f"/var/local/{main}", kiosk.settings_of(main)
    folder = f"{volume}/{pick.choice(('tmp/requests', 'tmp/incoming', 'cache/scanner'))}"
    kept = kiosk.vouchers(main, pick)
    sold, older = f"{volume}/sold-{pick.size(2019, 2024)}.tar", "/var/local/moved/register.iso"
    world = tiers.joined(
        [kiosk.kiosk(main, port), kiosk.kiosk(other, other_port)],
        files={
            **kept, **kiosk.once(main, pick), **kiosk.once(other, pick),
            sold: File(size=mb * 2**20 * 35 // 100, age=9e6), older: File(size=7 << 20, age=9e7),
        },
        mounts=(Mount(volume, mb=mb),),
        hostname=pick.host(),
    )  # fmt: skip
    off = f"sed -i /saveRequests/d {conf}"
    again = f"supervisorctl restart {main}; sleep 0.6"
    return Scene(
        world=world,
        check=kiosk.status(main, f"http://127.0.0.1:{port}"),
        healthy=lambda probe: said(
            kiosk.keeps(probe, port), _tight(probe, volume), _still(probe, conf, folder, port)
        ),
        truth=Truth(
            (main,), ("disk-full", "bad-config"), rf"{folder}|{conf}|saveRequests|\.body\b",
            rf"100% +{volume}|{folder}|saveRequests|GET /status: ENOSPC",
        ),
        inject=_save(conf, folder, main, port),
        fix=(off, again, f"rm -f {folder}/*.body"),
        wrong={
            "it is restarted": [again],
            "the requests are only removed": [f"rm -f {folder}/*.body"],
            "no more of them": [off, again],
            "the biggest file goes": [f"rm {sold} {older}"],
        },
        stays=(*kept, sold, older, kiosk.CODE, kiosk.settings_of(other)),
        runs=(conf,),
        harm=lambda probe: said(kiosk.keeps(probe, other_port)),
    )  # fmt: skip


def _pile_up(packs: Mapping[str, float], each: int) -> Callable[[Box], None]:
    """Packs of so many bytes, by when they were made; the last takes what is left."""

    def inject(box: Box) -> None:
        last = list(packs)[-1]
        for path, made in packs.items():
            if path == last:
                box.fill(path)
            else:
                box.run(f"head -c {each} /dev/urandom > {path}")
            box.run(f"touch -d @{made:.0f} {path}")

    return inject


def dumps(pick: Pick) -> Scene:
    """As `snapshots`: the papers of a parish are packed four times a day by a script of the agency,
    beside the papers themselves, and nobody takes the old packs away."""
    (main, other), (port, other_port), mb = pick.services(2), pick.ports(2), pick.size(10, 16)
    folder = f"{parish.STORE}/{pick.choice(('_backup', 'safe', 'packed'))}"
    hours, count = pick.choice((4, 6, 8)), pick.size(13, 24)
    newest = datetime.now(UTC).replace(minute=20, second=0) - timedelta(hours=2)
    times = [newest - timedelta(hours=hours * number) for number in range(count)][::-1]
    packs = [f"{folder}/{main}_{one:%Y%m%d_%H%M}.tgz" for one in times]
    kept, register = parish.papers(main, pick), f"{parish.store_of(main)}/register"
    newer = tuple(path.rpartition("/")[2] for path in packs[-3:])
    each = (mb * 2**20 * 79 // 100) // count
    script = (
        f"#!/bin/sh\n# Packs the papers of {main}. Called from /etc/cron.d/pack.\n"
        f"tar czf {folder}/{main}_$(date -u +%Y%m%d_%H%M).tgz -C {parish.STORE} {main}\n"
    )
    world = tiers.joined(
        [parish.binder(main, port), parish.binder(other, other_port, {"StoreRoot": "/srv/other"})],
        files={
            **kept, **parish.former(main, pick), **parish.former(other, pick),
            register: File(size=mb * 2**20 // 5, age=400.0),
            "/opt/parish/pack.sh": File(script, mode=0o755, age=tiers.MONTH),
            "/etc/cron.d/pack": File(f"20 */{hours} * * * root /opt/parish/pack.sh\n", age=9e6),
            "/var/log/parish/access-2025.log": File(size=3 << 20, age=9e6),
        },
        folders={folder: 0o755},
        mounts=(Mount(parish.STORE, mb=mb),),
        hostname=pick.host(),
    )  # fmt: skip

    def harm(probe: Probe) -> list[str]:
        places = (path for top in ELSEWHERE for path in probe.tree(top))
        left = any(map(probe.stat, packs[-3:])) or any(place.endswith(newer) for place in places)
        return said(parish.files(probe, other_port), "" if left else "the newest packs are gone")

    return Scene(
        world=world,
        check=parish.takes(main, port),
        healthy=lambda probe: said(parish.files(probe, port), _tight(probe, parish.STORE)),
        truth=Truth(
            (main,), ("disk-full",), rf"{folder}|\.tgz|pack\.sh|cron\.d/pack",
            rf"100% +{parish.STORE}|{folder}|\.tgz",
        ),
        inject=_pile_up(dict(zip(packs, (one.timestamp() for one in times), strict=True)), each),
        fix=(f"mkdir -p /var/tmp/packs; mv {' '.join(packs[: count - 4])} /var/tmp/packs/",),
        wrong={
            "it is restarted": [f"supervisorctl restart {main}"],
            "all packs go": [f"rm -r {folder}"],
            "the biggest file goes": [f"rm {register}"],
            "the log goes": ["rm /var/log/parish/access-2025.log"],
        },
        stays=(*kept, register, parish.settings_of(main), parish.code_of(main)),
        runs=(parish.code_of(main),),
        harm=harm,
    )  # fmt: skip
