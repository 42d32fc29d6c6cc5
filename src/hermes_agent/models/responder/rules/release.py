"""A release that is worse than the one before, however releases are made: a link, a folder by its
number, a working copy of git, a file written over, or a folder that was put aside."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from hermes_agent.models.responder.rules import former
from hermes_agent.models.responder.rules.config import is_near, is_shared, reread, swapped
from hermes_agent.models.responder.rules.former import (
    NUMBERED,
    PREVENT,
    RECENT_SECONDS,
    journal,
    previous,
)
from hermes_agent.models.responder.rules.ideas import Idea, earlier, lines, put_back, undo_of
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case, paths_in, stamp
from hermes_agent.models.responder.view.house import CODE, SHARED
from hermes_agent.models.responder.view.settings import is_config

_CODE = re.compile(
    r"Traceback|\b\w*(?:Error|Exception)\b|panic|segfault|core dumped|undefined|unhandled|assert"
    r"|\b50[0-9]\b|garbage|corrupt|not what",
    re.IGNORECASE,
)
_ANSWERED = re.compile(
    r"\b4(?:0[04569]|1[05]|22)\b|not found|no such (?:path|route|method|endpoint|field)"
    r"|(?:unexpected|unknown|missing) (?:field|key|answer|response|method|parameter)",
    re.IGNORECASE,
)
"""Answers of a program that works, to what it does not know any more."""
_ASIDE = re.compile(
    r"(?:^|[._-])(?:old|bak|back-?ups?|orig|prev(?:ious)?|saved?|former|replaced)$", re.IGNORECASE
)
_COMMIT = re.compile(r"^commit ([0-9a-f]{4,40}) (\d+) (.*)$")
_BEFORE = re.compile(r"^before ([0-9a-f]{4,40}) \S+ (.*)$", re.MULTILINE)
_TAKEN = re.compile(r"pull|merge|reset|checkout|rebase|cherry-pick|fast-forward", re.IGNORECASE)
_MOST = 3


def release(case: Case) -> Iterator[Idea]:
    for service in case.suspects:
        if not case.command(service):
            continue
        yield from _linked(case, service)
        if is_near(case, service):
            yield from _numbered(case, service)
            yield from _checked_out(case, service)
            yield from _written_over(case, service)
            yield from _put_aside(case, service)


def _trouble(case: Case, service: str) -> tuple[str, str]:
    """What it says of its code, and of anything."""
    troubles = case.troubles(service)
    return next((x for x in troubles if _CODE.search(x)), ""), next(iter(troubles), "")


def _score(case: Case, service: str, name: str) -> float:
    code, broken = _trouble(case, service)
    named = bool(name) and name in " ".join(case.troubles(service))
    shipped = bool(journal(case, service))
    return 0.3 + 0.25 * bool(code) + 0.1 * bool(broken) + 0.15 * named + 0.1 * shipped


def _linked(case: Case, service: str) -> Iterator[Idea]:
    """A link leads to a new one, and an older one lies beside it."""
    if is_near(case, service) and (unseen := case.missing((probes.RELEASES,))):
        claim = f"{service} may run a release that is worse than the one before"
        yield Idea("bad-deploy", service, claim, 0.46, service, (), unseen)
    links = re.findall(r"^(/\S+) -> (\S+)  (.*)$", case.text(probes.RELEASES), re.MULTILINE)
    whole = " ".join([*case.command(service), case.directory(service), *case.named(service)])
    for link, target, written in links:
        above, name, rest = _release_of(link, target)
        if not name or (link not in whole and f"/{service}/" not in link):
            continue
        folder = above if above.is_absolute() else PurePosixPath(link).parent / above
        wants = case.missing((probes.rows(str(folder)),))
        own, before = _previous(case, str(folder), name)
        if before:
            wants += case.missing(_inside(case, service, link, f"{folder}/{before}", rest))
        other = f"{folder}/{before}"
        if not wants and (not before or not _is_whole(case, service, link, other, rest)):
            continue
        lately = 0 <= case.now - stamp(written, case.now, case.offset) < RECENT_SECONDS
        code, broken = _trouble(case, service)
        answered = lately and _ANSWERED.search(case.symptom) is not None
        previous = shlex.quote(str(above / before / rest)) if before else ""
        link_at = shlex.quote(link)
        yield Idea(
            "bad-deploy", service, f"release {name} of {service} is worse than {before}",
            min(_score(case, service, name) + 0.1 * (bool(before) + answered) + 0.15 * lately,
                0.86), name,
            lines(code or broken, own.line if own else "", f"{link} -> {target}"), wants,
            (f"ln -sfn {previous} {link_at}", case.restart(service)) if before else (),
            f"ln -sfn {shlex.quote(target)} {link_at}", PREVENT,
        )  # fmt: skip


def _release_of(link: str, target: str) -> tuple[PurePosixPath, str, str]:
    """Of where a link leads: the folder of all releases, the one, and what of it is meant where
    that is called as the link is."""
    now = PurePosixPath(target)
    if now.name != PurePosixPath(link).name:
        return now.parent, now.name, ""
    numbers = [at for at, part in enumerate(now.parts[:-1]) if NUMBERED.fullmatch(part)]
    if not numbers:
        return now.parent, "", ""
    at = numbers[-1]
    return PurePosixPath(*now.parts[:at]), now.parts[at], "/".join(now.parts[at + 1 :])


def _inside(case: Case, service: str, link: str, release: str, rest: str) -> dict[str, str]:
    """Looks into another release for what a service runs by a link, and what it is called there."""
    words = [one for one in case.command(service) if one.startswith(f"{link}/")]
    meant = f"{release}/{rest}".rstrip("/")
    paths = [PurePosixPath(f"{meant}{one.removeprefix(link)}") for one in words]
    paths += [PurePosixPath(meant)] if rest else []
    return {probes.rows(str(path.parent)): path.name for path in paths}


def _is_whole(case: Case, service: str, link: str, release: str, rest: str) -> bool:
    """Whether another release has what a service runs: it may be one that is only being made."""
    return all(
        name in [row.own for row in parse.listing(case.text(look))]
        for look, name in _inside(case, service, link, release, rest).items()
    )


def _previous(case: Case, folder: str, name: str) -> tuple[parse.FileRow | None, str]:
    return previous(list(parse.listing(case.text(probes.rows(folder)))), name)


def _numbered(case: Case, service: str) -> Iterator[Idea]:
    """Its command, its wrapper or its settings name a folder or file by its number."""
    definition = case.definition(service)
    for path, texts in _tellers(case, service).items():
        for word in dict.fromkeys(one for text in texts for one in paths_in(text)):
            parts = PurePosixPath(word).parts
            found = [at for at, part in enumerate(parts) if at > 1 and NUMBERED.fullmatch(part)]
            of_system = word.startswith(("/usr/lib", "/usr/share", "/lib", "/usr/bin"))
            if not found or of_system or is_config(word) or _is_data(case, service, word):
                continue
            at = found[0]
            folder = str(PurePosixPath(*parts[:at]))
            wants = case.missing((probes.rows(folder),))
            own, before = _previous(case, folder, parts[at])
            alike = re.sub(r"\d+", "#", before) == re.sub(r"\d+", "#", parts[at])
            if not wants and (not before or not alike):
                continue
            code, broken = _trouble(case, service)
            entry = definition is not None and path == definition.path
            after = reread(case, service) if entry else (case.restart(service),)
            new, old = f"{folder}/{parts[at]}", f"{folder}/{before}"
            yield Idea(
                "bad-deploy", service, f"{parts[at]} of {service} is worse than {before}",
                min(_score(case, service, parts[at]) + 0.15 * bool(before), 0.85), parts[at],
                lines(code or broken, own.line if own else ""), wants,
                (*swapped(path, new, old), *after) if before else (), undo_of(path), PREVENT,
            )  # fmt: skip


def _tellers(case: Case, service: str) -> dict[str, list[str]]:
    """Files that say what is run, with the texts in which they do."""
    definition = case.definition(service)
    found: dict[str, list[str]] = {}
    if definition is not None:
        found[definition.path] = [definition.command, *definition.settings.values()]
    for path in case.wrappers(service):
        found[path] = [case.content(path)]
    return found


def _is_data(case: Case, service: str, path: str) -> bool:
    return not CODE.search(path) and any(path == one for one in case.settings(service).paths)


def _homes(case: Case, service: str) -> list[str]:
    """Folders in which its code lies."""
    words = [word for word in case.named(service) if CODE.search(word) or "/bin/" in word]
    found = [case.directory(service), *(str(PurePosixPath(word).parent) for word in words)]
    found = [one.removesuffix("/bin").removesuffix("/src") for one in found]
    return [one for one in dict.fromkeys(found) if one.startswith("/") and one not in SHARED][:2]


_GIT = (
    "git -c safe.directory='*' -c core.hooksPath=/dev/null -c core.fsmonitor=false "
    "-c log.showSignature=false"
)
"""A working copy is looked at, and nothing is run that its owner left in it."""


def history(folder: str) -> str:
    """Its commits, and what was checked out before, the last first."""
    git = f"{_GIT} -C {shlex.quote(folder)}"
    return (
        f"{git} log -n 5 --format='commit %h %ct %s' --name-only; "
        f"{git} log -g -n 4 --format='before %h %gd %gs' --date=unix"
    )


def _checked_out(case: Case, service: str) -> Iterator[Idea]:
    """Its code is a working copy, and somebody took over newer commits."""
    for folder in _homes(case, service):
        seen = case.look(history(folder))
        if seen is None:
            claim = f"the code of {service} in {folder} may have been changed"
            yield Idea("bad-deploy", service, claim, 0.3, folder, (), (history(folder),))
            continue
        commits = _commits(seen.output if seen.ok else "")
        if len(commits) < 2 or all(is_config(name) for name in commits[0][3]):
            continue
        now, time, title, names = commits[0]
        code, broken = _trouble(case, service)
        named = any(PurePosixPath(name).name in code for name in names)
        recent = case.now - time < RECENT_SECONDS
        git = f"{_GIT} -C {shlex.quote(folder)} checkout -q"
        yield Idea(
            "bad-deploy", service, f"commit {now} of {service} ({title}) is worse than the one "
            "before", min(_score(case, service, now) + 0.15 * recent + 0.1 * named, 0.86),
            f"{folder} {now}", lines(code or broken, f"commit {now} {time} {title}"), (),
            (f"{git} {_checked_out_before(seen.output, now) or commits[1][0]}",
             case.restart(service)), f"{git} {now}", PREVENT,
        )  # fmt: skip


def _checked_out_before(text: str, now: str) -> str:
    """What was there before others were taken over, of which there may have been several at
    once; empty where that is not known."""
    rows = _BEFORE.findall(text)
    taken = bool(rows) and rows[0][0] == now and _TAKEN.match(rows[0][1]) is not None
    return next((name for name, _ in rows[1:] if name != now), "") if taken else ""


def _commits(text: str) -> list[tuple[str, int, str, list[str]]]:
    found: list[tuple[str, int, str, list[str]]] = []
    for line in text.splitlines():
        if head := _COMMIT.match(line):
            found.append((head[1], int(head[2][:12]), head[3], []))
        elif found and line.strip() and not _BEFORE.match(line):
            found[-1][3].append(line.strip())
    return found


def is_aside(path: str) -> bool:
    """Whether a file lies where former ones are put away."""
    return any(_ASIDE.search(part) for part in PurePosixPath(path).parts[2:-1])


def _written_over(case: Case, service: str) -> Iterator[Idea]:
    """A file of its code is not what it was, and somebody kept the former one."""
    code, broken = _trouble(case, service)
    spoken = [path for line in case.troubles(service)[:12] for path in paths_in(line)]
    lately = [path for path in case.changed(service) if CODE.search(path) and not is_aside(path)]
    own = [path for path in case.named(service) if CODE.search(path) or "/bin/" in path]
    own = [path for path in own if not is_shared(case, service, path)]
    for path in list(dict.fromkeys([*(x for x in spoken if CODE.search(x)), *lately, *own]))[
        :_MOST
    ]:
        copy = earlier(case, path)
        linked = parse.files(case.text(probes.copies(path))).get("link")
        if linked or (not copy.path and not copy.wants):
            continue
        score = 0.3 + 0.2 * bool(copy.path) + 0.2 * bool(code) + 0.1 * bool(broken)
        score += 0.05 * (path in lately) + 0.05 * (path in spoken)
        yield Idea(
            "bad-deploy", service, f"{path} of {service} is worse than what it replaced",
            min(score, 0.84), path, lines(code or broken, copy.change), copy.wants,
            (*put_back(path, copy.path), case.restart(service)) if copy.path else (),
            undo_of(path), PREVENT,
        )  # fmt: skip


def _put_aside(case: Case, service: str) -> Iterator[Idea]:
    """The folder of its code was replaced, and the former one lies beside it by another name."""
    code, broken = _trouble(case, service)
    inside = [path for path in case.settings(service).paths if not is_config(path)]
    for folder in _homes(case, service):
        here = PurePosixPath(folder)
        if _holds_data(folder, inside) or str(here.parent) == "/":
            continue
        beside = probes.rows(str(here.parent))
        rows = [row for row in parse.listing(case.text(beside)) if row.mode.startswith("d")]
        kept = [row for row in rows if _is_former(row.own, here.name)]
        wants = case.missing((beside,))
        if not kept and not wants:
            continue
        older = f"{here.parent}/{kept[-1].own}" if kept else ""
        away, own, old = (shlex.quote(one) for one in (f"{folder}.replaced", folder, older))
        yield Idea(
            "bad-deploy", service, f"what is in {folder} is worse than what was put aside",
            min(_score(case, service, here.name), 0.8), folder,
            lines(code or broken, *(row.line for row in kept)), wants,
            (f"mv -T {own} {away}", f"cp -a {old} {own}", case.restart(service)) if older else (),
            f"mv -T {own} {away}.tried; mv -T {away} {own}", PREVENT,
        )  # fmt: skip


def _is_former(name: str, now: str) -> bool:
    rest = name.removeprefix(now)
    return rest not in ("", name) and probes.BACKUPS.search(name) is not None


def _holds_data(folder: str, paths: Sequence[str]) -> bool:
    return any(path.startswith(f"{folder}/") for path in paths)


RULES = (release, former.former)
