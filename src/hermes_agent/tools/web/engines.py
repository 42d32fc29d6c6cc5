"""Search services. `engines.json` says how each is asked and where its answer has the results;
adding one is adding an entry."""

import html
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ToolError

_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


class SearchHit(Struct, frozen=True):
    title: str
    url: str
    snippet: str = ""


class SearchEngine(Struct, frozen=True):
    urls: tuple[str, ...]
    """Tried in order."""
    keys: tuple[str, ...] = ()
    """Names of the secrets it needs."""
    method: str = "POST"
    params: dict[str, Any] | None = None
    headers: dict[str, Any] | None = None
    json: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
    max_limit: int = 1_000
    rows: tuple[str, ...] = ()
    """Path to the results in a JSON answer."""
    title: str = "title"
    url: str = "url"
    snippet: str = "snippet"

    def requests(
        self, query: str, limit: int, keys: Mapping[str, str], searxng: str
    ) -> list[tuple[str, dict[str, Any]]]:
        """Address and httpx options of each request to try."""
        values: dict[str, Any] = {**keys, "query": query, "searxng": searxng.rstrip("/")}
        values["limit"] = min(limit, self.max_limit)
        parts = {name: getattr(self, name) for name in ("params", "headers", "json", "data")}
        options = {name: _filled(part, values) for name, part in parts.items() if part}
        return [(_filled(url, values), options) for url in self.urls]


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, dict):
        return {key: _filled(value, values) for key, value in template.items()}
    if not isinstance(template, str):
        return template
    return values["limit"] if template == "{limit}" else template.format_map(values)


ENGINES: dict[str, SearchEngine] = msgspec.json.decode(
    Path(__file__).with_name("engines.json").read_bytes(), type=dict[str, SearchEngine]
)
"""By name, in the order in which they are tried unless the settings name some."""
KEYS = tuple(key for engine in ENGINES.values() for key in engine.keys)


def read_hits(name: str, body: bytes) -> list[SearchHit]:
    """The results in a service's answer. Raises `ToolError` for one in another format."""
    if name == "duckduckgo":
        from hermes_agent.tools.web import duckduckgo

        return [SearchHit(_line(one[0]), one[1], _line(one[2])) for one in duckduckgo.read(body)]
    read = _READERS.get(name, _hit)
    return [read(ENGINES[name], row) for row in _rows(body, ENGINES[name].rows)]


def _rows(body: bytes, path: tuple[str, ...]) -> list[dict[str, Any]]:
    """An answer without the last part has no results; one that is built otherwise is an error."""
    try:
        found: Any = msgspec.json.decode(body, type=dict[str, Any])
        for step in path:
            found = found.get(step) or {}
        return msgspec.convert(found or [], list[dict[str, Any]])
    except (msgspec.MsgspecError, AttributeError, UnicodeDecodeError) as error:
        raise ToolError(f"sent an answer in an unexpected format ({error})") from None


def _hit(engine: SearchEngine, row: dict[str, Any]) -> SearchHit:
    texts = (row.get(engine.title), row.get(engine.snippet))
    title, snippet = (_line(html.unescape(_TAG.sub("", str(text or "")))) for text in texts)
    return SearchHit(title, _line(row.get(engine.url)), snippet)


def _exa(_engine: SearchEngine, row: dict[str, Any]) -> SearchHit:
    parts = row.get("highlights") or [row.get("text") or ""]
    title = _line(row.get("title") or row.get("url"))
    return SearchHit(title, _line(row.get("url")), _line(" … ".join(map(str, parts))))


def _wikipedia(engine: SearchEngine, row: dict[str, Any]) -> SearchHit:
    address = "https://en.wikipedia.org/wiki/" + quote(str(row.get("title")).replace(" ", "_"))
    return _hit(engine, {**row, "url": address})


_READERS: dict[str, Callable[[SearchEngine, dict[str, Any]], SearchHit]] = {
    "exa": _exa,
    "wikipedia": _wikipedia,
}


def _line(text: object) -> str:
    return " ".join(str(text or "").split())
