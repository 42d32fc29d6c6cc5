from pathlib import Path

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.search import search_files
from tests.support.calls import Caller


@pytest.fixture
def tree(here: Caller) -> Path:
    (here.workspace / "src").mkdir()
    (here.workspace / "src/a.py").write_text("import os\nTOKEN = os.environ['T']\n")
    (here.workspace / "src/b.md").write_text("about TOKEN\n")
    (here.workspace / "c.py").write_text("x = 1\n" + "y = TOKEN  " + "z" * 1_000 + "\n")
    return here.workspace


async def test_lines_are_found_with_file_and_number(here: Caller, tree: Path) -> None:
    result = await here.call(search_files, pattern=r"TOKEN\b", files="*.py")
    rows = result.text.split("\n")
    assert "src/a.py:2: TOKEN = os.environ['T']" in rows
    assert any(row.startswith("c.py:2: y = TOKEN") and len(row) < 400 for row in rows)
    assert result.data == {"found": 2, "more": False}


async def test_a_search_in_one_file_looks_there_only(here: Caller, tree: Path) -> None:
    result = await here.call(search_files, pattern="TOKEN", path="src/b.md")
    assert result.text == "src/b.md:1: about TOKEN"


async def test_files_are_found_by_name(here: Caller, tree: Path) -> None:
    result = await here.call(search_files, pattern="*.py", mode="names")
    assert set(result.text.split("\n")) == {"src/a.py", "c.py"}
    below = await here.call(search_files, pattern="*.py", path="src", mode="names")
    assert below.text == "src/a.py"


async def test_a_limit_that_bites_says_so(here: Caller, tree: Path) -> None:
    result = await here.call(search_files, pattern="TOKEN", limit=2)
    assert "[more than 2 lines" in result.text
    assert result.data == {"found": 2, "more": True}


async def test_nothing_found_is_said(here: Caller, tree: Path) -> None:
    assert (await here.call(search_files, pattern="nowhere")).text == "no lines found"
    names = await here.call(search_files, pattern="*.rs", mode="names")
    assert names.text == "no files found"


async def test_files_of_secrets_are_left_out_unless_they_are_named(
    here: Caller, tree: Path
) -> None:
    (tree / ".env").write_text("TOKEN=verysecret\n")
    (tree / "harmless.txt").symlink_to(".env")
    result = await here.call(search_files, pattern="TOKEN")
    assert "verysecret" not in result.text
    assert "left out" in result.text
    assert ".env" in result.text
    named = await here.call(search_files, pattern="TOKEN", path=".env")
    assert "verysecret" in named.text


async def test_a_link_out_of_the_folder_is_not_searched(
    here: Caller, tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere.txt").write_text("TOKEN of somebody else\n")
    (tree / "link.txt").symlink_to(tmp_path / "elsewhere.txt")
    result = await here.call(search_files, pattern="TOKEN")
    assert "somebody" not in result.text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pattern": "x", "path": "gone"}, "no file or folder at 'gone'"),
        ({"pattern": "(", "path": "."}, "regular expression"),
        ({"pattern": "*", "files": "*.py", "mode": "names"}, "narrows a search in contents"),
    ],
)
async def test_a_search_that_makes_no_sense_is_refused(
    here: Caller, tree: Path, given: dict[str, str], said: str
) -> None:
    with pytest.raises(ToolError, match=said):
        await here.call(search_files, **given)
