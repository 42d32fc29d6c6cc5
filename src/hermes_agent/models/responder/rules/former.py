"""Ways back to a former release that does not lie in the place of the new one: an archive of it,
another instance that still runs it, or a file that says by its number which one is used."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from hermes_agent.models.responder.rules.config import is_near, is_shared, swapped
from hermes_agent.models.responder.rules.ideas import KEEP, Idea, earlier, lines, put_back, undo_of
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case, paths_in
from hermes_agent.models.responder.view.house import CODE, LOG, SHARED
from hermes_agent.models.responder.view.settings import is_config

NUMBERED = re.compile(r"(?=[^/]*\d)[A-Za-z_.-]*\d[\w.+-]*")
PREVENT = ("try a release on one machine before all have it",)
RECENT_SECONDS = 3 * 3600.0
ARCHIVES = (
    "find /opt /srv /var/backups /var/lib /root /home /data /app /usr/local /var/www /var/cache "
    r"/mnt -xdev -maxdepth 6 -type f -size -200M \( -name '*.tar' -o -name '*.tar.*' "
    r"-o -name '*.tgz' -o -name '*.txz' -o -name '*.zip' -o -name '*.whl' \) "
    rf"{probes.TRUSTED} "
    r"-printf '%s %T@ %u %p\n' 2>/dev/null | sort -k2,2nr | head -n 40"
)
ZIPPED = (".zip", ".whl")
_SHIPPING = re.compile(
    r"deploy|releas|roll(?:ed|ing)?[- ]?(?:out|back)|install|upgrad|unpack|switch|promot|\blive\b"
    r"|activat|ship|publish|cut ?over|version|build",
    re.IGNORECASE,
)
_ROLE = re.compile(
    r"[-_.:](?:blue|green|red|black|old|new|canary|stable|next|prev\w*|live|standby|primary"
    r"|secondary|current|legacy|beta|edge|main|alt|v?\d[\w.]*|[a-z])$|\d+$"
)
_LEADS = re.compile(
    r"(?:root|alias|docroot|app_?dir|code|chdir|pythonpath|release|basedir)$", re.IGNORECASE
)
_SAYS = re.compile(r"version|release|current|build|active|live|revision|\btag\b", re.IGNORECASE)
_HASH = re.compile(r"(?=.*[a-f])[0-9a-f]{7,40}")
_COLOURS = frozenset({"blue", "green", "red", "black", "stable", "canary", "old", "new", "live"})
MEMBERS = 40
"""Files of an archive that are put back one by one."""
_MOST = 3


def former(case: Case) -> Iterator[Idea]:
    for service in case.suspects:
        if not case.command(service) or not is_near(case, service):
            continue
        yield from _unpacked(case, service)
        yield from _told(case, service)
    yield from _routed(case)


def journal(case: Case, service: str) -> str:
    """What a log of releases said last of a service, if that was lately."""
    names = {service, family(service)}
    owned = {path for one in case.services for path in case.log_files(one)}
    for path, rows in case.logs.items():
        row = case.log_rows.get(path)
        if path in owned or row is None or case.now - row.time > RECENT_SECONDS:
            continue
        for line in reversed(rows[-3:]):
            own = any(re.search(rf"\b{re.escape(name)}\b", line) for name in names)
            if own and _SHIPPING.search(f"{path} {line}"):
                return line
    return ""


def family(service: str) -> str:
    """What a service is called without its part or its number."""
    own = service.rpartition(":")[2]
    return _ROLE.sub("", own) or own


def previous(rows: Sequence[parse.FileRow], name: str) -> tuple[parse.FileRow | None, str]:
    """The row of a release among others, and the one before it of the same kind; never one that
    is newer by its number."""
    rows = [row for row in rows if row.own not in (".", "..") and not row.mode.startswith("l")]
    own = next((row for row in rows if row.own == name), None)
    suffix = re.sub(r"\d+", "", PurePosixPath(name).suffix if "." in name else "")
    others = [
        row
        for row in rows
        if row.own != name
        and (own is None or row.mode[0] == own.mode[0])
        and (own is None or own.mode[0] == "d" or row.own.endswith(suffix))
    ]
    others.sort(key=lambda row: (row.time, row.own))
    if NUMBERED.fullmatch(name) and not _HASH.fullmatch(name):
        numbered = [row for row in others if NUMBERED.fullmatch(row.own)]
        older = [row for row in numbered if is_before(row.own, name)]
        older.sort(key=lambda row: numbers(row.own))
        others = older if numbered else others
    return own, others[-1].own if others else ""


def numbers(name: str) -> list[int]:
    return [int(part[:15]) for part in re.findall(r"\d+", name)]


def is_before(one: str, other: str) -> bool:
    """Whether a release is older, by the numbers in its name."""
    return numbers(one) < numbers(other)


# an archive


def listed(archive: str) -> str:
    own = shlex.quote(archive)
    tool = f"unzip -Z1 {own}" if archive.endswith(ZIPPED) else f"tar tf {own}"
    return f"{tool} | head -n 300"


def compared(archive: str, member: str, path: str) -> str:
    """How a file differs from what an archive has."""
    own, inner = shlex.quote(archive), shlex.quote(member)
    tool = f"unzip -p {own} {inner}" if archive.endswith(ZIPPED) else f"tar xOf {own} {inner}"
    return f"{tool} | diff - {shlex.quote(path)} | head -n 40"


def _code(case: Case, service: str) -> list[str]:
    """Files of its own code, those of which its trouble speaks first."""
    spoken = [path for line in case.troubles(service)[:12] for path in paths_in(line)]
    own = [path for path in case.named(service) if CODE.search(path) or "/bin/" in path]
    own = [path for path in own if not is_shared(case, service, path)]
    kept = [path for path in [*spoken, *own] if CODE.search(path) or path in own]
    return [path for path in dict.fromkeys(kept) if case.owns(service, path)][:_MOST]


def _unpacked(case: Case, service: str) -> Iterator[Idea]:
    """Its code was unpacked over the former one, and an archive still has that."""
    troubles, code = case.troubles(service), _code(case, service)
    program = case.programs.get(service)
    told = journal(case, service)
    if not code or not (troubles or told or (program is not None and not program.up)):
        return
    if wants := case.missing((ARCHIVES,)):
        claim = f"an archive may have a former release of {service}"
        yield Idea("bad-deploy", service, claim, 0.4, service, lines(told), wants)
        return
    for archive in _archives(case, service, told)[:_MOST]:
        if wants := case.missing((listed(archive),)):
            yield Idea("bad-deploy", service, f"{archive} may have a former release of {service}",
                       0.5, service, lines(told, *troubles[:1]), wants)  # fmt: skip
            continue
        members = [x for x in case.text(listed(archive)).splitlines() if x and not x.endswith("/")]
        for path in code:
            if found := _place(path, members):
                yield from _out_of(case, service, archive, path, *found, members)
                break


def _archives(case: Case, service: str, told: str) -> list[str]:
    """Those that are its own, the newest first; what the log of releases said last is left out."""
    rows = list(parse.sizes(case.text(ARCHIVES)))
    name = family(service).replace("_", "-")
    homes = [one for one in case.folders(service) if one not in SHARED]
    own = [
        row
        for row in rows
        if name in row.path.replace("_", "-")
        or any(row.path.startswith(f"{home}/") for home in homes)
    ]
    said = set(re.findall(r"\d[\w.-]*", told))

    def is_last(path: str) -> bool:
        stem = re.sub(r"\.(tar(\.\w+)?|tgz|txz|zip|whl)$", "", PurePosixPath(path).name)
        return bool(said & set(re.findall(r"\d[\w.-]*", stem)))

    own.sort(key=lambda row: (numbers(PurePosixPath(row.path).name), row.time), reverse=True)
    return [row.path for row in own if not is_last(row.path)]


def _place(path: str, members: Sequence[str]) -> tuple[str, str, str] | None:
    """The member that is a file, what its name begins with that is no part of the path, and the
    folder in which the rest belongs."""
    for member in members:
        plain = member.removeprefix("./")
        for cut in (plain, plain.partition("/")[2]):
            if cut and path.endswith(f"/{cut}"):
                return member, plain.removesuffix(cut), path.removesuffix(f"/{cut}")
    return None


def is_own(folder: str) -> str:
    """Whether a folder is that of whoever asks: it lies where everybody may make some, or links."""
    return f"[ -O {folder} ] && [ ! -L {folder} ]"


def _out_of(
    case: Case, service: str, archive: str, path: str, member: str, prefix: str, folder: str,
    members: Sequence[str],
) -> Iterator[Idea]:  # fmt: skip
    look = compared(archive, member, path)
    claim = f"what was unpacked in {folder} is worse than {archive}"
    if wants := case.missing((look,)):
        yield Idea("bad-deploy", service, claim, 0.55, path, (), wants)
        return
    changes = [line for line in case.text(look).splitlines() if line[:2] in ("< ", "> ")]
    if not changes:
        return
    told, troubles = journal(case, service), case.troubles(service)
    spoken = next((line for line in troubles if _is_of_code(line)), "")
    plain = [one.removeprefix("./").removeprefix(prefix) for one in members]
    kept = [one for one in plain if not is_config(one) and not case.is_data(service, one)]
    kept = [one for one in kept if one[:1] != "/" and ".." not in PurePosixPath(one).parts]
    kept = [one for one in kept if ".dist-info/" not in one]
    where = f"{KEEP}/{folder.strip('/').replace('/', '-')}"
    new, old = shlex.quote(f"{where}.former"), shlex.quote(f"{where}.replaced")
    inside = shlex.quote(f"{where}.former/{prefix}")
    names = " ".join(shlex.quote(one) for one in kept[:MEMBERS])
    own = shlex.quote(folder)
    tool = "unzip -oq {} -d {}" if archive.endswith(ZIPPED) else "tar xf {} -C {}"
    program = case.programs.get(service)
    down = program is not None and not program.up
    score = 0.35 + 0.25 * bool(spoken) + 0.1 * bool(troubles) + 0.15 * bool(told) + 0.2 * down
    yield Idea(
        "bad-deploy", service, claim, min(score + 0.05 * (path in case.changed(service)), 0.86),
        path, lines(spoken, told, changes[-1]), (),
        (
            f"mkdir -p -m 700 {new} {old}",
            f"{is_own(new)} && {tool.format(shlex.quote(archive), new)}",
            f"{is_own(old)} && cd {own} && cp -a --parents -t {old} -- {names}",
            f"{is_own(new)} && cd {inside} && cp -a --parents -t {own} -- {names}",
            case.restart(service),
        ),
        f"cp -a {old}/. {own}/", PREVENT,
    )  # fmt: skip


_HUNG_UP = re.compile(r"\b(?:BrokenPipe|Connection\w*|Timeout)Error\b")
_AROUND = re.compile(r"Traceback|[Ee]xception (?:happened|occurred|ignored)|During handling")


def _is_of_code(line: str) -> bool:
    """Whether a line tells of a fault of the program: that somebody hung up or was late is none."""
    if _HUNG_UP.search(line):
        return False
    return re.search(r"\b\w*(?:Error|Exception)\b|Traceback|panic|undefined", line) is not None


def _routed(case: Case) -> Iterator[Idea]:
    """Somebody led the traffic to another instance, and the former one still runs."""
    for front in case.services:
        yield from _switched(case, front)
        lately = set(case.changed(front))
        for path, _ in case.sources(front):
            rows = [row for row in case.content(path).splitlines() if row.strip()[:1] not in "#;"]
            for row in rows:
                for target in case.services:
                    if target != front:
                        yield from _led(case, front, path, row, rows, target, path in lately)


def _switched(case: Case, front: str) -> Iterator[Idea]:
    """Of several groups of servers that a proxy knows by names, another one is used now."""
    texts = {path: case.content(path).splitlines() for path, _ in case.sources(front)}
    known = [
        found[1]
        for rows in texts.values()
        for row in rows
        if (found := re.match(r"\s*(?:upstream|backend)\s+([\w.-]+)", row))
    ]
    lately, told = set(case.changed(front)), journal(case, case.brief.service)
    for path, rows in texts.items():
        for row in rows:
            used = [one for one in known if re.search(rf"[/\s]{re.escape(one)}[;/\s]", row)]
            if len(used) != 1 or "upstream" in row or not (path in lately or told):
                continue
            others = [one for one in known if one != used[0] and _is_kin(one, used[0])]
            if len(set(others)) != 1:
                continue
            score = 0.42 + 0.2 * (path in lately) + 0.15 * bool(told)
            yield Idea(
                "bad-deploy", front, f"{path} leads to {used[0]}, which is worse than {others[0]}",
                score, f"{path}: {used[0]}", lines(told, row.strip(), *case.troubles(front)[:1]),
                (),
                (*swapped(path, row, row.replace(used[0], others[0])), case.restart(front)),
                undo_of(path), PREVENT,
            )  # fmt: skip


def _is_kin(one: str, other: str) -> bool:
    return family(one) == family(other) or {one, other} <= _COLOURS


def _led(
    case: Case, front: str, path: str, row: str, rows: Sequence[str], target: str, recent: bool
) -> Iterator[Idea]:
    near = [port for port in case.ports(target) if f":{port}" in row]
    ports = [port for port in near if re.search(rf":{port}\b", row)]
    if not ports:
        return
    told = journal(case, target)
    others = [
        one
        for one in case.services
        if one not in (target, front)
        and family(one) == family(target)
        and (program := case.programs.get(one)) is not None
        and program.up
    ]
    if not others or not (recent or told):
        return
    other = others[0]
    heard = [port for port in case.ports(other) if case.listens(other, port)]
    if not heard:
        return
    shared = any(re.search(rf":{heard[0]}\b", one) for one in rows)
    troubles = case.troubles(target)
    if any(map(_HUNG_UP.search, troubles)):  # what is printed around it says no more
        troubles = [line for line in troubles if not _AROUND.search(line)]
    spoken = next((line for line in troubles if _is_of_code(line)), "")
    if shared and not spoken:
        return
    copy = earlier(case, path)
    new = re.sub(rf":{ports[0]}\b", f":{heard[0]}", row)
    fix = swapped(path, row, f"# {row.strip()}" if shared else new)
    if copy.path and any(x[0] == "<" and f":{heard[0]}" in x for x in copy.changes):
        fix = put_back(path, copy.path)
    score = 0.4 + 0.2 * recent + 0.15 * bool(told) + 0.15 * bool(spoken)
    yield Idea(
        "bad-deploy", target, f"{path} leads {family(target)} to {target}, which is worse than "
        f"{other}", min(score, 0.86), f"{path}: {target}", lines(spoken, told, row.strip()),
        copy.wants, (*fix, case.restart(front)), undo_of(path), PREVENT,
    )  # fmt: skip


# a number that a file tells


def _versions(case: Case, service: str) -> Iterator[tuple[str, str]]:
    """Folders of releases with the one that is used, by what runs, what is said, and what settings
    lead to."""
    texts = [one.command for pid in case.pids(service)[:2] if (one := case.process(pid))]
    texts += case.troubles(service)[:6]
    for _, values in case.sources(service):
        texts += [value for key, value in values.items() if _LEADS.search(key)]
    for path in dict.fromkeys(path for text in texts for path in paths_in(text)):
        parts = PurePosixPath(path).parts
        if is_config(path) or LOG.search(path) or path.startswith(("/usr/", "/proc/", "/root/.")):
            continue
        for at, part in enumerate(parts):
            if at > 1 and NUMBERED.fullmatch(part):
                yield str(PurePosixPath(*parts[:at])), part
                break


def tellers(folder: str, name: str) -> str:
    """Files that say which release is used."""
    here = PurePosixPath(folder)
    above = str(here.parent) if str(here.parent) not in SHARED else folder
    return (
        f"grep -rnsIwF --exclude='*.log' --exclude-dir=.git --exclude-dir={shlex.quote(name)} -- "
        f"{shlex.quote(name)} {shlex.quote(above)} /etc | cut -c1-300 | head -n 20"
    )


def _told(case: Case, service: str) -> Iterator[Idea]:
    """A file that says the number of the release that is used."""
    for folder, name in list(dict.fromkeys(_versions(case, service)))[:2]:
        look = tellers(folder, name)
        if wants := case.missing((probes.rows(folder), look)):
            yield Idea("bad-deploy", service, f"{name} of {service} may be worse than another",
                       0.4, name, (), wants)  # fmt: skip
            continue
        own, before = previous(list(parse.listing(case.text(probes.rows(folder)))), name)
        if not before or re.sub(r"\d+", "#", before) != re.sub(r"\d+", "#", name):
            continue
        troubles, told = case.troubles(service), journal(case, service)
        spoken = next((line for line in troubles if _is_of_code(line)), "")
        score = 0.35 + 0.25 * bool(spoken) + 0.1 * bool(troubles) + 0.1 * bool(told)
        for path, row in list(_saying(case, look, f"{folder}/{before}"))[:2]:
            lately = any(one.path == path for one in parse.sizes(case.text(probes.CHANGED)))
            sure = 0.1 * bool(_SAYS.search(f"{path} {row}")) + 0.2 * lately
            yield Idea(
                "bad-deploy", service, f"{name} of {service}, which {path} says, is worse than "
                f"{before}", min(score + sure, 0.84), name,
                lines(spoken, told, own.line if own else "", *troubles[:1]), (),
                (*swapped(path, row, row.replace(name, before)), case.restart(service)),
                undo_of(path), PREVENT,
            )  # fmt: skip


def _saying(case: Case, look: str, other: str) -> Iterator[tuple[str, str]]:
    """Files that say it, with the line; neither logs nor copies, nor what lies in a release."""
    for line in case.text(look).splitlines():
        path, _, rest = line.partition(":")
        row = rest.partition(":")[2]
        entry = any(path == one.path for one in case.definitions.values())
        if entry or LOG.search(path) or probes.BACKUPS.search(path) or path.startswith(other):
            continue
        if row.strip() and not row.lstrip().startswith("#"):
            yield path, row


RULES = (former,)
