"""Previews without end."""

import re
from collections.abc import Callable

from hermes_agent.incidents.drills import tiers, vhosts
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.disk_full.practice_quarter import _tight
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Truth


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
