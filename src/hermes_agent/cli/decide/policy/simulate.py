"""Judges past effects again: what a changed policy would decide, and why one effect was judged as
it was. Paths resolve as they did then; nothing runs."""

import argparse
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes_agent.cli.actions import connect, emit
from hermes_agent.cli.home import home_folder
from hermes_agent.cli.output.formatting import moment, one_line, stamp
from hermes_agent.core.effects import Effect
from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.records import Judgement
from hermes_agent.core.text.terminal import clean
from hermes_agent.core.tools import AT
from hermes_agent.policy import explain
from hermes_agent.policy.files.loader import Policies
from hermes_agent.policy.gate import Judged
from hermes_agent.policy.path_resolvers import finish

SHOWN = 20


def simulate(options: argparse.Namespace) -> int:
    past = _judgements(since=moment(options.since, time.time()), session=options.session)
    with tempfile.TemporaryDirectory() as folder:
        policies = _with_changes(Path(folder), [Path(name) for name in options.files])
        differences = list(_differences(policies, past, options.profile))
    document = {"judged": len(past), "differences": differences}
    return emit(options, document, "\n".join(_lines(past, differences, options.all)))


def why(options: argparse.Namespace) -> int:
    session, _, _ = options.effect.rpartition("-")[0].rpartition("-")
    found = [
        one
        for one in _judgements(session=session)
        if session and one.judged.effect == options.effect
    ]
    if not found:
        raise NotFound(f"no effect {options.effect!r}", "`hermes audit` lists them")
    past, judged = found[0], found[0].judged
    now = _again(_policies(), past, past.policy)
    text = (
        f"{clean(judged.text)}\n"
        f"{stamp(past.time)}, session {past.session}, profile {past.policy}\n"
        f"then: {judged.action} by {judged.rule or 'default'}: {clean(judged.reason)}\n"
        "now:  " + clean("\n".join(explain.lines(now)))
    )
    return emit(options, {"then": msgspec.to_builtins(past), "now": explain.report(now)}, text)


def _judgements(*, since: float = 0.0, session: str = "") -> list[Judgement]:
    rows = connect().get("/v1/judgements", since=since, session=session, limit=100_000)
    return msgspec.convert(rows, list[Judgement])


def _policies(folder: Path | None = None) -> Policies:
    home = home_folder().expanduser().resolve()
    made = Policies.of_home(home, Path.home())
    return made if folder is None else Policies(folder, made.homes)


def _with_changes(folder: Path, changed: Sequence[Path]) -> Policies:
    """The policies of the home with these files added."""
    own = _policies().folder
    for file in own.glob("*.y*ml") if own.is_dir() else ():
        shutil.copy(file, folder / file.name)
    for file in changed:
        files = sorted(file.glob("*.y*ml")) if file.is_dir() else [file]
        if not file.exists():
            raise UsageError(f"no file {str(file)!r}", "name the policy file that you changed")
        for one in files:
            shutil.copy(one, folder / one.name)
    return _policies(folder)


def effect_of(past: Judgement) -> Effect:
    """The effect as the gate saw it."""
    facts = past.judged.facts
    given = {key: value for key, value in _input(past).items() if key != AT}
    return Effect(
        id=past.judged.effect,
        tool=past.judged.tool,
        input=given,
        session=past.session,
        workspace=facts.workspace,
        folder=facts.folder,
        terminal=facts.terminal,
        terminal_kind=facts.place,
        capabilities=facts.capabilities,
        command=str(given.get(facts.runs, "")) if facts.runs else None,
        paths=facts.paths,
        hosts=facts.hosts,
        origin=facts.origin,
        actor=facts.actor,
        time=past.time,
        bounds=facts.bounds,
    )


def _input(past: Judgement) -> dict[str, Any]:
    given: dict[str, Any] = msgspec.json.decode(past.input or "{}")
    return given


def _again(policies: Policies, past: Judgement, profile: str) -> Judged:
    led = dict(past.judged.facts.seen)

    async def resolve(paths: Sequence[str]) -> Sequence[tuple[str, ...]]:
        return [led.get(path, (path,)) for path in paths]

    gate = policies.gate(profile)
    granted = frozenset(past.judged.facts.granted)
    return finish(gate.consider(effect_of(past), resolve, granted))


def _differences(
    policies: Policies, past: Sequence[Judgement], profile: str
) -> Iterator[dict[str, Any]]:
    for one in past:
        verdict = _again(policies, one, profile or one.policy).verdict
        was = one.judged
        rewritten = verdict.input if verdict.input != was.input else None
        if verdict.action != was.action or rewritten is not None:
            yield {
                "effect": was.effect,
                "session": one.session,
                "time": one.time,
                "call": was.text,
                "was": was.action,
                "was_rule": was.rule,
                "would_be": verdict.action,
                "rule": verdict.rule,
                "reason": verdict.reason,
                "rewritten": rewritten,
            }


def _lines(
    past: Sequence[Judgement], differences: Sequence[dict[str, Any]], all: bool
) -> Iterator[str]:
    if not past:
        yield "no effects were judged in that time"
        return
    yield f"{len(past)} effects judged again, {len(differences)} would differ"
    kinds = Counter(
        f"{one['was']} -> {one['would_be']}" + (" (rewritten)" if one["rewritten"] else "")
        for one in differences
    )
    yield from (f"  {count:>5}  {kind}" for kind, count in sorted(kinds.items()))
    shown = differences if all else differences[:SHOWN]
    for one in shown:
        yield f"{one['effect']}  {one['was']} -> {one['would_be']}  {one_line(one['call'])}"
        yield f"    {clean(one['rule'])}: {one_line(one['reason'])}"
        if one["rewritten"] is not None:
            yield f"    it would run with {one_line(str(one['rewritten']))}"
    if len(shown) < len(differences):
        yield f"and {len(differences) - len(shown)} more; --all lists them"
