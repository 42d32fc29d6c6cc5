"""Which model answers, and which there are.

hermes model                        what answers for what, and whether it can
hermes model NAME                   choose the model for new sessions; --session for one of them
hermes model use USE NAME...        choose models for a use, in order (fallbacks, cheap,
                                    compaction, review, titles, vision, judge); none: the default
hermes model list [WORDS]           the catalogue; --service for one service
hermes model show NAME              what is known of one
hermes model test [NAME...]         a real round trip, with its time and price
hermes model services               the services, and where their keys come from
hermes model key SERVICE            keep a key (read from the terminal or standard input)
hermes model login SERVICE          sign in with a code on another device; logout forgets it
hermes model refresh [URL|FILE]     bring the catalogue up to date

A model that cannot work, as there is no key for it, is not chosen unless you say --yes.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.arguments import absolute_model, effort_option, json_option, positive
from hermes_agent.cli.manage.model.facts import price_of, state_of, window
from hermes_agent.cli.manage.model.registry import home_and_settings, open_models
from hermes_agent.cli.output.formatting import dollars, print_json, sure, table
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.text.terminal import clean

if TYPE_CHECKING:
    from hermes_agent.core.settings.root import Settings
    from hermes_agent.models.registry import ModelRegistry

STANDS_IN = {
    "main": "none: `hermes model NAME`",
    "fallbacks": "none",
    "cheap": "the main models",
    "compaction": "the session's own",
    "review": "the cheap ones",
    "titles": "none: the first line is it",
    "vision": "none: images are left out",
    "judge": "the main models",
}
USES = tuple(use for use in STANDS_IN if use != "main")

TAKES: dict[str, tuple[str, ...]] = {
    "": ("session", "effort", "yes"),
    "NAME": ("session", "effort", "yes"),
    "use": ("yes",),
    "list": ("search", "service", "limit"),
    "show": (),
    "test": (),
    "services": (),
    "key": ("keyring", "remove"),
    "login": (),
    "logout": (),
    "refresh": (),
}
"""The options of each action, beside --json."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="WORD", help="see above")
    parser.add_argument("--search", default="", metavar="WORDS", help="list: words that must fit")
    parser.add_argument("--service", default="", help="list: of one service")
    parser.add_argument("--limit", type=positive, help="list: how many (default 50)")
    parser.add_argument("--session", default="", help="choose for this session, by id or name")
    effort_option(parser, "where a model is chosen, or alone")
    parser.add_argument("--keyring", action="store_true", help="key: keep it in the OS keyring")
    parser.add_argument("--remove", action="store_true", help="key: forget it")
    parser.add_argument(
        "--yes", action="store_true", help="choose a model although it lacks a key; do not ask"
    )
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    word, *rest = options.words or [""]
    if rest and word not in TAKES:
        raise UsageError(
            f"no action called {word!r}",
            _meant(word) + f"`hermes model list {' '.join([word, *rest])}` looks for a model",
        )
    _check_options(word, options)
    if word in ("services", "key", "login", "logout", "refresh"):
        from hermes_agent.cli.manage.model import keys

        return keys.run(word, rest, options)
    home, settings = home_and_settings()
    models = open_models(home, settings)
    if word in ("list", "show"):
        from hermes_agent.cli.manage.model import facts

        act = {"list": facts.run_list, "show": facts.run_show}[word]
        return act(models, rest, options)
    match word:
        case "test":
            return _test(models, settings.model, rest, options)
        case "use":
            return _use(home, models, rest, options)
        case "" if not (options.session or options.effort):
            return _current(models, settings, options)
    return _choose(home, models, word, options)


def _check_options(word: str, options: argparse.Namespace) -> None:
    """An option that an action would not look at is a misunderstanding."""
    taken = TAKES.get(word, TAKES["NAME"])
    for option in dict.fromkeys(one for each in TAKES.values() for one in each):
        if getattr(options, option) and option not in taken:
            having = [_action(name) for name, has in TAKES.items() if name and option in has]
            raise UsageError(
                f"{_action(word)} has no --{option}", f"it is for {' and '.join(having)}"
            )


def _action(word: str) -> str:
    return f"`hermes model {word}`" if word else "`hermes model`"


def _meant(word: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, [name for name in TAKES if name.islower()], 1)
    return f"did you mean `hermes model {near[0]}`? " if near else ""


# what answers


def _current(models: "ModelRegistry", settings: "Settings", options: argparse.Namespace) -> int:
    named: dict[str, tuple[str, ...]] = {"main": (settings.model,) if settings.model else ()}
    named |= {
        use: settings.models.fallbacks if use == "fallbacks" else getattr(settings.models.uses, use)
        for use in USES
    }
    rows = [
        {"use": use, "model": name, **state_of(models, name)}
        for use, names in named.items()
        for name in names
    ]
    if options.json:
        own = settings.models.reasoning_effort
        print_json({"models": rows, "reasoning_effort": own, "catalogue": models.catalogue.date})
        return 0
    cells = []
    for use in named:
        there = [_cells(row) for row in rows if row["use"] == use]
        cells += there or [(use, STANDS_IN[use], "", "")]
    print(table(("use", "model", "context", "$ in/out per M"), cells))
    effort = settings.models.reasoning_effort or "the model's own"
    print(f"reasoning effort: {effort}; catalogue of {models.catalogue.date}")
    _warn_of_variable()
    for said in dict.fromkeys((row["trouble"], row["hint"]) for row in rows if row["trouble"]):
        _warn(*said)
    return 0


def _cells(row: dict[str, Any]) -> tuple[str, str, str, str]:
    mark = "" if row["usable"] else " !"
    context = "" if row["context"] is None else window(row["context"])
    return row["use"], row["model"] + mark, context, price_of(row)


def _warn(trouble: str, hint: str) -> None:
    print(f"! {trouble}\nhint: {hint}" if hint else f"! {trouble}")


def _warn_of_variable() -> None:
    if os.environ.get("HERMES_MODEL"):
        print("! HERMES_MODEL is set here and goes before the setting")


# choosing


def _choose(home: Path, models: "ModelRegistry", name: str, options: argparse.Namespace) -> int:
    """Without a name: only how hard it thinks, or, for a session, which it is."""
    if options.session:
        return _choose_for_session(name, options)
    told: dict[str, Any] = {"model": "", "trouble": "", "hint": ""}
    if name:
        told |= _checked(models, _resolved(models, name), options.yes)
        _set(home, "model", told["model"])
    if options.effort:
        _set(home, "models.reasoning_effort", options.effort)
    if options.json:
        print_json({**told, "effort": options.effort})
        return 0
    if name:
        print(f"new sessions use {told['model']}")
        _warn_of_variable()
    if options.effort:
        print(f"models think with effort {options.effort}, unless a session says otherwise")
    if told["trouble"]:
        _warn(told["trouble"], told["hint"])
    return 0


def _resolved(models: "ModelRegistry", name: str) -> str:
    try:
        return models.resolve(absolute_model(name))
    except UsageError as error:
        raise UsageError(error.message, _meant(name) + error.hint) from None


def _checked(models: "ModelRegistry", name: str, anyway: bool) -> dict[str, Any]:
    """The model, and what is wrong with it where it is chosen all the same."""
    try:
        models.check(name)
    except HermesError as error:
        if not anyway:
            kind = UsageError if isinstance(error, UsageError) else HermesError
            raise kind(error.message, f"{error.hint}; --yes chooses it all the same") from None
        return {"model": name, "trouble": error.message, "hint": error.hint}
    return {"model": name, "trouble": "", "hint": ""}


def _set(home: Path, setting: str, value: Any) -> None:
    from hermes_agent.host.config import set_setting

    config = home / "config.yaml"
    try:
        set_setting(config, setting, json.dumps(value), lambda _settings: None)
    except OSError as error:
        raise HermesError(f"cannot write {config}: {error.strerror}", "`hermes doctor`") from None


def _choose_for_session(name: str, options: argparse.Namespace) -> int:
    from hermes_agent.cli.client.api import RuntimeClient, session_path
    from hermes_agent.cli.output.id_prefix import myself
    from hermes_agent.cli.talk.sessions.text import find

    api = RuntimeClient()
    api.ensure()
    session = find(api, options.session)
    if not (name or options.effort):
        return _tell_session(session, options)
    asked = {
        "model": absolute_model(name),
        "effort": options.effort,
        "anyway": options.yes,
        "by": myself(),
    }
    path = f"{session_path(session['id'])}/model"
    choice = api.post(path, asked)
    if not choice["switched"] and not options.json:
        if not sys.stdin.isatty():
            raise HermesError(choice["warning"], "--yes switches all the same")
        if sure(f"{choice['warning']}. Switch?", options.yes):
            choice = api.post(path, {**asked, "anyway": True})
    if options.json:
        print_json(choice)
    elif choice["switched"]:
        effort = f", reasoning effort {choice['effort']}" if choice["effort"] else ""
        print(f"session {session['id']} goes on with {choice['model']}{effort}")
    else:
        print("nothing was changed")
    return 0 if choice["switched"] else 1


def _tell_session(session: dict[str, Any], options: argparse.Namespace) -> int:
    if options.json:
        print_json({name: session[name] for name in ("model", "effort")})
    else:
        effort = f", reasoning effort {session['effort']}" if session["effort"] else ""
        print(f"session {session['id']} has {session['model']}{effort}")
    return 0


def _use(home: Path, models: "ModelRegistry", rest: list[str], options: argparse.Namespace) -> int:
    if not rest or rest[0] not in USES:
        from difflib import get_close_matches

        if rest[:1] == ["main"]:
            raise UsageError("the main model has no list", "`hermes model NAME` chooses it")
        near = get_close_matches(rest[0], USES, 1) if rest else []
        meant = f"did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"no use is called {rest[0]!r}" if rest else "name a use",
            f"{meant}one of {', '.join(USES)}, then its models in order",
        )
    names = list(dict.fromkeys(models.resolve(absolute_model(name)) for name in rest[1:]))
    told = [_checked(models, name, options.yes) for name in names]
    _set(home, "models.fallbacks" if rest[0] == "fallbacks" else f"models.uses.{rest[0]}", names)
    if options.json:
        print_json({"use": rest[0], "models": names})
        return 0
    print(f"{rest[0]}: {', '.join(names) or STANDS_IN[rest[0]]}")
    for one in told:
        if one["trouble"]:
            _warn(one["trouble"], one["hint"])
    return 0


# a try


def _test(models: "ModelRegistry", main: str, rest: list[str], options: argparse.Namespace) -> int:
    from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone

    names = [_resolved(models, name) for name in rest] or [models.resolve(main)]
    api = RuntimeClient()
    api.ensure()
    trials = []
    for name in names:
        try:
            trial = api.post("/v1/models/test", {"model": name})
        except RuntimeGone:
            raise
        except HermesError as error:  # the others are still tried
            told = {"error": error.message, "hint": error.hint}
            trial = {"model": name, "ok": False, "trouble": "not tried", "steps": [], **told}
        trials.append(trial)
        if not options.json:
            print(_trial(trial), flush=True)
    if options.json:
        print_json(trials)
    return 0 if all(trial["ok"] for trial in trials) else 1


def _trial(trial: dict[str, Any]) -> str:
    steps = "".join(f"\n  {step}" for step in trial["steps"])
    if not trial["ok"]:
        hint = f"\n  hint: {trial['hint']}" if trial["hint"] else ""
        kind = trial["trouble"].replace("_", " ")
        return clean(f"{trial['model']}: {kind}: {trial['error']}{hint}{steps}")
    first = trial["first_seconds"]
    soon = f"first piece after {first * 1000:.0f} ms, " if first is not None else ""
    usage = trial["usage"]
    price = "price unknown" if trial["cost"] is None else dollars(trial["cost"])
    return (
        f"{trial['model']}: {trial['text'][:60]!r}, {soon}whole after {trial['seconds'] * 1000:.0f}"
        f" ms, {usage['input']} tokens in, {usage['output']} out, {price}{steps}"
    )
