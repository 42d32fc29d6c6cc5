"""Downloads a public catalogue for the home. Sends nothing but the request for it."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from hermes_agent.core.errors import HermesError
from hermes_agent.core.files import write_private
from hermes_agent.models.catalogue.catalogue import Catalogue, CatalogueFile, encoded, home_file
from hermes_agent.models.catalogue.importers import BrokenCatalogue, converted, finished

SOURCE = "https://models.dev/api.json"
MAX_BYTES = 50_000_000
FEWEST = 20
"""A catalogue with fewer models is rejected."""

Fetch = Callable[[str], Awaitable[bytes]]


class Refreshed(Struct, frozen=True):
    date: str
    models: int
    """How many the new catalogue has."""
    added: tuple[str, ...]
    removed: tuple[str, ...]
    """Models that were only in the catalogue it replaces."""
    changed_prices: tuple[str, ...]


async def refresh(source: str, home: Path, fetch: Fetch, now: float) -> Refreshed:
    """Replace the home's catalogue by `source` (a URL or a file). If that is invalid, the old one
    stays. A model that it does not name keeps its bundled facts."""
    data = await _read(source, fetch)
    today = datetime.fromtimestamp(now, UTC).date().isoformat()
    try:
        if len(data) > MAX_BYTES:
            raise BrokenCatalogue(f"it is larger than {MAX_BYTES // 1_000_000} megabytes")
        found = converted(data, today)
        if len(found.facts) < FEWEST:
            raise BrokenCatalogue(f"it has only {len(found.facts)} models of known services")
    except BrokenCatalogue as error:
        raise HermesError(
            f"{source} is not a usable model catalogue: {_shown(error.message)}",
            "your current catalogue is kept; try again another day",
        ) from None
    file = CatalogueFile(today, (source,), finished(found.facts))
    before = Catalogue(home).models
    try:
        write_private(home_file(home), encoded(file))
    except OSError as error:
        raise HermesError(
            f"cannot write {home_file(home)}: {error.strerror or error}",
            "check the path, and whether the disk is full",
        ) from None
    after = Catalogue(home).models
    return Refreshed(
        date=today,
        models=len(file.models),
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed_prices=tuple(
            sorted(
                name
                for name in after.keys() & before.keys()
                if after[name].rates != before[name].rates
            )
        ),
    )


async def fetched(url: str) -> bytes:
    """Download a URL, up to a maximum size."""
    import httpx  # late: only a download needs it

    body = bytearray()
    try:
        async with (
            httpx.AsyncClient(follow_redirects=True, timeout=30.0) as client,
            client.stream("GET", url) as answer,
        ):
            answer.raise_for_status()
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > MAX_BYTES:
                    break
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise HermesError(
            f"cannot get {url}: {str(error) or type(error).__name__}",
            "`hermes model refresh FILE` reads a file you downloaded another way",
        ) from None
    return bytes(body)


def _shown(text: str) -> str:
    """The text, short and printable: it may contain names from outside."""
    return "".join(c if c.isprintable() else "?" for c in text[:300])


async def _read(source: str, fetch: Fetch) -> bytes:
    return await fetch(source) if source.startswith(("https://", "http://")) else _file(source)


def _file(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise HermesError(f"cannot read {path}: {error.strerror or error}") from None
