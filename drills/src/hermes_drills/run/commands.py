"""The actions of `hermes drill`."""

import argparse
import contextlib
import inspect
import json
import secrets
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn, get_args

import msgspec

from hermes_drills.compose import Case, compose, faults, missing
from hermes_drills.errors import DrillError, UsageError
from hermes_drills.faults import FAULTS
from hermes_drills.needs import advice, lacking
from hermes_drills.run import left, results, score
from hermes_drills.run.client import Runtime
from hermes_drills.run.results import Result
from hermes_drills.run.runner import Mode, close_incidents, run_drill
from hermes_drills.run.sweep import Sweep, describe, listing
from hermes_drills.run.view import View, table
from hermes_drills.types import Boot, Fault, Split
from hermes_drills.worlds.stacks import HELD, STACKS

SEEDS = 1_000_000
TRIES = 12
"""Random seeds of which the first is taken whose machine can be made here."""
INITS: tuple[Boot, ...] = get_args(Boot)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(act=_list)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    _action(actions, "list", _list, "list the fault families and any missing programs")
    show = _action(actions, "show", _show, "show the mechanisms of a family")
    show.add_argument("name", metavar="NAME")
    run = _action(actions, "run", _run, "break a machine and watch Hermes heal it")
    run.add_argument("name", nargs="?", default="", metavar="NAME")
    run.add_argument(
        "--all", action="store_true", help="every mechanism of every family that can run here"
    )
    run.add_argument(
        "--seeds", type=_positive, default=1, metavar="N", help="runs of each; default: 1"
    )
    _options(run)
    repeat = _action(
        actions, "repeat", _repeat, "run one family repeatedly, each time on a new machine"
    )
    repeat.add_argument("name", metavar="NAME")
    repeat.add_argument("--times", type=_positive, default=2, metavar="N", help="default: 2")
    _options(repeat)
    figures = _action(actions, "score", _score, "statistics over all saved runs")
    figures.add_argument(
        "--by", choices=tuple(score.GROUPS), default="family", help="default: family"
    )
    figures.add_argument("--markdown", action="store_true", help="print Markdown tables")
    clean = _action(actions, "clean", _clean, "remove leftover boxes and checks")
    clean.add_argument("--results", action="store_true", help="also delete the results of all runs")


def _action(actions: Any, name: str, act: Any, summary: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = actions.add_parser(name, help=summary, description=summary)
    made.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON document"
    )
    made.set_defaults(act=act)
    return made


def _options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--seed", type=_natural, default=None, metavar="N",
        help="seed of the first run; default: random, 1 for a sweep")  # fmt: skip
    add("--mechanism", default="", metavar="NAME", help="default: chosen by the seed")
    add(
        "--stack",
        default="",
        choices=tuple(STACKS),
        metavar="NAME",
        help="default: chosen by the seed",
    )
    add(
        "--init",
        default="",
        choices=INITS,
        metavar="NAME",
        help="default: chosen by the seed; booted: boots the real systemd (needs root)",
    )
    split = parser.add_mutually_exclusive_group()
    for name, text in (
        ("held", "use a held-out stack or layout"),
        ("foreign", "use a held-out mechanism"),
        ("no-fault", "break nothing; there is nothing to heal"),
    ):
        split.add_argument(
            f"--{name}", dest="split", action="store_const", const=name, default="first", help=text
        )
    add(
        "--at-once",
        type=_positive,
        default=1,
        metavar="N",
        help="boxes to run in parallel; default: 1",
    )
    add("--resume", action="store_true", help="skip runs whose results are already saved")
    add("--no-learning", action="store_true", help="neither use nor write learned skills")
    add("--model", default="", metavar="NAME", help="the model that heals it")
    add("--runbook", action="store_true", help="heal it with the skill's runbook, without a model")
    add("--keep", action="store_true", help="leave the box running at the end")
    add("--quiet", action="store_true", help="print only the outcome")


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"not a whole number: {text!r}")
    return int(text)


def _positive(text: str) -> int:
    if not (number := _natural(text)):
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def run(options: argparse.Namespace, runtime: Runtime) -> int:
    for id in left.sweep(runtime.home):
        print(f"removed box {id}, left behind by a killed drill", file=sys.stderr)
        close_incidents(runtime, f"drill-{id}", "the drill was killed")
    code: int = options.act(options, runtime)
    return code


def _print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


# looking


def _families() -> dict[str, list[Fault]]:
    found: dict[str, list[Fault]] = {}
    for fault in FAULTS:
        found.setdefault(fault.category, []).append(fault)
    return found


def _family(name: str) -> tuple[str, str]:
    """A family and, after a slash, a mechanism of it."""
    family, _, mechanism = name.replace("_", "-").partition("/")
    known = _families()
    if family not in known:
        near = get_close_matches(family, known, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"no drill called {name!r}", f"{meant}`hermes drill list` shows them")
    return family, mechanism


def _facts(family: str, among: Sequence[Fault]) -> dict[str, Any]:
    return {
        "name": family,
        "mechanisms": {
            fault.mechanism: {
                "about": inspect.getdoc(fault) or "", "foreign": fault.foreign,
                "breaks": fault.wants, "stacks": sorted(fault.stacks),
                "missing": lacking(fault.needs),
            }
            for fault in among
        },
    }  # fmt: skip


def _list(options: argparse.Namespace, _runtime: Runtime) -> int:
    found = [_facts(*family) for family in _families().items()]
    if options.json:
        _print_json(found)
        return 0
    lines, without = [], dict[str, None]()
    for one in found:
        kinds: dict[bool, list[str]] = {True: [], False: []}
        for name, fact in one["mechanisms"].items():
            kinds[fact["foreign"]].append(name)
        lack = dict.fromkeys(
            name for fact in one["mechanisms"].values() for name in fact["missing"]
        )
        without |= lack
        needs = f"needs {', '.join(lack)}" if lack else ""
        lines.append((one["name"], ", ".join(kinds[False]), ", ".join(kinds[True]) or "-", needs))
    print(table(("NAME", "MECHANISMS", "FOREIGN", ""), lines))
    if without:
        print(f"\nhint: {advice(without)}")
    return 0


def _show(options: argparse.Namespace, _runtime: Runtime) -> int:
    family, _ = _family(options.name)
    facts = _facts(family, _families()[family])
    if options.json:
        _print_json(facts)
        return 0
    print(family)
    for name, fact in facts["mechanisms"].items():
        where = f" of {', '.join(fact['stacks'])}" if fact["stacks"] else ""
        kind = "foreign; " if fact["foreign"] else ""
        needs = f"; needs {', '.join(fact['missing'])}" if fact["missing"] else ""
        print(f"\n{name} ({kind}breaks a {fact['breaks']}{where}{needs})\n    {fact['about']}")
    return 0


# running


def _cases(options: argparse.Namespace, name: str, seeds: range, *, every: bool) -> list[Case]:
    """With every mechanism of the split, or with one for each seed."""
    family, mechanism = _family(name) if name else ("", "")
    mechanism, split = options.mechanism or mechanism, _split(options, family)
    among = [
        one for one in faults(split)
        if family in ("", one.category) and mechanism in ("", one.mechanism)
    ]  # fmt: skip
    if not among:
        _no_mechanism(family, mechanism, split)
    pairs = [(one, seed) for one in among for seed in seeds]
    if not every:
        pairs = [(among[seed % len(among)], seed) for seed in seeds]
    cases: list[Case] = []
    unfit: DrillError | None = None
    for fault, seed in pairs:
        try:
            case = compose(fault, seed, split, stack=options.stack, init=options.init or None)
            if lack := missing(case):
                raise DrillError(f"{case.name} needs {', '.join(lack)}", advice(lack))
            cases.append(case)
        except UsageError as error:
            unfit = error  # that it fits nowhere is no news in a sweep
        except DrillError as error:
            unfit = error
            if every:
                print(f"skipped: {error.message}", file=sys.stderr)
    if not cases and unfit is not None:
        raise unfit
    return cases


def _split(options: argparse.Namespace, family: str) -> Split:
    """What the first split never has is held out, whoever asks for it."""
    if family == "no-fault":
        return "no-fault"
    unseen = options.stack in HELD or options.init == "sysv"
    split: Split = "held" if unseen and options.split == "first" else options.split
    return split


def _no_mechanism(family: str, mechanism: str, split: Split) -> NoReturn:
    what = f"mechanism {mechanism!r}" if mechanism else "mechanism"
    hint = (
        f"`hermes drill show {family}` lists them" if family else "`hermes drill list` shows them"
    )
    who = f"{family} has no" if family else "no family has a"
    raise UsageError(f"{who} {what} in the split {split!r}", hint)


def _run(options: argparse.Namespace, runtime: Runtime) -> int:
    name = options.name or ("no-fault" if options.split == "no-fault" and not options.all else "")
    if bool(name) == options.all:
        raise UsageError("name a family, or use --all", "`hermes drill list` shows them")
    several = options.all or options.seeds > 1
    count = options.seeds if several or options.seed is not None else TRIES
    cases = _cases(options, name, _seeds(options, count, several), every=options.all)
    return _sweep(options, runtime, cases) if several else _one(options, runtime, cases[0])


def _repeat(options: argparse.Namespace, runtime: Runtime) -> int:
    seeds = _seeds(options, options.times, False)
    return _sweep(options, runtime, _cases(options, options.name, seeds, every=False))


def _seeds(options: argparse.Namespace, count: int, fixed: bool) -> range:
    first = options.seed
    if first is None:
        first = 1 if fixed else secrets.randbelow(SEEDS)
    return range(first, first + count)


def _ready(options: argparse.Namespace, runtime: Runtime) -> Mode:
    """Start the runtime, and see that the model can be asked."""
    signal.signal(signal.SIGTERM, _terminated)
    runtime.start()
    if options.model:
        runtime.post("/v1/models/test", {"model": options.model, "ask": False})
    return Mode(not options.no_learning, options.model, options.runbook, options.keep)


def _terminated(number: int, frame: object) -> None:  # noqa: ARG001 as signals call it
    """So that the box and its check are removed on the way out."""
    raise SystemExit(128 + number)


def _view(options: argparse.Namespace) -> View | None:
    return None if options.quiet or options.json else View(sys.stdout)


def _one(options: argparse.Namespace, runtime: Runtime, case: Case) -> int:
    result = run_drill(runtime, case, _ready(options, runtime), _view(options))
    if options.json:
        _print_json(_as_json(result))
    elif options.quiet:
        print(describe(result))
    return 0 if result.resolved else 1


def _sweep(options: argparse.Namespace, runtime: Runtime, cases: list[Case]) -> int:
    if options.keep:
        raise UsageError("--keep works only with a single run", "leave out --keep")
    sweep = Sweep(
        runtime, cases, _ready(options, runtime), at_once=options.at_once, resume=options.resume,
        view=_view(options),
    )  # fmt: skip
    sweep.run()
    if options.json:
        _print_json([_as_json(one) for one in sweep.results])
    elif sweep.results:
        print(listing(sweep.results))
    for line in sweep.failed:
        print(f"failed: {line}", file=sys.stderr)
    return 0 if sweep.good else 1


def _as_json(result: Result) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(result)
    return {
        **told,
        "outcome": result.outcome,
        "resolved": result.resolved,
        "mistaken": result.mistaken,
    }


# afterwards


def _score(options: argparse.Namespace, runtime: Runtime) -> int:
    found = results.load(runtime.home / "drills")
    if options.json:
        rows = msgspec.to_builtins(score.rows(found, options.by))
        _print_json({"runs": len(found), "rows": rows})
    elif not found:
        print("no drills run yet: `hermes drill run NAME`")
    else:
        print(
            score.markdown(found, options.by) if options.markdown else score.text(found, options.by)
        )
    return 0


def _clean(options: argparse.Namespace, runtime: Runtime) -> int:
    removed = left.remove_all(runtime.home)
    if options.results:
        with contextlib.suppress(FileNotFoundError):
            (runtime.home / "drills" / results.NAME).unlink()
    if options.json:
        _print_json({"removed": removed})
    else:
        print(f"removed: {', '.join(removed) or 'nothing'}")
    return 0
