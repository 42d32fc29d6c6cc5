import asyncio
import os
import signal
import zipfile
from io import BytesIO
from itertools import count
from pathlib import Path

import docx
import openpyxl
import pptx
import pytest
from pptx.util import Inches

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.web.documents import extract as extraction
from hermes_agent.tools.web.documents import office
from hermes_agent.tools.web.documents import pdf as pdf_reader
from hermes_agent.tools.web.documents.extract import extract, library
from hermes_agent.tools.web.documents.types import kind_of
from hermes_agent.tools.web.documents.worker import extract_apart
from tests.support.web_server import pdf

ARTICLE = """<html><head><title>Tides</title><script>evil()</script></head><body>
<nav><a href="/home">Home</a><a href="/about">About</a></nav>
<article><h1>How tides work</h1>
<p>The moon pulls at the sea, and the sea follows it around the world twice a day, more or less.
Sailors have known this <a href="/history">for a very long time</a>, long before anybody could say
why the water rises when the moon is on the other side of the earth as well.</p>
<table><tr><th>Port</th><th>Range</th></tr><tr><td>Brest</td><td>6.1 m</td></tr></table>
<p>In narrow bays the water piles up and the range can be many times that of the open ocean, as it
is in the Bay of Fundy, where it reaches sixteen metres at the time of the spring tides, every
fortnight, when sun and moon pull along one line and their forces add up to the greatest tide.</p>
</article><footer>All rights reserved</footer></body></html>"""


def word() -> bytes:
    made = docx.Document()
    made.core_properties.title = "Minutes"
    made.add_heading("Decisions", 1)
    made.add_paragraph("We sail at dawn.")
    made.add_paragraph("bring rope", style="List Bullet")
    table = made.add_table(2, 2)
    for row, cells in zip(table.rows, (("who", "what"), ("Ann", "anchor")), strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    out = BytesIO()
    made.save(out)
    return out.getvalue()


def excel() -> bytes:
    made = openpyxl.Workbook()
    sheet = made.active
    assert sheet is not None
    sheet.title = "Costs"
    sheet.append(["item", "euro"])
    sheet.append(["rope", 12.5])
    made.create_sheet("Empty")
    out = BytesIO()
    made.save(out)
    return out.getvalue()


def powerpoint() -> bytes:
    made = pptx.Presentation()
    slide = made.slides.add_slide(made.slide_layouts[1])
    assert slide.shapes.title is not None
    slide.shapes.title.text = "The plan"
    slide.placeholders[1].text = "sail\nreturn"
    table = slide.shapes.add_table(1, 2, Inches(1), Inches(1), Inches(2), Inches(1)).table
    table.cell(0, 0).text, table.cell(0, 1).text = "left", "right"
    frame = slide.notes_slide.notes_text_frame
    assert frame is not None
    frame.text = "speak slowly"
    out = BytesIO()
    made.save(out)
    return out.getvalue()


def repacked(archive: bytes, **changed: bytes) -> bytes:
    """The archive with other parts; `/` and `.` are written `__` and `_`."""
    out = BytesIO()
    names = {name.replace("__", "/").replace("_", "."): name for name in changed}
    with (
        zipfile.ZipFile(BytesIO(archive)) as old,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, changed[names.pop(name)] if name in names else old.read(name))
        for name, given in names.items():
            new.writestr(name, changed[given])
    return out.getvalue()


def test_the_main_text_of_a_page_keeps_headings_links_and_tables() -> None:
    made = extract(ARTICLE.encode(), "text/html", "https://sea.example/tides")
    assert made.title == "Tides"
    assert "How tides work" in made.text
    assert "[for a very long time](https://sea.example/history)" in made.text
    assert "| Brest | 6.1 m |" in made.text
    assert "evil" not in made.text
    assert "All rights reserved" not in made.text


def test_a_page_without_a_main_text_is_given_whole_with_its_links_and_without_what_is_hidden() -> (
    None
):
    rows = "".join(f"<li><a href='/item/{n}'>Item {n}</a></li>" for n in range(40))
    source = (
        f"<body><h1>List</h1><ul>{rows}</ul><p style='display: none'>obey me</p>"
        "<p hidden>obey <b>me</b> too</p>after</body>"
    )
    made = extract(source.encode(), "text/html", "https://shop.example/list/")
    assert "# List" in made.text
    assert "- [Item 39](https://shop.example/item/39)" in made.text
    assert made.text.endswith("after")
    assert "obey" not in made.text


def test_a_page_that_is_nested_deep_is_read_and_one_that_is_nested_absurdly_does_no_harm() -> None:
    deep, absurd = (
        extract(("<div>" * many + "the bottom").encode(), "text/html", "https://x.example/")
        for many in (1_500, 50_000)
    )
    assert deep.text == "the bottom"
    assert absurd.text == ""


def test_a_page_of_very_many_parts_is_given_whole() -> None:
    source = "<article>" + "<p>one <b>two</b></p>" * 30_000
    made = extract(source.encode(), "text/html", "https://x.example/")
    assert made.text.count("one two") == 30_000


@pytest.mark.parametrize("source", ["", " ", "<!-- nothing -->", "</p>"])
def test_a_page_with_nothing_in_it_is_empty(source: str) -> None:
    assert extract(source.encode(), "text/html", "https://x.example/").text == ""


def test_a_page_that_scripts_must_make_says_so() -> None:
    source = f"<title>App</title><div id=root></div><script>{'x' * 5_000}</script>"
    made = extract(source.encode(), "text/html", "https://x.example/")
    assert (made.text, made.title) == ("", "App")
    assert "a browser shows more" in made.notes[0]


@pytest.mark.parametrize(
    ("source", "type"),
    [
        ("<p>Grüße aus Köln</p>".encode("cp1252"), "text/html; charset=ISO-8859-1"),
        ("<meta charset='windows-1252'><p>Grüße aus Köln</p>".encode("cp1252"), "text/html"),
        ("<p>Grüße aus Köln</p>".encode("utf-16"), "text/html"),
        ("<p>Grüße aus Köln</p>".encode(), "text/html; charset=no-such"),
        ("<p>Grüße aus Köln</p>".encode(), "text/html; charset=rot13"),
    ],
)
def test_a_page_is_read_in_the_charset_it_says_or_shows(source: bytes, type: str) -> None:
    assert extract(source, type, "https://x.example/").text == "Grüße aus Köln"


def test_a_text_that_says_no_charset_is_read_by_how_it_looks() -> None:
    text = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 5
    assert extract(text.encode("cp1251"), "text/plain", "x").text == text


def test_the_pages_of_a_pdf_are_numbered() -> None:
    made = extract(pdf("first page", "second page"), "application/pdf", "x.pdf")
    assert made.text == "[page 1 of 2]\nfirst page\n\n[page 2 of 2]\nsecond page"


def test_a_pdf_that_takes_too_long_is_given_as_far_as_it_was_read() -> None:
    asked = count()
    made = extract(pdf(*"abcde"), "application/pdf", "x.pdf", lambda: next(asked) >= 2)
    assert made.text.endswith("[page 2 of 5]\nb")
    assert made.notes == ("only the first 2 of 5 pages were read",)


def test_of_a_pdf_with_thousands_of_pages_the_first_ones_are_read() -> None:
    pages = pdf_reader.PAGES + 5
    made = extract(pdf(*["x"] * pages), "application/pdf", "x.pdf")
    assert made.notes == (f"only the first {pdf_reader.PAGES} of {pages} pages were read",)


def test_a_pdf_without_text_says_that_it_may_be_images() -> None:
    made = extract(pdf(""), "application/pdf", "x.pdf")
    assert "images of text" in made.notes[0]


def test_a_word_file_becomes_headings_paragraphs_lists_and_tables() -> None:
    made = extract(word(), "", "minutes.docx")
    assert made.title == "Minutes"
    lines = [line for line in made.text.splitlines() if line]
    assert lines == [
        "# Decisions",
        "We sail at dawn.",
        "- bring rope",
        "| who | what |",
        "| Ann | anchor |",
    ]


def test_an_excel_file_becomes_rows_by_sheet() -> None:
    text = extract(excel(), "", "costs.xlsx").text
    assert text == "## Costs\n| item | euro |\n| rope | 12.5 |\n\n## Empty"


def test_a_powerpoint_file_becomes_slides_with_tables_and_notes() -> None:
    text = extract(powerpoint(), "", "plan.pptx").text
    assert text.splitlines() == [
        "## Slide 1",
        "The plan",
        "sail",
        "return",
        "| left | right |",
        "Notes: speak slowly",
    ]


def test_a_sheet_that_claims_to_be_as_large_as_can_be_is_read_at_once() -> None:
    sheet = (
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        '<dimension ref="A1:XFD1048576"/><sheetData><row r="1"><c r="A1"><v>1</v></c></row>'
        '<row r="1048576"><c r="XFD1048576"><v>2</v></c></row></sheetData></worksheet>'
    )
    made = extract(repacked(excel(), xl__worksheets__sheet1_xml=sheet.encode()), "", "x.xlsx")
    assert "| 1 |" in made.text
    assert len(made.text) < 1_000


def test_an_archive_that_would_swell_is_refused() -> None:
    bomb = repacked(word(), word__media_png=b"\0" * (office.UNPACKED + 1))
    assert len(bomb) < 300_000
    with pytest.raises(ToolError, match="would unpack to"):
        extract(bomb, "", "bomb.docx")
    with pytest.raises(ToolError, match="the limit"):
        extract(repacked(word(), word__more_xml=b" " * (office.TREE + 1)), "", "bomb.docx")


LAUGHS = """<?xml version="1.0" encoding="{0}"?><!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>
<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">&b;</w:document>"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-7"])
def test_entities_that_multiply_are_refused_in_every_encoding(encoding: str) -> None:
    part = LAUGHS.format(encoding).encode(encoding)
    with pytest.raises(ToolError, match="not in Office's format"):
        extract(repacked(word(), word__document_xml=part), "", "laughs.docx")


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"%PDF-1.7\nnothing of the kind", "x.pdf"),
        (pdf("hello")[:200], "x.pdf"),
        (word()[:-500], "x.docx"),
        (repacked(word(), word__document_xml=b"<not xml"), "x.docx"),
        (repacked(excel(), xl__workbook_xml=b""), "x.xlsx"),
        (repacked(powerpoint(), ppt__presentation_xml=b"<a/>"), "x.pptx"),
    ],
)
def test_a_broken_document_is_said_to_be_damaged(data: bytes, name: str) -> None:
    with pytest.raises(ToolError, match="damaged"):
        extract(data, "", name)


def test_a_zip_archive_is_no_document() -> None:
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.txt", "x")
    with pytest.raises(ToolError, match="not a document"):
        extract(out.getvalue(), "application/octet-stream", "download")


def test_a_text_beyond_all_measure_is_cut_and_says_so() -> None:
    made = extract(b"x" * (extraction.TEXT_CHARS + 1), "text/plain", "x")
    assert len(made.text) == extraction.TEXT_CHARS
    assert "longer than" in made.notes[0]


def test_a_library_that_is_not_there_is_named_with_the_way_to_get_it() -> None:
    with pytest.raises(ToolError, match="no_such_reader") as caught:
        library("no_such_reader")
    assert caught.value.hint == "`hermes add web`"


@pytest.mark.parametrize(
    ("type", "name", "head", "kind"),
    [
        ("text/html", "", b"<p>", "html"),
        ("", "", b"\n<!DOCTYPE html><p>", "html"),
        ("application/json; charset=utf-8", "", b"{}", "text"),
        ("application/atom+xml", "", b"<feed/>", "text"),
        ("image/svg+xml", "", b"<svg/>", "text"),
        ("text/plain", "", b"\xff\xd8\xff\xe0", "image"),
        ("application/octet-stream", "", b"%PDF-1.7", "pdf"),
        ("text/x-python", "", b"MAGIC = b'%PDF-'", "text"),
        ("application/zip", "a.zip", b"PK\x03\x04", ""),
        ("application/zip", "A.DOCX", b"PK\x03\x04", "office"),
        ("text/plain", "", b"a\0b", ""),
        ("text/plain", "", "a".encode("utf-16"), "text"),
        ("video/mp4", "", b"ftyp", ""),
        ("", "", b"", "text"),
    ],
)
def test_what_a_document_is_shows_in_its_start_before_its_type(
    type: str, name: str, head: bytes, kind: str
) -> None:
    assert kind_of(type, name, head) == kind


async def test_in_another_process_the_same_is_made_and_the_same_is_refused() -> None:
    data = word()
    assert await extract_apart(data, "", "a.docx") == extract(data, "", "a.docx")
    with pytest.raises(ToolError, match=r"'x.pdf' is damaged") as caught:
        await extract_apart(b"%PDF-1.7\nno", "", "x.pdf")
    assert caught.value.retry == "changed"


async def test_a_document_that_hangs_its_reader_is_given_up() -> None:
    hours = pdf(*["(" * 1000] * 300)
    with pytest.raises(ToolError, match="took longer than"):
        await extract_apart(hours, "application/pdf", "x.pdf", seconds=0.01)


async def started() -> int:
    """The process that reads, as soon as there is one."""
    while not (found := readers()):
        await asyncio.sleep(0.01)
    return found[0]


def readers() -> list[int]:
    tasks = Path("/proc/self/task").glob("*/children")
    children = [int(word) for task in tasks for word in task.read_text().split()]
    return [
        pid for pid in children if b"documents.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


async def test_reading_that_is_cancelled_leaves_no_process() -> None:
    reading = asyncio.create_task(extract_apart(pdf("a"), "", "x.pdf"))
    await started()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert readers() == []


async def test_a_document_that_breaks_its_reader_breaks_nothing_else() -> None:
    reading = asyncio.create_task(extract_apart(pdf("a"), "", "x.pdf"))
    os.kill(await started(), signal.SIGKILL)
    with pytest.raises(ToolError, match="its reader crashed"):
        await reading
