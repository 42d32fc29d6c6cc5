"""Policies and the past: what a changed policy would have said, and why one effect went as it did.
The recorded calls are judged again with the paths as they led then; nothing runs."""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes_agent.cli.client.api import RuntimeClient
from hermes_agent.cli.output.formatting import moment, print_json, stamp
from hermes_agent.cli.output.turn_printer import one_line
from hermes_agent.core.effects import Effect
from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.records import Judgement
from hermes_agent.core.text.terminal import clean
from hermes_agent.core.tools import AT
from hermes_agent.host.paths import find_home
from hermes_agent.policy import explain
from hermes_agent.policy.files.loader import Policies
from hermes_agent.policy.gate import Judged
from hermes_agent.policy.path_resolvers import finish

SHOWN = 20


def simulate(options: argparse.Namespace) -> int:
    api = RuntimeClient()
    api.ensure()
    now = time.time()
    past = _judgements(api, since=moment(options.since, now), session=options.session)
    with tempfile.TemporaryDirectory() as folder:
        policies = _with_changes(Path(folder), [Path(name) for name in options.files])
        differences = list(_differences(policies, past, options.profile))
    if options.json:
        print_json({"judged": len(past), "differences": differences})
    else:
        _print(past, differences, options.all)
    return 0


def why(options: argparse.Namespace) -> int:
    api = RuntimeClient()
    api.ensure()
    session, _, _ = options.effect.rpartition("-")[0].rpartition("-")
    found = [
        one
        for one in _judgements(api, session=session)
        if session and one.judged.effect == options.effect
    ]
    if not found:
        raise NotFound(f"no effect {options.effect!r}", "`hermes audit` lists them")
    past = found[0]
    policies = _policies()
    now = _again(policies, past, past.policy)
    if options.json:
        print_json({"then": msgspec.to_builtins(past), "now": explain.report(now)})
        return 0
    judged = past.judged
    print(f"{clean(judged.text)}")
    print(f"{stamp(past.time)}, session {past.session}, profile {past.policy}")
    print(f"then: {judged.action} by {judged.rule or 'default'}: {clean(judged.reason)}")
    print("now:  " + clean("\n".join(explain.lines(now))))
    return 0


def _judgements(api: RuntimeClient, *, since: float = 0.0, session: str = "") -> list[Judgement]:
    rows = api.get("/v1/judgements", since=since, session=session, limit=100_000)
    return msgspec.convert(rows, list[Judgement])


def _policies(folder: Path | None = None) -> Policies:
    home = Path(find_home(os.environ)).expanduser().resolve()
    made = Policies.of_home(home, Path.home())
    return made if folder is None else Policies(folder, made.homes)


def _with_changes(folder: Path, changed: Sequence[Path]) -> Policies:
    """The policies of the home as they would be with these files."""
    own = _policies().folder
    for file in own.glob("*.y*ml") if own.is_dir() else ():
        shutil.copy(file, folder / file.name)
    for file in changed:
        files = sorted(file.glob("*.y*ml")) if file.is_dir() else [file]
        if not file.exists():
            raise UsageError(f"no file {str(file)!r}", "name the policy file you have changed")
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


def _print(past: Sequence[Judgement], differences: Sequence[dict[str, Any]], all: bool) -> None:
    if not past:
        print("no effects were judged in that time")
        return
    print(f"{len(past)} effects judged again, {len(differences)} would differ")
    kinds: dict[str, int] = {}
    for one in differences:
        kind = f"{one['was']} -> {one['would_be']}" + (" (rewritten)" if one["rewritten"] else "")
        kinds[kind] = kinds.get(kind, 0) + 1
    for kind, count in sorted(kinds.items()):
        print(f"  {count:>5}  {kind}")
    shown = differences if all else differences[:SHOWN]
    for one in shown:
        print(f"{one['effect']}  {one['was']} -> {one['would_be']}  {one_line(one['call'])}")
        print(f"    {clean(one['rule'])}: {one_line(one['reason'])}")
        if one["rewritten"] is not None:
            print(f"    it would run with {one_line(str(one['rewritten']))}")
    if len(shown) < len(differences):
        print(f"and {len(differences) - len(shown)} more; --all lists them")
