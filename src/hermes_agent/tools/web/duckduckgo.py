"""Reads the results in DuckDuckGo's pages for browsers without scripts."""

from html.parser import HTMLParser
from urllib.parse import parse_qs, urljoin, urlsplit

from hermes_agent.core.errors import ToolError
from hermes_agent.core.text.addresses import host_of

_LINKS = frozenset({"result__a", "result-link"})
_SNIPPETS = frozenset({"result__snippet", "result-snippet"})
_NONE = ("no-results", "No results.", "No more results")
_CHALLENGE = ("anomaly-modal", "anomaly.js", "challenge-form", "bots use DuckDuckGo")


def read(body: bytes) -> list[list[str]]:
    """Title, address and snippet of each result."""
    page = body.decode(errors="replace")
    if any(mark in page for mark in _CHALLENGE):
        raise ToolError("asks for a captcha")
    reader = _Reader()
    reader.feed(page)
    reader.close()
    if not reader.found and not any(mark in page for mark in _NONE):
        raise ToolError("sent a page without results")
    return reader.found


class _Reader(HTMLParser):
    """Collects the links that are results, and the snippet after each."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[list[str]] = []
        self._within = ""
        """The tag whose text is being collected."""
        self._into = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        classes = set(given.get("class", "").split())
        if classes & _LINKS:
            self._within = ""
            if url := _target(given.get("href", "")):
                self.found.append(["", url, ""])
                self._within, self._into = tag, 0
        elif classes & _SNIPPETS and self.found:
            self._within, self._into = tag, 2

    def handle_endtag(self, tag: str) -> None:
        if tag == self._within:
            self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within:
            self.found[-1][self._into] += data


def _target(href: str) -> str:
    """Where a link leads behind DuckDuckGo's own redirect; empty for an advertisement."""
    parts = urlsplit(urljoin("https://duckduckgo.com/", href))
    if host_of(parts.geturl()) != "duckduckgo.com":
        return parts.geturl()
    return next(iter(parse_qs(parts.query).get("uddg", [])), "") if parts.path == "/l/" else ""
