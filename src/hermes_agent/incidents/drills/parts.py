"""What several drills build their worlds of: services that keep items, neighbours that must live,
and traces of old trouble that has nothing to do with the new one."""

import hashlib
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from random import Random

from msgspec import Struct

from hermes_agent.core.incidents import Severity, WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.tiers import program_text
from hermes_agent.incidents.drills.world import File, Mount, Program, World

OLD_TROUBLE = (
    "cannot write the report: No space left on device",
    "accept: [Errno 24] Too many open files",
    "upstream answered after 9.7 s",
    "could not bind port: Address already in use",
    "worker was killed (signal 9)",
    "Temporary failure in name resolution",
    "MemoryError while sorting 120000 rows",
    "lock is held by pid 4711, waiting",
)
"""What old logs say; none of it is so any more."""


class Part(Struct, frozen=True):
    """A piece of a world: a program with what belongs to it."""

    programs: tuple[Program, ...] = ()
    files: Mapping[str, File] = {}
    folders: Mapping[str, int] = {}


def joined(*parts: Part, mounts: tuple[Mount, ...] = (), setup: tuple[str, ...] = ()) -> World:
    return World(
        programs=tuple(program for part in parts for program in part.programs),
        files={path: file for part in parts for path, file in part.files.items()},
        folders={path: mode for part in parts for path, mode in part.folders.items()},
        mounts=mounts,
        setup=setup,
    )


def source(name: str) -> File:
    """A program as it stands in the box, beside those that it uses."""
    return File(text=program_text(name), mode=0o755)


def conf(settings: Mapping[str, object], section: str = "service") -> str:
    return "\n".join([f"[{section}]", *(f"{k} = {v}" for k, v in settings.items())]) + "\n"


def keeper(
    name: str,
    port: int,
    *,
    root: str = "",
    code: str = "keeper.py",
    limits: Mapping[str, int] | None = None,
    environment: Mapping[str, str] | None = None,
    needs: tuple[str, ...] = (),
    about: str = "keeps items",
    start_seconds: int = 0,
    settings: Mapping[str, object] | None = None,
) -> Part:
    """A service that keeps items under `root`, with its code, configuration and log."""
    root = root or f"/var/lib/{name}"
    log = f"/var/log/{name}/{name}.log"
    chosen = {"name": name, "port": port, "data": f"{root}/items", "log": log, **(settings or {})}
    files = {f"/etc/{name}/{name}.conf": File(text=conf(chosen), age=86400.0 * 40)}
    for one in ("common.py", "keeper.py", code):
        files[f"/srv/{name}/{one}"] = source(one)
    return Part(
        (
            Program(
                name=name,
                command=f"python3 /srv/{name}/{code} /etc/{name}/{name}.conf",
                directory=f"/srv/{name}",
                environment=dict(environment or {}),
                limits=dict(limits or {}),
                needs=needs,
                about=f"{about}; code /srv/{name}, configuration /etc/{name}, log {chosen['log']}",
                ready=f"tcp:{port}",
                start_seconds=start_seconds,
            ),
        ),
        files,
        {
            str(chosen["data"]): 0o755,
            str(Path(str(chosen["log"])).parent): 0o755,
        },
    )


def neighbour(name: str, port: int, salt: int) -> Part:
    """A service that is well, and whose log tells of trouble of weeks ago."""
    part = keeper(name, port, about="keeps items for others")
    log = f"/var/log/{name}/{name}.log"
    return Part(part.programs, {**part.files, log: File(text=old_log(salt))}, part.folders)


def old_log(salt: int, lines: int = 40) -> str:
    """Weeks of a service's log, with some trouble that is over."""
    random = Random(salt)
    said = []
    for number in range(lines):
        day = f"2026-{1 + number * 9 // lines:02}-{random.randint(1, 28):02}"
        clock = f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.randint(0, 59):02}"
        if random.random() < 0.12:
            said.append(f"{day} {clock} ERROR {random.choice(OLD_TROUBLE)}")
        else:
            said.append(f"{day} {clock} INFO kept item-{random.randint(1000, 9999)}")
    return "\n".join(said) + "\n"


def batch(name: str, share: float = 0.25, lock: str = "") -> Part:
    """A job that is busy for hours, and supposed to be."""
    folder = f"/var/lib/{name}"
    words = f"{folder} {share} {lock}".strip()
    return Part(
        (
            Program(
                name=name,
                command=f"python3 /srv/{name}/batch.py {words}",
                directory=f"/srv/{name}",
                about="the long recalculation, busy from evening to morning; must not be stopped",
                ready=f"file:{folder}/progress",
            ),
        ),
        {f"/srv/{name}/batch.py": source("batch.py")},
        {folder: 0o755},
    )


def desk(name: str, port: int, worker: str, lock: str = "") -> Part:
    """A service that takes jobs, and the worker that does them one after the other."""
    spool = f"/var/spool/{name}"
    settings = {"spool": spool, **({"lock": lock} if lock else {})}
    code = f"/srv/{worker}/worker.py"
    does = Program(
        name=worker,
        command=f"nice -n 10 python3 {code} /etc/{worker}/{worker}.conf",
        directory=f"/srv/{worker}",
        about=f"does the jobs of {spool}, one after the other",
    )
    takes = keeper(
        name, port, code="desk.py", needs=(worker,), about=f"takes jobs into {spool}",
        settings={"data": f"{spool}/in", "results": f"{spool}/done"},
    )  # fmt: skip
    files = {
        code: source("worker.py"),
        f"/etc/{worker}/{worker}.conf": File(text=conf(settings), age=86400.0 * 40),
    }
    folders = {f"{spool}/{folder}": 0o755 for folder in ("in", "work", "done")}
    return Part((does, *takes.programs), {**files, **takes.files}, {**folders, **takes.folders})


def job(text: str) -> str:
    return f'{{"text": "{text}", "width": 5, "step": 2}}'


def does_jobs(service: str, port: int) -> WatchedCheck:
    """The check of whoever hands in jobs: is one done within seconds."""
    base = f"http://127.0.0.1:{port}"
    run = (
        f"id=check-$(date +%s%N).json; curl -sS -m 2 -X PUT --data '{job('is it done yet')}' "
        f"{base}/items/$id; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; "
        f"curl -fsS -m 1 {base}/results/$id 2>/dev/null && exit 0; done; "
        "echo no result after 2 s; exit 1"
    )
    return WatchedCheck(
        name=f"{service}-jobs",
        check=Check(run=run, expect=Expect(output="sha256"), timeout=8.0),
        service=service,
        severity="P1",
    )


def done(probe: Probe, port: int, spool: str) -> str:
    """Hand in a job and see whether its result is right; a sentence where it is not."""
    key = f"job-{secrets.token_hex(4)}"
    text = f"what is in {key}"
    probe.http(port, f"/items/{key}.json", method="PUT", body=job(text).encode())
    pieces = [text[start : start + 5] for start in range(0, len(text), 2)]
    right = (
        hashlib.sha256("".join(piece for piece, _ in groupby(pieces)).encode()).hexdigest().encode()
    )
    until = time.monotonic() + 0.8
    while time.monotonic() < until:
        if right in (probe.read(f"{spool}/done/{key}.json") or b""):
            return ""
        time.sleep(0.05)
    return f"job {key} is not done"


def hoard(name: str, megabytes: int) -> Part:
    """A cache that is big and stays as big as it is."""
    return Part(
        (
            Program(
                name=name,
                command=f"python3 /srv/{name}/hoard.py {megabytes}",
                about=f"a warm cache of {megabytes} MB, by design",
            ),
        ),
        {f"/srv/{name}/hoard.py": source("hoard.py")},
    )


def items(root: str, salt: int, count: int = 12) -> dict[str, File]:
    """Items that people have kept, and want back."""
    random = Random(salt)
    return {
        f"{root}/items/item-{random.randrange(10**6):06}": File(
            text=f"{random.random()}\n", age=7e5
        )
        for _ in range(count)
    }


def saves(service: str, port: int, severity: Severity = "P1") -> WatchedCheck:
    """The check of whoever runs the service: does it keep what it is given."""
    base = f"http://127.0.0.1:{port}/items/health-check"
    run = (
        f'now=$(date +%s%N); curl -sS -m 2 -X PUT --data "$now" {base} && '
        f'test "$(curl -sS -m 2 {base})" = "$now" && echo kept and given back'
    )
    return WatchedCheck(
        name=f"{service}-saves",
        check=Check(run=run, expect=Expect(output="kept and given back"), timeout=8.0),
        service=service,
        severity=severity,
    )


def finds(service: str, port: int, path: str, text: str) -> WatchedCheck:
    """The check of whoever uses the service: is what was kept long ago still to be had."""
    return WatchedCheck(
        name=f"{service}-finds",
        check=Check(
            run=f"curl -sS -m 3 http://127.0.0.1:{port}/items/{Path(path).name}",
            expect=Expect(output=f"^{re.escape(text.strip())}"),
            timeout=6.0,
        ),
        service=service,
        severity="P1",
    )


def digest(probe: Probe, *paths: str) -> dict[str, str]:
    """Hashes of files and of all in folders, to compare with later."""
    found: dict[str, str] = {}
    for path in paths:
        stat = probe.stat(path)
        if stat is not None and stat.kind == "folder":
            found.update(probe.tree(path))
        else:
            found[path] = probe.sha256(path)
    return found


def changed(probe: Probe, before: Mapping[str, str]) -> list[str]:
    """What is gone or other than it was; what came since does not count."""
    said = []
    for path, was in before.items():
        now = probe.sha256(path)
        if now != was:
            said.append(f"{path} is {'changed' if now else 'gone'}")
    return said


def supervised(probe: Probe, name: str, top: str = "/srv") -> bool:
    """Whether the supervisor itself runs it: what it says goes to the supervisor's own pipe."""
    running = probe.processes()
    first = {link for process in running if process.inner == 1 for link in _open(process.pid)}
    ours = (process for process in running if f"{top}/{name}/" in process.command)
    return any(link in first for process in ours for link in _open(process.pid, ("1",)))


def _open(pid: int, which: Sequence[str] = ()) -> list[str]:
    """The pipes that a process has open."""
    folder = Path(f"/proc/{pid}/fd")
    try:
        links = [str((folder / name).readlink()) for name in which or folder.iterdir()]
    except OSError:  # it has just ended
        return []
    return [link for link in links if link.startswith("pipe:")]


def open_files(pid: int) -> int:
    """How many files a process may have open."""
    found = re.search(r"Max open files +(\d+)", Path(f"/proc/{pid}/limits").read_text())
    return int(found[1]) if found else 0


def stopped(probe: Probe, world: World) -> list[str]:
    """Programs that ran when all was well, and do not now."""
    names = [program.name for program in world.programs]
    return [f"{name} does not run any more" for name in names if not supervised(probe, name)]


def free_share(probe: Probe, path: str) -> float:
    space = probe.space(path)
    return space.free / space.total


def free_inodes(probe: Probe, path: str) -> float:
    space = probe.space(path)
    return space.inodes_free / space.inodes
