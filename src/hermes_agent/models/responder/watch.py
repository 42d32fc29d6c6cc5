"""Whether what was mended stays so: what still grows after a remedy that only made room, or only
started something anew, is seen before the checks fail again."""

import re
import shlex
from collections.abc import Iterator

from msgspec import Struct

from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.rules.room import mount_of
from hermes_agent.models.responder.rules.space import NO_ROOM
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case

SECONDS = 4
"""How long it is watched."""
SOON = 3_600.0
"""What would be as bad as before within so many seconds is not mended."""
_ONE = (
    "df -P | awk 'NR > 1 {print \"space\", $6, $3, $4}'; "
    "df -iP | awk 'NR > 1 {print \"files\", $6, $3, $4}'; "
    "cat /proc/[0-9]*/stat 2>/dev/null | "
    'awk \'{p = $1; sub(/^.*\\) /, ""); print "ticks", p, $12 + $13; '
    'print "memory", p, $22 * 4}\'; '
    r"find /proc/[0-9]*/fd -mindepth 1 -maxdepth 1 -printf '%h\n' 2>/dev/null | sort | uniq -c | "
    'awk \'{split($2, a, "/"); print "open", a[3], $1}\''
)
WATCH = (
    f"one() {{ {_ONE}; }}; {{ one; sleep 2; echo; one; sleep 2; echo; one; }} | "
    'awk \'NF == 0 {n++; next} {k = $1 " " $2; v[n + 0, k] = $3; left[k] = $4 + 0} END {'
    "for (k in left) if (((0, k) in v) && ((2, k) in v) && v[2, k] > v[0, k]) "
    "print k, v[0, k], v[1, k], v[2, k], left[k]; "
    'for (k in left) if (k ~ /^(space|files) / && left[k] * 50 < v[2, k]) print "full", k, left[k]'
    "}' | sort | head -n 120; "
    "ps -eo pid,ppid,user,stat,ni,pcpu,rss,etimes,args --sort=-pcpu | head -n 40"
)
"""What rises on the machine within a few seconds: room that is taken, memory, work, open files; and
what is as good as full."""
COUNT = (
    "ps -eo pid,ppid,user,stat,ni,pcpu,rss,etimes,args; "
    r"find /proc/[0-9]*/fd -mindepth 1 -maxdepth 1 -printf '%h\n' 2>/dev/null | sort | uniq -c"
)
"""Who runs, and how many files each has open."""
ASKED, KEPT = 6, 64
"""How often the checks ask between two counts, and how many kilobytes of each are a leak."""
RUNS_OUT = frozenset({
    "disk-full", "inode-full", "log-flood", "memory-leak", "descriptor-leak", "runaway-process",
    "pool-exhausted", "unknown",
})  # fmt: skip
"""Causes that come back by themselves where only their traces were cleared away."""
LEAST = {"space": 8.0, "files": 4.0, "memory": 64.0, "open": 2.0, "ticks": 0.0}
"""What a rise must come to before it counts: kilobytes, files, kilobytes, descriptors."""
CAUSE = {"ticks": "runaway-process", "memory": "memory-leak", "open": "descriptor-leak"}
ANEW = frozenset({"service-crash", "cascading-failure"})
"""Causes for which something is started anew: it may end again."""
TIGHT = 90
"""Per cent from which on a file system was part of the trouble."""
BUSY, HOT = 20.0, 0.5
"""Per cent of a core that are much, and the share of what it took before."""
TICKS = 100.0
"""Of the processor, in a second."""
_KILL = re.compile(r"kill (?:-(?:9|KILL|TERM|INT|HUP) )?(\d{1,9})(?: \d{1,9})*$")
"""The first is the one that started the others."""
_SET_RIGHT = re.compile(r"\bsed -i|\bcp |\bln |\bgit |\btar |\bip |\biptables |\bchmod |\bchown ")
"""Remedies that change what is written, or how the machine is set."""
_CRON = re.compile(r"(?:^|/)(?:cron|crond)\b|\bfcron\b|\bsupercronic\b")
UNIT = {"space": "kilobytes", "files": "files"}
ROOM = frozenset({"disk-full", "inode-full", "log-flood"})
"""Causes that a remedy must make room for."""
_FULL = re.compile(r"(?m)^full (space|files) (/\S*) (\d+)$")
_NONE = re.compile(NO_ROOM, re.IGNORECASE)
_PATH = re.compile(r"(?<![\w.])/[\w.@+%/-]+")
_ROW = re.compile(r"^(space|files|memory|open|ticks) (\S+) (\d+) (\d+) (\d+) (\d+)$")


class Rise(Struct, frozen=True):
    kind: str
    name: str
    """A file system or a process."""
    first: float
    middle: float
    last: float
    left: float
    line: str

    @property
    def rate(self) -> float:
        """In a second."""
        return (self.last - self.first) / SECONDS

    @property
    def steady(self) -> bool:
        return self.first < self.middle < self.last and (self.last - self.first >= LEAST[self.kind])


def rises(text: str) -> Iterator[Rise]:
    """What `WATCH` printed."""
    for line in text.splitlines():
        if found := _ROW.match(line):
            first, middle, last, left = (parse.number(found[at]) for at in (3, 4, 5, 6))
            yield Rise(found[1], found[2], first, middle, last, left, line)


def is_asked(idea: Idea) -> bool:
    """Whether the checks themselves are to show if it goes on: what is kept of each request does
    not become more while nobody asks."""
    return idea.category in ("descriptor-leak", "memory-leak") or bool(idea.piles)


def count(idea: Idea) -> str:
    """What is counted before and after the checks asked."""
    if not idea.piles:
        return COUNT
    return f"{COUNT}; find {shlex.quote(idea.piles)} -xdev -type f | wc -l | sed 's/$/ in a pile/'"


def grown(first: str, last: str, before: Case, idea: Idea) -> str:
    """What was taken and not given back while the checks asked; empty where nothing was."""
    names = {one.command for one in before.processes if _is_meant(one, before, idea)}
    (files, memory), (more_files, more_memory) = (_taken(text, names) for text in (first, last))
    if idea.category == "descriptor-leak" and more_files - files >= ASKED - 1:
        what = f"{more_files - files} more files open"
    elif idea.category == "memory-leak" and more_memory - memory >= ASKED * KEPT:
        what = f"{more_memory - memory} kilobytes more"
    elif idea.piles and _piled(last) - _piled(first) >= ASKED - 1:
        what = f"{_piled(last) - _piled(first)} more files in {idea.piles}"
    else:
        return ""
    return f"{idea.component} has {what} after it was asked {ASKED} times"


def _piled(text: str) -> int:
    found = re.search(r"^\s*(\d{1,9}) in a pile$", text, re.MULTILINE)
    return int(found[1]) if found else 0


def _taken(text: str, names: set[str]) -> tuple[int, int]:
    """Files and kilobytes of those who run so."""
    mine = [one for one in parse.processes(text) if one.command in names]
    pids = {one.pid for one in mine}
    found = re.findall(r"^\s*(\d+) /proc/(\d{1,9})/fd$", text, re.MULTILINE)
    files = sum(int(count) for count, pid in found if int(pid) in pids)
    return files, sum(one.rss for one in mine)


def is_timed(idea: Idea, before: Case) -> bool:
    """Whether what cron does may bring it back: something was only ended, started anew or cleared
    away, and nothing was set right."""
    if any(_SET_RIGHT.search(fix) for fix in idea.fix):
        return False
    return any(_CRON.search(one.command) for one in before.processes)


def is_due(idea: Idea, before: Case) -> bool:
    """Whether to watch after a remedy: for causes that come back, where room had run out, and where
    somebody was ended who may be started again."""
    return idea.category in RUNS_OUT or any(_tight(before)) or bool(_ended(idea, before))


def _ended(idea: Idea, before: Case) -> dict[str, int]:
    """Commands of processes that a remedy ends and nobody looks after, with their ids."""
    ids = [int(found[1]) for fix in idea.fix if (found := _KILL.match(fix))]
    known = [one for pid in ids if (one := before.process(pid)) and not before.owner(pid)]
    started = [one.command for one in before.definitions.values()]
    return {
        one.command: one.pid
        for one in known
        if len(one.command.split()) > 1 and not any(x.endswith(one.command) for x in started)
    }


def unrest(text: str, before: Case, idea: Idea) -> str:
    """What goes on as it did before the remedy; empty where all is quiet."""
    tight = set(_tight(before))
    now = {one.pid: one for one in parse.processes(text)}
    ended = _ended(idea, before)
    for process in now.values():
        if process.command in ended and process.pid != ended[process.command]:
            above, title = now.get(process.parent), process.command.split()[0]
            if above is not None and title[-1:] == ":" and above.command.startswith(title):
                continue  # a worker of one that lives
            return f"{process.command[:80]} is there again, as process {process.pid}"
    for kind, path, left in _FULL.findall(text):
        if path in tight and _is_for(before, idea, path):
            return (
                f"{path} has no room still ({left} {'kilobytes' if kind == 'space' else 'files'})"
            )
    for one in rises(text):
        told = ""
        if one.kind in ("space", "files"):
            if one.steady and one.name in tight and one.left < one.rate * SOON:
                told = f"{one.name} is full again in {one.left / one.rate:.0f} s ({one.line})"
        elif one.name.isdigit() and int(one.name) in now:
            told = _again(one, now[int(one.name)], before, idea)
        if told:
            return told
    return ""


def _tight(case: Case) -> Iterator[str]:
    """File systems with hardly any room, or room for files."""
    for command in (probes.SPACE, probes.INODES):
        for mount in parse.mounts(case.text(command)):
            if mount.percent >= TIGHT and not mount.path.startswith(("/dev", "/proc", "/sys")):
                yield mount.path


def _is_for(case: Case, idea: Idea, mount: str) -> bool:
    """Whether a remedy was to make room on a file system: what it is about lies there, or the
    service of the alert, who finds none, writes there."""
    own = (idea.component, case.brief.service)
    paths = [path for text in (idea.locus, *idea.fix) for path in _PATH.findall(text)]
    if idea.category not in ROOM:
        named = [one for one in own if any(_NONE.search(x) for x in case.troubles(one))]
        paths = [path for one in named for path in (*case.log_files(one), *case.named(one))]
    every = [
        one.path for look in (probes.SPACE, probes.INODES) for one in parse.mounts(case.text(look))
    ]
    return any(mount_of(path, every) == mount for path in paths)


def _again(rise: Rise, process: parse.Process, before: Case, idea: Idea) -> str:
    """A process that goes on as one by the same command did that was in trouble."""
    same = [
        one
        for one in before.processes
        if one.command == process.command and _is_meant(one, before, idea)
    ]
    who = f"process {process.pid} ({process.command[:60]})"
    if not same or idea.category not in (CAUSE[rise.kind], "unknown"):
        return ""
    if rise.kind == "ticks":
        share, had = 100.0 * rise.rate / TICKS, max(one.cpu for one in same)
        hot = share >= BUSY and share >= HOT * had and idea.category != "unknown"
        return f"{who} still takes {share:.0f} % of a core" if hot else ""
    if rise.kind == "memory":
        had = float(max(one.rss for one in same))
    else:
        had = max(_opened(before, one.pid) for one in same)
    if not rise.steady or not had or rise.last + rise.rate * SOON < had:
        return ""
    what = "kilobytes of memory" if rise.kind == "memory" else "open files"
    return f"{who} goes on to take {rise.rate:.0f} {what} more each second"


def _is_meant(process: parse.Process, before: Case, idea: Idea) -> bool:
    """Whether it is the process that was taken to be the cause, or one of that service where no
    process was: others may have much to do by right."""
    pids = [int(pid) for pid in re.findall(r"\bpid (\d{1,9})\b", idea.locus)]
    if pids:
        return process.pid in pids
    return before.owner(process.pid) == idea.component


def _opened(case: Case, pid: int) -> float:
    found = re.search(rf"^\s*(\d+) /proc/{pid}/fd$", case.text(probes.VITALS), re.MULTILINE)
    return parse.number(found[1]) if found else 0.0
