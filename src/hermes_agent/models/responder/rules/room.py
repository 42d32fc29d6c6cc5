"""Room on file systems: what takes it, who holds it, what may go, and where it may be put."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from hermes_agent.models.responder.rules.ideas import KEEP
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.settings import whole

ASIDE = f"{KEEP}/put-aside"
"""Where things go that are only moved out of the way."""
MAKE_ASIDE = f"mkdir -p -m 700 {ASIDE}"
IS_OWN = f"[ -O {ASIDE} ] && [ ! -L {ASIDE} ]"
"""It lies where everybody may make folders: one that somebody else made, or a link, is not used."""
OLD_SECONDS = 3_600.0
"""What lies in a scratch folder for longer is forgotten."""
END_BYTES = 200_000
"""What is kept of a log that is emptied."""
LATELY_SECONDS = 30 * 86_400.0
"""What lies there for longer was there, too, when there was room."""
SERIES = 3
"""From how many files on that differ in numbers only they are a series."""
NEWEST = 2
"""How many of a series always stay."""
_ROTATED = re.compile(r"\.(log|out|err)([.-]\d[\w.-]*|\.old)(\.(gz|xz|bz2|zst))?$")
_OLD_LOG = re.compile(r"(\.(gz|xz|bz2|zst|old)|[.-]\d{1,3}|[.-]\d{4}-?\d\d-?\d\d\S*)$")
NO_TEXT = re.compile(
    r"/(?:wtmp|btmp|lastlog|faillog|tallylog)(?:$|[.-])|\.journal~?$|/\d{3,}\.(?:log|ldb|sst)$"
    r"|[-_.]bin\.\d+$|/ib_logfile|/(?:pg_)?(?:wal|xlog)/|\.(?:db|sqlite3?)(?:[.-]\w+)?$"
    r"|/\w*commit-?log",
    re.IGNORECASE,
)
"""Logs that are no text for people: databases and queues keep what they have in such files."""
_DAY = re.compile(
    r"(?<![A-Za-z])(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun)"
    r"(?:uary|ruary|ch|il|e|y|ust|t|tember|ober|ember|day|sday|nesday|rsday|urday)?(?![a-z])",
    re.IGNORECASE,
)
_DUMP = re.compile(r"/(core|vgcore|core[.-][^/]+|[^/]+\.(core|hprof|dmp|stackdump|mdmp))$")
OWN_SECONDS = 86_400.0
"""What somebody put into the machine's own scratch folders may be wanted for so long."""
_SCRATCH = ("/tmp/", "/var/tmp/")  # noqa: S108 - of the machine
_KEPT = re.compile(rf"^{KEEP}/.*\.(replaced|former)(\.~\d+~|/|$)")
PASSING = re.compile(
    r"/(sess|session|sessions|cache|caches|tmp|temp|scratch|thumbs|thumbnails|spool|"
    r"\.cache|http-cache|proxy_cache|opcache|uploads-tmp|work|partial)([-_/]|$)",
    re.IGNORECASE,
)
"""Folders of files that are made again when they are wanted."""
PASSING_KEY = re.compile(
    r"(?:^|[._-])(?:te?mp(?:orary)?|scratch|sessions?|caches?|thumb(?:nail)?s?|previews?|trash|junk)"
    r"(?:$|[._-]|(?-i:[A-Z]))",
    re.IGNORECASE,
)
"""Settings that name such folders."""
TAKEN_DOWN = re.compile(
    r"(?:save|keep|store|preserve|retain)[._-]?(?:all[._-]?|raw[._-]?|http[._-]?)*"
    r"(?:requests?|bod(?:y|ies)|payloads?|debug|te?mp)(?![a-z])|(?:^|[._-])debug[._-]?(?:dir|out|to)"
    r"|captur(?:e|ing)|trac(?:e|ing)s?(?:$|[._-]|(?-i:[A-Z]))",
    re.IGNORECASE,
)
"""Settings that name where the requests of others are kept, for who looks into a fault."""
_COMES_FROM = re.compile(
    r"source|upstream|origin|provider|fetch|remote|^from$|mirror_?of", re.IGNORECASE
)
BY_PRODUCTS = re.compile(
    r"/(\w*previews?|small|derived|generated|rendered|renditions?|resized|tiles|requests?|traces?|"
    r"replays?|recordings?|telemetry|metrics|stats|tracks|visits|hits|beacons|bounces|bounced?|deferred|returned|undelivered|"
    r"undeliverable|rejected|refused|spam|discarded|dropped|failed|dead|dead-letters?|queued?|trash|junk|lost|orphans?|quarantine)"
    r"([-_/]|$)",
    re.IGNORECASE,
)
"""Folders of what comes off from work: it may be moved out of the way. All else may be what people
keep, however much it is."""
_HALF_DONE = re.compile(
    r"\.(part|partial|crdownload|tmp|temp|swp|incomplete|filepart)$"
    r"|(^|[/._-])(tmp|temp|trace|strace|debug|crash|heap|heapdump|dump|profile|perf|capture|pcap"
    r"|recording|scratch|trash|export)([/._-]|\d|$)|\.(pcap|pcapng|cap|trace|prof|hprof|rec|dump)$",
    re.IGNORECASE,
)
"""Names of what somebody made for a moment, and forgot."""
_DATA = re.compile(
    r"\.(db|sqlite3?|mdb|ibd|frm|kch|rdb|aof|wal|idx|index|ldb|sst|jks|key|pem)(-wal|-shm|-journal)?$"
    r"|-(wal|shm|journal)$|/pg_|/base/",
    re.IGNORECASE,
)
"""Names of what programs keep for good."""


def on(path: str, mount: str) -> bool:
    return mount == "/" or path == mount or path.startswith(mount.rstrip("/") + "/")


def mount_of(path: str, mounts: Iterable[str]) -> str:
    """The file system that a path lies on."""
    return max((one for one in mounts if on(path, one)), key=len, default="/")


def disposable(one: parse.Sized, now: float) -> bool:
    """Whether nobody will miss it: old logs, dumps, and what lies in the machine's own scratch
    folders for long."""
    if one.path.startswith(f"{ASIDE}/") or _KEPT.search(one.path):
        return False  # it is a copy of what was replaced, or was only moved there
    if NO_TEXT.search(one.path):
        return False
    if _DUMP.search(one.path) or _ROTATED.search(one.path):
        return True
    if one.path.startswith("/var/crash/"):
        return True
    if one.path.startswith(_SCRATCH):
        return now - one.time > OWN_SECONDS and _DATA.search(one.path) is None
    return "/log" in one.path and _OLD_LOG.search(one.path) is not None


def forgotten(one: parse.Sized, now: float) -> bool:
    """Whether it lies for long where files are made again when they are wanted."""
    return PASSING.search(one.path) is not None and now - one.time > OLD_SECONDS


def many(one: parse.Sized, rows: Sequence[parse.Sized]) -> bool:
    """Whether there are more of its kind: a single file somebody may have put there."""
    return sum(_kind(other.path) == _kind(one.path) for other in rows) >= SERIES


def _kind(path: str) -> str:
    """A path without what tells one of a kind from another: numbers, and names of days."""
    return _DAY.sub("#", re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", path))


def crowded_first(rows: Sequence[parse.Sized]) -> list[parse.Sized]:
    """Those of which there are many of a kind before single ones; of each the oldest first."""
    return sorted(rows, key=lambda one: (not many(one, rows), one.time))


def half_done(path: str, mount: str, age: float = 0.0) -> bool:
    """Whether it looks as if it was made for a moment, not long ago; what lies above the file
    system says nothing of it."""
    below = path[len(mount.rstrip("/")) :]
    named = _HALF_DONE.search(below) is not None and _DATA.search(below) is None
    return named and age < LATELY_SECONDS


def kept_for_good(case: Case, path: str, mount: str) -> bool:
    """Whether it is what a service works with: its settings name it, or the folder it lies in."""
    if _DATA.search(path):
        return True
    for service in case.suspects:
        for named in case.named(service):
            if named == path or (on(path, named) and on(named, mount) and named != mount):
                return not _is_passing(case, service, named)
    return False


def _is_passing(case: Case, service: str, place: str) -> bool:
    """Whether a setting says of a place that what lies there passes, or can be had again."""
    told = case.settings(service)
    keys = [key for key, value in told.items() if value.rstrip("/") == place]
    return any(
        PASSING_KEY.search(last) or TAKEN_DOWN.search(last) or _is_fetched(told, head)
        for head, _, last in (key.rpartition(".") for key in keys)
    )


def _is_fetched(told: Mapping[str, str], part: str) -> bool:
    """Whether it is said beside a place from where elsewhere all comes that lies there."""
    return bool(part) and any(
        key.rpartition(".")[0] == part and _COMES_FROM.search(key.rpartition(".")[2])
        and re.match(r"(?:https?|ftps?|s3|rsync)://", value)
        for key, value in told.items()
    )  # fmt: skip


def is_told_passing(case: Case, place: str) -> bool:
    """Whether a setting of somebody says so."""
    return any(_is_passing(case, service, place) for service in case.suspects)


def links(mount: str) -> str:
    """Where links lead that point into a file system, and what processes run or work in there."""
    below = shlex.quote(f"{mount.rstrip('/')}/*")
    return (
        f"find {shlex.quote(mount)} /srv /opt /app /var/www /home -xdev -maxdepth 4 -type l "
        r"-printf '%p -> %l\n' 2>/dev/null | sort -u | head -n 60; "
        f"find /proc/[0-9]*/cwd /proc/[0-9]*/exe -lname {below} -printf '%p -> %l\\n' 2>/dev/null"
    )


def in_use(case: Case, path: str, mount: str) -> bool:
    """Whether a link leads there, or somebody runs or works there."""
    for line in case.text(links(mount)).splitlines():
        own, _, target = line.partition(" -> ")
        to = whole(target.strip(), own.rpartition("/")[0])
        if to and to != mount and on(path, to):
            return True
    return False


def series(case: Case, found: Sequence[parse.Sized], mount: str) -> list[parse.Sized]:
    """The older ones of files that differ in numbers only and that nobody has open, such as a copy
    for each night: the newest of each kind stay, and what a service works with does."""
    kinds: dict[str, list[parse.Sized]] = {}
    for one in found:
        spared = held(case, one.path) or in_use(case, one.path, mount)
        if not spared and not kept_for_good(case, one.path, mount):
            below = one.path[len(mount.rstrip("/")) :]
            kinds.setdefault(_kind(below), []).append(one)
    older: list[parse.Sized] = []
    for kind, rows in kinds.items():
        if "#" in kind and len(rows) >= SERIES:
            rows.sort(key=lambda one: (one.time, one.path))
            older += rows[:-NEWEST]
    return older


def pile(found: Sequence[parse.Sized]) -> str:
    """The folder in which most lies of what there are many of a kind; empty where there is none."""
    sizes = dict[str, int]()
    for one in found:
        if many(one, found):
            folder = one.path.rpartition("/")[0]
            sizes[folder] = sizes.get(folder, 0) + one.size
    return max(sizes, key=lambda folder: sizes[folder], default="")


def held(case: Case, path: str) -> bool:
    return bool(holders(case, path))


def holders(case: Case, path: str) -> list[tuple[int, int]]:
    """Processes that have a file open, each with the number of it."""
    rows = [row for row in case.text(probes.OPEN_FILES).splitlines() if row.endswith(f" {path}")]
    found = (re.match(r"/proc/(\d{1,9})/fd/(\d{1,9}) ", row) for row in rows)
    return [(int(one[1]), int(one[2])) for one in found if one]


def is_room_aside(case: Case, size: int, mount: str) -> bool:
    """Whether so many bytes can be put where things are put aside, without it being full then."""
    places = [one for one in parse.mounts(case.text(probes.SPACE)) if on(KEEP, one.path)]
    place = max(places, key=lambda one: len(one.path), default=None)
    if place is None or place.path == mount:
        return False
    return place.size * 1024 * (90 - place.percent) // 100 > size


def aside(paths: Sequence[str]) -> tuple[str, ...]:
    """Commands that move files out of the way; copies of one name are all kept."""
    single = [path for path in paths if _is_single(path, paths)]
    named = " ".join(shlex.quote(path) for path in single)
    every = [f"mv --backup=numbered -- {named} {ASIDE}/"] if single else []
    every += [f"mv -T --backup=numbered -- {shlex.quote(path)} {shlex.quote(_moved(path, paths))}"
              for path in paths if path not in single]  # fmt: skip
    return MAKE_ASIDE, *(f"{IS_OWN} && {one}" for one in every)


def _is_single(path: str, paths: Sequence[str]) -> bool:
    name = PurePosixPath(path).name
    return sum(PurePosixPath(one).name == name for one in paths) == 1


def _moved(path: str, paths: Sequence[str]) -> str:
    """Where a file goes: of those that are called alike each by its whole path."""
    alone = _is_single(path, paths)
    return f"{ASIDE}/{PurePosixPath(path).name if alone else path.strip('/').replace('/', '-')}"


def back(paths: Sequence[str]) -> str:
    pairs = [(_moved(path, paths), path) for path in paths]
    return "; ".join(f"mv {shlex.quote(new)} {shlex.quote(old)}" for new, old in pairs)


def emptied(case: Case, paths: Sequence[str], mount: str = "") -> tuple[str, ...]:
    """Commands that empty logs; the end of each is kept where there is room for it. Whoever writes
    one may put a link in its place: what that leads to stays."""
    named = [shlex.quote(path) for path in paths]
    if not is_room_aside(case, END_BYTES * len(paths), mount):
        return tuple(f"[ ! -L {path} ] && truncate -s 0 {path}" for path in named)
    ends = [shlex.quote(f"{ASIDE}/{path.strip('/').replace('/', '-')}.end") for path in paths]
    kept = [
        f"{IS_OWN} && [ ! -L {path} ] && tail -c {END_BYTES} {path} >> {end} "
        f"&& truncate -s 0 {path}"
        for path, end in zip(named, ends, strict=True)
    ]
    return MAKE_ASIDE, *kept


def whose(case: Case, mount: str, words: str) -> str:
    """The service that suffers from it: the one that says so, or whose files are there."""
    if re.search(words, case.symptom, re.IGNORECASE):
        return case.brief.service
    for service in case.suspects:
        if next(case.said(service, words), ""):
            return service
    there = [one for one in case.suspects if mount != "/" and below(case, one, mount)]
    return there[0] if there else case.brief.service


def below(case: Case, service: str, mount: str) -> bool:
    """Whether a service has files on a file system."""
    if mount == "/" or not service:
        return mount == "/"
    own = [f"/var/log/{service}", *case.named(service)]
    return any(on(path, mount) for path in own) or service in PurePosixPath(mount).parts


def flags(pid: int, number: int) -> str:
    """How a process has a file open."""
    return f"grep flags /proc/{pid}/fdinfo/{number}"


def writes(case: Case, pid: int, number: int) -> bool:
    found = re.search(r"flags:\s*\d*([0-7])\b", case.text(flags(pid, number)))
    return found is not None and int(found[1]) & 3 != 0


def crowds(mount: str) -> str:
    """How many files lie below each folder, all of them counted."""
    return f"du --inodes -x {shlex.quote(mount)} 2>/dev/null | sort -rn | head -n 40"


def heaps(mount: str) -> str:
    """How many kilobytes lie below each folder."""
    return f"du -k -x {shlex.quote(mount)} 2>/dev/null | sort -rn | head -n 40"
