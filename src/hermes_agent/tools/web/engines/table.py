"""Search services: for each its keys, how it is asked and how its answer is read. Adding one is
adding a row."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.web.engines.results import SearchHit, unmarked, words


class Query(Struct, frozen=True):
    text: str
    limit: int
    keys: Mapping[str, str]
    """Secrets by name: those that the service wants are there."""
    searxng: str = ""


class SearchEndpoint(Struct, frozen=True):
    """One way to ask a service."""

    method: str
    url: Callable[[Query], str]
    options: Callable[[Query], dict[str, Any]]
    """httpx's options of the request: params, headers, json, data."""
    read: Callable[[bytes], Iterable[SearchHit]]


class SearchEngine(Struct, frozen=True):
    ways: tuple[SearchEndpoint, ...]
    """Tried in order."""
    keys: tuple[str, ...] = ()
    """Secrets that it needs, by name."""


def _rows(*path: str, title: str = "title", url: str = "url", snippet: str = "snippet") -> Any:
    """Reads the rows of a JSON answer that lie at the end of the path."""

    def read(body: bytes) -> list[SearchHit]:
        return [
            SearchHit(unmarked(row.get(title)), words(row.get(url)), unmarked(row.get(snippet)))
            for row in rows_at(body, *path)
        ]

    return read


def rows_at(body: bytes, *path: str) -> list[dict[str, Any]]:
    """An answer without the part has no results; one that is built otherwise is an error."""
    try:
        found: Any = msgspec.json.decode(body, type=dict[str, Any])
        for step in path:
            found = found.get(step) or {}
        return msgspec.convert(found or [], list[dict[str, Any]])
    except (msgspec.MsgspecError, AttributeError, UnicodeDecodeError) as error:
        raise ToolError(f"sent an answer that is not in its format ({error})") from None


def _exa(body: bytes) -> list[SearchHit]:
    return [
        SearchHit(
            words(row.get("title") or row.get("url")),
            words(row.get("url")),
            words(" … ".join(map(str, row.get("highlights") or [row.get("text") or ""]))),
        )
        for row in rows_at(body, "results")
    ]


def _wikipedia(body: bytes) -> list[SearchHit]:
    return [
        SearchHit(
            words(row.get("title")),
            "https://en.wikipedia.org/wiki/" + quote(str(row.get("title")).replace(" ", "_")),
            unmarked(row.get("snippet")),
        )
        for row in rows_at(body, "query", "search")
    ]


def _duckduckgo(body: bytes) -> list[SearchHit]:
    from hermes_agent.tools.web.engines import duckduckgo

    return duckduckgo.read(body)


def _at(url: str) -> Callable[[Query], str]:
    return lambda _query: url


def _bearer(query: Query, key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {query.keys[key]}"}


ENGINES: Mapping[str, SearchEngine] = {
    "brave": SearchEngine(
        (
            SearchEndpoint(
                "GET",
                _at("https://api.search.brave.com/res/v1/web/search"),
                lambda query: {
                    "params": {"q": query.text, "count": query.limit},
                    "headers": {"X-Subscription-Token": query.keys["BRAVE_API_KEY"]},
                },
                _rows("web", "results", snippet="description"),
            ),
        ),
        ("BRAVE_API_KEY",),
    ),
    "tavily": SearchEngine(
        (
            SearchEndpoint(
                "POST",
                _at("https://api.tavily.com/search"),
                lambda query: {
                    "json": {"query": query.text, "max_results": query.limit},
                    "headers": _bearer(query, "TAVILY_API_KEY"),
                },
                _rows("results", snippet="content"),
            ),
        ),
        ("TAVILY_API_KEY",),
    ),
    "exa": SearchEngine(
        (
            SearchEndpoint(
                "POST",
                _at("https://api.exa.ai/search"),
                lambda query: {
                    "json": {
                        "query": query.text,
                        "numResults": query.limit,
                        "contents": {"highlights": True},
                    },
                    "headers": {"x-api-key": query.keys["EXA_API_KEY"]},
                },
                _exa,
            ),
        ),
        ("EXA_API_KEY",),
    ),
    "serper": SearchEngine(
        (
            SearchEndpoint(
                "POST",
                _at("https://google.serper.dev/search"),
                lambda query: {
                    "json": {"q": query.text, "num": query.limit},
                    "headers": {"X-API-KEY": query.keys["SERPER_API_KEY"]},
                },
                _rows("organic", url="link"),
            ),
        ),
        ("SERPER_API_KEY",),
    ),
    "kagi": SearchEngine(
        (
            SearchEndpoint(
                "POST",
                _at("https://kagi.com/api/v1/search"),
                lambda query: {
                    "json": {"query": query.text, "workflow": "search", "limit": query.limit},
                    "headers": _bearer(query, "KAGI_API_KEY"),
                },
                _rows("data", "search"),
            ),
        ),
        ("KAGI_API_KEY",),
    ),
    "google": SearchEngine(
        (
            SearchEndpoint(
                "GET",
                _at("https://www.googleapis.com/customsearch/v1"),
                lambda query: {
                    "params": {
                        "key": query.keys["GOOGLE_SEARCH_API_KEY"],
                        "cx": query.keys["GOOGLE_SEARCH_CX"],
                        "q": query.text,
                        "num": min(query.limit, 10),  # it refuses more
                    },
                },
                _rows("items", url="link"),
            ),
        ),
        ("GOOGLE_SEARCH_API_KEY", "GOOGLE_SEARCH_CX"),
    ),
    "searxng": SearchEngine(
        (
            SearchEndpoint(
                "GET",
                lambda query: query.searxng.rstrip("/") + "/search",
                lambda query: {"params": {"q": query.text, "format": "json"}},
                _rows("results", snippet="content"),
            ),
        )
    ),
    "duckduckgo": SearchEngine(
        tuple(
            SearchEndpoint("POST", _at(url), lambda query: {"data": {"q": query.text}}, _duckduckgo)
            for url in ("https://html.duckduckgo.com/html/", "https://lite.duckduckgo.com/lite/")
        )
    ),
    "wikipedia": SearchEngine(
        (
            SearchEndpoint(
                "GET",
                _at("https://en.wikipedia.org/w/api.php"),
                lambda query: {
                    "params": {
                        "action": "query",
                        "list": "search",
                        "srsearch": query.text,
                        "srlimit": query.limit,
                        "format": "json",
                        "formatversion": 2,
                    }
                },
                _wikipedia,
            ),
        )
    ),
}
"""By name, in the order in which they are asked when nobody says otherwise."""

KEYS = tuple(key for engine in ENGINES.values() for key in engine.keys)
