"""Drills: a small machine is broken for real, and Hermes detects it, heals it and reports. What it
did is judged from outside, by checks that nobody in the machine can see or touch.

Every run has a seed: names, ports and paths differ from one to the next. Some variants of each
drill are held out, so that what is measured with them was never practised. Drills run as you, in
namespaces of their own; nothing outside of the box is touched."""

import argparse
import secrets
import signal
from typing import Any

from hermes_agent.cli.actions import add_action
from hermes_agent.cli.arguments import json_option, natural, positive
from hermes_agent.cli.client import Api
from hermes_agent.cli.words import dollars, print_json, table
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
    again = add_action(actions, "repeat", _repeat, "the same drill again and again, each anew")
    again.add_argument("name", metavar="NAME")
    again.add_argument("--times", type=positive, default=2, metavar="N", help="default: 2")
    _how(again)
    score = add_action(actions, "score", _score, "figures over all runs that were kept")
    score.add_argument("--image", default="", metavar="FILE.svg", help="also draw them")
    score.add_argument("--plot", action="store_true", help="also draw them here")
    clean = add_action(actions, "clean", _clean, "remove boxes and checks that were left behind")
    clean.add_argument("--results", action="store_true", help="also what runs came to")


def _how(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=natural, default=None, metavar="N", help="default: random")
    parser.add_argument("--variant", default="", metavar="NAME", help="default: by the seed")
    parser.add_argument("--held", action="store_true", help="one of the held-out variants")
    parser.add_argument(
        "--no-learning", action="store_true", help="use no skill, and write none afterwards"
    )
    parser.add_argument("--model", default="", metavar="NAME", help="who heals it")
    parser.add_argument(
        "--runbook", action="store_true", help="the skill's runbook heals it, without a model"
    )
    parser.add_argument("--keep", action="store_true", help="leave the box running at the end")
    parser.add_argument("--quiet", action="store_true", help="print the outcome and nothing else")


def run(options: argparse.Namespace) -> int:
    code: int = options.act(options)
    return code


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
        split = f"{len(one['variants']['train'])}+{len(one['variants']['held'])}"
        rows.append((one["name"], one["severity"], one["category"], split, lacks))
    print(table(("NAME", "SEV", "CATEGORY", "VARIANTS", ""), rows))
    if missing := dict.fromkeys(name for one in found for name in one["missing"]):
        print(f"\nhint: {advice(missing)}")
    return 0


def _facts(drill: Any) -> dict[str, Any]:
    about = drill.about
    return {
        "name": drill.name, "title": about.title, "category": about.category,
        "severity": about.severity, "fault": about.fault, "needs": list(about.needs),
        "missing": drill.lacking, "minutes": about.minutes, "description": about.description,
        "variants": {"train": list(about.variants.train), "held": list(about.variants.held)},
    }  # fmt: skip


def _show(options: argparse.Namespace) -> int:
    import textwrap

    from hermes_agent.incidents.drills.format import find
    from hermes_agent.incidents.drills.needs import advice

    facts = _facts(find(options.name))
    if options.json:
        print_json(facts)
        return 0
    print(f"{facts['name']}: {facts['title']}\n")
    print(textwrap.fill(facts["description"], 80))
    print(f"\ncategory  {facts['category']}\nseverity  {facts['severity']}")
    print(f"practised {', '.join(facts['variants']['train'])}")
    print(f"held out  {', '.join(facts['variants']['held']) or '-'}")
    if facts["missing"]:
        print(f"missing   {', '.join(facts['missing'])}\n\nhint: {advice(facts['missing'])}")
    return 0


# running


def _run(options: argparse.Namespace) -> int:
    from hermes_agent.incidents.drills.format import drills, find

    if bool(options.name) == options.all:
        raise UsageError("name a drill, or say --all", "`hermes drill list` shows them")
    chosen = list(drills().values()) if options.all else [find(options.name)]
    seed = secrets.randbelow(SEEDS) if options.seed is None else options.seed
    todo = [(drill, seed + more) for drill in chosen for more in range(options.seeds)]
    return _rows_of_runs(options, todo, several=options.all or options.seeds > 1)


def _repeat(options: argparse.Namespace) -> int:
    from hermes_agent.incidents.drills.format import find

    seed = secrets.randbelow(SEEDS) if options.seed is None else options.seed
    todo = [(find(options.name), seed + more) for more in range(options.times)]
    return _rows_of_runs(options, todo, several=True)


def _rows_of_runs(options: argparse.Namespace, todo: list[tuple[Any, int]], several: bool) -> int:
    from msgspec import to_builtins

    from hermes_agent.cli.drill_run import Manner, run_drill
    from hermes_agent.incidents.drills.needs import advice

    if not several and (lacking := todo[0][0].lacking):
        raise HermesError(f"this drill needs {', '.join(lacking)}", advice(lacking))
    manner = Manner(
        options.variant, options.held, not options.no_learning, options.model, options.keep,
        options.quiet or options.json, options.runbook,
    )  # fmt: skip
    signal.signal(signal.SIGTERM, _ended)
    api, results, failed = Api(), [], []
    api.ensure()
    if options.model:
        api.post("/v1/models/test", {"model": options.model, "ask": False})
    for drill, seed in todo:
        if drill.lacking or (options.held and not drill.about.variants.held):
            continue
        try:
            results.append(run_drill(api, drill, seed, manner))
        except HermesError as error:
            if not several:
                raise
            failed.append(f"{drill.name}, seed {seed}: {error.message}")
    if options.json:
        told = [to_builtins(one) for one in results]
        print_json(told if several else told[0])
    elif several:
        print(_outcomes(results))
    for line in [] if options.json else failed:
        print(f"discarded: {line}")
    return 0 if results and all(one.resolved for one in results) and not failed else 1


def _ended(number: int, frame: object) -> None:  # noqa: ARG001 as signals call it
    """So that the box and its check are removed on the way out."""
    raise SystemExit(128 + number)


def _outcomes(results: list[Any]) -> str:
    rows = [
        (one.drill, one.variant, str(one.seed), "yes" if one.resolved else "NO",
         "yes" if one.cause else "no", str(one.steps), str(one.calls), f"{one.seconds:.0f} s",
         one.skill or "-")
        for one in results
    ]  # fmt: skip
    heads = ("DRILL", "VARIANT", "SEED", "RESOLVED", "CAUSE", "STEPS", "CALLS", "TIME", "BY SKILL")
    return table(heads, rows)


# afterwards


def _score(options: argparse.Namespace) -> int:
    from pathlib import Path

    from msgspec import to_builtins

    from hermes_agent.incidents.drills import score
    from hermes_agent.incidents.drills.results import load

    results = load(Path(Api().home, "drills"))
    rows, lifts = score.rows(results), score.lifts(results)
    if options.image:
        _draw(options.image, score.plots(results))
    if options.json:
        lift = [{**to_builtins(one), "less": one.less} for one in lifts]
        print_json({"rows": to_builtins(rows), "lifts": lift, "runs": len(results)})
        return 0
    if not results:
        print("no drill was run yet: `hermes drill run NAME`")
        return 0
    print(table(HEADS, [_cells(row) for row in rows]))
    if lifts:
        print("\nmet again, by the skill that was learned (steps, medians):")
        lines = [
            (one.drill, f"{one.first:g}", f"{one.later:g}", f"-{one.less:.0%}", str(one.runs))
            for one in lifts
        ]
        print(table(("DRILL", "FIRST", "LATER", "", "RUNS"), lines))
    if options.plot:
        _chart(score.plots(results))
    return 0


HEADS = (
    "DRILL", "VARIANTS", "LEARNING", "RUNS", "RESOLVED", "CAUSE", "EVIDENCE", "REPORT", "HARM",
    "STEPS", "CALLS", "TIME", "TOKENS", "COST",
)  # fmt: skip


def _cells(row: Any) -> tuple[str, ...]:
    return (
        row.drill or "all", "held out" if row.held else "practised",
        "on" if row.learning else "off", str(row.runs), f"{row.resolved:.0%}", f"{row.cause:.0%}",
        f"{row.evidence:.0%}", f"{row.report:.0%}", str(row.harmed), f"{row.steps:g}",
        f"{row.calls:g}", f"{row.seconds:.1f} s", f"{row.tokens:g}", dollars(row.cost),
    )  # fmt: skip


def _chart(plots: Any) -> None:
    import os
    import sys

    from hermes_agent.cli.skills_report import can_draw
    from hermes_agent.learning.plot import chart, key

    plain = not can_draw(sys.stdout.encoding, os.environ)
    for plot in plots:
        print("\n" + "\n".join(chart(plot, plain=plain)))
    print("\n" + key(plain=plain))


def _draw(path: str, plots: Any) -> None:
    from hermes_agent.learning.plot import image

    if not path.endswith(".svg"):
        raise UsageError(f"{path!r} is no name of an SVG image", "name it FILE.svg")
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(image("Drills: steps until it was healed", plots))
    except OSError as error:
        raise HermesError(f"cannot write {path}: {error.strerror}", "name another file") from None


def _clean(options: argparse.Namespace) -> int:
    from pathlib import Path

    from hermes_agent.cli.drill_run import checks_left
    from hermes_agent.incidents.drills.box import boxes
    from hermes_agent.incidents.drills.results import NAME

    home = Path(Api().home)
    left = boxes(home / "drills")
    for path in checks_left(home):
        path.unlink(missing_ok=True)
    for box in left:
        box.remove()
    if options.results:
        (home / "drills" / NAME).unlink(missing_ok=True)
    removed = [box.folder.name for box in left]
    if options.json:
        print_json({"removed": removed})
    else:
        print(f"removed: {', '.join(removed) or 'nothing was left'}")
    return 0
