"""Markdown, as models write it, in the form that a platform shows."""

from collections.abc import Callable, Sequence
from functools import cache
from html import escape
from itertools import zip_longest
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

Pair = tuple[str, str]
LINKS = ("http://", "https://", "mailto:", "tg://")


class Dialect(Struct, frozen=True):
    """How a platform writes what Markdown can say."""

    escape: Callable[[str], str]
    bold: Pair
    italic: Pair
    strike: Pair
    code: Pair
    fence: Callable[[str, str], str]
    """Of code that is escaped, and its language."""
    link: Callable[[str, str], str]
    """Of a label that is rendered, and an address."""
    quote: Callable[[str], str]


def _html_fence(code: str, language: str) -> str:
    if language:
        return f'<pre><code class="language-{escape(language)}">{code}</code></pre>'
    return f"<pre>{code}</pre>"


def _html_quote(text: str) -> str:
    flat = text.replace("<blockquote>", "").replace("</blockquote>", "")
    return f"<blockquote>{flat}</blockquote>"


TELEGRAM = Dialect(
    escape=lambda text: escape(text, quote=False),
    bold=("<b>", "</b>"),
    italic=("<i>", "</i>"),
    strike=("<s>", "</s>"),
    code=("<code>", "</code>"),
    fence=_html_fence,
    link=lambda label, address: f'<a href="{escape(address)}">{label}</a>',
    quote=_html_quote,
)

SLACK = Dialect(
    escape=lambda text: escape(text, quote=False),
    bold=("*", "*"),
    italic=("_", "_"),
    strike=("~", "~"),
    code=("`", "`"),
    fence=lambda code, _: f"```\n{code}\n```",
    link=lambda label, address: f"<{escape(address, quote=False).replace('|', '%7C')}|{label}>",
    quote=lambda text: "\n".join(f"> {line}" for line in text.splitlines()),
)


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


def render(text: str, dialect: Dialect) -> str:
    from markdown_it.tree import SyntaxTreeNode

    return _blocks(SyntaxTreeNode(_parser().parse(text)).children, dialect)


def tables_fenced(text: str) -> str:
    """The same Markdown with tables as text of fixed width, for platforms that have none."""
    lines = text.splitlines()
    from markdown_it.tree import SyntaxTreeNode

    for node in reversed(SyntaxTreeNode(_parser().parse(text)).children):
        if node.type == "table" and node.map:
            lines[slice(*node.map)] = ["```", *_table(node).splitlines(), "```"]
    return "\n".join(lines)


def _blocks(nodes: Sequence["SyntaxTreeNode"], dialect: Dialect, gap: str = "\n\n") -> str:
    return gap.join(_block(node, dialect) for node in nodes)


def _block(node: "SyntaxTreeNode", dialect: Dialect) -> str:
    match node.type:
        case "paragraph":
            return _inline(node.children, dialect)
        case "heading":
            plain = replace(dialect, bold=("", ""))
            return _inline(node.children, plain).join(dialect.bold)
        case "fence" | "code_block":
            language = node.info.split()[0] if node.info.split() else ""
            return dialect.fence(dialect.escape(node.content.rstrip("\n")), language)
        case "blockquote":
            return dialect.quote(_blocks(node.children, dialect))
        case "bullet_list" | "ordered_list":
            return _list(node, dialect)
        case "table":
            return dialect.fence(dialect.escape(_table(node)), "")
        case "hr":
            return "———"
        case _:
            return dialect.escape(node.content)


def _list(node: "SyntaxTreeNode", dialect: Dialect) -> str:
    first = int(node.attrs.get("start", 1))
    items = []
    for number, item in enumerate(node.children, first):
        marker = f"{number}. " if node.type == "ordered_list" else "• "
        text = _blocks(item.children, dialect, "\n")
        items.append(marker + text.replace("\n", "\n" + " " * len(marker)))
    return "\n".join(items)


def _inline(nodes: Sequence["SyntaxTreeNode"], dialect: Dialect) -> str:
    return "".join(_span(node, dialect) for node in nodes)


def _span(node: "SyntaxTreeNode", dialect: Dialect) -> str:
    match node.type:
        case "inline":
            return _inline(node.children, dialect)
        case "strong":
            return _inline(node.children, dialect).join(dialect.bold)
        case "em":
            return _inline(node.children, dialect).join(dialect.italic)
        case "s":
            return _inline(node.children, dialect).join(dialect.strike)
        case "code_inline":
            return dialect.escape(node.content).join(dialect.code)
        case "softbreak" | "hardbreak":
            return "\n"
        case "link" | "image":
            return _link(node, dialect)
        case _:
            return dialect.escape(node.content)


def _link(node: "SyntaxTreeNode", dialect: Dialect) -> str:
    address = str(node.attrs.get("src" if node.type == "image" else "href", ""))
    label = _inline(node.children, dialect)
    if address.startswith(LINKS):
        return dialect.link(label or dialect.escape(address), address)
    return f"{label} ({dialect.escape(address)})" if address else label


def _table(node: "SyntaxTreeNode") -> str:
    rows = [
        ["".join(_words(cell)) for cell in row.children]
        for part in node.children
        for row in part.children
    ]
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _words(node: "SyntaxTreeNode") -> list[str]:
    return [node.content] if not node.children else [w for c in node.children for w in _words(c)]
