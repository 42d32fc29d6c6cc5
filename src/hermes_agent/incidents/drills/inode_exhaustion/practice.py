"""File systems without room for more files, in houses that do not look alike."""

from hermes_agent.incidents.drills import parts, varied
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Truth

FILL = """python3 - <<'END'
import os, time
number = 0
while True:
    day, kind = 1 + number % 9, "cd"[number % 2]
    path = {pattern!r}.format(n=number, a=number % 16, b=number * 7 % 16, d=day, k=kind)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "x") as file:
            file.write({text!r})
    except OSError:
        break
    then = time.time() - 86400 * 2 - number * 300
    os.utime(path, (then, then))
    number += 1
END"""


def _scene(pick: Pick, folders: tuple[str, ...], pattern: str, text: str, locus: str = "") -> Scene:
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    volume = pick.choice((f"/mnt/{name}", f"/srv/{name}/volume", f"/var/{pick.token()}"))
    home = varied.house(pick, name, port, data=f"{volume}/{pick.choice(('docs', 'kept', 'd'))}")
    crowd = f"{volume}/{pick.choice(folders)}"
    docs = home.docs(pick, 90)
    fresh = {
        f"{crowd}/{pick.token()}-{n}": File(f"{n}\n", age=30.0) for n in range(5)
    }  # in use right now

    def healthy(probe: Probe) -> list[str]:
        full = parts.free_inodes(probe, volume) < 0.25
        return said(
            probe.keeps(home.port, varied.PREFIX), f"{volume} is full of files" if full else ""
        )

    def inject(box: Box) -> None:
        box.run(FILL.format(pattern=f"{crowd}/{pattern}", text=text))

    return Scene(
        world=parts.joined(
            home.part,
            varied.house(pick, other, other_port).part,
            parts.Part((), {**docs, **fresh, f"{volume}/index.bin": File(size=1 << 20, age=9e6)}),
            mounts=(Mount(volume, mb=24, inodes=pick.size(900, 1500)),),
        ),
        check=home.check,
        inject=inject,
        healthy=healthy,
        truth=Truth(
            component=(name,), category=("inode-full",), locus=crowd + locus,
            evidence=rf"\b(9\d|100)% +{volume}|{crowd}",
        ),
        fix=(
            "mkdir -p /var/tmp/old",
            f"find {crowd} -type f -mmin +600 -exec mv --backup=t -t /var/tmp/old {{}} +",
        ),
        wrong={
            "the service is restarted": [f"supervisorctl restart {name}"],
            "what people put there is removed": [f"find {home.data} -type f -mmin +600 -delete"],
            "the biggest file is removed": [f"rm {volume}/index.bin"],
        },
        stays=(f"{volume}/index.bin", *docs, *fresh),
        runs=(home.code,),
    )  # fmt: skip


def previews(pick: Pick) -> Scene:
    """Small pictures in folders by their hash: no single folder has many."""
    folders = ("previews", "media/small", "derived")
    return _scene(pick, folders, "{a:x}/{b:x}/{n:08x}.jpg", "tiny picture\n")


def footprints(pick: Pick) -> Scene:
    """A file for each request, by the day, as somebody wanted for a while."""
    folders = ("requests", "traces", "replay")
    return _scene(pick, folders, "2026-11-{d:02}/req-{n:06}.json", "{}")


def undelivered_mail(pick: Pick) -> Scene:
    """Two files for each letter that could not be sent, in two folders side by side."""
    folders = ("bounced", "mail/deferred", "returned")
    return _scene(pick, folders, "{k}f/{n:07}", "Subject: hello\n")
