"""Settings that somebody changed: files in any format, the supervisor's entry, one of several
instances."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from hermes_agent.models.responder.rules import mending
from hermes_agent.models.responder.rules.ideas import (
    Idea,
    earlier,
    keeping,
    lines,
    put_back,
    undo_of,
)
from hermes_agent.models.responder.rules.mending import Row
from hermes_agent.models.responder.rules.sed import basic, replacement
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case, paths_in
from hermes_agent.models.responder.view.house import CODE, SECRET
from hermes_agent.models.responder.view.settings import is_config, whole
from hermes_agent.models.responder.view.versions import DEFAULTS, Copy

_BAD_CONFIG = re.compile(
    r"config|\[emerg\]|syntax|pars(?:e|ing)|setting|directive|option|parameter|"
    r"(?:invalid|bad|unknown|unexpected|missing|unsupported|illegal|duplicate) |"
    r"no (?:option|section)|NoSectionError|NoOptionError|KeyError|ValueError|could not convert|"
    r"cannot (?:make sense|read)|not a (?:number|valid)|unterminated|unclosed|garbage|expected |"
    r"Expecting |\bline:? \d+|OverflowError|out of range|must be |required|"
    r"host not found in upstream|JSONDecodeError|DecodeError|YAML|TOML|will not start|refus\w+ to",
    re.IGNORECASE,
)
_OF_CODE = re.compile(
    r"\b(?:SyntaxError|IndentationError|TabError|NameError|ImportError|ModuleNotFoundError"
    r"|AttributeError|UnboundLocalError)\b"
)
"""What is said of a program, not of what it was told."""
_TELLS = re.compile(
    r"conf|cfg|setting|includ|import|extend|env|option|rule|route|polic|schema|templat|profile"
    r"|map|feature|flag|parameter|propert|defin|file$|^[cCf]$",
    re.IGNORECASE,
)
"""How settings are called that name more settings."""
PREVENT = ("test a configuration before it is loaded", "keep configurations under version control")
_WORD = re.compile(r"[\w./:@-]{2,}")
UNABLE = 0.4
"""Of ideas for which there is nothing to be done: they wait behind others."""
MOST_CHARS, CUT = 6000, "[..."
"""Of a file that is longer not all may have been seen, and what is left out is marked so."""
_FILES = 5
"""Files of a service that are compared with earlier versions."""


def configuration(case: Case) -> Iterator[Idea]:
    """Its configuration was changed, and is wrong since."""
    for service in case.suspects:
        tested = _tested(case, service)
        said = tested or next((x for x in case.troubles(service) if _is_of_config(x)), "")
        named = [one for one in paths_in(said) if _may_hold(one)]
        named = [one for one in named if not _is_others(case, service, one)]
        for path in _files(case, service, named):
            yield from _restoring(case, service, path, said, path in named)
        yield from _entry(case, service, said)
        yield from _unlike_others(case, service)


def _is_of_config(line: str) -> bool:
    return _BAD_CONFIG.search(line) is not None and _OF_CODE.search(line) is None


def is_near(case: Case, service: str) -> bool:
    """Whether a service may be at fault: the one of the alert, what it needs, and all with trouble
    of their own."""
    own = case.brief.service
    program = case.programs.get(service)
    return (
        service == own
        or service in case.needs(own)
        or bool(case.troubles(service))
        or (program is not None and not program.up)
    )


def _files(case: Case, service: str, named: Sequence[str]) -> list[str]:
    """Files of settings of a service, what its trouble names and what changed lately first."""
    lately = [path for path in changed(case, service) if _may_hold(path)]
    configs = case.configs(service)
    known = [*named, *(one for one in configs if one in lately), *lately, *configs]
    known += [
        path
        for path in case.wrappers(service)
        if case.content(path).startswith("#!") and not is_shared(case, service, path)
    ]
    definition = case.definition(service)
    entry = definition.path if definition else ""
    kept = [path for path in dict.fromkeys(known) if path != entry]
    return [one for one in kept if not keeps(case, service, one)][: _FILES + len(named)]


def keeps(case: Case, service: str, path: str) -> bool:
    """Whether a setting names this file as one in which a service keeps something, so that it
    writes it itself: what is wrong with it nobody set."""
    base = case.directory(service)
    keys = [
        key.rpartition(".")[2]
        for _, told in case.sources(service)
        for key, value in told.items()
        if path.endswith(value.lstrip("./")) and whole(value, base) == path
    ]
    return bool(keys) and not path.startswith("/etc/") and not any(map(_TELLS.search, keys))


def _is_others(case: Case, service: str, path: str) -> bool:
    """Whether a file is that of another service, and not of this one."""
    others = [one for one in case.services if one != service and case.owns(one, path)]
    return bool(others) and not case.owns(service, path)


def is_shared(case: Case, service: str, path: str) -> bool:
    """Whether others are started with it, too, and run."""
    users = [name for name in case.services if name != service and path in case.command(name)]
    return any(case.programs[name].up for name in users if name in case.programs)


def _may_hold(path: str) -> bool:
    """Whether a file may be one of settings, by its name and place."""
    if SECRET.search(path) or CODE.search(path):
        return False
    return is_config(path) or path.startswith("/etc/")


def changed(case: Case, service: str) -> list[str]:
    """Files of a service that were written lately, the newest first."""
    return case.changed(service)


def _tested(case: Case, service: str) -> str:
    """What the program's own test of its configuration complains of."""
    if not _is_nginx(case, service):
        return ""
    found = case.look(nginx_test(case, service))
    bad = [line for line in found.lines if "[emerg]" in line] if found else []
    return bad[0] if bad else ""


def nginx_test(case: Case, service: str) -> str:
    words = case.command(service)
    named = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-c"]
    return f"nginx -t -c {shlex.quote(named[0])}" if named else "nginx -t"


def _is_nginx(case: Case, service: str) -> bool:
    return any(PurePosixPath(word).name == "nginx" for word in case.command(service))


def _restoring(case: Case, service: str, path: str, said: str, named: bool) -> Iterator[Idea]:
    copy = earlier(case, path)
    recent = path in changed(case, service)
    wants = (*copy.wants, *case.missing((probes.show(path),)))
    if _is_nginx(case, service):
        wants += case.missing((nginx_test(case, service),))
    row = None if copy.path else _unreadable(case, service, path, said, recent)
    unseen = copy.wants and (recent or is_near(case, service))
    if not (said or copy.path or row or unseen):
        return
    score = 0.3 + 0.25 * bool(said) + 0.1 * named + 0.2 * bool(copy.path) + 0.15 * recent
    score += 0.15 * bool(blamed(case, service, copy.changes))
    score -= 0.0 if said or is_near(case, service) else 0.3
    line = re.search(re.escape(path) + r"[:,]? ?(?:line:? )?(\d+)|line:? (\d+)", said)
    locus = f"{path}:{line[1] or line[2]}" if line else path
    fix: tuple[str, ...] = ()
    if copy.path:
        fix = (*_back(case, service, path, copy), case.restart(service))
    elif row is not None:
        fix = keeping(path), row.command(path), case.restart(service)
        score += 0.2 if said else 0.3
    else:
        fix = _commented(case, service, path, said)
    if not fix and not wants:
        score = min(score, UNABLE)
    yield Idea(
        "bad-config", service, f"{path} of {service} is wrong since it was changed",
        min(score, 0.92), locus,
        lines(said, copy.change, row.old if row else "", *case.troubles(service)[:1]), wants, fix,
        undo_of(path), PREVENT,
    )  # fmt: skip


def _unreadable(case: Case, service: str, path: str, said: str, recent: bool) -> Row | None:
    """The row that keeps a file from being read, where somebody complains of it, or may."""
    program = case.programs.get(service)
    down = program is not None and not program.up
    text = case.content(path)
    if not (said or down or recent) or len(text) > MOST_CHARS or CUT in text:
        return None
    return mending.mended(text, path, said)


def _back(case: Case, service: str, path: str, copy: Copy) -> tuple[str, ...]:
    """The earlier version in its place; of what comes with a program, only what is blamed."""
    if not DEFAULTS.search(copy.path):
        return put_back(path, copy.path)
    new = blamed(case, service, copy.changes)
    key = re.split(r"[=:\s]", new.strip(), maxsplit=1)[0] if new else ""
    old = next((x[2:] for x in copy.changes if x.startswith("< ") and key and key in x), "")
    return swapped(path, new, old) if old else put_back(path, copy.path)


def blamed(case: Case, service: str, changes: Sequence[str]) -> str:
    """The line among changes with something new in it of which its trouble speaks."""
    old = {word for line in changes if line.startswith("< ") for word in _WORD.findall(line)}
    spoken = " ".join((*case.troubles(service)[:8], case.symptom))
    for line in changes:
        new = [word.strip(".:") for word in _WORD.findall(line[2:]) if word not in old]
        if line.startswith("> ") and any(len(one) > 1 and one in spoken for one in new):
            return line[2:]
    return ""


def swapped(path: str, old: str, new: str, *, whole: bool = False) -> tuple[str, ...]:
    """Commands that put one text in the place of another in a file, which is kept aside; `whole`:
    only where nothing else stands in the line."""
    mark = "/" if "|" in old else "|"
    was, now = basic(old.strip()), replacement(new.strip(), mark)
    if whole:
        was, now = rf"^\([[:space:]]*\){was}[[:space:]]*$", rf"\1{now}"
    change = f"s{mark}{was}{mark}{now}{mark}"
    return keeping(path), f"sed -i {shlex.quote(change)} {shlex.quote(path)}"


def _commented(case: Case, service: str, path: str, said: str) -> tuple[str, ...]:
    """The former line, where somebody left it beside the new one as a remark."""
    for now, former in remarks(case.content(path)):
        value = re.split(r"[=:\s]+", now.strip(), maxsplit=1)[-1].strip("\"',; ")
        words = [word for word in (*_WORD.findall(value), value) if word and word not in former]
        if any(word in said for word in words):
            return (*swapped(path, now, former), case.restart(service))
    return ()


def commented(text: str, wanted: re.Pattern[str]) -> tuple[str, str]:
    """The one row of a kind beside which its former one was left as a remark, and that; nothing
    where there are several."""
    found = [(now, old) for now, old in remarks(text) if wanted.search(now) and now.strip() != old]
    found = [(now, old) for now, old in found if _form(old) == _form(now)]  # else it explains
    return found[0] if len(found) == 1 else ("", "")


def _form(row: str) -> tuple[str, int]:
    """How a key and its value are joined, and of how many words that is."""
    bare = re.sub(r"\s[#;].*", "", row.strip())
    key = re.match(r"[\w.-]+\s*([=:]?)", bare)
    return (key[1], len(bare[key.end() :].split())) if key else ("", 0)


def remarks(text: str) -> Iterator[tuple[str, str]]:
    """Rows beside which another one for the same key is left as a remark, and that."""
    rows = text.splitlines()
    told = dict[str, list[str]]()
    for row in rows:
        if given := re.match(r"\s*([\w.-]+)\s*[=: ]", row):
            told.setdefault(given[1], []).append(row)
    for row in rows:
        former = re.match(r"\s*(?:#|;|//)+\s*(?:was|old|before|previously)?:?\s*(.+)$", row)
        key = re.match(r"[\w.-]+", former[1]) if former else None
        if former is None or key is None:
            continue
        now = told.get(key[0], [])
        if len(now) == 1:
            yield now[0], former[1].strip()


def _entry(case: Case, service: str, said: str) -> Iterator[Idea]:
    """How it is started was changed: its entry differs from one that somebody kept."""
    definition = case.definition(service)
    if definition is None or not is_near(case, service):
        return
    copy = earlier(case, definition.path)
    program = case.programs.get(service)
    down = program is not None and not program.up
    word = blamed(case, service, copy.changes)
    if not copy.path and not (copy.wants and (down or service == case.brief.service)):
        return
    score = 0.3 + 0.25 * bool(copy.path) + 0.1 * down + 0.2 * bool(word) + 0.1 * bool(said)
    fix = (*put_back(definition.path, copy.path), *reread(case, service)) if copy.path else ()
    told = [line for line in copy.changes if line.startswith("> ")]
    yield Idea(
        "bad-config", service, f"the entry {definition.path} of {service} is wrong since it was "
        "changed", min(score, 0.92), definition.path, lines(said, *told, copy.change), copy.wants,
        fix, undo_of(definition.path), PREVENT,
    )  # fmt: skip


def reread(case: Case, service: str) -> tuple[str, ...]:
    """Commands that have a changed entry used."""
    if not case.supervised:
        return "systemctl daemon-reload", case.restart(service)
    group = shlex.quote(service.partition(":")[0])
    return "supervisorctl reread", f"supervisorctl update {group}", case.restart(service)


def _unlike_others(case: Case, service: str) -> Iterator[Idea]:
    """One of several instances of a program is told something else than the others."""
    others = [name for name in case.services if name != service and _same(name, service)]
    if not others or not is_near(case, service):
        return
    wants = case.missing(
        probes.show(path) for one in [service, *others[:3]] for path in case.configs(one)[:1]
    )
    if wants:
        yield Idea(
            "bad-config", service, f"{service} may be told something else than {others[0]}", 0.45,
            service, lines(*case.troubles(service)[:1]), wants,
        )  # fmt: skip
        return
    spoken = " ".join((*case.troubles(service)[:8], case.symptom))
    told = [_as_here(case, one, service) for one in others]
    for path, mine in case.sources(service):
        for key, value in mine.items():
            theirs = [one.get(key, "") for one in told]
            known = {one for one in theirs if one}
            if len(known) != 1 or value in known or not value:
                continue
            right = known.pop()
            if _kind(right) != _kind(value):
                continue
            sure = len([one for one in theirs if one]) > 1
            heard = re.search(rf"(?<![\w.]){re.escape(value)}(?![\w.])", spoken) is not None
            heard = heard and len(value) > 2
            changed = _led_right(case.content(path), key, value, right)
            if (not sure and not heard) or not changed:
                continue
            entry = case.definition(service)
            is_entry = entry is not None and path == entry.path
            fix = swapped(path, *changed)
            fix += reread(case, service) if is_entry else (case.restart(service),)
            yield Idea(
                "bad-config", service,
                f"{key} of {service} in {path} is {value!r}, and {right!r} for {others[0]}",
                0.45 + 0.1 * sure + 0.25 * heard, path,
                lines(*(x for x in case.content(path).splitlines() if value in x),
                      *case.troubles(service)[:1]),
                (), fix, undo_of(path), PREVENT,
            )  # fmt: skip


def _led_right(text: str, key: str, value: str, right: str) -> tuple[str, ...]:
    """The one line that says so, and how it should be; nothing where it is not the only one."""
    name = re.escape(key.rpartition(".")[2]).replace("_", "[-_]").replace("\\-", "[-_]")
    said = re.compile(rf"({name}\W+?){re.escape(value)}(?![\w.])", re.IGNORECASE)
    rows = [row for row in text.splitlines() if said.search(row)]
    if len(rows) != 1:
        return ()
    return rows[0], said.sub(lambda found: f"{found[1]}{right}", rows[0], count=1)


def _same(one: str, other: str) -> bool:
    """Whether two services are instances of one: called alike but for a number or a letter."""
    first, second = (re.sub(r"(?:[-_:.]?\d+|[-_:.][a-z])$", "", name) for name in (one, other))
    group, _, rest = one.partition(":")
    return (first == second and first != one) or (bool(rest) and other.startswith(f"{group}:"))


def _kind(value: str) -> str:
    """What kind of value it is, by its look."""
    forms = {"url": r"\w+://.*", "path": r"/.*", "number": r"[\d.]+", "host": r"[\w.-]+:\d+"}
    return next((name for name, form in forms.items() if re.fullmatch(form, value)), "word")


def _as_here(case: Case, other: str, service: str) -> dict[str, str]:
    """What another instance is told, in the words of this one: names and ports are each's own."""
    told = {key: value.replace(other, service) for key, value in case.settings(other).items()}
    theirs, mine = case.settings(other).ports[:1], case.settings(service).ports[:1]
    if theirs and mine:
        old, new = re.compile(rf"\b{theirs[0]}\b"), str(mine[0])
        told = {key: old.sub(new, value) for key, value in told.items()}
    return told


RULES = (configuration,)
