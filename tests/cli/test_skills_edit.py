"""`hermes skills new | edit | check`: written in an editor, looked over before it is used."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import skills_ref

from hermes_agent.cli.work.skills import template
from hermes_agent.learning.skills.file import problems
from tests.support.cli import Hermes, Pane

ABOUT = 'Feed the "cats": twice. Use it when a cat is hungry.'


@pytest.fixture(scope="module")
def skilled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hermes]:
    """A Hermes home for tests that each write a skill of their own."""
    made = Hermes(tmp_path_factory.mktemp("written") / "hermes")
    yield made
    made.close()


def draft_of(said: str) -> Path:
    return Path(said.rsplit("your text is in ", 1)[1].strip())


def test_the_template_is_a_skill_that_others_read_too(tmp_path: Path) -> None:
    folder = tmp_path / "feed-the-cats"
    folder.mkdir()
    (folder / "SKILL.md").write_text(template("feed-the-cats", ABOUT))
    assert skills_ref.validate(folder) == []
    assert list(problems(folder)) == []
    assert skills_ref.read_properties(folder).description == ABOUT


def test_without_a_terminal_a_skill_is_written_from_its_description(skilled: Hermes) -> None:
    said = skilled.good("skills", "new", "feed-cats", "--description", ABOUT)
    assert "feed-cats is given, version 1" in said
    path = skilled.home / "skills" / "feed-cats" / "SKILL.md"
    assert str(path) in said
    assert ABOUT in path.read_text().replace('\\"', '"')
    again = skilled.run("skills", "new", "feed-cats", "--description", "again")
    assert again.returncode == 2
    assert "hermes skills edit feed-cats" in again.stderr


def test_without_a_terminal_a_description_is_needed(skilled: Hermes) -> None:
    done = skilled.run("skills", "new", "nameless")
    assert done.returncode == 2
    assert "--description" in done.stderr


@pytest.mark.parametrize("name", ["Upper", "with space", "../up", "-dash", "a--b"])
def test_a_name_that_no_skill_may_have_is_refused(skilled: Hermes, name: str) -> None:
    done = skilled.run("skills", "new", "--description", ABOUT, "--", name)
    assert done.returncode in (1, 2)
    assert "hint: " in done.stderr
    assert "broke" not in done.stderr


def test_a_skill_is_changed_in_the_editor(skilled: Hermes) -> None:
    skilled.good("skills", "new", "feed-dogs", "--description", "Feed dogs. Use it when one barks.")
    said = skilled.good("skills", "edit", "feed-dogs", EDITOR="sed -i s/barks/whines/")
    assert "feed-dogs is given, version 2" in said
    path = skilled.home / "skills" / "feed-dogs" / "SKILL.md"
    assert "whines" in path.read_text()
    assert "nothing was changed" in skilled.good("skills", "edit", "feed-dogs", EDITOR="true")
    assert len(skilled.json("skills", "show", "feed-dogs")["versions"]) == 2


def test_other_files_of_a_skill_are_kept_and_changed_too(skilled: Hermes) -> None:
    skilled.good("skills", "new", "feed-fish", "--description", "Feed fish. Use it on Sundays.")
    folder = skilled.home / "skills" / "feed-fish"
    (folder / "references").mkdir()
    (folder / "references" / "food.md").write_text("flakes\n")
    skilled.good("skills", "edit", "feed-fish", EDITOR="sed -i s/Sundays/Mondays/")
    assert (folder / "references" / "food.md").read_text() == "flakes\n"
    skilled.good(
        "skills",
        "edit",
        "feed-fish",
        "--file",
        "references/food.md",
        EDITOR="sed -i s/flakes/peas/",
    )
    assert (folder / "references" / "food.md").read_text() == "peas\n"
    assert "Mondays" in (folder / "SKILL.md").read_text()
    done = skilled.run("skills", "edit", "feed-fish", "--file", "nope.md", EDITOR="true")
    assert done.returncode == 2
    assert "it has: " in done.stderr


def test_a_skill_with_a_file_that_is_no_text_is_changed_all_the_same(skilled: Hermes) -> None:
    skilled.good("skills", "new", "feed-rats", "--description", "Feed rats. Use it at night.")
    picture = skilled.home / "skills" / "feed-rats" / "assets" / "rat.png"
    picture.parent.mkdir()
    picture.write_bytes(b"\x89PNG\r\n\x1a\n\0\xff")
    said = skilled.good("skills", "edit", "feed-rats", EDITOR="sed -i s/night/dusk/")
    assert "feed-rats is given" in said
    assert picture.read_bytes() == b"\x89PNG\r\n\x1a\n\0\xff"
    assert "at dusk" in (picture.parent.parent / "SKILL.md").read_text()
    done = skilled.run("skills", "edit", "feed-rats", "--file", "assets/rat.png", EDITOR="true")
    assert done.returncode == 1
    assert "cannot read assets/rat.png" in done.stderr


def test_line_ends_stay_as_they_are(skilled: Hermes) -> None:
    skilled.good("skills", "new", "feed-owls", "--description", "Feed owls. Use it at night.")
    path = skilled.home / "skills" / "feed-owls" / "SKILL.md"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert "nothing was changed" in skilled.good("skills", "edit", "feed-owls", EDITOR="true")
    skilled.good("skills", "edit", "feed-owls", EDITOR="sed -i s/night/dusk/")
    data = path.read_bytes()
    assert b"at dusk" in data
    assert data.count(b"\r\n") == data.count(b"\n")


@pytest.mark.parametrize("file", ["SKILL.md", "references/food.md"])
def test_what_was_changed_meanwhile_is_not_overwritten(
    skilled: Hermes, tmp_path: Path, file: str
) -> None:
    name = f"feed-{'frogs' if file == 'SKILL.md' else 'toads'}"
    skilled.good("skills", "new", name, "--description", "Feed them. Use it at noon.")
    path = skilled.home / "skills" / name / file
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as added:
        added.write("\nGive flies.\n")
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\nsed -i s/flies/peas/ '{path}'\nsed -i s/flies/worms/ \"$1\"\n")
    editor.chmod(0o755)
    done = skilled.run("skills", "edit", name, "--file", file, EDITOR=str(editor))
    assert done.returncode != 0
    assert "has changed: it is now" in done.stderr
    assert "Give peas." in path.read_text()
    draft = draft_of(done.stderr)
    assert "Give worms." in draft.read_text()
    draft.unlink()
    draft.parent.rmdir()


def test_a_change_that_breaks_a_skill_is_refused_and_the_text_is_kept(skilled: Hermes) -> None:
    skilled.good("skills", "new", "feed-birds", "--description", "Feed birds. Use it in winter.")
    path = skilled.home / "skills" / "feed-birds" / "SKILL.md"
    before = path.read_text()
    done = skilled.run("skills", "edit", "feed-birds", EDITOR="sed -i s/^description:/about:/")
    assert done.returncode == 2
    assert "error: " in done.stderr
    assert path.read_text() == before
    draft = draft_of(done.stderr)
    assert draft.read_text() == before.replace("description:", "about:")
    draft.unlink()
    draft.parent.rmdir()


def test_a_bundled_skill_is_changed_as_a_copy_in_the_home(skilled: Hermes) -> None:
    skilled.good("skills", "edit", "disk-full", EDITOR="sed -i s/losing/harming/")
    mine = skilled.home / "skills" / "disk-full"
    assert "without harming data" in (mine / "SKILL.md").read_text()
    found = skilled.json("skills", "show", "disk-full")
    assert (found["folder"], found["record"]["by"]) == (str(mine), "person")


def test_on_a_terminal_the_editor_opens_and_a_broken_text_is_edited_again(
    skilled: Hermes, tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text(
        "#!/bin/sh\n"
        'if [ -e "$0.again" ]; then sed -i "s/^about:/description:/" "$1"; else\n'
        '  touch "$0.again"\n'
        '  sed -i "s/Say what it does/Feed the hens/; s/^description:/about:/" "$1"\n'
        "fi\n"
    )
    editor.chmod(0o755)
    environ = {**skilled.environ, "EDITOR": str(editor)}
    command = [sys.executable, "-m", "hermes_agent", "skills", "new", "feed-hens"]
    pane = Pane(tmp_path, command, environ)
    try:
        pane.shows("edit it again? [Y/n]")
        pane.press("Enter")
        pane.shows("feed-hens is given, version 1")
    finally:
        pane.close()
    assert "Feed the hens" in skilled.good("skills", "show", "feed-hens")


# checking


def test_a_folder_is_checked_without_a_runtime(hermes: Hermes, tmp_path: Path) -> None:
    folder = tmp_path / "fed-well"
    folder.mkdir()
    (folder / "SKILL.md").write_text(template("fed-well", ABOUT))
    assert "has no problems" in hermes.good("skills", "check", str(folder))
    (folder / "SKILL.md").write_text("---\nname: other\n---\n")
    done = hermes.run("skills", "check", str(folder))
    assert done.returncode == 1
    assert "error: " in done.stdout
    assert not hermes.api.is_up()
    missing = hermes.run("skills", "check", "./no-such-folder")
    assert missing.returncode == 2
    assert "hint: " in missing.stderr


def test_a_skill_is_checked_by_its_name(skilled: Hermes) -> None:
    skilled.good("skills", "new", "feed-goats", "--description", ABOUT)
    assert skilled.json("skills", "check", "feed-goats") == {
        "name": "feed-goats", "ok": True, "problems": [],
    }  # fmt: skip
    path = skilled.home / "skills" / "feed-goats" / "SKILL.md"
    path.write_text(path.read_text().replace("description:", "about:"))
    done = skilled.run("skills", "check", "feed-goats")
    assert done.returncode == 1
    assert "error: " in done.stdout
