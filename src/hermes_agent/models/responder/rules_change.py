"""What somebody changed: a configuration, a release, a permission, a clock."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from hermes_agent.models.responder import parse, probes
from hermes_agent.models.responder.case import Case, paths_in, stamp
from hermes_agent.models.responder.ideas import KEEP, Idea, earlier, lines, put_back, undo_of

_BAD_CONFIG = re.compile(
    r"config|\[emerg\]|syntax|parse|parsing|invalid (?:value|literal|option|number|parameter)|"
    r"unknown (?:directive|option|key|setting)|unexpected|missing (?:option|section|key|setting)|"
    r"no (?:option|section)|NoSectionError|NoOptionError|KeyError|could not convert|"
    r"not a (?:number|valid)|OverflowError|out of range|must be |bad value|"
    r"host not found in upstream|JSONDecodeError|YAML|TOML",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"Traceback|(?:Type|Name|Attribute|Key|Value|Index|Import|Syntax|Assertion|Zero\w+|Unbound\w+"
    r"|ModuleNotFound|Runtime|Unicode\w+)Error|panic|segfault|undefined|unhandled|\b50[0-9]\b",
    re.IGNORECASE,
)
_DENIED = re.compile(r"permission denied|EACCES|\[Errno 13\]|not permitted|\b13: ", re.IGNORECASE)
_WALKED = re.compile(r"^\s*([dlfpsbc-])([rwxsStT-]{9})\s+(\S+)\s+(\S+)\s+(.+?)(?: -> .*)?$")
_FAKED = re.compile(r"FAKETIME|faketime", re.IGNORECASE)
_TRUE_TIME = (
    'sed -i -E \'s/,?\\s*(LD_PRELOAD|FAKETIME\\w*)=("[^"]*"|[^,]*)//g; '
    "s/^environment=\\s*,\\s*/environment=/'"
)
"""Takes another time out of a supervisor's entry."""
_SECRET = re.compile(
    r"\.(key|pem|crt|cer|cert|p12|pfx|jks|keytab)$|secret|passw|token|credential|/private/",
    re.IGNORECASE,
)
"""Files that are not read for a look."""
CLOCK_SECONDS = 120.0


def configuration(case: Case) -> Iterator[Idea]:
    """Its configuration was changed, and is wrong since."""
    for service in case.suspects:
        troubles = case.troubles(service)
        spoken = next((line for line in troubles if _BAD_CONFIG.search(line)), "")
        tested = _tested(case, service)
        named = paths_in(f"{spoken} {tested}")
        paths = [path for path in named if path.startswith("/etc/") or path.endswith(".conf")]
        paths = [path for path in paths if not _SECRET.search(path)]
        for path in dict.fromkeys([*paths, *case.configs(service), *changed(case, service)]):
            yield from _restoring(case, service, path, tested or spoken, path in paths)


def changed(case: Case, service: str) -> list[str]:
    """Files that belong to a service and were written lately, the newest first."""
    return case.changed(service)


def _tested(case: Case, service: str) -> str:
    """What the program's own test of its configuration complains of."""
    definition = case.definitions.get(service)
    if definition is None or "nginx" not in definition.command:
        return ""
    found = case.look(nginx_test(case, service))
    bad = [line for line in found.lines if "[emerg]" in line] if found else []
    return bad[0] if bad else ""


def nginx_test(case: Case, service: str) -> str:
    definition = case.definitions.get(service)
    words = definition.words if definition else []
    named = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-c"]
    return f"nginx -t -c {shlex.quote(named[0])}" if named else "nginx -t"


def _restoring(case: Case, service: str, path: str, said: str, named: bool) -> Iterator[Idea]:
    copy = earlier(case, path)
    program = case.programs.get(service)
    up = program is not None and program.up
    recent = path in changed(case, service)
    wants = (*copy.wants, *case.missing((probes.show(path),)))
    if _is_nginx(case, service):
        wants += case.missing((nginx_test(case, service),))
    if not said and not copy.path and not (recent and copy.wants):
        return
    score = 0.3 + 0.25 * bool(said) + 0.1 * named + 0.2 * bool(copy.path) + 0.15 * recent
    score -= 0.0 if said or not up or _failing(case, service) or recent else 0.3
    line = re.search(re.escape(path) + r":(\d+)|line:? (\d+)", said)
    locus = f"{path}:{line[1] or line[2]}" if line else path
    fix: tuple[str, ...] = ()
    if copy.path:
        fix = (*put_back(path, copy.path), case.restart(service))
    elif line and 'unexpected "}"' in said:
        before = int((line[1] or line[2])[:6]) - 1
        fix = (f"cp {shlex.quote(path)} /var/tmp/", f"sed -i '{before}s/$/;/' {shlex.quote(path)}",
               case.restart(service))  # fmt: skip
    yield Idea(
        "bad-config", service, f"{path} of {service} is wrong since it was changed",
        min(score, 0.92), locus, lines(said, copy.change, *case.troubles(service)[:1]), wants, fix,
        undo_of(path),
        ("test a configuration before it is loaded", "keep configurations under version control"),
    )  # fmt: skip


def _is_nginx(case: Case, service: str) -> bool:
    definition = case.definitions.get(service)
    return definition is not None and "nginx" in definition.command


def _failing(case: Case, service: str) -> bool:
    return service == case.brief.service or bool(case.troubles(service))


def release(case: Case) -> Iterator[Idea]:
    """A release that is worse than the one before."""
    links = re.findall(r"^(/\S+) -> (\S+)  (.*)$", case.text(probes.RELEASES), re.MULTILINE)
    for service in case.suspects:
        definition = case.definitions.get(service)
        if definition is None:
            continue
        whole = definition.command + " " + definition.settings.get("directory", "")
        for link, target, _ in links:
            if link not in whole and f"/{service}/" not in link:
                continue
            now = PurePosixPath(target)
            folder = now.parent if now.is_absolute() else PurePosixPath(link).parent / now.parent
            listed = case.look(probes.rows(str(folder)))
            wants = case.missing((probes.rows(str(folder)),))
            rows = (
                [row for row in parse.listing(listed.output) if row.own not in (".", "..")]
                if listed
                else []
            )
            own = next((row for row in rows if row.own == now.name), None)
            others = [row for row in rows if row.mode.startswith("d") and row.own != now.name]
            others.sort(key=lambda row: (row.time, row.own))
            older = [row for row in others if own is None or _before(row.own, now.name)] or others
            trouble = next((x for x in case.troubles(service) if _CODE.search(x)), "")
            broken = trouble or next(iter(case.troubles(service)), "")
            if not older and not wants:
                continue
            before = older[-1].own if older else ""
            score = (
                0.3
                + 0.25 * bool(trouble)
                + 0.1 * bool(broken)
                + 0.15 * (now.name in " ".join(case.troubles(service)))
            )
            previous = str(now.parent / before) if before else ""
            fix = (
                f"ln -sfn {shlex.quote(previous)} {shlex.quote(link)}", case.restart(service),
            ) if before else ()  # fmt: skip
            yield Idea(
                "bad-deploy", service, f"release {now.name} of {service} is worse than {before}",
                min(score + 0.1 * bool(before), 0.86), now.name,
                lines(trouble or broken, own.line if own else "", f"{link} -> {target}"), wants,
                fix, f"ln -sfn {target} {link}",
                ("try a release on one machine before all have it",),
            )  # fmt: skip


def _before(one: str, other: str) -> bool:
    """Whether a release is older, by the numbers in its name."""
    first, second = (re.findall(r"\d+", name) for name in (one, other))
    return [int(part[:15]) for part in first] < [int(part[:15]) for part in second]


def permission(case: Case) -> Iterator[Idea]:
    """A file that its user may no longer use."""
    for service in case.suspects:
        said = [line for line in case.troubles(service)[:10] if _DENIED.search(line)]
        program = case.programs.get(service)
        if program is not None and not program.up and _DENIED.search(program.line):
            said.append(program.line)
        for line in said:
            for path in paths_in(line):
                yield from _permitting(case, case.user_of(path, service), path, line)
        definition = case.definitions.get(service)
        if program is not None and not program.up and definition is not None:
            for word in definition.words[:2]:
                if re.search(r"not executable", program.line) and word in program.line:
                    yield from _permitting(case, service, word, program.line)


def _permitting(case: Case, service: str, path: str, line: str) -> Iterator[Idea]:
    walked = case.look(probes.walk(path))
    beside = probes.rows(str(PurePosixPath(path).parent))
    wants = case.missing((probes.walk(path), beside))
    claim = f"{service} may not use {path}"
    if walked is None:
        yield Idea("permission-change", service, claim, 0.7, path, lines(line), wants)
        return
    wrong = _lacking(walked.lines, path) or [
        (str(PurePosixPath(path).parent), "d?????????", walked.lines[-1] if walked.lines else "")
    ]
    fix, undo = [], []
    others = f"find {shlex.quote(str(PurePosixPath(path).parent))} -maxdepth 1 ! -perm -u=rw"
    if path.startswith(("/var/", "/srv/")):
        wants += case.missing((others,))
        known = {culprit for culprit, _, _ in wrong}
        alike = [one for one in case.text(others).splitlines() if one.startswith("/")]
        fix += [f"chmod u+rw {shlex.quote(one)}" for one in alike[:20] if one not in known]
    for culprit, mode, _ in wrong:
        change = _right_mode(case, culprit, beside) or ("u+rwx" if mode[0] == "d" else "u+rw")
        change = "u+rx" if "not executable" in line else change
        fix.append(f"chmod {change} {shlex.quote(culprit)}")
        undo += [f"chmod {_octal(mode[1:])} {culprit}"] if "?" not in mode else []
    culprit, mode, shown = wrong[0]
    yield Idea(
        "permission-change", service, f"{claim}: the mode of {culprit} was changed",
        0.7 if "?" in mode else 0.9, culprit, lines(line, shown), wants,
        (*fix, case.restart(service)), "; ".join(undo),
        ("change modes by configuration management only",),
    )  # fmt: skip


def _lacking(walked: Sequence[str], path: str) -> list[tuple[str, str, str]]:
    """What its owner lacks on the way to a file, by `namei -l`: path, mode and line."""
    here, found = "", list[tuple[str, str, str]]()
    parent = str(PurePosixPath(path).parent)
    for row in walked:
        part = _WALKED.match(row)
        if not part or row.startswith("f:"):
            continue
        here = "/" if part[5] == "/" else f"{here.rstrip('/')}/{part[5]}"
        own = part[2][:3]
        needed = "x" if part[1] == "d" and here != path else "r"
        written = here in (path, parent) and here.startswith(("/var/", "/run/", "/srv/", "/etc/"))
        if part[1] != "l" and (needed not in own or (written and "w" not in own)):
            found.append((here, part[1] + part[2], row))
    return found


def _right_mode(case: Case, culprit: str, beside: str) -> str:
    """The mode that files like it have, where there are several that agree."""
    name, kind = PurePosixPath(culprit).name, PurePosixPath(culprit).suffix
    rows = [row for row in parse.listing(case.text(beside)) if row.own not in (".", "..", name)]
    own = [row for row in parse.listing(case.text(beside)) if row.own == name]
    alike = [
        row.mode
        for row in rows
        if own and row.mode[0] == own[0].mode[0] and PurePosixPath(row.own).suffix == kind
    ]
    good = {mode for mode in alike if "r" in mode[1:4] and mode[8] != "w"}
    return _octal(good.pop()[1:]) if len(good) == 1 and len(alike) > 1 else ""


def _octal(mode: str) -> str:
    bits = [0 if sign in "-ST" else 1 for sign in mode[:9]]
    return "".join(str(bits[at] * 4 + bits[at + 1] * 2 + bits[at + 2]) for at in (0, 3, 6))


def clock(case: Case) -> Iterator[Idea]:
    """A service, or the machine, lives at another time."""
    for service in case.suspects:
        definition = case.definitions.get(service)
        faked = ""
        if definition is not None:
            whole = parse.files(case.text(probes.PROGRAMS)).get(definition.path, [])
            faked = next((line for line in whole if _FAKED.search(line)), "")
        odd = _odd_time(case, service)
        spoken = next(
            case.said_ever(service, r"clock|skew|in the future|not yet valid|from now|timestamp"),
            "",
        )
        environment = _FAKED.search(faked)
        if not (environment or odd) or definition is None:
            continue
        copy = earlier(case, definition.path)
        if copy.path:
            fix = (*put_back(definition.path, copy.path),)
        else:
            own = shlex.quote(definition.path)
            fix = (f"cp {own} {KEEP}/{PurePosixPath(own).name}.replaced", f"{_TRUE_TIME} {own}")
        offset = re.search(r"FAKETIME_TIMESTAMP_FILE=\"?(/[^\",]+)", faked)
        fix += ("supervisorctl reread", f"supervisorctl update {shlex.quote(service)}",
                case.restart(service))  # fmt: skip
        yield Idea(
            "clock-jump", service, f"{service} lives at another time than the machine",
            0.6 + 0.2 * bool(environment) + 0.15 * bool(odd or spoken),
            offset[1] if offset else definition.path, lines(odd, spoken, faked), copy.wants,
            fix if environment else (case.restart(service),), undo_of(definition.path),
            ("watch the offset of clocks", "keep test settings out of production"),
        )  # fmt: skip


def _odd_time(case: Case, service: str) -> str:
    """The last line of its log, where that is from another time."""
    stamped = [line for _, line in case.log(service) if stamp(line)]
    if not stamped or not case.now:
        return ""
    ahead = [line for line in stamped if stamp(line) - case.now > CLOCK_SECONDS]
    return ahead[-1] if ahead else ""


RULES = (configuration, release, permission, clock)
