"""The rules that every effect passes: what is in force, whether the files are in order, and why
something would be allowed, asked about or refused.

Your own rules are files in `policies/` of the home; docs/reference/policies.md explains them."""

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.arguments import json_option
from hermes_agent.cli.output.formatting import print_json, table
from hermes_agent.core.errors import HermesError, NotFound, UsageError
from hermes_agent.core.text.terminal import visible
from hermes_agent.host.paths import find_home

if TYPE_CHECKING:
    from hermes_agent.core.settings.root import Settings
    from hermes_agent.policy.files.loader import LoadedPolicies, Policies
    from hermes_agent.policy.files.schema import PolicyFile, PolicyProblem
    from hermes_agent.policy.testing import PolicyTestOutcome, Touches


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(act=_list, profile="")
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    list_ = actions.add_parser("list", help="the rules in force for a profile")
    list_.set_defaults(act=_list)
    check = actions.add_parser("check", help="check policy files and say all that is wrong")
    check.set_defaults(act=_check)
    test = actions.add_parser("test", help="run the tests that policy files carry")
    test.set_defaults(act=_test)
    for action in (check, test):
        action.add_argument("files", nargs="*", metavar="FILE", help="default: all files in force")
    explain = actions.add_parser("explain", help="what the rules say to a command, and why")
    explain.set_defaults(act=_explain)
    explain.add_argument("command", nargs="*", help="a command, in quotes")
    explain.add_argument("--tool", default="terminal", help="another tool than terminal")
    explain.add_argument("--input", default="", help="its arguments, as JSON")
    explain.add_argument("--folder", default="", help="the workspace; default: where you are")
    explain.add_argument("--terminal", default="local", help="the name of a terminal")
    explain.add_argument("--place", default="", help="another kind of terminal than that one's")
    add = actions.add_parser("add", help="put a file among your policies, once it passes")
    add.set_defaults(act=_add)
    add.add_argument("file", help="a policy file; it takes the place of one of the same name")
    simulate = actions.add_parser("simulate", help="judge past effects by changed rules")
    simulate.set_defaults(act=_simulate)
    simulate.add_argument(
        "files", nargs="*", metavar="FILE",
        help="changed files; each takes the place of yours of the same name, or is added",
    )  # fmt: skip
    simulate.add_argument("--since", default="7d", help="how far back: 12h, 7d (default), a date")
    simulate.add_argument("--session", default="", help="only one session")
    simulate.add_argument("--all", action="store_true", help="list every difference")
    simulate.add_argument("--profile", default="", help="default: that of each session")
    why = actions.add_parser("why", help="why an effect went as it did, and what holds now")
    why.set_defaults(act=_why)
    why.add_argument("effect", help="its id, as `hermes audit` shows it")
    for action in (list_, explain):
        action.add_argument("--profile", default="", help="default: the setting `policy`")
    for action in (list_, check, test, explain, add, simulate, why):
        action.add_argument("--json", action="store_true", default=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    return int(options.act(options))


def _simulate(options: argparse.Namespace) -> int:
    from hermes_agent.cli.decide.policy.simulate import simulate

    return simulate(options)


def _why(options: argparse.Namespace) -> int:
    from hermes_agent.cli.decide.policy.simulate import why

    return why(options)


def _policies(*, tests: bool = False) -> "Policies":
    from hermes_agent.policy.files.loader import Policies

    return Policies.of_home(Path(find_home(os.environ)), Path.home(), tests=tests)


def _profile(options: argparse.Namespace) -> str:
    if options.profile:
        return str(options.profile)
    return _settings().policy


def _settings() -> "Settings":
    from hermes_agent.host.config import load_settings

    return load_settings(Path(find_home(os.environ)) / "config.yaml", os.environ)


# list


def _list(options: argparse.Namespace) -> int:
    from hermes_agent.policy.files.loader import PolicyFilesInvalid

    policies = _policies(tests=True)
    loaded = policies.load()
    if loaded.problems:
        raise PolicyFilesInvalid(loaded.problems)
    profile = _profile(options)
    policies.rules(profile)
    files = loaded.order(profile)
    if options.json:
        print_json(
            {
                "profile": profile,
                "profiles": loaded.profiles,
                "files": [_file_row(file) for file in files],
                "rules": [
                    {
                        "rule": rule.name, "then": rule.action, "reason": rule.reason,
                        "where": rule.where,
                    }
                    for file in files
                    for rule in file.rules
                ],
            }
        )  # fmt: skip
        return 0
    print(f"profile {profile}; there are: {', '.join(loaded.profiles)}\n")
    print(table(("file", "rules", "tests", "where"), [_file_cells(file) for file in files]))
    rows = [(rule.action, rule.name, rule.reason) for file in files for rule in file.rules]
    print(f"\n{len(rows)} rules, in the order in which they are asked; a deny goes before all\n")
    print(table(("then", "rule", "reason"), rows))
    return 0


def _file_row(file: "PolicyFile") -> dict[str, Any]:
    return {
        "name": file.name, "title": file.title, "path": file.path, "profile": file.profile,
        "extends": file.extends, "rules": len(file.rules), "tests": len(file.tests),
    }  # fmt: skip


def _file_cells(file: "PolicyFile") -> tuple[str, str, str, str]:
    return file.name, str(len(file.rules)), str(len(file.tests)), file.path


# check


def _check(options: argparse.Namespace) -> int:
    loaded = _policies(tests=True).load()
    problems: Sequence[PolicyProblem] = loaded.problems
    count = len(loaded.files)
    if options.files:
        files, _joined, problems = _beside(loaded, options.files)
        count = len(files)
    if options.json:
        rows = [
            {
                "path": problem.path, "line": problem.line, "column": problem.column,
                "message": problem.message, "hint": problem.hint,
            }
            for problem in problems
        ]  # fmt: skip
        print_json({"ok": not problems, "files": count, "problems": rows})
        return 1 if problems else 0
    for problem in problems:
        print(visible(f"{problem}\n  hint: {problem.hint}" if problem.hint else str(problem)))
    if problems:
        return 1
    print(f"policy files in order: {count}")
    return 0


def _beside(
    loaded: "LoadedPolicies", names: Sequence[str]
) -> "tuple[list[PolicyFile], LoadedPolicies, tuple[PolicyProblem, ...]]":
    """Files by their paths, what would be in force with them, and what is wrong with that."""
    from hermes_agent.policy.files.loader import together

    read = [_read(name) for name in names]
    files = [file for file, _problems in read]
    joined = together(loaded, files)
    own = (problem for _file, found in read for problem in found)
    return files, joined, (*own, *joined.problems)


def _read(name: str) -> "tuple[PolicyFile, tuple[PolicyProblem, ...]]":
    from hermes_agent.policy.files.parse import read_file

    path = Path(name).absolute()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"no file at {path}", "`hermes policy list` names those in force") from None
    except (OSError, UnicodeDecodeError) as error:
        raise HermesError(f"cannot read {path}: {error}", "it must be a text in UTF-8") from None
    return read_file(path.stem, str(path), text)


# test


def _test(options: argparse.Namespace) -> int:
    from hermes_agent.policy.files.loader import PolicyFilesInvalid
    from hermes_agent.policy.testing import run_tests

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
    if options.json:
        print_json({"ok": not failed, "tests": [_outcome_row(outcome) for outcome in outcomes]})
        return 1 if failed else 0
    for outcome in failed:
        print("\n".join(_failure(outcome)))
    print(f"tests: {len(outcomes)}, failed: {len(failed)}")
    return 1 if failed else 0


def _check_profiles(loaded: "LoadedPolicies", file: "PolicyFile") -> None:
    """A test under a profile that there is not would pass for the wrong reason."""
    known = {*loaded.profiles, file.profile}
    for case in file.tests:
        if case.profile and case.profile not in known:
            raise UsageError(
                f"{file.path}:{case.line}: no policy called {case.profile!r}",
                f"there are: {', '.join(loaded.profiles)}",
            )


def _outcome_row(outcome: "PolicyTestOutcome") -> dict[str, Any]:
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


def _subject(outcome: "PolicyTestOutcome") -> str:
    case = outcome.case
    if case.run is not None:
        return case.run
    return f"{case.call} {json.dumps(case.input, ensure_ascii=False)}"


def _failure(outcome: "PolicyTestOutcome") -> list[str]:
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
    """Nothing is put in force that is broken, or that fails its own tests."""
    from hermes_agent.policy.files.loader import ENDINGS, PolicyFilesInvalid
    from hermes_agent.policy.testing import run_tests

    if not options.file.endswith(ENDINGS) or Path(options.file).name.startswith("."):
        raise UsageError(f"{options.file!r} is no name of a policy file", "call it NAME.yaml")
    policies = _policies(tests=True)
    (file,), loaded, problems = _beside(policies.load(), [options.file])
    if problems:
        raise PolicyFilesInvalid(problems)
    _check_profiles(loaded, file)
    outcomes = run_tests(loaded, file, _tools(*{case.call for case in file.tests}))
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if failed:
        lines = "\n".join(line for outcome in failed for line in _failure(outcome))
        raise UsageError(f"{len(failed)} of its tests fail\n{lines}", "mend the rules or the tests")
    policies.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = policies.folder / Path(options.file).name
    draft = target.with_suffix(".new")
    draft.write_bytes(Path(options.file).read_bytes())
    draft.replace(target)
    if options.json:
        print_json({"file": str(target), "rules": len(file.rules), "tests": len(outcomes)})
        return 0
    print(f"{target.name}: {len(file.rules)} rules, {len(outcomes)} tests passed; now in force")
    if file.profile:
        print(f"hint: `hermes config set policy {file.profile}` uses it for new sessions")
    return 0


# explain


def _explain(options: argparse.Namespace) -> int:
    from hermes_agent.policy.explain import lines, report
    from hermes_agent.policy.path_resolvers import finish, on_disk
    from hermes_agent.policy.testing import make_effect

    _check_tool(options.tool)
    effect = make_effect(
        options.tool, _input(options), _tools(options.tool),
        workspace=os.path.abspath(options.folder or os.getcwd()),
        terminal=options.terminal, place=_place(options), time=time.time(),
    )  # fmt: skip
    gate = _policies().gate(_profile(options))
    judged = finish(gate.consider(effect, on_disk, whole=True))
    if options.json:
        print_json(report(judged))
    else:
        print(visible("\n".join(lines(judged))))
    return 0


def _check_tool(name: str) -> None:
    """Programs and servers bring tools of their own; a name that is nearly a built-in one is a
    slip."""
    from difflib import get_close_matches

    from hermes_agent.runtime.tools.builtin import TABLE

    if name not in TABLE and (not name or get_close_matches(name, TABLE, 1, 0.75)):
        raise UsageError(f"no tool called {name!r}", f"built in are: {', '.join(TABLE)}")


def _place(options: argparse.Namespace) -> str:
    """The kind of the terminal that is named."""
    from hermes_agent.policy.files.rule_lint import PLACES

    if options.place and options.place not in PLACES:
        raise UsageError(
            f"no kind of terminal is called {options.place!r}", f"there are: {', '.join(PLACES)}"
        )
    places = _settings().places
    if options.terminal not in places:
        raise UsageError(
            f"no terminal called {options.terminal!r}", f"there are: {', '.join(places)}"
        )
    return str(options.place or places[options.terminal].__struct_config__.tag)


def _input(options: argparse.Namespace) -> dict[str, Any]:
    words: list[str] = options.command
    if words and (options.input or options.tool != "terminal"):
        raise UsageError("either a command, or --tool with --input", "`hermes policy explain -h`")
    if len(words) > 1:
        raise UsageError(
            "the command came as several words", f'put it in quotes: "{" ".join(words)}"'
        )
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


def _tools(*names: str) -> "dict[str, Touches]":
    """What the gate is told of the built-in ones among these tools, and of `terminal`."""
    from hermes_agent.policy.testing import TERMINAL, Touches
    from hermes_agent.runtime.tools.builtin import TABLE, load_tools

    wanted = [name for name in names if name in TABLE and name != "terminal"]
    found = load_tools(wanted) if wanted else ()
    tools = {
        tool.name: Touches(tuple(tool.capabilities), dict(tool.paths), "", tuple(tool.hosts))
        for tool in found
    }
    return {"terminal": TERMINAL, **tools}
