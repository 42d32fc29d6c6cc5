"""The rules that decide on every effect: which are in force, whether the files are valid, and why
something would be allowed, denied or need approval.

Your own rules are files in `policies/` of the home; docs/reference/policies.md explains them."""

import argparse
import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes_agent.cli.actions import add_action, add_actions, connect, emit
from hermes_agent.cli.home import home_and_settings, home_folder
from hermes_agent.cli.output.formatting import count, moment, one_line, stamp, table
from hermes_agent.cli.output.progress import Progress
from hermes_agent.core.effects import Effect, Unconfined
from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.records import Judgement
from hermes_agent.core.text.terminal import clean, visible
from hermes_agent.core.tools import AT
from hermes_agent.policy.explain import lines as explain_lines
from hermes_agent.policy.explain import report as explain_report
from hermes_agent.policy.files.loader import (
    ENDINGS,
    LoadedPolicies,
    Policies,
    PolicyFilesInvalid,
    together,
)
from hermes_agent.policy.files.parse import read_file
from hermes_agent.policy.files.rule_lint import PLACES
from hermes_agent.policy.files.schema import PolicyFile, PolicyProblem
from hermes_agent.policy.gate import Judged
from hermes_agent.policy.path_resolvers import finish, on_disk
from hermes_agent.policy.testing import (
    TERMINAL,
    PolicyTestOutcome,
    Touches,
    make_effect,
    run_tests,
)

SHOWN = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, _list, profile="")
    list_ = add_action(actions, "list", _list, "the rules in force for a profile")
    check = add_action(actions, "check", _check, "check policy files for errors")
    test = add_action(actions, "test", _test, "run the tests in policy files")
    for action in (check, test):
        action.add_argument("files", nargs="*", metavar="FILE", help="default: all files in force")
    explain = add_action(
        actions, "explain", _explain, "what the rules decide on a command, and why"
    )
    explain.add_argument("command", nargs="*", help="a command, in quotes")
    explain.add_argument("--tool", default="terminal", help="default: terminal")
    explain.add_argument("--input", default="", help="its arguments, as JSON")
    explain.add_argument("--folder", default="", help="the workspace; default: this folder")
    explain.add_argument("--terminal", default="local", help="the name of a terminal")
    explain.add_argument("--place", default="", help="its kind; default: that of the terminal")
    add = add_action(actions, "add", _add, "add a file to your policies if it passes")
    add.add_argument("file", help="a policy file; replaces yours of the same name")
    simulate = add_action(actions, "simulate", _simulate, "apply changed rules to past effects")
    simulate.add_argument(
        "files", nargs="*", metavar="FILE",
        help="changed files; each replaces yours of the same name, or is added",
    )  # fmt: skip
    simulate.add_argument("--since", default="7d", help="how far back: 12h, 7d (default), a date")
    simulate.add_argument("--session", default="", help="only one session")
    simulate.add_argument("--all", action="store_true", help="list every difference")
    simulate.add_argument("--profile", default="", help="default: that of each session")
    why = add_action(
        actions, "why", _why, "why an effect was allowed, denied or asked, then and now"
    )
    why.add_argument("effect", help="its id, as `hermes audit` shows it")
    for action in (list_, explain):
        action.add_argument("--profile", default="", help="default: the setting `policy`")


def _policies(*, tests: bool = False, unconfined: Unconfined = lambda: None) -> Policies:
    home = home_folder().expanduser().resolve()
    return Policies.of_home(home, Path.home(), tests=tests, unconfined=unconfined)


def _profile(options: argparse.Namespace) -> str:
    return str(options.profile or home_and_settings()[1].policy)


# list


def _list(options: argparse.Namespace) -> int:
    policies = _policies(tests=True)
    loaded = policies.load()
    if loaded.problems:
        raise PolicyFilesInvalid(loaded.problems)
    profile = _profile(options)
    policies.rules(profile)
    files = loaded.order(profile)
    rules = [rule for file in files for rule in file.rules]
    document = {
        "profile": profile,
        "profiles": loaded.profiles,
        "files": [_file_row(file) for file in files],
        "rules": [
            {"rule": rule.name, "then": rule.action, "reason": rule.reason, "where": rule.where}
            for rule in rules
        ],
    }
    cells = [(file.name, str(len(file.rules)), str(len(file.tests)), file.path) for file in files]
    text = (
        f"profile {profile}; available: {', '.join(loaded.profiles)}\n\n"
        f"{table(('file', 'rules', 'tests', 'where'), cells)}\n\n"
        f"{count(len(rules), 'rule')}, in the order they are tried; a deny beats all others\n\n"
    )
    rows = [(rule.action, rule.name, rule.reason) for rule in rules]
    return emit(options, document, text + table(("then", "rule", "reason"), rows))


def _file_row(file: PolicyFile) -> dict[str, Any]:
    return {
        "name": file.name, "title": file.title, "path": file.path, "profile": file.profile,
        "extends": file.extends, "rules": len(file.rules), "tests": len(file.tests),
    }  # fmt: skip


# check


def _check(options: argparse.Namespace) -> int:
    loaded = _policies(tests=True).load()
    problems: Sequence[PolicyProblem] = loaded.problems
    count_ = len(loaded.files)
    if options.files:
        files, _joined, problems = _beside(loaded, options.files)
        count_ = len(files)
    lines = [f"{one}\n  hint: {one.hint}" if one.hint else str(one) for one in problems]
    rows = [msgspec.to_builtins(one) for one in problems]
    document = {"ok": not problems, "files": count_, "problems": rows}
    text = visible("\n".join(lines)) or f"policy files checked: {count_}, all valid"
    return emit(options, document, text, int(bool(problems)))


def _beside(
    loaded: LoadedPolicies, names: Sequence[str]
) -> tuple[list[PolicyFile], LoadedPolicies, tuple[PolicyProblem, ...]]:
    """Files by their paths, the policies with them added, and the problems of both."""
    read = [_read(name) for name in names]
    files = [file for file, _problems in read]
    joined = together(loaded, files)
    own = (problem for _file, found in read for problem in found)
    return files, joined, (*own, *joined.problems)


def _read(name: str) -> tuple[PolicyFile, tuple[PolicyProblem, ...]]:
    path = Path(name).absolute()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"no file at {path}", "`hermes policy list` names those in force") from None
    except (OSError, UnicodeDecodeError) as error:
        raise HermesError(f"cannot read {path}: {error}", "it must be UTF-8 text") from None
    return read_file(path.stem, str(path), text)


# test


def _test(options: argparse.Namespace) -> int:
    loaded = _policies(tests=True).load()
    files = list(loaded.files)
    problems = loaded.problems
    if options.files:
        files, loaded, problems = _beside(loaded, options.files)
    if problems:
        raise PolicyFilesInvalid(problems)
    outcomes: list[PolicyTestOutcome] = []
    tools = _tools(*{case.call for file in files for case in file.tests})
    for file in files:
        _check_profiles(loaded, file)
        outcomes += run_tests(loaded, file, tools)
    failed = [outcome for outcome in outcomes if not outcome.passed]
    rows = [_outcome_row(outcome) for outcome in outcomes]
    lines = [line for outcome in failed for line in _failure(outcome)]
    lines.append(f"tests: {len(outcomes)}, failed: {len(failed)}")
    return emit(options, {"ok": not failed, "tests": rows}, "\n".join(lines), int(bool(failed)))


def _check_profiles(loaded: LoadedPolicies, file: PolicyFile) -> None:
    """A test under an unknown profile would pass for the wrong reason."""
    known = {*loaded.profiles, file.profile}
    for case in file.tests:
        if case.profile and case.profile not in known:
            raise UsageError(
                f"{file.path}:{case.line}: no policy called {case.profile!r}",
                f"available: {', '.join(loaded.profiles)}",
            )


def _outcome_row(outcome: PolicyTestOutcome) -> dict[str, Any]:
    case = outcome.case
    return {
        "where": f"{outcome.file.path}:{case.line}",
        "test": _subject(outcome),
        "profile": outcome.profile,
        "expected": case.expect,
        "got": outcome.got,
        "rule": outcome.rule,
        "reason": outcome.reason,
        "passed": outcome.passed,
    }


def _subject(outcome: PolicyTestOutcome) -> str:
    case = outcome.case
    if case.run is not None:
        return case.run
    return f"{case.call} {json.dumps(case.input, ensure_ascii=False)}"


def _failure(outcome: PolicyTestOutcome) -> list[str]:
    case = outcome.case
    wanted = [case.expect, *([f"by {case.rule}"] if case.rule else [])]
    wanted += [f"as {case.becomes}"] if case.becomes else []
    became = f" as {outcome.became}" if outcome.became else ""
    return [
        f"{outcome.file.path}:{case.line}: {visible(_subject(outcome))}",
        f"  expected {' '.join(wanted)}",
        visible(f"  got {outcome.got} by {outcome.rule}{became}: {outcome.reason}"),
    ]


# add


def _add(options: argparse.Namespace) -> int:
    """Refuses a file that is invalid or fails its own tests."""
    if not options.file.endswith(ENDINGS) or Path(options.file).name.startswith("."):
        raise UsageError(f"not a policy file name: {options.file!r}", "call it NAME.yaml")
    policies = _policies(tests=True)
    (file,), loaded, problems = _beside(policies.load(), [options.file])
    if problems:
        raise PolicyFilesInvalid(problems)
    _check_profiles(loaded, file)
    outcomes = run_tests(loaded, file, _tools(*{case.call for case in file.tests}))
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if failed:
        lines = "\n".join(line for outcome in failed for line in _failure(outcome))
        raise UsageError(f"failed tests: {len(failed)}\n{lines}", "fix the rules or the tests")
    policies.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = policies.folder / Path(options.file).name
    draft = target.with_suffix(".new")
    draft.write_bytes(Path(options.file).read_bytes())
    draft.replace(target)
    document = {"file": str(target), "rules": len(file.rules), "tests": len(outcomes)}
    passed = f"{count(len(file.rules), 'rule')}, {count(len(outcomes), 'test')} passed"
    text = f"{target.name}: {passed}; now in force"
    if file.profile:
        text += f"\nhint: `hermes config set policy {file.profile}` uses it for new sessions"
    return emit(options, document, text)


# explain


def _explain(options: argparse.Namespace) -> int:
    _check_tool(options.tool)
    effect = make_effect(
        options.tool, _input(options), _tools(options.tool),
        workspace=os.path.abspath(options.folder or os.getcwd()),
        terminal=options.terminal, place=_place(options), time=time.time(),
    )  # fmt: skip
    from hermes_agent.terminals.local.view import unconfined

    confine = home_and_settings()[1].terminal.confine
    policies = _policies(unconfined=lambda: unconfined(os.environ, confine))
    gate = policies.gate(_profile(options))
    judged = finish(gate.consider(effect, on_disk, whole=True))
    return emit(options, explain_report(judged), visible("\n".join(explain_lines(judged))))


def _check_tool(name: str) -> None:
    """Plugins and MCP servers add tools, so a name may be unknown; one that is close to a built-in
    tool is a typo."""
    from difflib import get_close_matches

    from hermes_agent.runtime.tools.builtin import TABLE

    if name not in TABLE and (not name or get_close_matches(name, TABLE, 1, 0.75)):
        raise UsageError(f"no tool called {name!r}", f"built in: {', '.join(TABLE)}")


def _place(options: argparse.Namespace) -> str:
    """The kind of the named terminal."""
    if options.place and options.place not in PLACES:
        raise UsageError(
            f"no kind of terminal called {options.place!r}", f"available: {', '.join(PLACES)}"
        )
    places = home_and_settings()[1].places
    if options.terminal not in places:
        raise UsageError(
            f"no terminal called {options.terminal!r}", f"available: {', '.join(places)}"
        )
    return str(options.place or places[options.terminal].__struct_config__.tag)


def _input(options: argparse.Namespace) -> dict[str, Any]:
    words: list[str] = options.command
    if words and (options.input or options.tool != "terminal"):
        raise UsageError("give a command, or --tool with --input", "`hermes policy explain -h`")
    if len(words) > 1:
        raise UsageError("the command has several words", f'put it in quotes: "{" ".join(words)}"')
    if words and words[0].strip():
        return {"command": words[0]}
    if words or (not options.input and options.tool == "terminal"):
        raise UsageError("no command to explain", '`hermes policy explain "rm -rf build"`')
    try:
        given = json.loads(options.input or "{}")
    except ValueError as error:
        raise UsageError(f"--input is not JSON: {error}", '--input \'{"path": "x"}\'') from None
    if not isinstance(given, dict):
        raise UsageError("--input must be a JSON object", '--input \'{"path": "x"}\'')
    return given


def _tools(*names: str) -> dict[str, Touches]:
    """What the gate knows of `terminal` and of the built-in tools among these."""
    from hermes_agent.runtime.tools.builtin import TABLE, load_tools

    wanted = [name for name in names if name in TABLE and name != "terminal"]
    found = load_tools(wanted) if wanted else ()
    tools = {
        tool.name: Touches(tuple(tool.capabilities), dict(tool.paths), "", tuple(tool.hosts))
        for tool in found
    }
    return {"terminal": TERMINAL, **tools}


# the past: judge recorded effects again, with paths as they resolved then


def _simulate(options: argparse.Namespace) -> int:
    past = _judgements(since=moment(options.since, time.time()), session=options.session)
    with tempfile.TemporaryDirectory() as folder:
        policies = _with_changes(Path(folder), [Path(name) for name in options.files])
        with Progress("applying the rules to past effects") as progress:
            again = progress.over(past, len(past))
            differences = list(_differences(policies, again, options.profile))
    document = {"judged": len(past), "differences": differences}
    return emit(options, document, "\n".join(_lines(past, differences, options.all)))


def _why(options: argparse.Namespace) -> int:
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
        "now:  " + clean("\n".join(explain_lines(now)))
    )
    return emit(options, {"then": msgspec.to_builtins(past), "now": explain_report(now)}, text)


def _judgements(*, since: float = 0.0, session: str = "") -> list[Judgement]:
    rows = connect().get("/v1/judgements", since=since, session=session, limit=100_000)
    return msgspec.convert(rows, list[Judgement])


def _with_changes(folder: Path, changed: Sequence[Path]) -> Policies:
    """The policies of the home with these files added."""
    own = _policies()
    for file in own.folder.glob("*.y*ml") if own.folder.is_dir() else ():
        shutil.copy(file, folder / file.name)
    for file in changed:
        files = sorted(file.glob("*.y*ml")) if file.is_dir() else [file]
        if not file.exists():
            raise UsageError(f"no file {str(file)!r}", "name the policy file that you changed")
        for one in files:
            shutil.copy(one, folder / one.name)
    return Policies(folder, own.homes)


def effect_of(past: Judgement) -> Effect:
    """The effect as the gate saw it."""
    facts = past.judged.facts
    given = {key: value for key, value in _past_input(past).items() if key != AT}
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
        unconfined=facts.unconfined,
        unconfined_workspace=facts.unconfined_workspace,
    )


def _past_input(past: Judgement) -> dict[str, Any]:
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
    policies: Policies, past: Iterable[Judgement], profile: str
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
        yield "no effects in that time"
        return
    yield f"{count(len(past), 'past effect')}, {len(differences)} would be decided differently"
    kinds = Counter(
        f"{one['was']} -> {one['would_be']}" + (" (rewritten)" if one["rewritten"] else "")
        for one in differences
    )
    yield from (f"  {times:>5}  {kind}" for kind, times in sorted(kinds.items()))
    shown = differences if all else differences[:SHOWN]
    for one in shown:
        yield f"{one['effect']}  {one['was']} -> {one['would_be']}  {one_line(one['call'])}"
        yield f"    {clean(one['rule'])}: {one_line(one['reason'])}"
        if one["rewritten"] is not None:
            yield f"    it would run with {one_line(str(one['rewritten']))}"
    if len(shown) < len(differences):
        yield f"and {len(differences) - len(shown)} more; --all lists them"
