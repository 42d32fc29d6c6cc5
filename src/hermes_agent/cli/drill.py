"""Drills: a small machine is broken for real, and Hermes detects it, heals it and reports. What it
did is judged from outside, by checks that nobody in the machine can see or touch.

Every run has a seed: names, ports and paths differ from one to the next. Some variants of each
drill are held out, so that what is measured with them was never practised; others are foreign: they
break in a way that is not practised at all. Drills run as you, in namespaces of their own; nothing
outside of the box is touched."""

import argparse
import secrets
import signal
import sys
from typing import Any

from hermes_agent.cli.actions import add_action
from hermes_agent.cli.arguments import json_option, natural, positive
from hermes_agent.cli.client import Api
from hermes_agent.cli.words import print_json, table
from hermes_agent.core.errors import HermesError, UsageError

SEEDS = 1_000_000


def arguments(parser: argparse.ArgumentParser) -> None:
    json_option(parser)
    parser.set_defaults(act=_list)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    add_action(actions, "list", _list, "all drills, and what is missing for some")
    show = add_action(actions, "show", _show, "what a drill does, and its variants")
    show.add_argument("name", metavar="NAME")
    run = add_action(actions, "run", _run, "break something and watch it being healed")
    run.add_argument("name", nargs="?", default="", metavar="NAME")
    run.add_argument("--all", action="store_true", help="every drill that can run here")
    run.add_argument("--seeds", type=positive, default=1, metavar="N", help="so many runs of each")
    _how(run)
    _how_many(run)
    again = add_action(actions, "repeat", _repeat, "the same drill again and again, each anew")
    again.add_argument("name", metavar="NAME")
    again.add_argument("--times", type=positive, default=2, metavar="N", help="default: 2")
    _how(again)
    _how_many(again)
    score = add_action(actions, "score", _score, "figures over all runs that were kept")
    score.add_argument("--image", default="", metavar="FILE.svg", help="also draw them")
    score.add_argument("--plot", action="store_true", help="also draw them here")
    score.add_argument("--markdown", action="store_true", help="print a table to publish")
    clean = add_action(actions, "clean", _clean, "remove boxes and checks that were left behind")
    clean.add_argument("--results", action="store_true", help="also what runs came to")


def _how(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seed", type=natural, default=None, metavar="N",
        help="of the first run; default: random, and 1 for a sweep",
    )  # fmt: skip
    parser.add_argument("--variant", default="", metavar="NAME", help="default: by the seed")
    tier = parser.add_mutually_exclusive_group()
    tier.add_argument(
        "--held", dest="tier", action="store_const", const="held", default="practised",
        help="one of the held-out variants",
    )  # fmt: skip
    tier.add_argument(
        "--foreign", dest="tier", action="store_const", const="foreign",
        help="one of those that break in a way which is not practised",
    )  # fmt: skip
    parser.add_argument(
        "--no-learning", action="store_true", help="use no skill, and write none afterwards"
    )
    parser.add_argument("--model", default="", metavar="NAME", help="who heals it")
    parser.add_argument(
        "--runbook", action="store_true", help="the skill's runbook heals it, without a model"
    )
    parser.add_argument("--keep", action="store_true", help="leave the box running at the end")
    parser.add_argument("--quiet", action="store_true", help="print the outcome and nothing else")


def _how_many(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--at-once", type=positive, default=1, metavar="N", help="so many boxes; default: 1"
    )
    parser.add_argument(
        "--resume", action="store_true", help="leave out runs whose results were kept already"
    )


def run(options: argparse.Namespace) -> int:
    _sweep_up()
    code: int = options.act(options)
    return code


def _sweep_up() -> None:
    """Remove what drills that were killed have left behind."""
    from pathlib import Path

    home = Path(Api().home)
    if not any((home / "drills").glob("*/owner")):
        return
    from hermes_agent.cli.drill_run import close_incidents
    from hermes_agent.incidents.drills import left

    for id in left.sweep(home):
        print(f"removed the box {id}, which a drill that was killed had left", file=sys.stderr)
        close_incidents(Api(), f"drill-{id}")


# looking


def _list(options: argparse.Namespace) -> int:
    from hermes_agent.incidents.drills.format import drills
    from hermes_agent.incidents.drills.needs import advice

    found = [_facts(drill) for drill in drills().values()]
    if options.json:
        print_json(found)
        return 0
    rows = []
    for one in found:
        lacks = f"needs {', '.join(one['missing'])}" if one["missing"] else one["title"]
        split = "+".join(str(len(names)) for names in one["variants"].values())
        rows.append((one["name"], one["severity"], one["category"], split, lacks))
    print(table(("NAME", "SEV", "CATEGORY", "VARIANTS", ""), rows))
    print("\nvariants: practised + held out + foreign (`hermes drill show NAME` names them)")
    if missing := dict.fromkeys(name for one in found for name in one["missing"]):
        print(f"\nhint: {advice(missing)}")
    return 0


def _facts(drill: Any) -> dict[str, Any]:
    from hermes_agent.incidents.drills.format import TIERS

    about = drill.about
    return {
        "name": drill.name, "title": about.title, "category": about.category,
        "severity": about.severity, "fault": about.fault, "needs": list(about.needs),
        "missing": drill.lacking(), "minutes": about.minutes, "description": about.description,
        "variants": {tier: list(drill.among(tier)) for tier in TIERS},
    }  # fmt: skip


def _show(options: argparse.Namespace) -> int:
    import textwrap

    from hermes_agent.incidents.drills.format import TOLD, find
    from hermes_agent.incidents.drills.needs import advice

    facts = _facts(find(options.name))
    if options.json:
        print_json(facts)
        return 0
    print(f"{facts['name']}: {facts['title']}\n")
    print(textwrap.fill(facts["description"], 80))
    print(f"\ncategory  {facts['category']}\nseverity  {facts['severity']}")
    for tier, names in facts["variants"].items():
        print(f"{TOLD[tier]:9} {', '.join(names) or '-'}")
    if facts["missing"]:
        print(f"missing   {', '.join(facts['missing'])}\n\nhint: {advice(facts['missing'])}")
    return 0


# running


def _run(options: argparse.Namespace) -> int:
    from hermes_agent.incidents.drills.format import drills, find

    if bool(options.name) == options.all:
        raise UsageError("name a drill, or say --all", "`hermes drill list` shows them")
    chosen = list(drills().values()) if options.all else [find(options.name)]
    several = options.all or options.seeds > 1
    first = options.seed
    if first is None:
        first = 1 if several else secrets.randbelow(SEEDS)
    todo = [(drill, first + more) for drill in chosen for more in range(options.seeds)]
    return _several(options, todo) if several else _one(options, *todo[0])


def _repeat(options: argparse.Namespace) -> int:
    from hermes_agent.incidents.drills.format import find

    first = secrets.randbelow(SEEDS) if options.seed is None else options.seed
    todo = [(find(options.name), first + more) for more in range(options.times)]
    return _several(options, todo)


def _ready(options: argparse.Namespace) -> Api:
    """The runtime, with a model that can be had."""
    signal.signal(signal.SIGTERM, _ended)
    api = Api()
    api.ensure()
    if options.model:
        api.post("/v1/models/test", {"model": options.model, "ask": False})
    return api


def _one(options: argparse.Namespace, drill: Any, seed: int) -> int:
    from msgspec import to_builtins

    from hermes_agent.cli.drill_run import Manner, run_drill
    from hermes_agent.cli.drill_sweep import Planned, outcome
    from hermes_agent.incidents.drills.needs import advice

    variant = drill.choose(seed, options.variant, options.tier)
    if lacking := drill.lacking(variant):
        needed = f"this drill needs {', '.join(lacking)} for {variant!r}"
        raise HermesError(needed, advice(lacking))
    manner = Manner(
        options.variant, options.tier, not options.no_learning, options.model, options.keep,
        options.quiet or options.json, options.runbook,
    )  # fmt: skip
    result = run_drill(_ready(options), drill, seed, manner)
    if options.json:
        print_json(to_builtins(result))
    elif options.quiet:
        print(f"{Planned(drill.name, variant, seed)}: {outcome(result)}")
    return 0 if result.resolved else 1


def _several(options: argparse.Namespace, todo: list[tuple[Any, int]]) -> int:
    from hermes_agent.cli.drill_sweep import Sweep, planned

    if options.keep:
        raise UsageError("boxes of several runs are not kept", "leave out --keep, or run one")
    found = planned(todo, options.variant, options.tier)
    return Sweep(_ready(options).home, found, options).through()


def _ended(number: int, frame: object) -> None:  # noqa: ARG001 as signals call it
    """So that the box and its check are removed on the way out."""
    raise SystemExit(128 + number)


# afterwards


def _score(options: argparse.Namespace) -> int:
    from hermes_agent.cli.drill_score import show

    return show(options)


def _clean(options: argparse.Namespace) -> int:
    from pathlib import Path

    from hermes_agent.incidents.drills.box import boxes
    from hermes_agent.incidents.drills.left import checks
    from hermes_agent.incidents.drills.results import NAME

    home = Path(Api().home)
    found = boxes(home / "drills")
    for path in checks(home):
        path.unlink(missing_ok=True)
    for box in found:
        box.remove()
    if options.results:
        (home / "drills" / NAME).unlink(missing_ok=True)
    removed = [box.folder.name for box in found]
    if options.json:
        print_json({"removed": removed})
    else:
        print(f"removed: {', '.join(removed) or 'nothing was left'}")
    return 0
