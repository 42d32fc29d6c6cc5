"""How a program is started, and cannot be: an option that it does not know, a program that is not
found by its name, a variable that nobody sets."""

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes_agent.models.responder.rules.complaints import alike, read
from hermes_agent.models.responder.rules.config import swapped
from hermes_agent.models.responder.rules.ideas import (
    Idea,
    earlier,
    keeping,
    lines,
    put_back,
    undo_of,
)
from hermes_agent.models.responder.rules.port import reread
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.house import SYSTEM

_OPTION = re.compile(
    r"(?:unrecogni[sz]ed|unknown|unexpected|invalid|illegal|bad|no such|unsupported|undefined"
    r"|not defined|ambiguous|wasn't expected|stray|not (?:know|understand|take|accept)\w*)\b"
    r".*?(?<![\w-])(?P<name>--?[A-Za-z][\w:+.-]*)"
    r"|(?:invalid|illegal|unknown|unrecogni[sz]ed) (?:option|switch|flag)(?: --)? ?"
    r"[\"'`\u2018]?(?P<short>\w)\b"
    r"|(?<![\w-])(?P<first>--[a-z][\w-]*)[\"']?:? (?:is )?(?:not an?|unknown|no such|unexpected)\b"
    r"|Found argument '(?P<found>-[^']+)'",
    re.IGNORECASE,
)
_USAGE = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)")
_BARE = re.compile(
    r"(?:exec: )?(?<![\w/.-])([A-Za-z][\w.+-]*): (?:command )?not found\b"
    r"|can't find command '([\w.+-]+)'|couldn't exec ([\w.+-]+): ENOENT"
    r"|No such file or directory: '([A-Za-z][\w+-]*)'$"
    r"|env: [\"'`\u2018]?([\w.+-]+)[\"'`\u2019]?: No such file"
    r"|[Ee]xecutable (?:file )?[\"'`]?([\w.+-]+)[\"'`]? (?:was )?not found"
)
_SIMPLE = re.compile(r"[\w.,:%+-]+")
_MODULE = re.compile(r"No module named [\"']?([\w.]+)")
_RUNS = re.compile(
    r"LD_|PATH$|PYTHON|PERL|RUBY|NODE_|JAVA_TOOL|GIT_|BASH_|ENV$|IFS$|SHELL$|EDITOR|PAGER|DYLD_"
)
"""How variables are called that say which code is run."""
_SIMPLE_VALUE = re.compile(r"[\w ./:@+=,?&-]*")
_GUARDS = re.compile(
    r"tls|ssl|auth|secur|verif|cert|passw|token|secret|crypt|sandbox|read-?only|acl|restrict|deny"
    r"|whitelist|allowlist|csrf|chroot|^--(?:user|group)$",
    re.IGNORECASE,
)
"""How options are called that keep others out: nobody starts a service without them."""
_VENV = re.compile(r"(.+)/lib/python[\d.]+/site-packages/")
PREVENT = ("try a changed entry before it is rolled out",)


def _near(case: Case) -> list[str]:
    """Services that do not come up."""
    return [
        name
        for name in case.suspects
        if (program := case.programs.get(name)) is not None and not program.up
    ]


def _texts(case: Case, service: str) -> list[tuple[str, str]]:
    """The files that say how it is started, with what is in them."""
    definition = case.definition(service)
    found = list[tuple[str, str]]()
    if definition is not None:
        rows = parse.files(case.text(probes.PROGRAMS)).get(definition.path, [])
        found.append((definition.path, _section("\n".join(rows), definition.name)))
    files = dict.fromkeys([*case.wrappers(service), *case.configs(service)])
    return [*found, *((path, text) for path in files if (text := case.content(path)))]


def _section(text: str, name: str) -> str:
    """What stands of one program in a file of several."""
    parts = re.split(r"(?m)^(?=\[)", text)
    return next((one for one in parts if one.startswith(f"[program:{name}]")), text)


def _again(case: Case, service: str, path: str) -> tuple[str, ...]:
    return (*reread(case, service, path), case.restart(service))


def option(case: Case) -> Iterator[Idea]:
    """It is handed an option that it does not know: the one that is meant, or none."""
    for service in _near(case):
        said = [line for line in case.troubles(service)[:6] if _OPTION.search(line)]
        for line in said[:1]:
            found = _OPTION.search(line)
            short = f"-{found['short']}" if found else ""
            name = (found["name"] or found["found"] or found["first"] or short) if found else ""
            yield from _taken_out(case, service, name.rstrip(".:"), line)


def _taken_out(case: Case, service: str, name: str, line: str) -> Iterator[Idea]:
    usage = "\n".join(text for _, text in case.log(service)[-40:] if text != line)
    known = [one for one in _USAGE.findall(usage) if one != name and one not in line]
    for path, text in _texts(case, service):
        row = next((x for x in text.splitlines() if _word(name, x) and not x.startswith("#")), "")
        if not row:
            continue
        copy = earlier(case, path)
        given = _word(name, row)
        mends, most = list[tuple[tuple[str, ...], float]](), 0.55 if _GUARDS.search(name) else 1.0
        if copy.path and any(name in one for one in copy.changes):
            mends.append((put_back(path, copy.path), 0.92))
        elif meant := alike(name, known) if name.startswith("--") else "":
            mends.append((swapped(path, row, row.replace(name, meant, 1)), 0.88))
        else:
            mends += [
                (swapped(path, row, row.replace(old, "", 1)), min(sure, most))
                for old, sure in _with_value(row, given, line)
            ]
        for mend, sure in mends:
            yield Idea(
                "bad-config", service,
                f"{service} is handed {given} by {path}, and does not know it", sure,
                f"{path}: {given}", lines(line, row), copy.wants,
                (*mend, *_again(case, service, path)), undo_of(path), PREVENT,
            )  # fmt: skip


def _word(name: str, row: str) -> str:
    """The word of a line that is this option, with a value that is joined to it."""
    found = re.search(rf"(?<![\w-]){re.escape(name)}(?:=[^\s\"']*)?(?![\w-])", row)
    return found[0] if found else ""


def _with_value(row: str, given: str, line: str) -> Iterator[tuple[str, float]]:
    """An option as it stands in a line, with the value after it where that is one."""
    after = row.partition(given)[2].split()[:1]
    value = after[0].strip("\"'") if after else ""
    if value and not value.startswith("-") and "=" not in given and _SIMPLE.fullmatch(value):
        sure = 0.86 if f"{given} {value}" in line or value.isdigit() else 0.7
        yield f" {given} {after[0]}", sure
        yield f" {given}", 0.78
    else:
        yield f" {given}", 0.86


def bare(case: Case) -> Iterator[Idea]:
    """A program that is called by its name is not found: it is called by its place, or as it is
    spelt."""
    for service in _near(case):
        program = case.programs[service]
        for line in [program.line, *case.troubles(service)[:4]]:
            found = _BARE.search(line)
            name = next((one for one in found.groups() if one), "") if found else ""
            if name:
                yield from _called(case, service, name, line)
                break


def _called(case: Case, service: str, name: str, line: str) -> Iterator[Idea]:
    look = (
        f"find /usr/local /opt /srv /home /root /app -xdev -maxdepth 6 -name {shlex.quote(name)} "
        rf"\( -type f -o -type l \) -perm -u+x {probes.TRUSTED} 2>/dev/null | head -n 5"
    )
    spelt = "ls /usr/local/bin /usr/bin /bin /usr/sbin /opt/bin 2>/dev/null | sort -u"
    wants = case.missing((look, spelt))
    there = [row for row in case.text(look).splitlines() if row.startswith("/")]
    own = [row for row in there if case.owns(service, row)] or there
    close = alike(name, case.text(spelt).split()) if not there else ""
    for path, text in _texts(case, service):
        pattern = re.compile(rf"(?<![\w/.-]){re.escape(name)}(?![\w.=/-])")
        rows = [x for x in text.splitlines() if x[:1] != "#" or x[:2] == "#!"]
        row = next((x for x in rows if pattern.search(x)), "")
        if not row:
            continue
        copy = earlier(case, path)
        right = own[0] if own else close
        mend: tuple[str, ...] = ()
        if copy.path and any(name in one for one in copy.changes):
            mend = put_back(path, copy.path)
        elif right:
            mend = swapped(path, row, pattern.sub(right.replace("\\", ""), row, count=1))
        yield Idea(
            "bad-config", service, f"{path} calls {name}, which is not found",
            0.87 if mend else 0.6, f"{path}: {name}", lines(line, row, *own[:1]),
            (*wants, *copy.wants), (*mend, *_again(case, service, path)) if mend else (),
            undo_of(path), PREVENT,
        )  # fmt: skip
        return


def module(case: Case) -> Iterator[Idea]:
    """A module that it needs is not where it looks: it is put there, or it is told where that
    is."""
    for service in _near(case):
        line = next((one for one in case.troubles(service)[:6] if _MODULE.search(one)), "")
        found = _MODULE.search(line)
        definition = case.definition(service)
        if found is None or definition is None:
            continue
        name = found[1].partition(".")[0]
        look = (
            f"find /opt /srv /usr/local /home /root /var/lib /app -xdev -maxdepth 8 "
            rf"\( -name {shlex.quote(f'{name}.py')} -o -name {shlex.quote(name)} -type d \) "
            f"! -path '*/__pycache__/*' {probes.TRUSTED} 2>/dev/null | head -n 8"
        )
        there = [row for row in case.text(look).splitlines() if row.startswith("/")]
        there.sort(key=lambda row: not case.owns(service, row))
        mend, path = _importable(case, service, there[0]) if there else ((), definition.path)
        yield Idea(
            "bad-config", service, f"{service} does not find its module {name}",
            0.86 if mend else 0.62, f"{path}: {name}" + (f", {there[0]}" if there else ""),
            lines(line, *there[:1]), case.missing((look,)),
            (*mend, *_again(case, service, path)) if mend else (), _undone(mend, path), PREVENT,
        )  # fmt: skip


def _importable(case: Case, service: str, place: str) -> tuple[tuple[str, ...], str]:
    """What lets a module be found that lies somewhere, and the file that is changed for it."""
    definition = case.definition(service)
    entry = definition.path if definition else ""
    told = definition.settings.get("environment", "") if definition else ""
    looked = re.search(r"PYTHONPATH=\"?([^\",]+)", told)
    if looked:
        folder = shlex.quote(looked[1].split(":")[0])
        return (f"mkdir -p {folder}", f"cp -rp {shlex.quote(place)} {folder}/"), f"{folder}/"
    if own := _VENV.match(place):
        return _with_venv(case, service, own[1])
    value = f'PYTHONPATH="{PurePosixPath(place).parent}"'
    if told:
        return swapped(
            entry, f"environment={told}", f"environment={told.rstrip(',')},{value}"
        ), entry
    name = shlex.quote(entry)
    add = shlex.quote(f"/^\\[program:{service}\\]/a environment={value}")
    return (keeping(entry), f"sed -i {add} {name}"), entry


def _with_venv(case: Case, service: str, venv: str) -> tuple[tuple[str, ...], str]:
    """It is run with what is installed in a folder: that which was put aside for another is put
    back in its place, else it is called by its own."""
    for path, text in _texts(case, service):
        for row in (one for one in text.splitlines() if one.strip()[:1] not in ("#", ";")):
            if used := re.search(r"(?<![\w.])(/[\w./@+-]+)/bin/python[\d.]*(?![\w.-])", row):
                now, old = used[1], PurePosixPath(venv)
                if now == venv or now.startswith(SYSTEM) or f"{now}/".startswith("/opt/bin/"):
                    continue
                if str(old.parent) == str(PurePosixPath(now).parent) and _is_aside(old.name, now):
                    was, new = shlex.quote(venv), shlex.quote(now)
                    away = f"mv -T --backup=numbered {new} {new}.replaced"
                    return (away, f"cp -a {was} {new}"), now
                return swapped(path, row, row.replace(f"{now}/bin/", f"{venv}/bin/", 1)), path
            new = re.sub(r"(?<![\w/.-])python3?(?![\w.-])", f"{venv}/bin/python", row, count=1)
            if new != row and re.search(r"\.py\b|-m ", row):
                return swapped(path, row, new), path
    return (), venv


def _undone(mend: tuple[str, ...], path: str) -> str:
    if not mend or not mend[0].startswith("mv "):
        return undo_of(path)
    own = shlex.quote(path)
    return f"mv -T --backup=numbered {own} {own}.tried; mv -T {own}.replaced {own}"


def _is_aside(name: str, now: str) -> bool:
    """Whether a folder is called as another is, and a word more."""
    own = PurePosixPath(now).name
    return re.fullmatch(rf"\.?{re.escape(own)}[._~-].+|.+[._-]{re.escape(own)}", name) is not None


def variable(case: Case) -> Iterator[Idea]:
    """A variable that it needs is set nowhere: as it is spelt nearly, or as others have it."""
    for service in _near(case):
        for line in case.troubles(service)[:4]:
            said = read(line)
            if said is not None and said.kind == "missing" and _is_plain(said.name):
                yield from _given(case, service, said.name, line)
                break


def _is_plain(name: str) -> bool:
    """Whether it is a variable by which nobody says what is run."""
    return name.isupper() and name.isidentifier() and _RUNS.match(name) is None


def _given(case: Case, service: str, name: str, line: str) -> Iterator[Idea]:
    look = (
        f"grep -rnsIE --exclude-dir=.git '(^|[ ,;=\"])(export )?{name}=' /etc /opt /srv "
        "/root /usr/local /var/backups /var/lib 2>/dev/null | cut -c 1-300 | head -n 20"
    )
    wants = case.missing((look,))
    texts = [(path, text) for path, text in _texts(case, service) if not path.endswith(".py")]
    for path, text in texts:
        names = re.findall(r"(?m)^\s*(?:export\s+)?([A-Z_][A-Z0-9_]*)=", text)
        names += re.findall(r"[=,]\s*([A-Z_][A-Z0-9_]*)=", text)
        if (near := alike(name, names)) and near != name:
            mend = swapped(path, f"{near}=", f"{name}=")
            yield Idea(
                "bad-config", service, f"{path} sets {near}, and {service} asks for {name}", 0.86,
                f"{path}: {name}", lines(line), (), (*mend, *_again(case, service, path)),
                undo_of(path), PREVENT,
            )  # fmt: skip
    own = {path for path, _ in texts}
    rows = [row for row in case.text(look).splitlines() if row.partition(":")[0] not in own]
    values = [
        found[1].strip("\"'")
        for row in rows
        if (found := re.search(rf"\b{name}=(\"[^\"]*\"|'[^']*'|[^\s,;]+)", row))
    ]
    place = next((path for path, _ in texts if _is_of_variables(path)), "")
    entry = case.definition(service)
    if values and place:
        text = shlex.quote(f"{name}={shlex.quote(values[0])}")
        own_place = shlex.quote(place)
        mend = (keeping(place), f"echo {text} >> {own_place}")
    elif values and entry is not None and _SIMPLE_VALUE.fullmatch(values[0]):
        place = entry.path
        told = entry.settings.get("environment", "")
        new = f'{name}="{values[0]}"'
        changed = f"environment={told},{new}" if told else ""
        mend = swapped(place, f"environment={told}", changed) if changed else ()
    else:
        mend = ()
    if mend or wants:
        yield Idea(
            "bad-config", service, f"nothing sets {name}, which {service} needs",
            0.84 if mend else 0.62, f"{place}: {name}", lines(line, *rows[:1]), wants,
            (*mend, *_again(case, service, place)) if mend else (), undo_of(place), PREVENT,
        )  # fmt: skip


def _is_of_variables(path: str) -> bool:
    return path.startswith(("/etc/default/", "/etc/sysconfig/")) or path.endswith("env")


RULES = (option, bare, module, variable)
