import asyncio
from pathlib import Path

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.tools.files import READ_BYTES, READ_CHARS, patch, read_file, write_file
from tests.support.calls import Caller
from tests.support.web_server import pdf


async def test_a_file_is_read_with_numbered_lines(here: Caller) -> None:
    (here.workspace / "a.txt").write_text("one\ntwo\n")
    result = await here.call(read_file, path="a.txt")
    assert result.text == "1|one\n2|two"
    assert result.data["lines"] == 2


async def test_a_part_says_how_much_there_is_and_how_to_read_on(here: Caller) -> None:
    (here.workspace / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    result = await here.call(read_file, path="a.txt", start=3, lines=2)
    assert result.text == "3|line 3\n4|line 4\n[lines 3 to 4 of 10; continue with start=5]"
    last = await here.call(read_file, path="a.txt", start=10)
    assert last.text == "10|line 10\n[lines 10 to 10 of 10]"


async def test_reading_on_as_told_shows_every_line_of_a_long_file_once(here: Caller) -> None:
    wanted = [f"line {n} " + "x" * (n % 97) for n in range(1, 1001)]
    (here.workspace / "a.txt").write_text("\n".join(wanted))
    start, seen = 1, []
    while start:
        text = (await here.call(read_file, path="a.txt", start=start)).text
        assert len(text) <= READ_CHARS + 100
        rows = text.split("\n")
        start = int(rows[-1].partition("start=")[2].rstrip("]") or 0)
        seen += [row.partition("|")[2] for row in rows if "|" in row]
    assert seen == wanted


async def test_a_very_long_line_is_cut_and_says_so(here: Caller) -> None:
    (here.workspace / "a.txt").write_text("x" * 50_000)
    result = await here.call(read_file, path="a.txt")
    assert result.text.endswith("… [48000 more characters]")
    assert len(result.text) < 3_000


async def test_line_numbers_agree_with_grep_on_odd_line_ends(here: Caller) -> None:
    (here.workspace / "a.txt").write_bytes("\ufeffa\x0cb\r\nc\u2028d\r\n\r\ne".encode())
    result = await here.call(read_file, path="a.txt")
    assert result.text == "1|a\x0cb\n2|c\u2028d\n3|\n4|e"


async def test_an_empty_file_is_said_to_be_empty(here: Caller) -> None:
    (here.workspace / "a.txt").touch()
    assert (await here.call(read_file, path="a.txt")).text == "[the file is empty]"


async def test_bytes_that_are_not_utf8_are_shown_with_a_word_about_it(here: Caller) -> None:
    (here.workspace / "a.txt").write_bytes(b"caf\xe9\n")
    result = await here.call(read_file, path="a.txt")
    assert result.text.startswith("1|caf\ufffd\n")
    assert "not UTF-8" in result.text


@pytest.mark.parametrize(
    ("path", "start", "said"),
    [
        ("gone.txt", 1, "no file at 'gone.txt'"),
        (".", 1, "is not a file but a folder"),
        ("binary", 1, "is not text"),
        ("large", 1, "too large"),
        ("small", 9, "line 9 is past its end"),
    ],
)
async def test_what_cannot_be_read_is_said_in_a_sentence(
    here: Caller, path: str, start: int, said: str
) -> None:
    (here.workspace / "binary").write_bytes(b"\x7fELF\0\0")
    (here.workspace / "small").write_text("one\n")
    with (here.workspace / "large").open("wb") as file:
        file.truncate(READ_BYTES + 1)
    with pytest.raises(ToolError, match=said):
        await here.call(read_file, path=path, start=start)


async def test_a_file_is_written_with_its_folders_and_a_difference(here: Caller) -> None:
    made = await here.call(write_file, path="deep/er/a.txt", content="one\ntwo\n")
    assert made.text == "made deep/er/a.txt (2 lines, 8 bytes)"
    assert made.data["created"] is True
    changed = await here.call(write_file, path="deep/er/a.txt", content="one\n2\n")
    assert changed.text.startswith("replaced deep/er/a.txt")
    assert changed.data["path"] == str(here.workspace / "deep/er/a.txt")
    assert (changed.data["added"], changed.data["removed"]) == (1, 1)
    assert "-two\n+2" in changed.data["diff"]
    assert (here.workspace / "deep/er/a.txt").read_text() == "one\n2\n"


async def test_a_long_difference_is_capped_and_that_of_a_huge_file_left_out(here: Caller) -> None:
    long = await here.call(write_file, path="a", content="some line\n" * 5_000)
    assert len(long.data["diff"]) < 9_000
    assert long.data["added"] == 5_000
    huge = await here.call(write_file, path="a", content="some line\n" * 50_000)
    assert "diff" not in huge.data
    assert huge.data["bytes"] == 500_000


async def test_a_file_too_large_for_memory_is_written_over_without_being_read(
    here: Caller,
) -> None:
    large = here.workspace / "large"
    with large.open("wb") as file:
        file.truncate(1 << 40)  # a terabyte that nobody could read, all of it a hole
    given = {"path": "large", "content": "small\n"}
    assert write_file.prepare is not None
    assert write_file.recover is not None
    context = here.context("one")
    note = await write_file.prepare(context, **given)
    assert await write_file.recover(context, note, **given) == "not-run"
    done = await here.call(write_file, **given)
    assert done.text.startswith("replaced large")
    assert "diff" not in done.data
    assert isinstance(await write_file.recover(context, note, **given), ToolResult)


async def test_a_change_can_be_shown_before_it_is_made(here: Caller) -> None:
    assert write_file.preview is not None
    assert patch.preview is not None
    (here.workspace / "a.txt").write_text("one\ntwo\n")
    (here.workspace / ".env").write_text("KEY=old\n")
    shown = await write_file.preview(here.terminal, path="a.txt", content="one\n2\n")
    head = "changes an existing file of 2 lines: 1 added, 1 removed"
    assert shown.split("\n") == [head, "@@ -1,2 +1,2 @@", " one", "-two", "+2"]
    patched = await patch.preview(here.terminal, path="a.txt", old="two", new="2", all=False)
    assert patched == shown
    made = await write_file.preview(here.terminal, path="new.txt", content="a\nb\n")
    assert made == "creates a new file of 2 lines"
    secret = await write_file.preview(here.terminal, path=".env", content="KEY=new\n")
    assert secret.startswith("replaces a file that may contain secrets")
    assert "KEY" not in secret
    assert (here.workspace / "a.txt").read_text() == "one\ntwo\n"


async def test_a_folder_is_not_written_over(here: Caller) -> None:
    (here.workspace / "folder").mkdir()
    with pytest.raises(ToolError, match="folder"):
        await here.call(write_file, path="folder", content="x")


async def test_a_patch_replaces_one_passage_and_keeps_the_rest(here: Caller) -> None:
    (here.workspace / "a.py").write_text("def f():\n    return 1\n\n\nprint(f())\n")
    result = await here.call(patch, path="a.py", old="return 1", new="return 2")
    assert result.text == "a.py: replaced the passage at line 2"
    assert result.data["replaced"] == 1
    assert "-    return 1\n+    return 2" in result.data["diff"]
    assert (here.workspace / "a.py").read_text() == "def f():\n    return 2\n\n\nprint(f())\n"


async def test_a_patch_that_cannot_be_made_names_the_file_and_changes_nothing(
    here: Caller,
) -> None:
    file = here.workspace / "a.txt"
    file.write_text("x\nx\n")
    with pytest.raises(ToolError, match=r"^a\.txt: `old` occurs 2 times"):
        await here.call(patch, path="a.txt", old="x", new="y")
    with pytest.raises(ToolError, match="no file at"):
        await here.call(patch, path="b.txt", old="x", new="y")
    assert file.read_text() == "x\nx\n"


async def test_a_patch_does_not_damage_bytes_that_are_not_text(here: Caller) -> None:
    (here.workspace / "a.txt").write_bytes(b"caf\xe9 one\n")
    with pytest.raises(ToolError, match="not UTF-8"):
        await here.call(patch, path="a.txt", old="one", new="two")
    assert (here.workspace / "a.txt").read_bytes() == b"caf\xe9 one\n"


async def test_patches_of_one_file_at_the_same_time_are_all_kept(here: Caller) -> None:
    (here.workspace / "a.txt").write_text("".join(f"<{n}>\n" for n in range(20)))
    await asyncio.gather(
        *(here.call(patch, path="a.txt", old=f"<{n}>", new=f"[{n}]") for n in range(20))
    )
    assert (here.workspace / "a.txt").read_text() == "".join(f"[{n}]\n" for n in range(20))


def written(recovered: object) -> bool:
    return isinstance(recovered, ToolResult) and "written before the restart" in recovered.text


@pytest.mark.parametrize("there", [None, "old text\n"])
async def test_after_a_restart_the_file_tells_whether_it_was_written(
    here: Caller, there: str | None
) -> None:
    file = here.workspace / "a.txt"
    if there is not None:
        file.write_text(there)
    given = {"path": "a.txt", "content": "new text\n"}
    note = await here.prepare(write_file, **given)
    assert (note["before"] is None) is (there is None)
    assert await here.recover(write_file, "e", note, **given) == "not-run"
    await here.call(write_file, **given)
    assert written(await here.recover(write_file, "e", note, **given))
    file.write_text("somebody else's\n")
    assert await here.recover(write_file, "e", note, **given) is None


async def test_after_a_restart_the_file_tells_whether_it_was_patched(here: Caller) -> None:
    file = here.workspace / "a.txt"
    file.write_text("x = 1\n")
    given = {"path": "a.txt", "old": "x", "new": "xx"}
    note = await here.prepare(patch, **given)
    assert await here.recover(patch, "e", note, **given) == "not-run"
    await here.call(patch, **given)
    assert written(await here.recover(patch, "e", note, **given))
    file.unlink()
    assert await here.recover(patch, "e", note, **given) is None


async def test_a_patch_that_cannot_be_made_fails_before_its_intent(here: Caller) -> None:
    (here.workspace / "a.txt").write_text("one\n")
    with pytest.raises(ToolError, match="was not found"):
        await here.prepare(patch, path="a.txt", old="two", new="three")


async def test_a_written_link_keeps_leading_to_its_file(here: Caller, tmp_path: Path) -> None:
    (here.workspace / "real.txt").write_text("a\n")
    (here.workspace / "link.txt").symlink_to("real.txt")
    await here.call(patch, path="link.txt", old="a", new="b")
    assert (here.workspace / "link.txt").is_symlink()
    assert (here.workspace / "real.txt").read_text() == "b\n"


POINT = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
    "53de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


async def test_an_image_is_shown_to_the_model(here: Caller) -> None:
    (here.workspace / "point.dat").write_bytes(POINT)
    result = await here.call(read_file, path="point.dat")
    assert [(file.type, file.data, file.name) for file in result.files] == [
        ("image/png", POINT, "point.dat")
    ]
    assert "image/png" in result.text


async def test_an_image_that_no_service_takes_is_refused(here: Caller) -> None:
    (here.workspace / "huge.png").write_bytes(POINT + bytes(5_000_000))
    with pytest.raises(ToolError, match="is an image of"):
        await here.call(read_file, path="huge.png")


async def test_a_document_is_read_as_text(here: Caller) -> None:
    (here.workspace / "a.pdf").write_bytes(pdf("first", "second"))
    result = await here.call(read_file, path="a.pdf", start=2, lines=1)
    assert result.text == "2|first\n[lines 2 to 2 of 5; continue with start=3]"


async def test_a_text_that_speaks_of_pdf_and_an_archive_are_no_documents(here: Caller) -> None:
    (here.workspace / "a.py").write_text("MAGIC = b'%PDF-'\n")
    assert (await here.call(read_file, path="a.py")).text == "1|MAGIC = b'%PDF-'"
    (here.workspace / "a.zip").write_bytes(b"PK\x03\x04\0\0")
    with pytest.raises(ToolError, match="is not text"):
        await here.call(read_file, path="a.zip")
