"""Read a page or a document from the web."""

import asyncio
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.messages import IMAGE_BYTES, Media
from hermes_agent.core.text.addresses import host_of
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.web.documents.cache import SECONDS, Page, Pages, broken, passages
from hermes_agent.tools.web.documents.types import image_type, kind_of

if TYPE_CHECKING:
    from hermes_agent.tools.web.client import WebResponse

SHOWN_CHARS = 14_000
"""The most that one call shows; the loop would cut more without saying how to continue."""
KEPT = "pages"


@tool(capabilities=("network",), repeatable=True, hosts=("url",))
async def web_fetch(
    context: ToolContext, url: str, start: Annotated[int, Meta(ge=1)] = 1, find: str = ""
) -> ToolResult:
    """Read a web page, PDF, Office or text document as text; an image is shown. `start`: the line
    to read on from. `find`: show only passages with these words."""
    address = _address(url)
    pages = await _pages(context)
    known = pages.get(address) if start > 1 or find.strip() else None
    if known is not None:
        return _shown(context, known, start, find, (f"as fetched less than {SECONDS:.0f} s ago",))
    from hermes_agent.tools.web.client import ask

    most = context.settings.web.fetch_mb * 1_000_000
    answer = await ask(context, "GET", address, most=most, check=_check)
    if kind_of(answer.type, answer.name, answer.data) == "image":
        return _image(answer)
    page = await _page(answer, address, most)
    pages.add(address, page)
    return _shown(context, page, start, find)


async def _pages(context: ToolContext) -> Pages:
    """The session's pages; a new cache where nothing is kept for the session."""

    async def make() -> Pages:
        return Pages(asyncio.get_running_loop().time)

    return await (
        make() if context.services.resources is None else context.services.resources.get(KEPT, make)
    )


def _address(url: str) -> str:
    """The checked address, without its fragment."""
    import httpx

    try:
        parsed = httpx.URL(url.strip())
    except httpx.InvalidURL as error:
        raise ToolError(f"{url!r} is not an address: {error}", retry="changed") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        hint = "an address begins with https:// or http://"
        raise ToolError(f"{url!r} is not the address of a web page", hint, "changed")
    return str(parsed.copy_with(fragment=None))


def _check(answer: "WebResponse") -> None:
    """Refuse errors, and what cannot be shown, before all of it is received."""
    host = host_of(answer.url)
    later = answer.headers.get("retry-after", "")[:40]
    match answer.status:
        case 200 | 203 | 206:
            pass
        case 429 | 503:
            hint = f"it says: not before {later}{' s' * later.isdigit()}" if later else "wait first"
            raise ToolError(f"{host} answers {answer.status}: too busy now", hint, "same")
        case 401 | 403:
            hint = "it may require a login or block programs; a browser may get further"
            raise ToolError(f"{host} answers {answer.status}: no access", hint, "changed")
        case 404 | 410:
            hint = "check the address, or search for the page"
            raise ToolError(f"{host} answers {answer.status}: no such page", hint, "changed")
        case status:
            raise ToolError(
                f"{host} answers {status} instead of a page",
                retry="same" if status >= 500 else "changed",
            )
    if not kind_of(answer.type, answer.name, answer.data):
        size = answer.headers.get("content-length", "an unknown number of")
        kind = answer.type.partition(";")[0] or "unknown"
        raise ToolError(
            f"{answer.url} is not a page or document: type {kind}, {size} bytes",
            "a command such as curl can download it",
            "changed",
        )


def _image(answer: "WebResponse") -> ToolResult:
    size = len(answer.data)
    if answer.cut or size > IMAGE_BYTES:
        raise ToolError(
            f"{answer.url} is an image of more than {IMAGE_BYTES} bytes",
            "a command can download it and make it smaller",
            "changed",
        )
    type = image_type(answer.data) or ""
    facts = {"url": answer.url, "type": type, "bytes": size}
    media = Media(type, answer.data, answer.name)
    return ToolResult(f"[an image: {type}, {size} bytes]", facts, files=(media,))


async def _page(answer: "WebResponse", address: str, most: int) -> Page:
    from hermes_agent.tools.web.documents.worker import extract_apart

    kind = kind_of(answer.type, answer.name, answer.data)
    if answer.cut and kind in {"pdf", "office"}:
        raise ToolError(
            f"{answer.url} is larger than {most} bytes",
            "the setting `web.fetch_mb` allows more; a command such as curl can download it",
            "never",
        )
    alike = kind_of(answer.type, answer.url, answer.data) == kind
    made = await extract_apart(answer.data, answer.type, answer.url if alike else answer.name)
    notes = [f"it is larger than {most} bytes; the rest was not read"] if answer.cut else []
    if answer.url != address:
        notes.append(f"redirected to {answer.url}")
    title = made.title.strip()
    titled = title and title not in made.text[:1000]
    facts = {
        "url": answer.url,
        "type": answer.type,
        "bytes": len(answer.data),
        "title": title,
    }
    text = f"{title}\n\n{made.text}" if titled else made.text
    return Page(answer.url, broken(text), (*notes, *made.notes), facts)


def _shown(
    context: ToolContext, page: Page, start: int, find: str, notes: tuple[str, ...] = ()
) -> ToolResult:
    """The requested part, and how to continue."""
    there = len(page.lines)
    if start > max(there, 1):
        raise ToolError(
            f"{page.url} has {there} lines; line {start} is past its end", retry="changed"
        )
    facts = {**page.facts, "lines": there, "start": start, "cached": bool(notes)}
    spans = passages(page.lines, find) if find.strip() else [(1, there)]
    spans = [(max(first, start), last) for first, last in spans if last >= start]
    notes = (*notes, *page.notes)
    if not spans or not there:
        what = f"{find!r} does not appear from line {start} on" if there else "the page is empty"
        return ToolResult("\n".join(f"[{note}]" for note in (what, *notes)), {**facts, "shown": 0})
    room = min(SHOWN_CHARS, context.settings.loop.result_chars - 1_000)
    rows, shown, last = _rows(page.lines, spans, room, marked=bool(find.strip()))
    if last < spans[-1][1]:
        notes = (f"shown up to line {last} of {there}; continue with start={last + 1}", *notes)
    elif start > 1 or find.strip():
        notes = (f"end of the page, which has {there} lines", *notes)
    text = wrap_untrusted("web-page", page.url, "\n".join(rows))
    return ToolResult(
        "\n".join([text, *(f"[{note}]" for note in notes)]), {**facts, "shown": shown}
    )


def _rows(
    lines: tuple[str, ...], spans: list[tuple[int, int]], room: int, *, marked: bool
) -> tuple[list[str], int, int]:
    """As many lines of the spans as fit, how many, and the number of the last."""
    rows: list[str] = []
    shown = reached = 0
    for first, last in spans:
        if marked:
            rows.append(f"[line {first}]")
        for number in range(first, last + 1):
            line = lines[number - 1]
            room -= len(line) + 1
            if room < 0 and shown:
                return rows, shown, reached
            rows.append(line)
            shown += 1
            reached = number
    return rows, shown, reached
