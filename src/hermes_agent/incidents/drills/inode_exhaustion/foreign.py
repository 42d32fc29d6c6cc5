"""Parts of uploads that were never finished."""

import secrets

from hermes_agent.incidents.drills import parish, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.inode_exhaustion.practice_quarter import _tight
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Truth

UNFINISHED = """python3 - <<'END'
import itertools, os, random, time
chance = random.Random({salt})
for number in itertools.count():
    folder = f"{uploads}/{{chance.randrange(16**10):010x}}"
    then = time.time() - 86400 * 2 - number * 4000
    try:
        os.mkdir(folder)
        for part in range(chance.randint(2, 7)):
            with open(f"{{folder}}/{{part:04}}.part", "x") as file:
                file.write("JVBERi0xLjQK\\n")
            os.utime(f"{{folder}}/{{part:04}}.part", (then, then))
    except OSError:
        break
    os.utime(folder, (then, then))
END"""


def _refused(probe: Probe, port: int) -> str:
    """Why a paper in two parts is not taken; empty when it is."""
    name = f"big-{secrets.token_hex(4)}"
    for part in ("0000", "0001"):
        probe.http(port, f"/uploads/{name}/{part}", "PUT", part.encode())
    probe.http(port, f"/uploads/{name}", "POST")
    got = probe.http(port, f"{parish.PAPERS}/{name}").text
    return "" if got == "00000001" else f"an upload came to {got[:60]!r}"


def unfinished_uploads(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    root, salt = f"{parish.STORE}/{main}", pick.size(1, 10**6)
    uploads = f"{root}/{pick.choice(('.uploads', 'incoming', 'parts'))}"
    kept, plans = parish.papers(main, pick, 130), f"{root}/plans-of-the-church.tif"
    now = {
        f"{uploads}/{pick.token(10)}/{part:04}.part": File(f"{part}\n", age=90.0)
        for _ in range(3) for part in range(2)
    }  # fmt: skip
    world = tiers.joined(
        [parish.binder(main, port, {"UploadRoot": uploads}), parish.binder(other, other_port)],
        files={**kept, **now, **parish.former(main, pick), **parish.former(other, pick),
               plans: File(size=4 << 20, age=9e6)},
        mounts=(Mount(root, mb=24, inodes=pick.size(1000, 1800)),),
        hostname=pick.host(),
    )  # fmt: skip

    find = f"find {uploads} -mindepth 1 -maxdepth 1 -type d -mtime +1"

    def inject(box: Box) -> None:
        box.run(UNFINISHED.format(salt=salt, uploads=uploads))

    return Scene(
        world=world,
        check=parish.ready(main, port),
        healthy=lambda probe: said(
            parish.files(probe, port), _refused(probe, port), _tight(probe, root)
        ),
        truth=Truth(
            (main,), ("inode-full",), rf"{uploads}|\.part\b",
            rf"100% +{root}|{uploads}|\.part\b",
        ),
        inject=inject,
        fix=("mkdir -p /var/tmp/old", f"{find} -exec mv -t /var/tmp/old {{}} +"),
        wrong={
            "it is restarted": [f"supervisorctl restart {main}"],
            "the biggest file goes": [f"rm {plans}"],
            "old papers go": [f"find {root} -maxdepth 1 -type f -mtime +1 -delete"],
            "all uploads go": [f"rm -r {uploads}", f"mkdir {uploads}"],
        },
        stays=(*kept, *now, plans, parish.settings_of(main)),
        harm=lambda probe: said(parish.files(probe, other_port)),
    )  # fmt: skip
