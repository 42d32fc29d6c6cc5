"""Write models/catalogue/catalogue.json from public catalogues that somebody has fetched.

    scripts/gen_catalog.py --date 2026-11-15 --ages 2026-09-30 1.108.4 API_JSON LITELLM_JSON

models.dev's `api.json` comes from its site, or from a package that ships it; litellm's catalogue
is `model_prices_and_context_window_backup.json` inside its wheel. What a model can do is taken
from the first, prices and the newest models of their makers from the second."""

import argparse
from datetime import date
from pathlib import Path

import msgspec

from hermes_agent.core.messages import ModelFacts
from hermes_agent.models.catalogue.catalogue import SHIPPED, CatalogueFile, encoded
from hermes_agent.models.catalogue.importers import (
    Converted,
    Facts,
    converted,
    finished,
    without_copies,
)

ADDING = frozenset({"anthropic", "openai", "gemini", "mistral", "codex", "sambanova"})
"""Services whose models litellm lists well; for others it keeps what is long gone."""

UNLISTED: Facts = {
    f"nous/{name}": ModelFacts(context=context)
    for name, context in {
        "Hermes-3-Llama-3.1-405B": 131_072,
        "Hermes-3-Llama-3.1-70B": 131_072,
        "Hermes-4-14B": 40_960,
        "Hermes-4-405B": 131_072,
        "Hermes-4-70B": 131_072,
    }.items()
}
"""Models that neither catalogue lists, with the windows of their model cards. The service reports
what a call costs; it publishes no prices."""


def main() -> None:
    parser = argparse.ArgumentParser(description="write the shipped catalogue")
    parser.add_argument("models_dev", type=Path)
    parser.add_argument("litellm", type=Path)
    parser.add_argument("--date", required=True, help="when the facts were gathered")
    parser.add_argument(
        "--ages", nargs=2, required=True, metavar=("DAY", "VERSION"),
        help="the date of models.dev's catalogue and the version of litellm's",
    )  # fmt: skip
    told = parser.parse_args()
    today = date.fromisoformat(told.date).isoformat()
    first = _read(parser, told.models_dev, "models.dev", today)
    second = _read(parser, told.litellm, "litellm", today)
    models = finished(combined(first, second, ADDING))
    sources = (f"models.dev {told.ages[0]}", f"litellm {told.ages[1]}")
    SHIPPED.write_bytes(encoded(CatalogueFile(today, sources, models)))
    print(f"{len(models)} models, {SHIPPED.stat().st_size} bytes")


def combined(first: Converted, second: Converted, adding: frozenset[str]) -> Facts:
    """Two catalogues as one. What a model can do is as the first says, what it costs as the second
    does; of two limits the smaller counts, since too large a one fails. Models that only the second
    has are taken for the services in `adding`."""
    facts = {name: model for name, model in first.facts.items() if name not in second.gone}
    for name, other in second.facts.items():
        known = facts.get(name)
        if known is not None:
            facts[name] = msgspec.structs.replace(
                known,
                context=min(known.context, other.context),
                max_output=min(filter(None, (known.max_output, other.max_output)), default=0),
                rates=other.rates or known.rates,
            )
        elif name.partition("/")[0] in adding and name not in first.gone:
            facts[name] = other
    return without_copies({**UNLISTED, **facts})


def _read(parser: argparse.ArgumentParser, path: Path, shape: str, today: str) -> Converted:
    found = converted(path.read_bytes(), today)
    if found.shape != shape:
        parser.error(f"{path} is a catalogue of {found.shape}, not of {shape}")
    return found


if __name__ == "__main__":
    main()
