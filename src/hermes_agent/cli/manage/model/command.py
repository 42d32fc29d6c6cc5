"""Choose, list and test models; manage keys and logins.

hermes model                        the model of each use, and whether it is usable
hermes model NAME                   choose the model of new sessions, or of one with --session
hermes model use USE NAME...        choose models for a use, in order (fallbacks, cheap,
                                    compaction, review, titles, vision, judge); `default` undoes it
hermes model list [WORDS]           the catalogue; --service for one service
hermes model show NAME              context, price and abilities of one model
hermes model test [NAME...]         a real round trip, with its time and price
hermes model services               the services, and where their keys come from
hermes model key SERVICE            store a key (read from the terminal or standard input)
hermes model login SERVICE          sign in with a code on another device; logout signs out
hermes model refresh [URL|FILE]     update the catalogue

A model without a key is chosen only with --yes.
"""

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.actions import connect, emit
from hermes_agent.cli.arguments import absolute_model, effort_option, json_option, positive
from hermes_agent.cli.client.api import RuntimeClient, RuntimeGone, login_name, session_path
from hermes_agent.cli.home import home_and_settings, open_models, write_setting
from hermes_agent.cli.output.events import with_effort
from hermes_agent.cli.output.formatting import dollars, hint_here, print_json, sure, table
from hermes_agent.cli.output.progress import Progress
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.text.terminal import clean

if TYPE_CHECKING:
    from hermes_agent.core.settings.root import Settings
    from hermes_agent.models.registry import ModelRegistry
if TYPE_CHECKING:
    from hermes_agent.core.messages import ModelFacts
    from hermes_agent.models.catalogue.catalogue import Catalogue
    from hermes_agent.models.registry import ModelRegistry


DEFAULTS = {
    "main": "none; `hermes model NAME` chooses one",
    "fallbacks": "none",
    "cheap": "the main models",
    "compaction": "the session's model",
    "review": "the cheap models",
    "titles": "off (uses the first line)",
    "vision": "off (images are left out)",
    "judge": "the main models",
}
SHOWN = 50
DEFAULT = "default"
"""Instead of models: what a use has without any."""
USES = tuple(use for use in DEFAULTS if use != "main")

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
    parser.add_argument("--search", default="", metavar="WORDS", help="list: words to match")
    parser.add_argument("--service", default="", help="list: only this service")
    parser.add_argument("--limit", type=positive, help="list: how many (default 50)")
    parser.add_argument("--session", default="", help="choose for this session: its id or name")
    effort_option(parser, "to choose, with a model or alone")
    parser.add_argument("--keyring", action="store_true", help="key: store it in the OS keyring")
    parser.add_argument("--remove", action="store_true", help="key: delete it")
    parser.add_argument(
        "--yes", action="store_true", help="choose a model even without a key; do not ask"
    )
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    word, *rest = options.words or [""]
    if rest and word not in TAKES:
        raise UsageError(
            f"no action called {word!r}",
            _meant(word) + f"`hermes model list {' '.join([word, *rest])}` searches for a model",
        )
    _check_options(word, options)
    if word in ("services", "key", "login", "logout", "refresh"):
        from hermes_agent.cli.manage.model import keys

        return keys.run(word, rest, options)
    home, settings = home_and_settings()
    models = open_models(home, settings)
    match word:
        case "list":
            return _list(models, rest, options)
        case "show":
            return _show(models, rest, options)
        case "test":
            return _test(models, settings.model, rest, options)
        case "use":
            return _use(models, rest, options)
        case "" if not (options.session or options.effort):
            return _current(models, settings, options)
    return _choose(models, word, options)


def _check_options(word: str, options: argparse.Namespace) -> None:
    """Refuse an option that the action would ignore."""
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


# showing


def _current(models: "ModelRegistry", settings: "Settings", options: argparse.Namespace) -> int:
    named: dict[str, tuple[str, ...]] = {"main": (settings.model,) if settings.model else ()}
    named |= {
        use: settings.models.fallbacks if use == "fallbacks" else getattr(settings.models.uses, use)
        for use in USES
    }
    rows = [
        {"use": use, "model": name, **_state_of(models, name)}
        for use, names in named.items()
        for name in names
    ]
    cells = []
    for use in named:
        chosen = [_cells(row) for row in rows if row["use"] == use]
        cells += chosen or [(use, DEFAULTS[use], "", "")]
    effort, date = settings.models.reasoning_effort, models.catalogue.date
    lines = [
        table(("use", "model", "context", "$ in/out per M"), cells),
        f"reasoning effort: {effort or 'the default of the model'}; catalogue of {date}",
        *variable_warning(),
        *dict.fromkeys(_warning(row) for row in rows if row["trouble"]),
    ]
    document = {"models": rows, "reasoning_effort": effort, "catalogue": date}
    return emit(options, document, "\n".join(lines))


def _cells(row: dict[str, Any]) -> tuple[str, str, str, str]:
    mark = "" if row["usable"] else " !"
    context = "" if row["context"] is None else _window(row["context"])
    return row["use"], row["model"] + mark, context, _price_of(row)


def _warning(row: dict[str, Any]) -> str:
    return f"! {row['trouble']}" + (f"\nhint: {row['hint']}" if row["hint"] else "")


def variable_warning() -> list[str]:
    """Says where HERMES_MODEL overrides the setting: here, or in the runtime."""
    if os.environ.get("HERMES_MODEL"):
        return ["! HERMES_MODEL is set in this environment and overrides the setting"]
    api = RuntimeClient()
    started_with = api.get("/v1/status")["model_variable"] if api.is_up() else ""
    if not started_with:
        return []
    return [
        f"! the runtime was started with HERMES_MODEL={started_with}, which overrides the setting",
        "hint: `hermes restart` in a shell without HERMES_MODEL",
    ]


# choosing


def _choose(models: "ModelRegistry", name: str, options: argparse.Namespace) -> int:
    """Without a name: only the reasoning effort, or, for a session, show its model."""
    if options.session:
        return _choose_for_session(name, options)
    chosen: dict[str, Any] = {"model": "", "trouble": "", "hint": ""}
    lines = []
    if name:
        chosen |= _checked(models, _resolved(models, name), options.yes)
        write_setting("model", json.dumps(chosen["model"]))
        lines += [f"new sessions use {chosen['model']}", *variable_warning()]
    if options.effort:
        write_setting("models.reasoning_effort", json.dumps(options.effort))
        lines.append(f"default reasoning effort: {options.effort}")
    if chosen["trouble"]:
        lines.append(_warning(chosen))
    return emit(options, {**chosen, "effort": options.effort}, "\n".join(lines))


def _resolved(models: "ModelRegistry", name: str) -> str:
    try:
        return models.resolve(absolute_model(name))
    except UsageError as error:
        raise UsageError(error.message, _meant(name) + error.hint) from None


def _checked(models: "ModelRegistry", name: str, anyway: bool) -> dict[str, Any]:
    """The model, and what is wrong with it if it is chosen anyway."""
    try:
        models.check(name)
    except HermesError as error:
        if not anyway:
            kind = UsageError if isinstance(error, UsageError) else HermesError
            raise kind(error.message, f"{error.hint}; --yes chooses it anyway") from None
        return {"model": name, "trouble": error.message, "hint": error.hint}
    return {"model": name, "trouble": "", "hint": ""}


def _choose_for_session(name: str, options: argparse.Namespace) -> int:
    api = connect()
    session = api.session(options.session)
    id = session["id"]
    if not (name or options.effort):
        shown = {key: session[key] for key in ("model", "effort")}
        text = f"session {id} uses {session['model']}{with_effort(session['effort'])}"
        return emit(options, shown, text)
    asked = {
        "model": absolute_model(name), "effort": options.effort, "anyway": options.yes,
        "by": login_name(),
    }  # fmt: skip
    path = f"{session_path(id)}/model"
    choice = api.post(path, asked)
    if not choice["switched"] and not options.json:
        if not sys.stdin.isatty():
            raise HermesError(choice["warning"], "--yes switches anyway")
        if sure(f"{choice['warning']}. Switch?", options.yes):
            choice = api.post(path, {**asked, "anyway": True})
    text = "nothing was changed"
    if choice["switched"]:
        text = f"session {id} now uses {choice['model']}{with_effort(choice['effort'])}"
    return emit(options, choice, text, 0 if choice["switched"] else 1)


def _use(models: "ModelRegistry", rest: list[str], options: argparse.Namespace) -> int:
    if not rest or rest[0] not in USES:
        from difflib import get_close_matches

        if rest[:1] == ["main"]:
            raise UsageError("main is a single model, not a list", "`hermes model NAME` chooses it")
        near = get_close_matches(rest[0], USES, 1) if rest else []
        meant = f"did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"no use called {rest[0]!r}" if rest else "no use given",
            f"{meant}one of {', '.join(USES)}, then its models in order",
        )
    given = [] if rest[1:] == [DEFAULT] else rest[1:]
    names = list(dict.fromkeys(models.resolve(absolute_model(name)) for name in given))
    checked = [_checked(models, name, options.yes) for name in names]
    setting = "models.fallbacks" if rest[0] == "fallbacks" else f"models.uses.{rest[0]}"
    if rest[1:]:
        write_setting(setting, json.dumps(names))
    else:  # nothing to change: show it
        from hermes_agent.host.config import get_setting

        names = list(get_setting(home_and_settings()[1], setting))
    lines = [f"{rest[0]}: {', '.join(names) or DEFAULTS[rest[0]]}"]
    lines += [_warning(one) for one in checked if one["trouble"]]
    return emit(options, {"use": rest[0], "models": names}, "\n".join(lines))


# testing


def _test(models: "ModelRegistry", main: str, rest: list[str], options: argparse.Namespace) -> int:
    names = [_resolved(models, name) for name in rest] or [models.resolve(main)]
    api = connect()
    trials = []
    for name in names:
        try:
            with Progress(f"testing {name}"):
                trial = api.post("/v1/models/test", {"model": name})
        except RuntimeGone:
            raise
        except HermesError as error:  # the others are still tested
            why = {"error": error.message, "hint": error.hint}
            trial = {"model": name, "ok": False, "trouble": "not tested", "steps": [], **why}
        trials.append(trial)
        if not options.json:
            print(_trial(trial), flush=True)
    if options.json:
        print_json(trials)
    return 0 if all(trial["ok"] for trial in trials) else 1


def _trial(trial: dict[str, Any]) -> str:
    steps = "".join(f"\n  {step}" for step in trial["steps"])
    if not trial["ok"]:
        way_out = hint_here(trial["error"], trial["hint"])
        hint = f"\n  hint: {way_out}" if way_out else ""
        kind = trial["trouble"].replace("_", " ")
        return clean(f"{trial['model']}: {kind}: {trial['error']}{hint}{steps}")
    first = trial["first_seconds"]
    soon = f"first token after {first * 1000:.0f} ms, " if first is not None else ""
    usage = trial["usage"]
    price = "price unknown" if trial["cost"] is None else dollars(trial["cost"])
    return (
        f"{trial['model']}: {trial['text'][:60]!r}, {soon}done after {trial['seconds'] * 1000:.0f}"
        f" ms, {usage['input']} tokens in, {usage['output']} out, {price}{steps}"
    )


# facts about models


def _state_of(models: "ModelRegistry", name: str) -> dict[str, Any]:
    """The facts about a model, and whether it is usable."""
    facts: dict[str, Any] = dict.fromkeys(_FIELDS)
    trouble = hint = ""
    try:
        facts = _facts_of(models.facts(name))
        models.check(name)
    except HermesError as error:
        trouble, hint = error.message, error.hint
    return {**facts, "usable": not trouble, "trouble": trouble, "hint": hint}


_FIELDS = (
    "context", "max_output", "price_input", "price_output", "price_cached", "efforts", "sees",
    "reads", "tools",
)  # fmt: skip


def _facts_of(facts: "ModelFacts") -> dict[str, Any]:
    rates = facts.rates[0] if facts.rates else None
    return {
        "context": facts.context,
        "max_output": facts.max_output,
        "price_input": rates and rates.input,
        "price_output": rates and rates.output,
        "price_cached": rates and rates.cached,
        "efforts": list(facts.efforts),
        "sees": facts.sees,
        "reads": facts.reads,
        "tools": facts.tools,
    }


def _window(tokens: int) -> str:
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:.2g}M"
    return f"{tokens // 1000}k" if tokens >= 1000 else str(tokens)


def _price_of(row: dict[str, Any]) -> str:
    if row["price_input"] is None:
        return "unknown"
    return f"{row['price_input']:g}/{row['price_output']:g}"


def _list(models: "ModelRegistry", rest: list[str], options: argparse.Namespace) -> int:
    words = " ".join([options.search, *rest]).strip()
    limit = options.limit or SHOWN
    if options.service:
        from hermes_agent.cli.manage.model.keys import check_service

        check_service(options.service, models.settings)
    found = models.catalogue.search(words, service=options.service, limit=limit + 1)
    shown = found[:limit]
    rows = [
        {"model": entry.name, **_facts_of(models.facts(entry.name)),
         "missing": models.missing(entry.name)}
        for entry in shown
    ]  # fmt: skip
    if not rows:
        meant = _closest_words(models.catalogue, words)
        what = f" matches {words!r}" if words else f" is from {options.service}"
        text = f"no model in the catalogue{what}"
        hint = f"{meant}any model of a known service can be used: service/name"
        return emit(options, rows, f"{text}\nhint: {hint}")
    cells = [
        (row["model"] + " !" * bool(row["missing"]), _window(row["context"]), _price_of(row),
         _abilities(row))
        for row in rows
    ]  # fmt: skip
    text = table(("model", "context", "$ in/out per M", "can"), cells)
    if len(found) > len(shown):
        text += f"\nthere are more: use --limit {limit * 4}, or add search words"
    text += "".join(f"\n! {hint}" for hint in {row["missing"]: 0 for row in rows if row["missing"]})
    return emit(options, rows, text)


def _closest_words(catalogue: "Catalogue", words: str) -> str:
    """The closest words that occur in names."""
    import re
    from difflib import get_close_matches

    parts = {part for name in catalogue.models for part in re.split(r"[^a-z0-9]+", name.lower())}
    near = [(get_close_matches(word.lower(), parts, 1) or [word])[0] for word in words.split()]
    said = " ".join(near)
    return f"did you mean {said!r}? " if said != words and catalogue.search(said, limit=1) else ""


def _abilities(row: dict[str, Any]) -> str:
    words = {"tools": "tools", "sees": "vision", "reads": "documents", "efforts": "reasoning"}
    return ", ".join(word for key, word in words.items() if row[key])


def _show(models: "ModelRegistry", rest: list[str], options: argparse.Namespace) -> int:
    if len(rest) != 1:
        raise UsageError("name one model", "`hermes model show NAME`")
    name = models.resolve(absolute_model(rest[0]))
    facts = models.facts(name)
    row = {"model": name, **_state_of(models, name)}
    known = models.catalogue.facts(name) or name.startswith(("scripted/", "local/"))
    lines = [
        f"{name}{'' if known else ' (not in the catalogue; these are guesses)'}",
        f"  context  {facts.context:,} tokens; output up to {facts.max_output:,}",
    ]
    if not facts.rates:
        lines.append(f"  price    unknown; `models.prices.{name}` in config.yaml sets it")
    for rates in facts.rates:
        above = f", above {rates.above:,} tokens of input" if rates.above else ""
        cached = "" if rates.cached is None else f", {dollars(rates.cached)} cached"
        written = "" if rates.written is None else f", {dollars(rates.written)} into the cache"
        price = f"${rates.input:g} in, ${rates.output:g} out{cached}{written}"
        lines.append(f"  price    {price}, per million tokens{above}")
    lines += [
        f"  can      {_abilities(row) or 'text only'}",
        f"  efforts  {', '.join(row['efforts']) or 'not adjustable'}",
        f"  usable   {'yes' if row['usable'] else 'no: ' + row['trouble']}",
    ]
    return emit(options, row, "\n".join([*lines, *[f"hint: {row['hint']}"] * bool(row["hint"])]))
