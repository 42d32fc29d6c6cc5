"""The text of Word, Excel and PowerPoint files. They are zip archives of XML, and both can be
bombs: their parts are measured and checked before they are unpacked."""

import re
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from typing import Any
from zipfile import ZipFile

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.web.documents.extract import TEXT_CHARS, Enough, Extracted, library

MEMBERS = 10_000
UNPACKED = 100_000_000
"""Bytes that an archive may hold in all."""
TREE = 30_000_000
"""Bytes of XML in a Word or PowerPoint file; they are in memory several times."""
ROWS = 50_000
"""Rows of a sheet that are read."""
CELLS = 256
"""Cells of a row that are read."""

_ENCODING = re.compile(rb"""^.{0,100}?encoding\s*=\s*["']([\w-]+)""", re.DOTALL)
_DTD = tuple("<!DOCTYPE".encode(codec) for codec in ("utf-8", "utf-16-le", "utf-16-be"))


def read(data: bytes, enough: Enough) -> Extracted:
    with ZipFile(BytesIO(data)) as archive:
        names = set(archive.namelist())
        found = next((part for part in _READERS if part in names), "")
        if not found:
            raise ToolError("it is a zip archive, not a document", retry="changed")
        _measure(archive, tree=not found.startswith("xl/"))
    collected = _Collected(enough)
    title = _READERS[found](BytesIO(data), collected)
    return Extracted("\n".join(collected.lines).strip(), title, tuple(collected.notes))


def _measure(archive: ZipFile, *, tree: bool) -> None:
    """Refuse archive bombs. zipfile returns no more of a member than its declared size, so the
    declared sizes can be trusted."""
    members = archive.infolist()
    xml = [each for each in members if each.filename.lower().endswith((".xml", ".rels", ".vml"))]
    size = sum(each.file_size for each in members)
    if len(members) > MEMBERS or size > UNPACKED:
        raise ToolError(
            f"the document would unpack to {len(members)} parts of {size} bytes; "
            f"the limits are {MEMBERS} and {UNPACKED}",
            retry="never",
        )
    if tree and (size := sum(each.file_size for each in xml)) > TREE:
        raise ToolError(f"the document's text is {size} bytes; the limit is {TREE}", retry="never")
    for each in xml:
        content = archive.read(each)
        encoding = _ENCODING.match(content)
        odd = encoding is not None and encoding[1].lower() not in {b"utf-8", b"utf-16", b"us-ascii"}
        # Office writes neither; entity bombs, and ways to hide them, need one of them.
        if odd or any(mark in content for mark in _DTD):
            raise ToolError(
                f"the document's part {each.filename!r} is not in Office's format", retry="never"
            )


class _Collected:
    """Lines, until there are enough."""

    def __init__(self, enough: Enough) -> None:
        self.lines: list[str] = []
        self.notes: list[str] = []
        self._enough = enough
        self._chars = 0

    def add(self, line: str) -> None:
        self.lines.append(line)
        self._chars += len(line) + 1

    def full(self) -> bool:
        """Whether to stop; that is noted."""
        if self._chars <= TEXT_CHARS and not self._enough():
            return False
        note = "the document is long; only its first part was read"
        if note not in self.notes:
            self.notes.append(note)
        return True


def _row(cells: Iterable[Any]) -> str:
    shown = ["" if cell is None else " ".join(str(cell).split()) for cell in cells]
    while shown and not shown[-1]:
        shown.pop()
    return f"| {' | '.join(shown)} |" if shown else ""


def _word(source: BytesIO, collected: _Collected) -> str:
    document = library("docx").Document(source)
    for part in document.iter_inner_content():
        if collected.full():
            break
        if hasattr(part, "rows"):
            for row in part.rows:
                if collected.full():
                    break
                collected.add(_row(cell.text for cell in row.cells))
            collected.add("")
        elif part.text.strip():
            collected.add(_lead(part.style.name if part.style is not None else "") + part.text)
            collected.add("")
    return str(document.core_properties.title or "")


def _lead(style: str | None) -> str:
    """How Markdown begins a paragraph of this style."""
    name, _, level = (style or "").partition(" ")
    if name == "Title":
        return "# "
    if name == "Heading" and level.isdigit():
        return "#" * min(int(level), 6) + " "
    return "- " if name == "List" else ""


def _excel(source: BytesIO, collected: _Collected) -> str:
    book = library("openpyxl").load_workbook(source, read_only=True, data_only=True)
    try:
        for place, sheet in enumerate(book.worksheets, 1):
            if collected.full():
                break
            collected.add(f"## {sheet.title}")
            sheet.reset_dimensions()  # a file may declare absurd dimensions
            rows = sheet.iter_rows(values_only=True, max_row=ROWS + 1, max_col=CELLS)
            for number, row in enumerate(rows, 1):
                if number > ROWS:
                    collected.notes.append(f"only {ROWS} rows of sheet {place} were read")
                    break
                if collected.full():
                    break
                if line := _row(row):
                    collected.add(line)
            collected.add("")
        return str(book.properties.title or "")
    finally:
        book.close()


def _powerpoint(source: BytesIO, collected: _Collected) -> str:
    show = library("pptx").Presentation(source)
    for number, slide in enumerate(show.slides, 1):
        if collected.full():
            break
        collected.add(f"## Slide {number}")
        for line in _shapes(slide.shapes):
            collected.add(line)
        if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None:
            collected.add(f"Notes: {frame.text}")
        collected.add("")
    return str(show.core_properties.title or "")


def _shapes(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        elif shape.has_text_frame:
            yield from (line for line in shape.text_frame.text.splitlines() if line.strip())
        elif getattr(shape, "has_table", False):
            yield from (_row(cell.text for cell in row.cells) for row in shape.table.rows)


_READERS: dict[str, Callable[[BytesIO, _Collected], str]] = {
    "word/document.xml": _word,
    "xl/workbook.xml": _excel,
    "ppt/presentation.xml": _powerpoint,
}
"""By the part that identifies each kind."""
