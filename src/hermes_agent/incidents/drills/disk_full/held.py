"""File systems without room, in other houses."""

import sqlite3
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import tiers, vhosts
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.disk_full.practice_quarter import _tight
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Mount, Program, Truth


def _built(builds: Sequence[str], used: str, each: int) -> Callable[[Box], None]:
    """Each deployment has left its build; the last is that of this morning."""

    def inject(box: Box) -> None:
        for number, build in enumerate(builds):
            if build != used:
                box.run(f"mkdir -p {build} && cp {used}/*.py {build}/ && "
                        f"head -c {each} /dev/urandom > {build}/assets.tar")  # fmt: skip
            ago = f"{9 * (len(builds) - number) - 5} days ago"
            box.run(f"touch -d '{ago}' {build}/* {build}")
        box.fill(f"{builds[0]}/assets.tar.orig")
        box.run(f"touch -d '{9 * len(builds)} days ago' {builds[0]}/*.orig {builds[0]}")

    return inject


def unpruned(pick: Pick) -> Scene:
    """As `releases`: builds of a customer's site, named by commits, stay on the customer's own
    disk; the one that runs is named by the supervisor's entry only, the newest was withdrawn."""
    (main, other), (port, other_port), mb = pick.services(2), pick.ports(2), pick.size(11, 17)
    home, count = f"{vhosts.TOP}/{main}", pick.size(8, 13)
    top = f"{home}/{pick.choice(('builds', 'deployments', 'htdocs.d'))}"
    builds = [f"{top}/{pick.random.randrange(16**7):07x}" for _ in range(count)]
    used, each = builds[-2], mb * 2**20 * 52 // 100 // count
    kept, photos = vhosts.pages(main, pick), f"{vhosts.var_of(main)}/gallery-{pick.token(4)}.tar"
    part = vhosts.site(main, port, about=f"site below {home}, log {vhosts.log_of(main)}")
    code = {path: file for path, file in part.files.items() if "/app/" in path}
    part = replace(
        part,
        program=replace(part.program,
                        command=f"python3 {used}/folio.py {vhosts.conf_of(main)}"),
        files={vhosts.conf_of(main): part.files[vhosts.conf_of(main)],
               **{f"{used}/{path.rpartition('/')[2]}": file for path, file in code.items()},
               f"{used}/assets.tar": File(size=each)},
    )  # fmt: skip
    short = [build.rpartition("/")[2] for build in builds]
    log = f"{home}/logs/deploy.log"
    told = "".join(f"deployed {one}\n" for one in short) + (
        f"withdrew {short[-1]}: the menu is empty, back to {short[-2]}\n"
    )
    world = tiers.joined(
        [part, vhosts.site(other, other_port)],
        files={
            **kept, **vhosts.months_ago(main, pick), **vhosts.months_ago(other, pick),
            photos: File(size=mb * 2**20 * 28 // 100, age=9e6), log: File(told, age=86400.0),
            f"{vhosts.var_of(other)}/video.mp4": File(size=9 << 20, age=9e6),
        },
        mounts=(Mount(home, mb=mb),),
        hostname=pick.host(),
    )  # fmt: skip
    old = " ".join(builds[:-3])
    return Scene(
        world=world,
        check=vhosts.sound(main, port),
        healthy=lambda probe: said(vhosts.writes(probe, port), _tight(probe, home)),
        truth=Truth(
            (main,), ("disk-full",), rf"{top}|assets\.tar",
            rf"100% +{home}|{top}|assets\.tar",
        ),
        inject=_built(builds, used, each),
        fix=(f"mkdir -p /var/tmp/{main}; mv {old} /var/tmp/{main}/",),
        wrong={
            "it is restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "all but the newest go": [f"rm -r {' '.join(builds[:-1])}"],
            "the biggest file goes": [f"rm {photos} {vhosts.var_of(other)}/video.mp4"],
            "logs go": [f"rm {log} {vhosts.log_of(main)}"],
        },
        stays=(*kept, photos, vhosts.conf_of(main), f"{used}/folio.py", f"{used}/assets.tar",
               f"{vhosts.var_of(other)}/video.mp4"),
        runs=(used,),
        harm=lambda probe: said(vhosts.writes(probe, other_port)),
    )  # fmt: skip


LEVELS = "/levels"
MEASURED = """import sqlite3, sys
base = sqlite3.connect(sys.argv[1], isolation_level=None)
base.execute("insert or replace into levels values (?, ?)", sys.argv[2:4])
base.execute("insert or replace into levels values ('curve', '')")
for size in (50000, 1500):
    try:
        while True:
            base.execute("update levels set told = hex(randomblob(?)) where gauge = 'curve'",
                         (size // 2,))
    except sqlite3.OperationalError:
        pass
"""
BEFORE = """Mar 02 04:11:09 {0} gauged[91]: <err> PUT /levels/g17: sqlite: database is locked
Jun 19 22:40:51 {0} gauged[133]: <err> GET /livez: sqlite: disk I/O error
Aug 30 06:02:37 {0} gauged[90]: <info> listening at 127.0.0.1:8080, levels in /var/lib/gauges/x
"""


def _gauged(name: str, port: int, levels: Mapping[str, str], host: str) -> tiers.Part:
    """A service for levels, all of it told by its command."""
    code, folder = "/opt/gauges/gauged.py", f"/var/lib/gauges/{name}"
    base, log = f"{folder}/levels.db", f"/var/log/gauges/{name}"
    with tempfile.TemporaryDirectory() as place:
        made = sqlite3.connect(Path(place, "made"))
        made.execute("create table levels (gauge text primary key, told text)")
        made.executemany("insert into levels values (?, ?)", levels.items())
        made.execute("create table spare as select zeroblob(500000) as blank")
        made.execute("drop table spare")
        made.commit()
        made.close()
        data = Path(place, "made").read_bytes()
    return tiers.Part(
        Program(name=name, ready=f"tcp:{port}", about=f"levels of rivers: {base}, log {log}",
                command=f"python3 {code} --bind 127.0.0.1:{port} --db {base} --log {log} --wal"),
        {code: File(tiers.program_text("gauged.py"), age=tiers.MONTH), base: File(data=data),
         log: File(BEFORE.format(host), age=9e5)},
        {folder: 0o755, "/var/log/gauges": 0o755},
    )  # fmt: skip


def _notes(service: str, port: int) -> WatchedCheck:
    """The check of the water board: a level is noted."""
    run = f"curl -sS -m 4 -X PUT -d 'cm=0' http://127.0.0.1:{port}{LEVELS}/water-board"
    return WatchedCheck(f"{service} notes levels", Check(run, Expect(output="^noted"), timeout=8.0),
                        service, severity="P1")  # fmt: skip


def _unlike(probe: Probe, port: int, levels: Mapping[str, str]) -> str:
    """Levels that are not as they were; empty when all are."""
    lost = [key for key, told in levels.items()
            if probe.http(port, f"{LEVELS}/{key}").text != told]  # fmt: skip
    return f"levels are lost: {', '.join(lost)}" if lost else ""


def console(pick: Pick) -> Scene:
    """As `long-reader`: somebody has left a console of sqlite3 open in the middle of a look at the
    levels of a river, and the log of the database is never cleared."""
    (main, other), (port, other_port), mb = pick.services(2), pick.ports(2), pick.size(8, 13)
    folder, host, who = f"/var/lib/gauges/{main}", pick.host(), pick.choice(("ravi", "elke", "jon"))
    base, chart = f"{folder}/levels.db", f"{folder}/chart-{pick.size(1990, 2015)}.tif"
    levels = {f"g{pick.token(6)}": f"cm={pick.size(10, 900)} {pick.token(12)}" for _ in range(11)}
    latest, asked = {f"g{pick.token(7)}": f"cm={pick.size(10, 900)}"}, pick.choice((
        "select count(*) from levels", "select max(gauge) from levels", "select * from levels"
    ))  # fmt: skip
    world = tiers.joined(
        [_gauged(main, port, levels, host), _gauged(other, other_port, {}, host)],
        files={
            chart: File(size=mb * 2**20 * 27 // 100, age=9e7),
            f"/home/{who}/curves.xls": File(size=5 << 20, age=9e6),
        },
        mounts=(Mount(folder, mb=mb),),
        hostname=host,
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"mkfifo /home/{who}/.tty")
        box.spawn(f"cd /home/{who}; exec sqlite3 -cmd begin -cmd '{asked}' {base} <>.tty")
        box.write("/root/.m", MEASURED)
        words = " ".join(*latest.items())
        box.run(f"sleep 0.6; python3 /root/.m {base} {words}; rm /root/.m")

    clear = f"sqlite3 {base} 'pragma wal_checkpoint(truncate)'"
    return Scene(
        world=world,
        check=_notes(main, port),
        healthy=lambda probe: said(probe.keeps(port, LEVELS), _tight(probe, folder)),
        truth=Truth(
            (main, "sqlite3"), ("disk-full",), r"levels\.db-wal|-wal\b|sqlite3 -cmd|sqlite3 \(?pid",
            rf"100% +{folder}|db-wal|sqlite3 -cmd|{who}/\.tty",
        ),
        inject=inject,
        fix=("pkill -f 'sqlite3 -cmd begin'", f"sleep 0.3; {clear}"),
        wrong={
            "it is restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "the log is cleared": [clear],
            "the big files go": [f"rm {chart} /home/{who}/curves.xls"],
            "the log goes": [f"rm {base}-wal {base}-shm; supervisorctl restart {main}; sleep 0.5"],
        },
        stays=(chart, f"/home/{who}/curves.xls", "/opt/gauges/gauged.py"),
        runs=(rf"gauged\.py .*{main}/", rf"gauged\.py .*{other}/"),
        harm=lambda probe: said(
            _unlike(probe, port, {**levels, **latest}), probe.keeps(other_port, LEVELS)
        ),
    )  # fmt: skip
