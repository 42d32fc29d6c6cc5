"""A web page as Markdown: its main text, or all of it where that is too little."""

import re
from typing import Any
from urllib.parse import urljoin

from hermes_agent.tools.web.documents.extract import Extracted, library

MAIN_CHARS = 2_000_000
MAIN_ELEMENTS = 40_000
"""Larger pages are not searched for their main text: it would take many seconds."""
LITTLE = 500
"""Less main text than this is compared with the whole page."""
SHARE = 0.1
"""The main text is at least this part of a page."""
BARE = 200
"""A long page with less text is probably empty until its scripts run."""
SCRIPTS = "it contains little text; if scripts build the page, a browser shows more"

_LEFT_OUT = frozenset(
    {"script", "style", "template", "noscript", "svg", "head", "iframe", "object"}
)
_BLOCKS = frozenset(
    {
        "address", "article", "aside", "blockquote", "br", "dd", "details", "div", "dl", "dt",
        "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6",
        "header", "hr", "li", "main", "nav", "ol", "option", "p", "pre", "section", "summary",
        "table", "tbody", "thead", "tr", "ul",
    }
)  # fmt: skip
_LEADS = {"li": "- ", "tr": "| ", **{f"h{level}": "#" * level + " " for level in range(1, 7)}}
_UNSEEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_BLANK = re.compile(r"[^\S\n]+")
_GAPS = re.compile(r"\n\s*\n\s*")


def read(text: str, address: str) -> Extracted:
    """`text` is HTML; relative links are completed by the address."""
    etree = library("lxml.etree")
    parser = etree.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True
    )
    tree = etree.HTML(text.encode(errors="replace") or b"<html/>", parser)
    if tree is None:
        return Extracted("")
    title = " ".join((tree.findtext(".//title") or "").split())
    whole = _whole(tree, address)
    large = len(text) > MAIN_CHARS or sum(1 for _ in tree.iter()) > MAIN_ELEMENTS
    main = "" if large else _main(text, address)
    little = len(main) < LITTLE or len(main) < SHARE * len(whole)
    made = whole if little and len(whole) > len(main) else main
    bare = len(made) < BARE and len(text) > 10 * BARE
    return Extracted(made, title, (SCRIPTS,) if bare else ())


def _main(text: str, address: str) -> str:
    try:
        made = library("trafilatura").extract(
            text,
            url=address,
            output_format="markdown",
            include_links=True,
            include_tables=True,
            include_formatting=True,
            favor_recall=True,
        )
    except RecursionError:  # a page nested too deep
        return ""
    return str(made or "")


def _whole(tree: Any, address: str) -> str:
    """Everything that a reader of the page sees, with links."""
    parts: list[str] = []
    unseen: Any = None
    for event, element in library("lxml.etree").iterwalk(tree, events=("start", "end")):
        tag = element.tag if isinstance(element.tag, str) else ""
        if unseen is None and event == "start":
            if tag in _LEFT_OUT or _hidden(element):
                unseen = element
            else:
                parts += [_opening(tag), element.text or ""]
        elif event == "end":
            if unseen is None:
                parts.append(_closing(tag, element, address))
            if unseen is element:
                unseen = None
            if unseen is None:
                parts.append(element.tail or "")
    lines = (_BLANK.sub(" ", part) for part in "".join(parts).split("\n"))
    return _GAPS.sub("\n\n", "\n".join(line.strip() for line in lines)).strip()


def _hidden(element: Any) -> bool:
    return "hidden" in element.attrib or bool(_UNSEEN.search(element.get("style", "")))


def _opening(tag: str) -> str:
    if tag == "a":
        return "["
    return "\n" + _LEADS.get(tag, "") if tag in _BLOCKS else ""


def _closing(tag: str, element: Any, address: str) -> str:
    if tag == "a":
        return f"]({_link(element.get('href', ''), address)})"
    if tag in {"td", "th"}:
        return " | "
    return "\n" if tag in _BLOCKS else ""


def _link(href: str, address: str) -> str:
    try:
        return urljoin(address, href.strip())
    except ValueError:
        return href.strip()
