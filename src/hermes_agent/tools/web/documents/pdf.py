"""The text of a PDF, page by page."""

from io import BytesIO

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.web.documents.extract import TEXT_CHARS, Enough, Extracted, library

PAGES = 2_000
"""Pages that are read; more are said to be there."""


def read(data: bytes, enough: Enough) -> Extracted:
    pypdf = library("pypdf")
    reader = pypdf.PdfReader(BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise ToolError("the PDF is protected by a password", retry="never")
    there = len(reader.pages)
    parts: list[str] = []
    pages = room = 0
    empty = True
    for number in range(min(there, PAGES)):
        if enough() or room > TEXT_CHARS:
            break
        text = reader.pages[number].extract_text().strip()
        parts.append(f"[page {number + 1} of {there}]\n{text}")
        room += len(parts[-1])
        empty = empty and not text
        pages += 1
    notes = [f"only the first {pages} of {there} pages were read"] if pages < there else []
    if empty:
        notes.append("these pages contain no text; they may be images of text")
    title = reader.metadata.title if reader.metadata else None
    return Extracted("\n\n".join(parts), str(title or ""), tuple(notes))
