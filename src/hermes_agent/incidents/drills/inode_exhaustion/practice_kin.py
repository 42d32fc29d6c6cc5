"""Copies that nobody clears away: tiles of a map, and lists that an office keeps for whoever asks
again."""

from hermes_agent.incidents.drills import parish, tiers, vhosts
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.inode_exhaustion.practice_quarter import _tight
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Truth

TILES = """python3 - <<'END'
import itertools, os, time
for number in itertools.count():
    zoom = 11 + number % 7
    folder = f"{tiles}/{{zoom}}/{{zoom * 310 + number % 41}}"
    path = f"{{folder}}/{{zoom * 190 + number // 41}}.png"
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path, "xb") as file:
            file.write(b"\\x89PNG\\r\\n\\x1a\\n" + bytes(90))
    except FileExistsError:
        continue
    except OSError:
        break
    then = time.time() - 86400 * 3 - number * 700
    os.utime(path, (then, then))
END"""
LISTS = """python3 - <<'END'
import hashlib, itertools, os, time
for number in itertools.count():
    key = f"/register?from={{1790 + number % 230}}&sort=name&sid={{number * 7919 % 99991:05}}"
    name = hashlib.sha256(key.encode()).hexdigest()
    folder = f"{cache}/{{name[0]}}/{{name[1]}}"
    then = time.time() - 86400 * 2 - number * 1100
    try:
        os.makedirs(folder, exist_ok=True)
        for ending in ("header", "data"):
            path = f"{{folder}}/{{name[2:]}}.{{ending}}"
            with open(path, "x") as file:
                file.write(f"{{key}}\\n" if ending == "header" else "no papers\\n")
            os.utime(path, (then, then))
    except OSError:
        break
END"""
CACHED = '''
import hashlib


class Cached(Binder):
    """GET /register?WISHES lists papers. A list is kept below CacheRoot for CacheMaxExpire
    seconds; htcacheclean takes away what is older, where it runs."""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if not path.startswith("/register?"):
            return super().answer(method, path, body)
        name = hashlib.sha256(path.encode()).hexdigest()
        kept = Path(self.own["CacheRoot"], name[0], name[1], f"{name[2:]}.data")
        if kept.exists() and time.time() - kept.stat().st_mtime < int(self.own["CacheMaxExpire"]):
            return 200, kept.read_bytes()
        names = sorted(one for one in os.listdir(self.store) if not one.startswith("."))
        text = "".join(f"{one}\\n" for one in names).encode()
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.with_suffix(".header").write_text(f"{path}\\n")
            kept.write_bytes(text)
        except OSError as error:
            self.log("warn", f"({error.errno}){error.strerror}: could not create {kept}")
        return 200, text


if __name__ == "__main__":
    run(Cached)
'''


def map_tiles(pick: Pick) -> Scene:
    """As `previews`: small pictures in many folders, of which none has many; here tiles of a map,
    by zoom and place, that a customer's site has fetched from elsewhere."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    root = vhosts.var_of(main)
    tiles = f"{root}/{pick.choice(('tiles', 'map/fetched', 'osm'))}"
    kept, video = vhosts.pages(main, pick, 140), f"{root}/village-fete.mp4"
    plan = {"tiles": tiles, "source": "https://tile.maps.example/{z}/{x}/{y}.png"}
    fresh = {f"{tiles}/9/{270 + n}/{170 + n}.png": File("tile\n", age=40.0) for n in range(4)}
    world = tiers.joined(
        [vhosts.site(main, port, more={"map": plan}), vhosts.site(other, other_port)],
        files={**kept, **fresh, **vhosts.months_ago(main, pick), **vhosts.months_ago(other, pick),
               video: File(size=4 << 20, age=9e6)},
        mounts=(Mount(root, mb=24, inodes=pick.size(1100, 2100)),),
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(TILES.format(tiles=tiles))

    return Scene(
        world=world,
        check=vhosts.sound(main, port),
        healthy=lambda probe: said(vhosts.writes(probe, port), _tight(probe, root)),
        truth=Truth(
            (main,), ("inode-full",), rf"{tiles}|\d\.png\b", rf"100% +{root}|{tiles}|\d\.png\b",
        ),
        inject=inject,
        fix=("mkdir -p /var/tmp/tiles",
             f"find {tiles} -type f -mtime +1 -exec mv --backup=t -t /var/tmp/tiles {{}} +"),
        wrong={
            "it is restarted": [f"supervisorctl restart {main}; sleep 0.3"],
            "the biggest file goes": [f"rm {video}"],
            "old pages go": [f"find {root}/pages -type f -mtime +1 -delete"],
        },
        stays=(*kept, video, vhosts.conf_of(main), vhosts.conf_of(other)),
        harm=lambda probe: said(vhosts.writes(probe, other_port)),
    )  # fmt: skip


def disk_cache(pick: Pick) -> Scene:
    """As `page-cache`: a cache that was told to keep for a year lies beside what people keep; here
    it is the office's own, two files for each list, and new papers are not filed any more."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    root, plans = parish.STORE, f"{parish.STORE}/{main}/plans-of-the-tower.tif"
    cache = f"{root}/{pick.choice(('.httpcache', 'mod_cache_disk', 'lists'))}"
    kept, theirs = parish.papers(main, pick, 90), parish.papers(other, pick, 60)
    settings = {"CacheRoot": cache, "CacheDirLevels": 2, "CacheDirLength": 1,
                "CacheMaxExpire": 86400 * pick.size(300, 400)}  # fmt: skip
    world = tiers.joined(
        [parish.binder(main, port, settings, code=parish.program(CACHED)),
         parish.binder(other, other_port)],
        files={**kept, **theirs, **parish.former(main, pick), **parish.former(other, pick),
               plans: File(size=3 << 20, age=9e6)},
        folders={cache: 0o755},
        mounts=(Mount(root, mb=24, inodes=pick.size(1200, 2200)),),
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(LISTS.format(cache=cache))

    def healthy(probe: Probe) -> list[str]:
        listed = probe.http(port, "/register?from=1900").status == 200
        return said(
            parish.files(probe, port), _tight(probe, root), "" if listed else "nothing is listed"
        )

    return Scene(
        world=world,
        check=parish.takes(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("inode-full",), rf"{cache}|Cache(Root|MaxExpire)|{parish.settings_of(main)}",
            rf"100% +{root}|{cache}|Cache(Root|MaxExpire)|htcacheclean",
        ),
        inject=inject,
        fix=("mkdir -p /var/tmp/lists",
             f"find {cache} -type f -mtime +1 -exec mv -t /var/tmp/lists {{}} +"),
        wrong={
            "it is restarted": [f"supervisorctl restart {main}; sleep 0.3"],
            "the biggest file goes": [f"rm {plans}"],
            "less is kept from now on": [
                f"sed -i 's/^CacheMaxExpire .*/CacheMaxExpire 3600/' {parish.settings_of(main)}",
                f"supervisorctl restart {main}; sleep 0.3",
            ],
            "old papers go": [f"find {root}/{main} {root}/{other} -type f -mtime +1 -delete"],
        },
        stays=(*kept, *theirs, plans, parish.settings_of(other)),
        harm=lambda probe: said(parish.files(probe, other_port)),
    )  # fmt: skip
