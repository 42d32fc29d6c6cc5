"""Public catalogues of models, in the two shapes they come in, as facts. Nothing in them is taken
on trust: what cannot be true is an error, not a fact."""

import msgspec
from msgspec import Struct

from hermes_agent.core.messages import ModelFacts
from hermes_agent.models.catalogue.catalogue import undated
from hermes_agent.models.catalogue.importers.litellm import from_litellm
from hermes_agent.models.catalogue.importers.models_dev import from_models_dev
from hermes_agent.models.catalogue.importers.validation import BrokenCatalogue, Facts


class Converted(Struct, frozen=True):
    facts: Facts
    gone: frozenset[str]
    """Models that the catalogue knows and that are, or will soon be, no longer served."""
    shape: str
    """Whose catalogue it is: `models.dev` or `litellm`."""


def converted(data: bytes, today: str) -> Converted:
    """The facts in a public catalogue. `today` as 2026-01-31: what has been switched off by then is
    left out."""
    try:
        top = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        return _recognised(data, top, today)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BrokenCatalogue(f"it is not a JSON object: {error}") from None
    except RecursionError:
        raise BrokenCatalogue("it is nested too deeply") from None


def _recognised(data: bytes, top: dict[str, msgspec.Raw], today: str) -> Converted:
    gone: set[str] = set()
    if b'"litellm_provider"' in data:
        facts, shape = from_litellm(top, today, gone), "litellm"
    elif b'"models"' in data:
        facts, shape = from_models_dev(top, gone), "models.dev"
    else:
        raise BrokenCatalogue("it is neither models.dev's catalogue nor litellm's")
    return Converted(_without_copies(facts), frozenset(gone), shape)


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
    return _without_copies(facts)


def finished(facts: Facts) -> Facts:
    """Sorted, and with a limit for replies where none was told."""
    default = ModelFacts().max_output
    return {
        name: msgspec.structs.replace(
            model, max_output=min(model.max_output or default, model.context)
        )
        for name, model in sorted(facts.items())
    }


def _without_copies(facts: Facts) -> Facts:
    """Dated snapshots are left out where the model itself is there."""
    return {
        name: model
        for name, model in facts.items()
        if undated(name) == name or undated(name) not in facts
    }
