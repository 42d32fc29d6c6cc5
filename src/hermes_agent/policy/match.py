"""Whether a rule matches an operation. Each rule becomes a list of small tests, cheap ones first.

A rule that allows must match everything the operation touches, one that asks or denies any of it;
what is unknown (an unknown operation, an unnamed place) is only allowed by `unknown: true`."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property

from hermes_agent.core.effects import Effect, Operation, PathAccess
from hermes_agent.policy.files.schema import PolicyRule, RuleMatch, Times
from hermes_agent.policy.operations import as_json, is_elsewhere
from hermes_agent.policy.patterns.globs import LISTS, Roots, WordGlobs

CONFINED = frozenset({"sandbox", "container", "apptainer", "modal", "e2b", "daytona"})
"""Kinds of terminals that isolate commands from the user's files. A pod may be anybody's."""

PROGRAM_KEYS = (
    "program", "verb", "flag", "no_flag", "option", "no_option", "argument", "text", "via",
    "no_via", "computed",
)  # fmt: skip
PLACE_KEYS = ("path", "holds", "access", "inside", "outside")


class MatchContext:
    """What all operations of one effect share."""

    def __init__(self, effect: Effect, roots: Roots) -> None:
        self.effect = effect
        self.roots = roots
        self.elsewhere = Roots({}, effect.session)
        """For paths of other machines: placeholders have no value there."""
        self.held: dict[str, bool] = {}
        """By rule: whether its tests of the whole effect pass."""

    @cached_property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.effect.time, UTC)


EffectTest = Callable[[MatchContext], object]
Test = Callable[[MatchContext, Operation], object]


def is_unnamed(place: PathAccess) -> bool:
    """Where it is is unknown, or was not resolved."""
    return not place.named or not place.real


def is_unknown(act: Operation) -> bool:
    if act.kind == "path":
        return any(is_unnamed(place) for place in act.places)
    if act.kind == "host":
        return any(not host for host in act.hosts)
    return act.kind == "unknown"


def may_do_anything(act: Operation) -> bool:
    """It is unknown, or a program of which the words do not tell what it does."""
    return is_unknown(act) or bool(act.reason)


def kinds(match: RuleMatch) -> frozenset[str]:
    """The kinds of operations a rule is about."""
    if match.kind is not None:
        return frozenset(match.kind)
    places, hosts = match.names(*PLACE_KEYS), match.names("host")
    programs = {"program", "unknown"} if match.names(*PROGRAM_KEYS) else set()
    calls = {"call"} if match.names("tool", "capability") else set()
    if places and hosts:
        return frozenset({"program", "call"})
    if places or hosts:
        return frozenset({"path"} if places else {"host"}) | programs | calls
    return frozenset(programs or {"call", "program", "path", "host", "unknown"})


def effect_tests(match: RuleMatch) -> tuple[EffectTest, ...]:
    """Tests of the whole effect; `could_fit` tests the tool."""
    return (*_caller_tests(match), *_time_tests(match))


def act_tests(rule: PolicyRule) -> tuple[Test, ...]:
    """Tests of the operation; `could_fit` tests its kind and program."""
    return tuple(_act_tests(rule))


def could_fit(rule: PolicyRule) -> Callable[[str, str, str], bool]:
    """Whether a rule can match this kind, tool and program at all: for an index."""
    match = rule.match
    about = kinds(match)
    tools = WordGlobs(match.tool) if match.tool is not None else None
    programs = WordGlobs(match.program) if match.program is not None else None

    def could(kind: str, tool: str, program: str) -> bool:
        return (
            kind in about
            and (tools is None or bool(tools.fit(tool)))
            and (programs is None or bool(program and programs.fit(program)))
        )

    return could


_OF_EFFECT: Mapping[str, Callable[[Effect], Iterable[str]]] = {
    "origin": lambda effect: (effect.origin,),
    "terminal": lambda effect: (effect.terminal,),
    "place": lambda effect: (effect.terminal_kind,),
    "capability": lambda effect: effect.capabilities,
    "session": lambda effect: (effect.actor.kind,),
    "source": lambda effect: (effect.actor.source,),
    "actor": lambda effect: (effect.actor.kind, f"{effect.actor.kind}/{effect.actor.name}"),
}
"""Keys of a rule whose globs must fit one of these words."""


def _caller_tests(match: RuleMatch) -> Iterator[EffectTest]:
    if match.input is not None:
        inputs = [
            (name, WordGlobs(globs) if globs else None) for name, globs in match.input.items()
        ]
        yield lambda facts: all(_fits_input(facts, name, fit) for name, fit in inputs)
    if (confined := match.confined) is not None:
        yield lambda facts: (facts.effect.terminal_kind in CONFINED) == confined
    for key, words in _OF_EFFECT.items():
        if (globs := getattr(match, key)) is not None:
            yield _effect_test(WordGlobs(globs), words)


def _effect_test(globs: WordGlobs, words: Callable[[Effect], Iterable[str]]) -> EffectTest:
    return lambda facts: globs.fit_any(words(facts.effect))


NOT_GIVEN: tuple[object, ...] = (None, "", [], ())
"""What an argument that is not given amounts to."""


def _fits_input(facts: MatchContext, name: str, words: WordGlobs | None) -> object:
    """An argument that is not a string is compared as JSON. Without words it must not be given."""
    value = facts.effect.input.get(name)
    if words is None:
        return value in NOT_GIVEN
    if name not in facts.effect.input:
        return False
    return words.fit(value if isinstance(value, str) else as_json(value))


_OF_ACT: Mapping[str, Callable[[Operation], Iterable[str]]] = {
    "verb": lambda act: (act.verb,),
    "flag": lambda act: act.flags,
    "argument": lambda act: act.arguments,
    "text": lambda act: (act.text,),
    "via": lambda act: act.via,
}
"""The same of an operation; `no_` before a key means that none fits."""


def _act_tests(rule: PolicyRule) -> Iterator[Test]:
    match, whole = rule.match, rule.action == "allow"
    if whole and not match.unknown:
        yield lambda _facts, act: not is_unknown(act)
    if (unknown := match.unknown) is not None:
        yield lambda _facts, act: may_do_anything(act) == unknown
    if (computed := match.computed) is not None:
        yield lambda _facts, act: act.computed == computed
    for key, words in _OF_ACT.items():
        for name, wanted in ((key, True), (f"no_{key}", False)):
            if (globs := getattr(match, name, None)) is not None:
                shortened = globs if key == "flag" and whole != wanted else ()
                yield _act_test(WordGlobs(globs), words, wanted, shortened)
    if match.no_program is not None:
        yield _act_test(WordGlobs(match.no_program), lambda act: (act.program,), wanted=False)
    yield from _option_tests(match, whole=whole)
    if match.names(*PLACE_KEYS):
        yield _place_test(match, whole)
    if match.host is not None:
        yield _host_test(match.host, whole)


def _act_test(
    globs: WordGlobs,
    words: Callable[[Operation], Iterable[str]],
    wanted: bool,
    shortened: tuple[str, ...] = (),
) -> Test:
    """`shortened`: long options that count as given, too, when a word may be short for them, which
    the flag `--word*` says."""
    full = tuple(name for name in shortened if name.startswith("--"))

    def test(_facts: MatchContext, act: Operation) -> bool:
        found = bool(globs.fit_any(words(act))) or any(
            name.startswith(flag[:-1]) for flag in act.flags if flag[-1:] == "*" for name in full
        )
        return found == wanted

    return test


def _option_tests(match: RuleMatch, *, whole: bool) -> Iterator[Test]:
    """An unknown value matches rules that ask or deny, never those that allow. Most programs take
    the last of repeated options, so all values must match to be allowed."""
    if match.option is not None:
        test = _given if whole else _may_be_given
        options = _options(match.option)
        yield lambda _facts, act: test(options, act)
    if match.no_option is not None:
        no_test = _may_be_given if whole else _given
        no_options = _options(match.no_option)
        yield lambda _facts, act: not no_test(no_options, act)


Options = tuple[tuple[WordGlobs, WordGlobs], ...]
"""Names and values."""


def _options(patterns: tuple[str, ...]) -> Options:
    parts = (pattern.partition("=") for pattern in patterns)
    return tuple((WordGlobs((name,)), WordGlobs((value,))) for name, _, value in parts)


def _given(options: Options, act: Operation) -> bool:
    """Whether one of the options is given for sure, and with no other value."""
    named = [
        (name, value)
        for name, value in act.options
        if not name or any(names.fit(name) for names, _ in options)
    ]
    return bool(named) and all(
        value is not None
        and any(names.fit(name) and values.fit(value) for names, values in options)
        for name, value in named
    )


def _may_be_given(options: Options, act: Operation) -> bool:
    return any(
        not name
        or any(
            names.fit(name) and (value is None or values.fit(value)) for names, values in options
        )
        for name, value in act.options
    )


def _host_test(patterns: tuple[str, ...], whole: bool) -> Test:
    from hermes_agent.policy.patterns.hosts import Hosts

    hosts = Hosts(patterns)

    def test(_facts: MatchContext, act: Operation) -> bool:
        if not whole:
            return any(hosts.fit(host) for host in act.hosts)
        return bool(act.hosts) and all(host and hosts.fit(host) for host in act.hosts)

    return test


def _place_test(match: RuleMatch, whole: bool) -> Test:
    """All conditions must hold for the same place; for a rule that allows, for every place."""
    conditions = tuple(_place_conditions(match, whole))

    def test(facts: MatchContext, act: Operation) -> bool:
        roots = facts.elsewhere if is_elsewhere(act) else facts.roots
        fit = (all(fits(roots, place) for fits in conditions) for place in act.places)
        return bool(act.places) and all(fit) if whole else any(fit)

    return test


Condition = Callable[[Roots, PathAccess], bool]


def _place_conditions(match: RuleMatch, whole: bool) -> Iterator[Condition]:
    if match.access is not None:
        accesses = frozenset(match.access)
        yield lambda _roots, place: place.access in accesses
    if match.inside is not None:
        yield lambda roots, place: not is_unnamed(place) and _is_inside(roots, place)
    if match.outside is not None:
        yield lambda roots, place: not is_unnamed(place) and _is_outside(roots, place, whole)
    if match.path is not None:
        yield _path_condition(match.path, whole)
    if match.holds is not None:
        yield _holds_condition(match.holds, whole)


_WORKSPACE = ("{workspace}/**",)
_QUOTES = re.compile("[\"']")


def _is_inside(roots: Roots, place: PathAccess) -> bool:
    pattern = roots.pattern(_WORKSPACE)
    return all(pattern.fullmatch(path) for path in place.real)


def _is_outside(roots: Roots, place: PathAccess, whole: bool) -> bool:
    pattern = roots.pattern(_WORKSPACE)
    out = (not pattern.fullmatch(path) for path in place.real)
    return all(out) if whole else any(out)


def _path_condition(globs: tuple[str, ...], whole: bool) -> Condition:
    anywhere = "**" in globs
    by_name = tuple(one for one in globs if one.startswith("**/") or one in LISTS)

    def fits(roots: Roots, place: PathAccess) -> bool:
        if is_unnamed(place):
            # The end of its name may be known: `"$folder/.env"`.
            written = f"/{_QUOTES.sub('', place.given)}"
            return anywhere or (not whole and bool(roots.pattern(by_name).fullmatch(written)))
        pattern = roots.pattern(globs)
        fit = (pattern.fullmatch(path) for path in (place.named, *place.real))
        return all(fit) if whole else any(fit)

    return fits


def _holds_condition(paths: tuple[str, ...], whole: bool) -> Condition:
    """The place is one of these paths, or a folder that they lie in."""

    def fits(roots: Roots, place: PathAccess) -> bool:
        if is_unnamed(place):
            return False
        held = [f"{full.rstrip('/')}/" for path in paths for full in roots.named(path)]
        fit = (
            any(full.startswith(f"{path.rstrip('/')}/") for full in held)
            for path in (place.named, *place.real)
        )
        return all(fit) if whole else any(fit)

    return fits


def _time_tests(match: RuleMatch) -> Iterator[EffectTest]:
    if (times := match.time) is not None:
        yield lambda facts: _is_time(times, facts.now)


def _is_time(times: Times, now: datetime) -> bool:
    from zoneinfo import ZoneInfo

    there = now.astimezone(ZoneInfo(times.zone))
    if times.days and there.weekday() not in times.days:
        return False
    minute = there.hour * 60 + there.minute
    return not times.hours or any(
        first <= minute < last if first <= last else minute >= first or minute < last
        for first, last in times.hours
    )
