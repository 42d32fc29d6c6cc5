"""A setting that works and is not what is meant: that of a trial system, or of another service.
What people wrote down, how others of the house have it, and what is there tell what it should
be."""

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder.rules.config import is_near, reread, swapped
from hermes_agent.models.responder.rules.ideas import Idea, lines, put_back, undo_of
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case, paths_in
from hermes_agent.models.responder.view.house import CODE, LOG
from hermes_agent.models.responder.view.settings import is_config

_TRIAL = (
    r"stag(?:e|ing)?|test(?:s|ing)?|dev(?:el|elopment)?|demo|trial|sandbox|qa|uat|pre-?prod|local"
    r"|dummy|mock|sample|example|scratch|playground|canary|preview"
)
_WORD = re.compile(rf"(?i)(?<![a-z0-9])(?:{_TRIAL})(?![a-z])")
_APART = (
    re.compile(rf"(?i)[-_.](?:{_TRIAL})(?![a-z0-9])"),
    re.compile(rf"(?i)(?<=[/@])(?:{_TRIAL})[-_./]"),
)
_REAL = re.compile(r"(?i)(?<![a-z])(?:prod(?:uction)?|live|real)(?![a-z])")
_PLACE = re.compile(r"/[\w.@+-]+(?:/[\w.@+-]+)+")
NOT_LATELY = 0.5
"""How sure it is at most where it has been so for long: then it is meant so."""
PREVENT = (
    "keep settings of trial systems where they cannot be taken for the real ones",
    "see to what was written in the wrong place meanwhile",
)


class Guess(Struct, frozen=True):
    """What a value should be, and how sure that is."""

    right: str
    sure: float
    why: str


def meant(case: Case) -> Iterator[Idea]:
    near = (case.brief.service, *case.needs(case.brief.service))
    for service in case.suspects:
        if service in near and is_near(case, service) and not _WORD.search(service):
            yield from _led_astray(case, service)
            yield from _of_trials(case, service)


def _led_astray(case: Case, service: str) -> Iterator[Idea]:
    """A place that its settings name, while the one that is meant is there, too."""
    lately = {row.path for row in parse.sizes(case.text(probes.CHANGED))}
    for path, told in case.sources(service):
        for key, value in told.items():
            place = value.removeprefix("sqlite:///").removeprefix("file:")
            if not _PLACE.fullmatch(place) or CODE.search(place) or LOG.search(place):
                continue
            guesses = {
                one.right: one for one in reversed(list(_guesses(case, service, key, place)))
            }
            for one in guesses.values():
                there = f"ls -ld {shlex.quote(one.right)}"
                wants = case.missing((there, *(f"cat {shlex.quote(x)}" for x in [path] if path)))
                rows = [] if wants else _rows(case, path, value)
                found = case.look(there)
                if not wants and (len(rows) != 1 or found is None or not found.ok):
                    continue
                score = one.sure + 0.2 * (path in lately) - 0.2 * bool(case.troubles(service))
                score = score if path in lately else min(score, NOT_LATELY)
                yield _idea(case, service, path, key, value, one, score, rows, wants)


def _idea(
    case: Case, service: str, path: str, key: str, value: str, one: Guess, score: float,
    rows: list[str], wants: tuple[str, ...],
) -> Idea:  # fmt: skip
    definition = case.definition(service)
    entry = definition is not None and definition.path == path
    place = value.removeprefix("sqlite:///").removeprefix("file:")
    fix: tuple[str, ...] = ()
    if rows:
        whole = re.compile(rf"(?<![\w.@+-]){re.escape(place)}(?![\w.@+/-])")
        fix = swapped(path, rows[0], whole.sub(lambda _: one.right, rows[0]))
        fix += reread(case, service) if entry else (case.restart(service),)
    return Idea(
        "bad-config", service, f"{key} of {service} in {path} is {value}, and {one.why}",
        score if fix else min(score, 0.6), f"{path}: {key}", lines(*rows, case.symptom[-200:]),
        wants, fix, undo_of(path), PREVENT,
    )  # fmt: skip


def _rows(case: Case, path: str, value: str) -> list[str]:
    """The lines of a file that say so; those of an entry as the supervisor has them."""
    texts = parse.files(case.text(probes.PROGRAMS)).get(path) or case.content(path).splitlines()
    return [row for row in texts if value in row and row.strip()[:1] not in ("#", ";")]


def _guesses(case: Case, service: str, key: str, value: str) -> Iterator[Guess]:
    """The surest first."""
    about = [one.rstrip(".,;") for one in paths_in(case.about(service))]
    kind = PurePosixPath(value).suffix
    known = {one for _, told in case.sources(service) for one in told.values()}
    written = [one for one in about if one not in known and PurePosixPath(one).suffix == kind]
    alike = [one for one in written if not is_config(one) and PurePosixPath(one).name != service]
    if value not in about and len(alike) == 1 and kind and not is_config(value):
        yield Guess(alike[0], 0.66, f"people wrote down {alike[0]}")
    for plain in without_trial(value):
        yield Guess(plain, 0.55, f"{plain} is there, which is not for trials")
    names = [one for one in case.services if one != service]
    for other in names:
        theirs = case.settings(other).get(key, "")
        bounded = re.compile(rf"(?<![\w-]){re.escape(other)}(?![\w-])")
        right = bounded.sub(service, theirs)
        own = any(re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", value) for one in names)
        if theirs and right not in (theirs, value) and (own or _WORD.search(value)):
            yield Guess(right, 0.6, f"it would be {right} as {other} has it")


def without_trial(value: str) -> list[str]:
    """A value without the word that says that it is for trials."""
    found = [pattern.sub("", value, count=1) for pattern in _APART if pattern.search(value)]
    return [one for one in dict.fromkeys(found) if one and one != value and len(one) > 3]


def _of_trials(case: Case, service: str) -> Iterator[Idea]:
    """The file in use is that of a trial system, and the real one lies beside it."""
    lying = [row.path for row in case.lying(service)]
    for path in case.configs(service)[:3]:
        here = PurePosixPath(path)
        stem = here.name if here.name.startswith(".") else here.stem
        kin = [
            one for one in lying
            if PurePosixPath(one).parent == here.parent and one != path
            and stem in PurePosixPath(one).name
        ]  # fmt: skip
        real = [one for one in kin if _REAL.search(PurePosixPath(one).name)]
        trials = [one for one in kin if _WORD.search(PurePosixPath(one).name)]
        if len(real) != 1 or not trials:
            continue
        wants = case.missing(probes.show(one) for one in (path, real[0], *trials[:3]))
        same = [one for one in trials if case.content(one).strip() == case.content(path).strip()]
        if not wants and (not same or not case.content(real[0]).strip()):
            continue
        recent = path in {row.path for row in parse.sizes(case.text(probes.CHANGED))}
        yield Idea(
            "bad-config", service, f"{path} of {service} is that of a trial system",
            0.62 if wants else 0.85 if recent else NOT_LATELY,
            f"{path}, from {(same or trials)[0]}",
            lines(*case.content(path).splitlines()[:2]), wants,
            () if wants else (*put_back(path, real[0]), case.restart(service)), undo_of(path),
            PREVENT,
        )  # fmt: skip
