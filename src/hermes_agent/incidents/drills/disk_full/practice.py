"""File systems without room, in houses that do not look alike."""

from hermes_agent.incidents.drills import parts, varied
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Truth

RECORDER = """\
import sys, time

with open(sys.argv[2], "ab", buffering=0) as file:
    while True:
        try:
            file.write(sys.argv[1].encode().ljust(4096, b"."))
        except OSError:
            time.sleep(0.5)
        time.sleep(0.005)
"""


def _roomy(probe: Probe, home: varied.House, volume: str) -> list[str]:
    full = parts.free_share(probe, volume) < 0.25
    return said(
        probe.keeps(home.port, varied.PREFIX), f"{volume} has hardly any room" if full else ""
    )


def stray_recorder(pick: Pick) -> Scene:
    """Somebody records what a service does, and forgot that it runs."""
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    volume = pick.choice((f"/mnt/{name}", f"/srv/{name}/volume", f"/data/{pick.token()}"))
    home = varied.house(pick, name, port, data=f"{volume}/{pick.choice(('docs', 'store', 'd'))}")
    person, word = pick.words(2)
    tool = f"/home/{person}/{word}.py"
    target = f"{volume}/{pick.choice((f'{word}.rec', f'.{word}', f'{word}/{pick.token()}.bin'))}"
    ledger = f"{home.data}/{pick.choice(('ledger.sqlite', 'index.kch', 'all-2024.dat'))}"
    docs = home.docs(pick)

    def inject(box: Box) -> None:
        box.run(f"mkdir -p $(dirname {target}); dd if=/dev/zero of={target} bs=1k count=4000")
        box.fill(target + ".0", leave_kb=64)
        box.run(f"cat {target}.0 >> {target}; rm {target}.0", check=False)
        box.fill(target + ".1", leave_kb=40)
        box.run(f"cat {target}.1 >> {target}; rm -f {target}.1", check=False)
        box.spawn(f"exec python3 {tool} {name} {target}")
        box.run(f"while [ $(df --output=avail {volume} | tail -1) -gt 0 ]; do sleep 0.05; done")

    def healthy(probe: Probe) -> list[str]:
        running = any(tool in one.command for one in probe.processes())
        return [*_roomy(probe, home, volume), *([f"{tool} goes on"] if running else [])]

    return Scene(
        world=parts.joined(
            home.part,
            varied.house(pick, other, other_port).part,
            parts.Part((), {tool: File(RECORDER), ledger: File(size=3 << 20, age=9e5), **docs}),
            mounts=(Mount(volume, mb=10),),
        ),
        check=home.check,
        inject=inject,
        healthy=healthy,
        truth=Truth(
            component=(name, f"{word}.py", word, tool),
            category=("disk-full", "runaway-process"),
            locus=f"{target}|{tool}",
            evidence=f"100% +{volume}|{target}|{tool}",
        ),
        fix=(f"kill $(pgrep -f '[/]{word}.py')", f"sleep 0.3; mv {target} /var/tmp/"),
        wrong={
            "only the file is removed": [f"rm {target}"],
            "the service is restarted": [f"supervisorctl restart {name}"],
            "the biggest data is removed": [f"rm {ledger}"],
        },
        stays=(ledger, *docs),
        runs=(home.code,),
    )


def snapshots(pick: Pick) -> Scene:
    """Every night a whole copy, and nobody thins them out."""
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    volume = pick.choice((f"/mnt/{name}", f"/var/lib/{name}", f"/vol/{pick.token()}"))
    home = varied.house(pick, name, port, data=f"{volume}/live")
    shelf = pick.choice(("snap", "nightly", "history"))
    kind = pick.choice(("db.{}.tar", "{}/all.img", "full-{}.pack"))
    days = [f"2026-11-{day:02}" for day in range(3, 15)]
    paths = [f"{volume}/{shelf}/{kind.format(day)}" for day in days]
    ledger = f"{home.data}/{pick.choice(('main.db', 'segments.bin'))}"
    docs = home.docs(pick)

    def inject(box: Box) -> None:
        for number, path in enumerate(paths[:-1]):
            box.run(f"mkdir -p $(dirname {path}); head -c 600000 /dev/urandom > {path}")
            box.run(f"touch -d '{len(paths) - number} days ago' {path}")
        box.run(f"mkdir -p $(dirname {paths[-1]})")
        box.fill(paths[-1])
        box.run(f"touch -d '1 day ago' {paths[-1]}")

    def harm(probe: Probe) -> list[str]:
        kept = [path for path in paths[-2:] if probe.stat(path)]
        return [] if kept else ["the newest copies are gone"]

    return Scene(
        world=parts.joined(
            home.part,
            varied.house(pick, other, other_port).part,
            parts.Part((), {ledger: File(size=2 << 20, age=300.0), **docs}),
            mounts=(Mount(volume, mb=10),),
        ),
        check=home.check,
        inject=inject,
        healthy=lambda probe: _roomy(probe, home, volume),
        truth=Truth(
            component=(name,),
            category=("disk-full",),
            locus=f"{volume}/{shelf}",
            evidence=f"100% +{volume}|{volume}/{shelf}",
        ),
        fix=(f"mkdir -p /var/tmp/old; mv --backup=t {' '.join(paths[:-3])} /var/tmp/old/",),
        wrong={
            "the service is restarted": [f"supervisorctl restart {name}"],
            "all copies are removed": [f"rm -r {volume}/{shelf}"],
            "the biggest data is removed": [f"rm {ledger}"],
        },
        stays=(ledger, *docs),
        runs=(home.code,),
        harm=harm,
    )


def releases(pick: Pick) -> Scene:
    """Every release stays where it was unpacked; the one in use is not the newest."""
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    volume = pick.choice((f"/mnt/{name}", f"/deploy/{pick.token()}", f"/vol/{name}"))
    home = varied.house(pick, name, port, data=f"{volume}/state")
    numbers = [str(pick.size(20, 60) + at) for at in range(9)]
    folders = [f"{volume}/{pick.choice(('releases', 'builds'))}/{n}" for n in numbers]
    top = folders[0].rpartition("/")[0]
    folders = [f"{top}/{n}" for n in sorted(set(numbers))]
    used, link = folders[-3], f"{volume}/{pick.choice(('current', 'live', 'active'))}"
    docs = home.docs(pick)
    bundle = pick.choice(("bundle.bin", "app.pak", "lib/all.so"))
    wheel = f"{used}/{bundle}"

    def inject(box: Box) -> None:
        for number, folder in enumerate(folders):
            path = f"{folder}/{bundle}"
            if path != wheel:
                box.run(f"mkdir -p $(dirname {path}); head -c 800000 /dev/urandom > {path}")
            box.run(f"touch -d '{30 - number} days ago' {path}")
        box.fill(f"{folders[0]}/{bundle}.2")
        box.run(f"touch -d '31 days ago' {folders[0]}/{bundle}.2")

    old = " ".join(folders[:-4])
    return Scene(
        world=parts.joined(
            home.part,
            varied.house(pick, other, other_port).part,
            parts.Part((), {wheel: File(size=800_000), link: File(link=used), **docs}),
            mounts=(Mount(volume, mb=8),),
        ),
        check=home.check,
        inject=inject,
        healthy=lambda probe: _roomy(probe, home, volume),
        truth=Truth(
            component=(name,), category=("disk-full",), locus=top, evidence=f"100% +{volume}|{top}"
        ),
        fix=(f"mkdir -p /var/tmp/old; mv {old} /var/tmp/old/",),
        wrong={
            "the service is restarted": [f"supervisorctl restart {name}"],
            "all but the newest go": [f"rm -r {' '.join(folders[:-1])}"],
        },
        stays=(wheel, *docs),
        runs=(home.code,),
    )
