"""Nightly copies that were meant for a second disk and went beside it, and previews without end."""

import re
from collections.abc import Callable

from hermes_agent.incidents.drills import parts, tiers, vhosts
from hermes_agent.incidents.drills import workshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Truth

SPARE = 0.25
LOG = "/var/log/nightly-copy.log"
COPY = """#!/bin/sh
# Packs what {main} keeps onto the second disk, each night.
echo "$(date '+%F %T') packing to {disk}/$(date +%F).tar.gz"
tar czf {disk}/$(date +%F).tar.gz -C {top} {main}
echo "$(date '+%F %T') tar returned $?"
"""
NIGHTS = 3


def _tight(probe: Probe, path: str) -> str:
    return f"{path} has hardly any room" if parts.free_share(probe, path) < SPARE else ""


def _copies(disk: str, top: str, main: str) -> Callable[[Box], None]:
    """What the job left in the nights since the disk is gone, until nothing more fitted."""
    label = disk.rpartition("/")[2]

    def inject(box: Box) -> None:
        told = f"{label}.mount: Job {label}.mount/start timed out; skipping {disk}"
        box.run(f"echo \"$(date -d '-{NIGHTS} days' '+%F 21:14:09') {told}\" >> /var/log/boot.log")
        for ago in range(NIGHTS - 1, -1, -1):
            day = f"$(date -d '-{ago} days' +%F)"
            pack = f"tar czf {disk}/{day}.tar.gz -C {top} {main}" if ago else "true"
            box.run(f'echo "{day} 01:40:01 packing to {disk}/{day}.tar.gz" >> {LOG}; {pack}')
            if not ago:
                box.fill(f"{disk}/.draft")
                box.run(f"mv {disk}/.draft {disk}/{day}.tar.gz")
            box.run(f'touch -d "{day} 01:40:03" {disk}/{day}.tar.gz')
        failed = (
            "tar: -: Wrote only 4096 of 10240 bytes\\ntar: Error is not recoverable: exiting now"
        )
        box.run(f"printf 'gzip: stdout: No space left on device\\n{failed}\\n' >> {LOG}")

    return inject


def not_mounted(pick: Pick) -> Scene:
    """The second disk did not come up with the machine; its folder did."""
    (main, other), (port, other_port), mb = pick.services(2), pick.ports(2), pick.size(11, 18)
    top = pick.choice(("/srv", "/data", "/storage"))
    disk = f"{top}/{pick.choice(('offsite', 'usb', 'disk2', 'nas'))}"
    base, originals = f"{top}/{main}/main.sqlite3", f"{top}/{main}/originals-{pick.token(4)}.tar"
    copy = "/opt/scripts/nightly-copy"
    label = disk.rpartition("/")[2]
    fstab = (
        "# <file system> <mount point> <type> <options> <dump> <pass>\n"
        f"LABEL=root\t/\text4\terrors=remount-ro\t0 1\nLABEL={label}\t{disk}\text4\t"
        "nofail,noatime\t0 2\n"
    )
    kept = house.rows(pick)
    world = tiers.joined(
        [house.app(main, port, {"DATABASE": base}), house.app(other, other_port)],
        files={
            base: File(data=house.base(kept), mode=0o640, age=400.0),
            **house.history(main, pick),
            **house.history(other, pick),
            originals: File(size=mb * 2**20 * 3 // 10, age=9e6),
            copy: File(COPY.format(disk=disk, top=top, main=main), mode=0o755, age=tiers.MONTH),
            "/etc/cron.d/nightly-copy": File(f"40 1 * * * root {copy} >>{LOG} 2>&1\n", age=9e6),
            "/etc/fstab": File(fstab, age=9e6),
        },
        folders={disk: 0o755},
        mounts=(Mount(top, mb=mb),),
        hostname=pick.host(),
    )

    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=lambda probe: said(house.keeps(probe, port), _tight(probe, top)),
        truth=Truth(
            (main, "nightly-copy", copy), ("disk-full",), rf"{disk}|nightly-copy",
            rf"100% +{top}|{disk}|nightly-copy",
        ),
        inject=_copies(disk, top, main),
        fix=(f"mv {disk}/20*.tar.gz /var/tmp/",),
        wrong={
            "it is restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "the biggest file goes": [f"rm {originals}"],
            "what is kept goes": [f"rm -r {top}/{main}/*"],
        },
        stays=(originals, house.env_of(main), "/etc/fstab"),
        runs=(house.code_of(main), house.code_of(other)),
        harm=lambda probe: said(
            house.lost(probe, base, kept) if probe.read(base) else f"{base} is gone",
            house.keeps(probe, other_port),
        ),
    )  # fmt: skip


def _unbounded(probe: Probe, conf: str, mb: int) -> str:
    """Why previews would fill the disk again; empty when they would not."""
    text = probe.text(conf).partition("[previews]")[2].partition("[")[0]
    found = re.search(r"(?m)^\s*limit_mb\s*=\s*(\d+)", text)
    bounded = found is not None and 0 < int(found[1]) <= mb * 0.6
    return "" if bounded or "dir" not in text else "previews are kept without a limit"


def _hoarded(conf: str, cache: str, main: str, limit: int) -> Callable[[Box], None]:
    """The limit was set to nothing, and previews came in for weeks."""

    def inject(box: Box) -> None:
        box.run(f"sed -i 's/^limit_mb = {limit}/limit_mb = 0/' {conf}; touch -d -19days {conf}")
        box.run(f"supervisorctl restart {main}; sleep 0.6")
        box.run(
            f"cd {cache} && n=0; while f=$(printf $n | sha1sum | cut -c1-40).png; "
            "{ printf '\\211PNG\\r\\n'; head -c 49152 /dev/urandom; } > $f; do "
            'touch -d "-$((27000 - n * 60)) minutes" $f; n=$((n+1)); done 2>/dev/null; true'
        )
        box.fill(f"{cache}/.new")
        box.run(f"mv {cache}/.new {cache}/{'0' * 39}1.png; touch -d -18days {cache}/*1.png")

    return inject


def no_limit(pick: Pick) -> Scene:
    """Zero was meant for no previews, and is for no limit."""
    (main, other), (port, other_port), mb = pick.services(2), pick.ports(2), pick.size(12, 18)
    var, conf, limit = vhosts.var_of(main), vhosts.conf_of(main), pick.size(2, 4)
    cache = f"{var}/{pick.choice(('cache/previews', 'previews', 'tmp/thumbs'))}"
    kept, photos = vhosts.pages(main, pick), f"{var}/photos/{pick.token(5)}.tar"
    world = tiers.joined(
        [vhosts.site(main, port, more={"previews": {"dir": cache, "limit_mb": limit}}),
         vhosts.site(other, other_port)],
        files={
            **kept, **vhosts.months_ago(main, pick), **vhosts.months_ago(other, pick),
            photos: File(size=mb * 2**20 * 35 // 100, age=9e6),
        },
        folders={cache: 0o755},
        mounts=(Mount(var, mb=mb),),
        hostname=pick.host(),
    )  # fmt: skip
    return Scene(
        world=world,
        check=vhosts.sound(main, port),
        healthy=lambda probe: said(
            vhosts.writes(probe, port), _tight(probe, var), _unbounded(probe, conf, mb)
        ),
        truth=Truth(
            (main,), ("disk-full", "bad-config"), rf"{cache}|{conf}|limit_mb",
            rf"100% +{var}|{cache}|limit_mb ?= ?0",
        ),
        inject=_hoarded(conf, cache, main, limit),
        fix=(f"sed -i 's/^limit_mb = 0/limit_mb = {limit}/' {conf}",
             f"supervisorctl restart {main}", "sleep 1"),
        wrong={
            "it is restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "previews are only removed": [f"rm -f {cache}/*.png"],
            "the biggest file goes": [f"rm {photos}"],
        },
        stays=(*kept, photos, f"{vhosts.TOP}/{main}/app/folio.py"),
        runs=(f"{vhosts.TOP}/{main}/app",),
        harm=lambda probe: said(vhosts.writes(probe, other_port)),
    )  # fmt: skip
