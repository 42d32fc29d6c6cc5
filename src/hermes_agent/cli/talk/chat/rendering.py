"""Markdown and other pieces as terminal text: the 16 ANSI colours, so that the theme decides, and
no backgrounds. Each meaning is repeated by a mark, a weight or an indent."""

import io
from collections.abc import Sequence

from rich.box import Box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, ListItem, Markdown, TableElement
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSI_DARK, ANSISyntaxTheme, Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from hermes_agent.cli.talk.chat.view import ViewPiece

STYLES = {
    "quiet": "dim", "user": "bold", "warning": "yellow", "plain": "", "ok": "dim", "failed": "red",
    "header": "bold",
}  # fmt: skip
MARKS = {"user": "> ", "warning": "! "}

_CODE_STYLES = {
    "Token.Comment": "dim italic", "Token.Keyword": "magenta", "Token.Keyword.Type": "cyan",
    "Token.Operator.Word": "magenta", "Token.Name.Function": "bold blue",
    "Token.Name.Class": "bold blue", "Token.Name.Tag": "magenta", "Token.Name.Attribute": "blue",
    "Token.Literal.String": "green", "Token.Literal.Number": "cyan",
}  # fmt: skip
_CODE = ANSISyntaxTheme(
    {
        token: Style.parse(_CODE_STYLES[str(token)])
        for token in ANSI_DARK
        if str(token) in _CODE_STYLES
    }
)
_THEME = Theme(
    {
        "markdown.h1": "bold underline", "markdown.h2": "bold", "markdown.h3": "bold italic",
        "markdown.h4": "italic", "markdown.h5": "italic", "markdown.h6": "italic",
        "markdown.code": "cyan", "markdown.block_quote": "italic", "markdown.item.bullet": "bold",
        "markdown.hr": "dim", "markdown.link": "underline",
        "markdown.link_url": "dim", "markdown.list": "", "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)  # fmt: skip
_RULES = Box("    \n    \n ─  \n    \n    \n    \n    \n    \n")
"""A rule below the head of a table, and nothing else."""


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text.copy()
        text.justify = "left"
        yield text


class _Item(ListItem):
    def render_bullet(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._marked(console, options, "• ")

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        mark = f"{number}. "
        yield from self._marked(console, options, mark.rjust(len(str(last_number)) + 2))

    def _marked(self, console: Console, options: ConsoleOptions, mark: str) -> RenderResult:
        inside = options.update(width=max(1, options.max_width - len(mark)))
        bold = console.get_style("markdown.item.bullet")
        for line in console.render_lines(self.elements, inside, style=self.style):
            yield Segment(mark, bold)
            yield from line
            yield Segment.line()
            mark = " " * len(mark)


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        shown = Syntax(code, self.lexer_name, theme=_CODE, word_wrap=True)
        yield Padding(shown, (0, 0, 0, 2))


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=_RULES, pad_edge=False, show_edge=False, style="markdown.table.border")
        if self.header is not None and self.header.row is not None:
            for cell in self.header.row.cells:
                table.add_column(cell.content, cell.content, justify=cell.justify, overflow="fold")
        for row in self.body.rows if self.body is not None else ():
            table.add_row(*(cell.content for cell in row.cells))
        yield table


class _Markdown(Markdown):
    elements = {
        **Markdown.elements,
        "heading_open": _Heading,
        "list_item_open": _Item,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }


def render(pieces: Sequence[ViewPiece], width: int) -> str:
    """Pieces as lines with colours. A message and a block of Markdown begin after an empty line."""
    console = Console(
        file=io.StringIO(), force_terminal=True, width=width, highlight=False, theme=_THEME
    )
    for piece in pieces:
        if piece.kind == "markdown":
            with console.capture() as shown:
                console.print(_Markdown(piece.text, hyperlinks=False))
            console.file.write("\n" + shown.get().strip("\n") + "\n")
            continue
        if piece.kind in ("user", "header"):
            console.print()
        console.print(_styled(piece))
    assert isinstance(console.file, io.StringIO)
    return _without_padding(console.file.getvalue())


def _styled(piece: ViewPiece) -> Text:
    mark, style = MARKS.get(piece.kind, ""), STYLES[piece.kind]
    text = Text(mark + piece.text.rstrip("\n"), style)
    if piece.kind == "ok" and piece.text.startswith("✓"):
        text = Text(piece.text, "")
        text.stylize("dim", 1)
        text.stylize("green", 0, 1)
    elif piece.kind == "header":
        first, _, rest = piece.text.partition("\n")
        text = Text(first, "bold").append("\n" + rest, "not bold dim") if rest else text
    return text


def _without_padding(text: str) -> str:
    """Blank ends of lines would wrap when the terminal gets narrower."""
    return "\n".join(line.rstrip(" ") for line in text.split("\n"))
