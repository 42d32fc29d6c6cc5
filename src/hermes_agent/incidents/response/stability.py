"""Tests whether a remedy lasts. The checks may hold only because something was restarted, emptied
or made by hand, so before an incident counts as resolved, growth, busy loops, restarts, full disks
and repeated log messages are looked for. This relies on no model's word."""

import re
import shlex
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.response.facts import ServiceFacts
from hermes_agent.incidents.response.survey import sections
from hermes_agent.incidents.response.verification import CheckResult, RunCommand, check_all

LASTS = "all checks pass, and nothing suggests that they will fail again"
ROUNDS, MORE_ROUNDS = 2, 2
"""Rounds of checks between samples, and further rounds if something rose."""
ASKED = 3
"""Requests in a round."""
PORTS, PAGES = 6, ("/", "/health", "/healthz", "/ready")
"""How many ports get requests, and for which pages."""
ROUND_SECONDS = 1.0
MORE_SECONDS = 3.0
"""Pause in the further rounds, to tell a short rise from a steady one."""
LEAST = {"memory": 256.0, "open files": 2.0, "space": 64.0, "log": 16.0}
"""The least rise for each round: kilobytes, descriptors, kilobytes, kilobytes."""
SOON_SECONDS = 3_600.0
"""A disk that would be full within so long counts as not fixed."""
BUSY = 0.9
"""Share of one processor."""
ROOM = frozenset({"disk-full", "inode-full", "log-flood"})
FULL = 0.02
"""A file system with less free space than this share is full."""
JOB_SECONDS, JOB_POLL = 130.0, 2.0
"""How long to wait for a scheduled job to produce its file again."""
LINES = 200
_PSEUDO = re.compile(r"^/(?:proc|sys|dev|snap|boot)(?:/|$)")
_PATH = re.compile(r"(?<![\w.:/~$*=-])/(?:[\w@%+.,-]+/)+[\w@%+.,-]*\w")
_LOG = re.compile(r"\.log\b|^/var/log/|^/(?:dev|proc|etc|usr|opt|bin)/")
"""Paths that jobs do not produce."""
_OFTEN = re.compile(r"^\s*(?:\*|\*/[12])\s+\*\s+\*\s+\*\s+\*\s")
"""A cron schedule that is due within that time."""


class StabilityWatch(Struct, frozen=True):
    """What is watched: the services of an incident, and its diagnosis."""

    checks: Sequence[WatchedCheck]
    facts: Mapping[str, ServiceFacts]
    category: str
    quotes: Sequence[str]
    run: RunCommand
    ask: RunCommand
    """Sends requests to the services."""
    sleep: Callable[[float], Awaitable[None]]
    patience: float = JOB_SECONDS
    """How long to wait for a job."""


class Sample(Struct, frozen=True):
    """A measurement of the machine."""

    mains: Mapping[str, int]
    processes: Mapping[int, tuple[int, float, float]]
    """Parent, processor time in hundredths of a second, kilobytes of memory."""
    opened: Mapping[int, int]
    room: Mapping[str, tuple[float, float]]
    """By mount: kilobytes used, and free."""
    files: Mapping[str, tuple[float, float]]
    sizes: Mapping[str, float]
    """Kilobytes of logs."""
    time: float

    def tree(self, pid: int) -> list[int]:
        found = [pid] if pid in self.processes else []
        for one in found:
            found += [child for child, (above, _, _) in self.processes.items() if above == one]
        return found


async def not_lasting(given: StabilityWatch) -> list[str]:
    """The checks that failed meanwhile, or what else shows that it does not last; else empty."""
    before = await _log_ends(given)
    samples = [await _sample(given)]
    for seconds, rounds in ((ROUND_SECONDS, ROUNDS), (MORE_SECONDS, MORE_ROUNDS)):
        for _ in range(rounds):
            if failing := await _ask(given, seconds):
                return [one.line for one in failing]
            samples.append(await _sample(given))
        if not (reason := next(_unrest(given, samples), "")):
            break
    reason = reason or await _complaint(given, before) or await _unmade(given)
    return [f"the checks pass, but: {reason}"] if reason else []


async def _ask(given: StabilityWatch, seconds: float) -> tuple[CheckResult, ...]:
    """Send requests and run the checks; returns those that failed."""
    ports = sorted({port for one in given.facts.values() for port in one.ports})[:PORTS]
    for _ in range(ASKED):
        if ports:
            await given.ask(request_script(ports), None)
        held = await check_all(given.checks, given.run)
        if failing := tuple(one for one in held if not one.ok):
            return failing
    await given.sleep(seconds)
    return ()


def request_script(ports: Sequence[int]) -> str:
    """A script that requests pages from local ports; the answers are discarded."""
    with_curl, without = [], []
    for port in ports:
        to = f"127.0.0.1:{port}"
        each = [f"curl -sk -m 2 -o /dev/null http://{to}{path}" for path in PAGES]
        tls = [f"{one.replace('http:', 'https:')}" for one in each]
        with_curl.append(f"{{ {' && '.join(each)} || {{ {'; '.join(tls)}; }}; }} &")
        page = "".join(f"GET {path} HTTP/1.0\\r\\n\\r\\n" for path in PAGES[-1:])
        without.append(
            f'timeout 2 bash -c \'(printf "{page}" >&3; head -c 64 <&3) '
            f"3<>/dev/tcp/{to.replace(':', '/')}' >/dev/null 2>&1 &"
        )
    curl, plain = "\n".join(with_curl), "\n".join(without)
    return f"if command -v curl >/dev/null; then\n{curl}\nelse\n{plain}\nfi; wait"


def sample_script(facts: Mapping[str, ServiceFacts]) -> str:
    mains = [f'echo "{name} {one.find_pid}"' for name, one in facts.items() if one.find_pid]
    logs = [path for one in facts.values() for path in one.logs]
    sizes = f"stat -c '%s %n' {' '.join(logs)} 2>/dev/null" if logs else ":"
    script = Path(__file__).with_name("sample.sh").read_text(encoding="utf-8")
    return script.replace("@mains@", "; ".join(mains) or ":").replace("@sizes@", sizes).strip()


async def _sample(given: StabilityWatch) -> Sample:
    seen = sections((await given.run(sample_script(given.facts), None)).output)
    parts = defaultdict(list, {name: [one.split() for one in some] for name, some in seen.items()})
    return Sample(
        {row[0]: int(row[1]) for row in parts["main"] if len(row) == 2 and row[1].isdigit()},
        {
            int(row[0]): (int(row[1]), float(row[2]), float(row[3]))
            for row in parts["stat"]
            if len(row) == 5 and row[4] != "Z"
        },
        {int(row[0]): int(row[1]) for row in parts["open"] if len(row) == 2},
        _mounts(parts["room"]),
        _mounts(parts["files"]),
        {row[1]: float(row[0]) / 1024 for row in parts["size"] if len(row) == 2},
        float(parts["time"][0][0]) if parts["time"] and parts["time"][0] else 0.0,
    )


def _mounts(rows: Sequence[Sequence[str]]) -> dict[str, tuple[float, float]]:
    found = [row for row in rows if len(row) == 3 and row[1].isdigit() and row[2].isdigit()]
    return {row[0]: (float(row[1]), float(row[2])) for row in found if not _PSEUDO.match(row[0])}


def _unrest(given: StabilityWatch, samples: Sequence[Sample]) -> Iterator[str]:
    """What rises, spins, restarts or fills up from sample to sample."""
    seconds = max(0.1, samples[-1].time - samples[0].time)
    for name in given.facts:
        pids = [one.mains.get(name, 0) for one in samples]
        if len({*pids} - {0}) >= len(samples) - 1:
            yield f"{name} keeps restarting: its process IDs were {', '.join(map(str, pids))}"
            continue
        trees = [one.tree(pid) for one, pid in zip(samples, pids, strict=True)]
        pairs = list(zip(samples, trees, strict=True))
        memory = [sum(one.processes[pid][2] for pid in tree) for one, tree in pairs]
        opened = [float(sum(one.opened.get(pid, 0) for pid in tree)) for one, tree in pairs]
        for what, values in (("open files", opened), ("memory", memory)):
            if pids[0] and rises(values, LEAST[what]):
                unit = " kB of memory" if what == "memory" else " open files"
                yield f"{name} uses more and more under load: {_row(values)}{unit}"
        if given.category == "runaway-process":
            yield from _spinning(name, trees[-1], samples)
    yield from _filling(given, samples, seconds)


def rises(values: Sequence[float], least: float) -> bool:
    """Whether every step adds at least so much."""
    steps = [after - before for before, after in pairwise(values)]
    return bool(steps) and all(step >= least for step in steps)


def _row(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.0f}" for value in values)


def _spinning(name: str, tree: Sequence[int], samples: Sequence[Sample]) -> Iterator[str]:
    for pid in tree:
        shares = [
            (b.processes[pid][1] - a.processes[pid][1]) / 100 / max(0.1, b.time - a.time)
            for a, b in pairwise(samples)
            if pid in a.processes and pid in b.processes
        ]
        if len(shares) == len(samples) - 1 and min(shares) >= BUSY:
            yield f"{name}: process {pid} still uses {min(shares):.0%} of a processor"


def _filling(given: StabilityWatch, samples: Sequence[Sample], seconds: float) -> Iterator[str]:
    last = samples[-1]
    for what, unit, tables in (
        ("space", "kB", [one.room for one in samples]),
        ("files", "files", [one.files for one in samples]),
    ):
        for mount, (used, left) in tables[-1].items():
            values = [one.get(mount, (0.0, 0.0))[0] for one in tables]
            rate = (values[-1] - values[0]) / seconds
            least = LEAST["space"] if what == "space" else ASKED
            theirs = _is_theirs(given, mount, last)  # other services are not our concern
            soon = rises(values, least) and left < rate * SOON_SECONDS
            if soon and (theirs or given.category in ROOM):
                yield f"{mount} is filling up: {_row(values)} {unit}, full in {left / rate:.0f} s"
            if theirs and given.category in ROOM and left < FULL * (used + left):
                yield f"{mount} is still full: {left:.0f} {unit} left"
    for path in last.sizes:
        values = [one.sizes.get(path, 0.0) for one in samples]
        rate = (values[-1] - values[0]) / seconds
        left = last.room.get(_mount_of(path, last), (0.0, 0.0))[1]
        flood = given.category == "log-flood" or left < rate * SOON_SECONDS
        if rises(values, LEAST["log"]) and flood:
            yield f"{path} grows too fast: {_row(values)} kB within {seconds:.0f} s"


def _is_theirs(given: StabilityWatch, mount: str, sample: Sample) -> bool:
    """Whether a service of the incident writes to this mount."""
    paths = [path for one in given.facts.values() for path in (*one.logs, *one.data)]
    return any(_mount_of(path, sample) == mount for path in paths)


def _mount_of(path: str, sample: Sample) -> str:
    holding = [one for one in sample.room if path.startswith(one.rstrip("/") + "/")]
    return max(holding, key=len, default="")


# complaints


async def _log_ends(given: StabilityWatch) -> str:
    commands = [one.recent for one in given.facts.values() if one.recent]
    if not commands or not given.quotes:
        return ""
    seen = await given.run("; ".join(commands), None)
    return seen.output if seen.exit is not None else ""


async def _complaint(given: StabilityWatch, before: str) -> str:
    """A quoted log message that keeps being logged."""
    said = {gist(quote) for quote in given.quotes}
    old = _count(before, said)
    new = _count(await _log_ends(given), said) if old else {}
    again = [key for key, lines in new.items() if len(lines - old.get(key, set())) > 1]
    if not again:
        return ""
    return f"the logs still report: {max(new[again[0]])[:200]}"


def _count(text: str, said: set[str]) -> dict[str, set[str]]:
    """Lines of a log that match a quote, by their gist."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in text.splitlines():
        if (key := gist(line)) in said:
            found[key].add(line.strip())
    return found


def gist(line: str) -> str:
    """A line without numbers and ids."""
    return " ".join(re.sub(r"[0-9a-f]{8,}|\d+", "#", line).split())


# jobs


async def _unmade(given: StabilityWatch) -> str:
    """A file that a check reads and a job makes every minute or two must be made again by the job,
    not by hand. Jobs that are due later are not waited for."""
    named = [path for one in given.checks for path in _PATH.findall(one.check.run)]
    paths = [path for path in dict.fromkeys(named) if not _LOG.search(path)]
    if not paths:
        return ""
    jobs = await _jobs(given, paths)
    soon = [line for line in jobs if _OFTEN.match(line)]
    if (jobs and not soon) or (not jobs and given.category != "job-missed"):
        return ""
    stat = f"stat -c '%Y %i %n' {' '.join(map(shlex.quote, paths))} 2>/dev/null; true"
    first = (await given.run(stat, None)).output
    waited = 0.0
    while waited < given.patience:
        await given.sleep(JOB_POLL)
        waited += JOB_POLL
        if (await given.run(stat, None)).output != first:
            return ""
        if failing := [one.line for one in await check_all(given.checks, given.run) if not one.ok]:
            return f"fixed only briefly: {failing[0]}"
    why = f"its job is `{' '.join(soon[0].split())}`" if soon else "no crontab or unit names it"
    return f"{', '.join(paths)} was not recreated within {given.patience:.0f} s; {why}"


async def _jobs(given: StabilityWatch, paths: Sequence[str]) -> list[str]:
    """Lines of crontabs and units that name these paths, directly or in the scripts they run."""
    tabs = "/etc/crontab /etc/cron.d/* /var/spool/cron/crontabs/* /var/spool/cron/*"
    units = "/etc/systemd/system/*.service /lib/systemd/system/*.service"
    seen = await given.run(
        f"grep -hsE '^[^#]*[*/0-9]' {tabs}; grep -hs '^ExecStart=' {units}; true", None
    )
    lines = seen.output.splitlines()
    words = " ".join(f"-e {shlex.quote(one)}" for one in paths)
    naming: set[str] = set()
    if scripts := list(dict.fromkeys(path for line in lines for path in _PATH.findall(line))):
        named = " ".join(map(shlex.quote, scripts))
        naming = set((await given.run(f"grep -lsF {words} {named}; true", None)).output.split())
    return [
        line
        for line in lines
        if any(one in line for one in paths) or naming & set(_PATH.findall(line))
    ]
