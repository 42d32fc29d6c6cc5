"""Reads feeds: RSS and Atom, in a process of their own."""

from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Annotated, Any

from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.text.format import shortened
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.web.documents.extract import Enough, Extracted, library

FEED_BYTES = 5_000_000
TITLE_CHARS, LINK_CHARS, ABOUT_CHARS = 200, 2000, 300


@tool(capabilities=("network",), repeatable=True, hosts=("url",))
async def read_feed(
    context: ToolContext,
    url: str,
    since: str = "",
    limit: Annotated[int, Meta(ge=1, le=100)] = 20,
) -> ToolResult:
    """Entries of an RSS or Atom feed, newest first: time, title, address, beginning. `since`: only
    those after an ISO time."""
    from hermes_agent.tools.web.client import ask
    from hermes_agent.tools.web.documents.worker import read_apart

    got = await ask(context, "GET", url, most=FEED_BYTES)
    if got.status != 200:
        raise ToolError(f"the feed answers {got.status}", "check the address", "changed")
    try:
        after = datetime.fromisoformat(since).timestamp() if since else 0.0
    except ValueError:
        raise ToolError(
            f"not a valid time: {since!r}", "such as 2026-11-19T03:00", "changed"
        ) from None
    made = await read_apart("feed:read", got.data, url, url, after, limit)
    text = wrap_untrusted("feed", url, made.text or "no entries")
    return ToolResult(f"{text}\n[{made.notes[0]}]", {"entries": made.count})


def read(data: bytes, url: str, after: float, limit: int, _enough: Enough) -> Extracted:
    """The entries after a time, at most so many."""
    try:
        found = sorted(entries(_parsed(data)), key=lambda one: -one[0])
    except ValueError as error:
        raise ToolError(f"{url} is no feed: {error}", "web_fetch reads pages", "changed") from None
    shown = [one for one in found if one[0] >= after][:limit]
    rows = [
        f"{_date(time)} {title}\n  {link}\n  {about}".rstrip() for time, title, link, about in shown
    ]
    notes = (f"{len(shown)} of {len(found)} entries",)
    return Extracted("\n".join(rows), notes=notes, count=len(shown))


def _parsed(data: bytes) -> Any:
    etree = library("lxml.etree")
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise ValueError(error) from None


def entries(root: Any) -> Iterator[tuple[float, str, str, str]]:
    """Time, title, address and beginning of each."""
    for one in root.iter():
        if _name(one) not in ("item", "entry"):
            continue
        parts: dict[str, str] = {}
        for part in one:
            name, text = _name(part), "".join(part.itertext()).strip() or part.get("href", "")
            if name != "link" or part.get("rel", "alternate") == "alternate":
                parts.setdefault(name, text)
        about = parts.get("summary") or parts.get("description") or parts.get("content", "")
        yield (
            _time(parts.get("updated") or parts.get("pubDate") or parts.get("date", "")),
            shortened(parts.get("title", ""), TITLE_CHARS),
            shortened(parts.get("link") or parts.get("id", ""), LINK_CHARS),
            shortened(_plain(about), ABOUT_CHARS),
        )


def _name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _plain(text: str) -> str:
    """Without the tags of HTML."""
    if "<" not in text:
        return text
    from html.parser import HTMLParser

    words: list[str] = []
    parser = HTMLParser()
    parser.handle_data = words.append  # type: ignore[assignment] # all that is wanted of it
    parser.feed(text)
    return " ".join(words)


def _time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        pass
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _date(time: float) -> str:
    return f"{datetime.fromtimestamp(time).astimezone():%Y-%m-%d %H:%M}" if time else "undated"
