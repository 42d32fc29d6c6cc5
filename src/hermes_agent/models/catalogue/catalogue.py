"""Facts about models: the bundled catalogue, and the home's own after a refresh."""

import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import UsageError
from hermes_agent.core.messages import ModelFacts, Rates
from hermes_agent.models.catalogue.services import MAKERS, OWN, SERVICES

SHIPPED = Path(__file__).parent / "catalogue.json"
STALE_DAYS = 90
"""After this, prices and models are likely to be out of date."""

_DATED = re.compile(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d)(?=$|-v\d|:)")
_SAME = {"openai-chat": "openai"}
"""Services that have another one's models."""
_RANK = {service: rank for rank, service in enumerate(dict.fromkeys((*MAKERS, *SERVICES)))}


class CatalogueFile(Struct, frozen=True, forbid_unknown_fields=True):
    date: str
    """When the facts were gathered, as 2026-01-31."""
    sources: tuple[str, ...]
    models: dict[str, ModelFacts]
    """By `service/model`, sorted."""


class _HomeFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The same in a home, with entries that are not validated yet."""

    date: str
    sources: tuple[str, ...]
    models: dict[str, msgspec.Raw]


class CatalogueEntry(Struct, frozen=True):
    name: str
    facts: ModelFacts


def home_file(home: Path) -> Path:
    return home / "models.json"


def decoded(data: bytes) -> CatalogueFile:
    """Raises `ValueError` for an invalid file."""
    file = _decoder.decode(data)
    date.fromisoformat(file.date)
    return file


def _mended(data: bytes) -> tuple[CatalogueFile, int]:
    """The catalogue in a home without its implausible entries, and their number. Raises
    `ValueError` if the file is invalid."""
    file = _home_decoder.decode(data)
    date.fromisoformat(file.date)
    models: dict[str, ModelFacts] = {}
    for name, raw in file.models.items():
        try:
            facts = _facts_decoder.decode(raw)
        except (ValueError, RecursionError):
            continue
        if can_be(facts):
            models[name] = facts
    return CatalogueFile(file.date, file.sources, models), len(file.models) - len(models)


def can_be(facts: ModelFacts) -> bool:
    """Whether facts are plausible: prices are finite and not negative, limits positive."""
    prices = (
        price
        for rates in facts.rates
        for price in (rates.input, rates.output, rates.cached or 0.0, rates.written or 0.0)
    )
    return (
        facts.context >= 1
        and facts.max_output >= 1
        and all(rates.above >= 0 for rates in facts.rates)
        and all(math.isfinite(price) and price >= 0 for price in prices)
    )


def encoded(file: CatalogueFile) -> bytes:
    """One model per line, for readable diffs."""
    encode = _encoder.encode
    models = b",\n".join(encode(name) + b":" + encode(file.models[name]) for name in file.models)
    return b'{"date":%b,\n"sources":%b,\n"models":{\n%b\n}}\n' % (
        encode(file.date),
        encode(file.sources),
        models,
    )


def undated(name: str) -> str:
    """The name without the date of a snapshot."""
    return _DATED.sub("", name)


def overlaid(below: ModelFacts, above: ModelFacts) -> ModelFacts:
    """The facts `above`; missing prices and effort levels are taken from `below`."""
    return msgspec.structs.replace(
        above,
        rates=above.rates or below.rates,
        efforts=above.efforts or below.efforts,
        thinking=above.thinking or below.thinking,
    )


def matching(names: Iterable[str], words: str) -> list[str]:
    """The names that contain every word, best match and newest first."""
    wanted = [_plain(word) for word in words.split()]
    fitting = [name for name in names if all(word in _plain(name) for word in wanted)]
    return sorted(fitting, key=lambda name: _place(name, wanted))


class Catalogue:
    """Facts by name. The files are read on first use."""

    def __init__(self, home: Path | None = None, services: Iterable[str] = SERVICES) -> None:
        self._home = home
        self._services = frozenset(services)

    @property
    def date(self) -> str:
        """When its newest facts were gathered."""
        return max(file.date for file in self._files)

    @property
    def trouble(self) -> str:
        """What is wrong with the home's file, which is then ignored in whole or in part."""
        return self._read[1]

    def stale(self, now: float) -> bool:
        gathered = datetime.combine(date.fromisoformat(self.date), datetime.min.time(), UTC)
        return now - gathered.timestamp() > STALE_DAYS * 86_400

    def facts(self, name: str) -> ModelFacts | None:
        """The facts of `service/model`; a dated snapshot has those of its model."""
        service, _, model = name.partition("/")
        name = f"{_SAME.get(service, service)}/{model}"
        known = self.models.get(name) or self.models.get(undated(name))
        if known is None and service in OWN and model:
            return ModelFacts(rates=(Rates(0.0, 0.0),))
        return known

    def names(self, service: str) -> tuple[str, ...]:
        """The models of a service, as `service/model`."""
        start = f"{_SAME.get(service, service)}/"
        models = (name[len(start) :] for name in self.models if name.startswith(start))
        return tuple(f"{service}/{model}" for model in models)

    def search(self, words: str, *, service: str = "", limit: int = 50) -> list[CatalogueEntry]:
        """The models whose name contains every word, best match and newest first. Punctuation
        does not matter: `opus 4.5` finds `claude-opus-4-5`."""
        names = self.names(service) if service else tuple(self.models)
        found = ((name, self.facts(name)) for name in matching(names, words)[:limit])
        return [CatalogueEntry(name, facts) for name, facts in found if facts is not None]

    def resolve(self, written: str) -> str:
        """The full name of a model as written: `service/model` unchanged, known or not, since
        services add models daily; a model alone if its service is unambiguous."""
        if not written:
            raise UsageError(
                "no model is configured",
                "`hermes setup` finds your keys and servers and chooses one; `hermes model NAME` "
                "and HERMES_MODEL=service/name choose it by name; scripted/demo needs no key",
            )
        service, slash, model = written.partition("/")
        if service in self._services:
            if model:
                return written
            raise UsageError(f"no model is named in {written!r}", self._examples(service))
        having = self._having(written)
        for maker in MAKERS:
            if maker in having:
                return having[maker]
        if len(having) == 1:
            return next(iter(having.values()))
        if having:
            raise UsageError(
                f"several services have {written!r}", f"write one of {', '.join(having.values())}"
            )
        raise self._unknown(written, service if slash else "")

    @cached_property
    def models(self) -> dict[str, ModelFacts]:
        """All facts by `service/model`."""
        older, *newer = sorted(self._files, key=lambda file: file.date)
        models = dict(older.models)
        for file in newer:
            for name, facts in file.models.items():
                models[name] = overlaid(models.get(name, facts), facts)
        return models

    @property
    def _files(self) -> tuple[CatalogueFile, ...]:
        return self._read[0]

    @cached_property
    def _read(self) -> tuple[tuple[CatalogueFile, ...], str]:
        """The valid files, the bundled one first, and what is wrong with the home's."""
        shipped, trouble = decoded(SHIPPED.read_bytes()), ""
        if self._home is None:
            return (shipped,), trouble
        path, found = home_file(self._home), list[CatalogueFile]()
        try:
            mended, dropped = _mended(path.read_bytes())
            found.append(mended)
            if dropped:
                trouble = f"{path} has implausible entries, skipped: {dropped}"
        except FileNotFoundError:
            pass
        except OSError as error:
            trouble = f"{path} cannot be read: {error.strerror or error}"
        except (ValueError, RecursionError) as error:
            trouble = f"{path} is not a valid model catalogue: {error}"
        if trouble:
            import logging  # late: many commands only look up a name

            logging.getLogger("hermes.models").warning("%s", trouble)
        return (shipped, *found), trouble

    @property
    def _shown_services(self) -> str:
        return ", ".join(sorted(self._services))

    def _having(self, model: str) -> dict[str, str]:
        """The full names of the models with this name, by service."""
        low = model.lower()
        found: dict[str, str] = {}
        for name in self.models:
            service, _, own = name.partition("/")
            if own == model or (own.lower() == low and service not in found):
                found[service] = name
        return found

    def _examples(self, service: str) -> str:
        if service == "scripted":
            return "for example scripted/demo, or a file of yours: scripted/./script.yaml"
        if service == "builtin":
            return "available: builtin/responder"
        best = self.search("", service=service, limit=3)
        names = ", ".join(entry.name for entry in best) or f"{service}/NAME"
        return f"for example {names}; the service's own list has all names"

    def _unknown(self, written: str, service: str) -> UsageError:
        near = self._nearest(written)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        if service:
            return UsageError(
                f"no model service is called {service!r}",
                f"{hint}services: {self._shown_services}",
            )
        return UsageError(
            f"no model is called {written!r}",
            f"{hint}write service/name; `hermes model list --search WORD` searches for one",
        )

    def _nearest(self, written: str) -> Sequence[str]:
        """The newest models that contain the name, or else similar names."""
        if part := [entry.name for entry in self.search(written, limit=3)]:
            return part
        from difflib import get_close_matches  # late: only a wrong name needs it

        full = {name: name for name in self.models}
        by_ranks = sorted(self.models, key=_service_rank, reverse=True)
        own = {name.partition("/")[2]: name for name in by_ranks}
        close = get_close_matches(written, [*own, *full], n=6, cutoff=0.5)
        return list(dict.fromkeys((own | full)[name] for name in close))[:3]


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())


def _service_rank(name: str) -> int:
    return _RANK.get(name.partition("/")[0], len(_RANK))


def _place(name: str, wanted: Sequence[str]) -> tuple[int, int, tuple[int, ...], str]:
    """The sort key of a search result: quality of the match, service, version."""
    own = _plain(name.partition("/")[2])
    if own == "-".join(wanted):
        fit = 0
    elif all(f"-{word}" in f"-{own}" for word in wanted):
        fit = 1  # every word at the start of a part
    else:
        fit = 2
    numbers = (int(number) for number in re.findall(r"\d+", own))
    # The highest version first; larger numbers are dates or sizes. The one at the end puts 5.5
    # before 5, and what has no number last.
    newest = (*(-number for number in numbers if number < 100), 1)
    return fit, _service_rank(name), newest, name


_decoder = msgspec.json.Decoder(CatalogueFile)
_home_decoder = msgspec.json.Decoder(_HomeFile)
_facts_decoder = msgspec.json.Decoder(ModelFacts)
_encoder = msgspec.json.Encoder()
