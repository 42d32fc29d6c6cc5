"""`hermes model list | show`: facts about models."""

import argparse
from typing import TYPE_CHECKING, Any

from hermes_agent.cli.actions import emit
from hermes_agent.cli.arguments import absolute_model
from hermes_agent.cli.output.formatting import dollars, table
from hermes_agent.core.errors import HermesError, UsageError

if TYPE_CHECKING:
    from hermes_agent.core.messages import ModelFacts
    from hermes_agent.core.settings.root import ModelSettings
    from hermes_agent.models.catalogue.catalogue import Catalogue
    from hermes_agent.models.registry import ModelRegistry

SHOWN = 50


def state_of(models: "ModelRegistry", name: str) -> dict[str, Any]:
    """The facts about a model, and whether it is usable."""
    facts: dict[str, Any] = dict.fromkeys(_FIELDS)
    trouble = hint = ""
    try:
        facts = facts_of(models.facts(name))
        models.check(name)
    except HermesError as error:
        trouble, hint = error.message, error.hint
    return {**facts, "usable": not trouble, "trouble": trouble, "hint": hint}


_FIELDS = (
    "context", "max_output", "price_input", "price_output", "price_cached", "efforts", "sees",
    "reads", "tools",
)  # fmt: skip


def facts_of(facts: "ModelFacts") -> dict[str, Any]:
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


def window(tokens: int) -> str:
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:.2g}M"
    return f"{tokens // 1000}k" if tokens >= 1000 else str(tokens)


def price_of(row: dict[str, Any]) -> str:
    if row["price_input"] is None:
        return "unknown"
    return f"{row['price_input']:g}/{row['price_output']:g}"


def run_list(models: "ModelRegistry", rest: list[str], options: argparse.Namespace) -> int:
    words = " ".join([options.search, *rest]).strip()
    limit = options.limit or SHOWN
    if options.service:
        check_service(options.service, models.settings)
    found = models.catalogue.search(words, service=options.service, limit=limit + 1)
    shown = found[:limit]
    rows = [{"model": entry.name, **facts_of(models.facts(entry.name))} for entry in shown]
    if not rows:
        meant = _meant(models.catalogue, words)
        what = f" matches {words!r}" if words else f" is from {options.service}"
        text = f"no model in the catalogue{what}"
        hint = f"{meant}any model of a known service can be used: service/name"
        return emit(options, rows, f"{text}\nhint: {hint}")
    cells = [(row["model"], window(row["context"]), price_of(row), _abilities(row)) for row in rows]
    text = table(("model", "context", "$ in/out per M", "can"), cells)
    if len(found) > len(shown):
        text += f"\nand more: --limit {limit * 4} shows them, words narrow them down"
    return emit(options, rows, text)


def check_service(name: str, settings: "ModelSettings") -> None:
    from hermes_agent.models.catalogue.services import known_services

    names = known_services(settings)
    if name not in names:
        from difflib import get_close_matches

        near = get_close_matches(name, names, 1)
        meant = f"did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"no model service called {name!r}", f"{meant}`hermes model services` lists them"
        )


def _meant(catalogue: "Catalogue", words: str) -> str:
    """The closest words that occur in names."""
    import re
    from difflib import get_close_matches

    parts = {part for name in catalogue.models for part in re.split(r"[^a-z0-9]+", name.lower())}
    near = [(get_close_matches(word.lower(), parts, 1) or [word])[0] for word in words.split()]
    said = " ".join(near)
    return f"did you mean {said!r}? " if said != words and catalogue.search(said, limit=1) else ""


def _abilities(row: dict[str, Any]) -> str:
    able = [name for name in ("tools", "sees", "reads") if row[name]]
    return ", ".join([*able, *(["thinks"] if row["efforts"] else [])])


def run_show(models: "ModelRegistry", rest: list[str], options: argparse.Namespace) -> int:
    if len(rest) != 1:
        raise UsageError("name one model", "hermes model show NAME")
    name = models.resolve(absolute_model(rest[0]))
    facts = models.facts(name)
    row = {"model": name, **state_of(models, name)}
    known = models.catalogue.facts(name) or name.startswith(("scripted/", "local/"))
    lines = [
        f"{name}{'' if known else ' (not in the catalogue: these are guesses)'}",
        f"  context  {facts.context:,} tokens, at most {facts.max_output:,} of output",
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
        f"  efforts  {', '.join(row['efforts']) or 'none to choose'}",
        f"  usable   {'yes' if row['usable'] else 'no: ' + row['trouble']}",
    ]
    return emit(options, row, "\n".join([*lines, *[f"hint: {row['hint']}"] * bool(row["hint"])]))
